"""The paper's regret bounds; each constant is labeled as computed (proved), estimated or given.

**Finite case** (Theorem 1, SCHED = 2 t_k, m̃_t = t). As stated:

    R_T ≤ H log T + 4 (H + 1) / (e^{−β} − 1)².

The statement omits a factor α and a constant of its proof, which gives:

    R_T ≤ H K_T + (4 H + 2) α Σ_{k ≤ K_T} T_k e^{−β t_k},   K_T = ⌊log₂(T + 1)⌋, T_k = 2^k, t_k = 2^k − 1,
    α = 2 max{ max_θ (1 − f(θ)) / f(θ), 2 (|Θ| − 1) },   β = min{ ε/2, ε² / (8 d²) }.

The proof of Lemma 2 counts the first observation as informative about the kernel, although Λ_1 = 1. With
t − 1 informative observations, the exponent is −β (t_k − 1). The methods `stated`, `proved` and `corrected`
give the three versions. Logarithms in episode counts have base 2.

- ε is the minimum KL divergence of the next observation over all pairs, actions and beliefs (`separation`
  gives a certified lower bound).
- d bounds the distance of a log-likelihood ratio from its mean. For an action and a pair (θ, γ), the ratio of
  an observation lies between log(min ν_θ / max ν_γ) and log(max ν_θ / min ν_γ), with extremes over states,
  because ν is linear in the belief. d is the widest range over observations. It is infinite if an observation
  can have probability 0; then β = 0, and there is no finite bound.

**General case** (SCHED = t_k + T_{k−1}, m̃_t = max(m̃_{t−1}, ⌈ñ_t⌉)), for E[R_T]:

    (1 + H) √(2T(1 + |S||A| log₂(T+1))) + 12 H K_2 (|S||A| T)^{2/3}
        + 7 (H + 1) K_1 √(2T) (1 + |S||A| log₂(T+1)) log √(2T) + 2 + H,

with K_1 and K_2 of Assumptions 3 and 4, which can only be estimated (`estimate_concentration`). All costs are
scaled to [0, 1]; multiply by the width of the units for the user's scale.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from .._utils.arrays import Array
from ..errors import InvalidModelError
from ..models import Setting
from ..planning import Plan, plan
from ..protocols import FiniteSupport, Prior
from .observation_laws import next_observations_of
from .separation import Separation, separation

Basis = Literal["computed", "estimated", "given"]
_NO_BOUND = (
    "every observation must help to distinguish the kernels of the prior, whatever the belief, and no single "
    "observation may rule out a kernel"
)


@dataclass(frozen=True)
class Constant:
    """A constant of a bound.

    Attributes
    ----------
    value
        The number.
    basis
        "computed" if it is certified, "estimated" if not, "given" if the caller passed it.
    how
        How it was obtained.
    """

    value: float
    basis: Basis
    how: str

    def __repr__(self) -> str:
        return f"{self.value:.4g} ({self.basis})"


@dataclass(frozen=True)
class FiniteBound:
    """Theorem 1 for one finite prior; every method takes horizons and returns bounds on scaled regret.

    Attributes
    ----------
    span, epsilon, spread, alpha, beta
        The constants H, ε, d, α and β.
    """

    span: Constant
    epsilon: Constant
    spread: Constant
    alpha: Constant
    beta: Constant

    def stated(self, horizon: npt.ArrayLike) -> Array:
        """Return H log₂ T + 4 (H + 1) / (e^{−β} − 1)², as stated in the theorem."""
        h, b = self.span.value, self.beta.value
        rest = 4.0 * (h + 1.0) / np.expm1(-b) ** 2 if b > 0.0 else np.inf
        return np.asarray(h * np.log2(np.asarray(horizon, np.float64)) + rest)

    def proved(self, horizon: npt.ArrayLike) -> Array:
        """Return H K_T + (4 H + 2) α Σ_k T_k e^{−β t_k}, as proved in the paper."""
        return self._sum_over_episodes(horizon, 0)

    def corrected(self, horizon: npt.ArrayLike) -> Array:
        """Return the same with e^{−β (t_k − 1)}, because the first observation is not informative."""
        return self._sum_over_episodes(horizon, 1)

    def _sum_over_episodes(self, horizon: npt.ArrayLike, uninformative: int) -> Array:
        h, episodes = self.span.value, doubling_episodes(horizon)
        if self.alpha.value == 0.0:  # one kernel: nothing to learn
            return np.asarray(h * episodes)
        k = np.arange(1, int(episodes.max()) + 1)
        terms = 2.0**k * np.exp(-self.beta.value * (2.0**k - 1.0 - uninformative))
        sums = np.append(0.0, np.cumsum(terms))[episodes]
        return np.asarray(h * episodes + (4.0 * h + 2.0) * self.alpha.value * sums)


def finite_bound(
    prior: Prior,
    plans: Sequence[Plan] | None = None,
    *,
    span: float | None = None,
    margins: Separation | None = None,
) -> FiniteBound:
    """Return the constants of Theorem 1 for a prior.

    Parameters
    ----------
    prior
        A prior with finitely many kernels.
    plans
        One plan for each kernel, from which H is estimated; by default they are computed.
    span
        H, in place of the estimate.
    margins
        The result of `separation`; by default it is computed.

    Returns
    -------
    FiniteBound
        The constants, and the bounds as functions of the horizon.

    Raises
    ------
    InvalidModelError
        If the prior has no finite support, or a kernel has weight 0.

    >>> from psrl_pomdp import problem
    >>> bound = finite_bound(problem("separated").family, span=1.2)
    >>> bound.epsilon, bound.alpha
    (0.667 (computed), 12 (computed))
    >>> bool(bound.proved(1000) < bound.corrected(1000) < bound.stated(1000))
    True
    """
    prior = finite_support(prior)
    if span is None:
        high = largest_span(plans or [plan(prior.model(m), max_work=3e8) for m in range(len(prior))])
    else:
        high = Constant(span, "given", "H as passed by the caller")
    epsilon, d = (margins or separation(prior)).epsilon, float(likelihood_ranges(prior).max())
    if (prior.weights <= 0.0).any():
        raise InvalidModelError("a kernel has prior weight 0: remove it from the prior")
    odds = float(((1.0 - prior.weights) / prior.weights).max())
    alpha = 2.0 * max(odds, 2.0 * (len(prior) - 1.0))
    return FiniteBound(
        high,
        Constant(epsilon, "computed", "a certified lower bound on the KL of next observations, in nats"),
        Constant(d, "computed", "the widest range of a log-likelihood ratio, extremes over states"),
        Constant(alpha, "computed", "2 max{ max (1 − f)/f, 2 (|Θ| − 1) }"),
        Constant(rate(epsilon, d), "computed", "min{ ε/2, ε²/(8 d²) }"),
    )


def finite_bound_at(prior: Prior, times: npt.ArrayLike) -> tuple[FiniteBound, Array]:
    """Return the constants of Theorem 1 for a prior, and the corrected bound on the scaled regret.

    Parameters
    ----------
    prior
        A prior with finitely many kernels.
    times
        The horizons of the bound.

    Raises
    ------
    InvalidModelError
        If the theorem gives no finite bound: the prior has no finite support, or β = 0, or the bound is
        infinite. β is computed before any plan.
    """
    prior = finite_support(prior)
    margins = separation(prior)
    if rate(margins.epsilon, float(likelihood_ranges(prior).max())) <= 0.0:
        raise InvalidModelError(_NO_BOUND)
    constants = finite_bound(prior, margins=margins)
    values = constants.corrected(times)
    if not np.isfinite(values).all():
        raise InvalidModelError(_NO_BOUND)
    return constants, values


def finite_support(prior: Prior) -> FiniteSupport:
    """Return `prior`; raise `InvalidModelError` if it does not have finitely many kernels."""
    if isinstance(prior, FiniteSupport):
        return prior
    raise InvalidModelError(
        f"Theorem 1 is about finitely many kernels, and a {type(prior).__name__} has no finite support"
    )


def rate(epsilon: float, d: float) -> float:
    """Return β = min{ ε/2, ε²/(8 d²) }; 0 if there is no finite bound, infinite for a single kernel.

    >>> rate(0.4, 1.0), rate(0.4, float("inf")), rate(0.0, 1.0)
    (0.020000000000000004, 0.0, 0.0)
    """
    if epsilon == np.inf:
        return np.inf
    return float(min(0.5 * epsilon, (epsilon / d) ** 2 / 8.0)) if epsilon > 0.0 else 0.0


def likelihood_ranges(prior: FiniteSupport) -> Array:
    """[M, M, A]: the range of log ν_m(o)/ν_n(o) over observations and beliefs after each action.

    For densities, it is an upper bound: two mixtures of the same densities differ by no larger a factor than
    the probabilities of the states that are mixed.
    """
    finite = prior.setting.is_finite
    observations = next_observations_of(prior) if finite else prior.kernels  # [M, A, S, O]: ν from each state
    least, most = observations.min(axis=2), observations.max(axis=2)  # [M, A, O]
    possible = most > 0.0
    with np.errstate(divide="ignore", invalid="ignore"):
        low = np.log(least[:, None]) - np.log(most[None])  # [M, M, A, O]
        high = np.log(most[:, None]) - np.log(least[None])
    low = np.where(np.isnan(low), -np.inf, low)
    low, high = np.where(possible[:, None], low, np.inf), np.where(possible[:, None], high, -np.inf)
    bottom, top = low.min(axis=3), high.max(axis=3)
    ranges = np.full(top.shape, np.inf)
    np.subtract(top, bottom, out=ranges, where=np.isfinite(top) & np.isfinite(bottom))
    ranges[np.eye(len(prior), dtype=np.bool_)] = 0.0
    return np.asarray(ranges)


def largest_span(plans: Sequence[Plan]) -> Constant:
    """Return H estimated from plans: the largest upper bound on their spans."""
    spans = np.array([own.span[1] for own in plans])
    if np.isnan(spans).any():
        raise InvalidModelError(
            "a plan depends on the start, so the optimality equation fails and there is no H; pass a span"
        )
    how = f"the largest span of {len(spans)} plans: a bound in practice, not proved"
    return Constant(float(spans.max()), "estimated", how)


@dataclass(frozen=True)
class GeneralBound:
    """The bound of the general theorem, for scaled costs.

    Attributes
    ----------
    pairs
        The number of pairs of state and action, |S||A|.
    span, belief, kernel
        The constants H, K_1 and K_2.
    """

    pairs: int
    span: Constant
    belief: Constant
    kernel: Constant

    def terms(self, horizon: npt.ArrayLike) -> dict[str, Array]:
        """Return the terms of the bound at these horizons."""
        t, h = np.asarray(horizon, np.float64), self.span.value
        return {
            "episodes": (1.0 + h) * most_episodes(t, self.pairs),
            "kernel": 12.0 * h * self.kernel.value * (self.pairs * t) ** (2.0 / 3.0),
            "belief": (h + 1.0) * self.belief.value * most_weighted_lengths(t, self.pairs),
            "rest": np.full_like(t, 2.0 + h),
        }

    def at(self, horizon: npt.ArrayLike) -> Array:
        """Return the bound on E[R_T]."""
        return np.asarray(sum(self.terms(horizon).values()))


def general_bound(setting: Setting, span: Constant, belief: Constant, kernel: Constant) -> GeneralBound:
    """Return the bound of the general theorem.

    Parameters
    ----------
    setting
        The POMDP without its transition kernel, which gives |S| and |A|.
    span
        H.
    belief, kernel
        K_1 and K_2, for example from `estimate_concentration`.

    Returns
    -------
    GeneralBound
        The constants, and the bound as a function of the horizon.
    """
    return GeneralBound(setting.n_states * setting.n_actions, span, belief, kernel)


# -- the paper's lemmas on episodes --------------------------------------------------------------


def doubling_episodes(horizon: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """Return K_T = ⌊log₂(T + 1)⌋ for episodes that start at 1, 3, 7, 15, ...

    >>> doubling_episodes([1, 2, 3, 6, 7, 1023]).tolist()
    [1, 1, 2, 2, 3, 10]
    """
    return np.asarray(np.frexp(np.asarray(horizon, np.float64) + 1.0)[1] - 1, np.int64)


def macro_episodes(horizon: npt.ArrayLike, pairs: int, ruled_out: int = 0) -> Array:
    """Return the bound M_T ≤ 1 + |S||A| log₂(T + 1), which counts the doublings of m̃: 0, 1, 3, 7, ...

    Each episode that ends because its kernel is ruled out adds one; the paper does not have this case.
    """
    return np.asarray(1.0 + pairs * np.log2(np.asarray(horizon, np.float64) + 1.0) + ruled_out)


def most_episodes(horizon: npt.ArrayLike, pairs: int, ruled_out: int = 0) -> Array:
    """Return the bound K_T ≤ √(2 T M_T) (Lemma C.5, 1).

    >>> round(float(most_episodes(3, 2)), 12)  # √(2·3·(1 + 2·2))
    5.477225575052
    """
    t = np.asarray(horizon, np.float64)
    return np.asarray(np.sqrt(2.0 * t * macro_episodes(t, pairs, ruled_out)))


def most_weighted_lengths(horizon: npt.ArrayLike, pairs: int, ruled_out: int = 0) -> Array:
    """Return the bound Σ_k T_k/√t_k ≤ 7 √(2T) M_T log √(2T) (Lemma C.5, 2), with a natural logarithm."""
    root = np.sqrt(2.0 * np.asarray(horizon, np.float64))
    return np.asarray(7.0 * root * macro_episodes(horizon, pairs, ruled_out) * np.log(root))
