"""The separation of kernels by observations: the margin ε of the paper's Assumption 2.

For an action a and a belief b, the next observation under θ has the distribution ν = b θ_a η_a, linear in b.
The margin of an ordered pair (θ, γ) is the minimum of KL(ν_θ ‖ ν_γ) over all actions and *all* pairs of
beliefs, which covers all histories. KL is jointly convex, so for one action this is a convex program on two
simplices. At any feasible point x,

    KL(x) + min_v ∇KL(x)·(v − x)   over the vertices v

is a lower bound on the minimum by convexity, if KL has a gradient at x: no possible observation may have
probability zero under both kernels. The functions return this bound. It is certified, and does not depend on
the convergence of the optimizer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.special import rel_entr

from .._utils.arrays import Array
from ..protocols import FiniteSupport
from .observation_laws import next_observations_of

_ROUNDING = 1e-12  # of the few dozen terms of order one in a bound


@dataclass(frozen=True)
class Separation:
    """Lower bounds on the divergence between the observations under two kernels.

    Attributes
    ----------
    margins
        `margins[m, n, a]` is a lower bound on the KL divergence of the next observation under kernel m from
        that under kernel n after action a, in nats.
    """

    margins: Array

    @property
    def epsilon(self) -> float:
        """A lower bound on the paper's ε; 0 if there is no positive bound for some action."""
        count = len(self.margins)
        return float(self.margins[~np.eye(count, dtype=np.bool_)].min()) if count > 1 else np.inf

    @property
    def worst(self) -> tuple[int, int, int]:
        """The pair of kernels (m, n) and the action that attain ε."""
        masked = self.margins.copy()
        masked[np.eye(len(masked), dtype=np.bool_)] = np.inf
        m, n, a = np.unravel_index(int(masked.argmin()), masked.shape)
        return int(m), int(n), int(a)


def separation(prior: FiniteSupport) -> Separation:
    """Return the margin of every ordered pair of kernels and every action.

    Parameters
    ----------
    prior
        A prior with finitely many kernels.
    """
    observations = next_observations_of(prior)  # [M, A, S, O]: ν from each state
    count, n_actions = observations.shape[:2]
    margins = np.zeros((count, count, n_actions))
    for m in range(count):
        for n in range(count):
            for a in range(n_actions):
                if m != n:
                    margins[m, n, a] = least_divergence(observations[m, a], observations[n, a])
    return Separation(margins)


def least_divergence(one: Array, other: Array) -> float:
    """Return a certified lower bound on min KL(p ‖ q), p in the hull of the rows of `one`, q of `other`."""
    n = len(one)
    start = np.concatenate([np.full(n, 1.0 / n), np.full(len(other), 1.0 / len(other))])
    rows = np.concatenate([np.repeat([[1.0, 0.0]], n, 0), np.repeat([[0.0, 1.0]], len(other), 0)]).T

    def value_and_gradient(x: Array) -> tuple[float, Array]:
        p, q = x[:n] @ one, x[n:] @ other
        # Observations with probability 0 under q make KL infinite; a floor keeps the search in its domain.
        q = np.maximum(q, 1e-300)
        slope_p = np.log(np.maximum(p, 1e-300) / q) + 1.0
        return float(rel_entr(p, q).sum()), np.concatenate([one @ slope_p, other @ (-p / q)])

    def has_gradient(x: Array) -> bool:
        zero = (x[:n] @ one <= 0.0) & (x[n:] @ other <= 0.0)
        return not (zero & ((one > 0.0).any(axis=0) | (other > 0.0).any(axis=0))).any()

    result = minimize(
        value_and_gradient,
        start,
        jac=True,
        method="SLSQP",
        bounds=[(0.0, 1.0)] * len(start),
        constraints={"type": "eq", "fun": lambda x: rows @ x - 1.0, "jac": lambda x: rows},
        options={"maxiter": 500, "ftol": 1e-14},
    )
    candidates = [start, *filter(has_gradient, _smoothed(result.x, start, n))]
    return max(_certified(value_and_gradient, x, n) for x in candidates)


def _smoothed(x: Array, start: Array, n: int) -> list[Array]:
    """Return the optimum, projected to the simplices, and nearby interior points with finite gradients."""
    inside = np.clip(x, 0.0, None)
    inside = np.concatenate([inside[:n] / inside[:n].sum(), inside[n:] / inside[n:].sum()])
    return [(1.0 - w) * inside + w * start for w in (0.0, 1e-9, 1e-6, 1e-3)]


def _certified(value_and_gradient: Callable[[Array], tuple[float, Array]], x: Array, n: int) -> float:
    """Return the lower bound of the module's docstring at x, minus rounding errors, and at least 0."""
    value, gradient = value_and_gradient(x)
    bound = value + gradient[:n].min() + gradient[n:].min() - gradient @ x
    return max(0.0, float(bound) - _ROUNDING) if np.isfinite(bound) else 0.0
