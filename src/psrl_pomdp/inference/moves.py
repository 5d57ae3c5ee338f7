"""Moves: Markov kernels on the parameters of an ensemble that leave the posterior invariant.

After an ensemble is resampled, several of its N parameter vectors are equal. A move makes them different
again. All moves in this module split the ensemble into two random halves. Each half is moved by proposals
that are adapted to the other half, with the accept-reject rule of Metropolis and Hastings. Given the other
half, the proposals do not depend on the vectors that they move, so the product of N posteriors is exactly
invariant (Goodman and Weare, Comm. App. Math. Comp. Sci. 5, 2010).

The *tuning* of a move is what one refresh passes to the next, such as a step size or a number of sweeps:
numbers and arrays by name, which files store.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from .._utils.arrays import Array
from ..errors import InvalidModelError
from .parametric_prior import returned

Tuning: TypeAlias = dict[str, float | npt.NDArray[np.float64]]
# (moving [M, d], others [N − M, d], rng) -> proposals [M, d] and a term [M] of the log acceptance ratio
Proposal: TypeAlias = Callable[[Array, Array, np.random.Generator], tuple[Array, Array]]

_FEW = 10  # the largest number of parameters for which a random walk is the default
_FLOOR = 0.01  # the smallest step, as a fraction of the spread before the refresh; for equal vectors
_MIXED, _STUCK = (
    0.1,
    0.3,
)  # correlations with the old vectors below and above which sweeps decrease or increase


class Target:
    """The posterior density of the parameters. Methods take any number M of parameter vectors.

    Attributes
    ----------
    spread
        The standard deviation of each parameter in the ensemble before resampling, shape [d].
    """

    spread: Array

    def log_prior(self, parameters: Array) -> Array:
        """Return the log density of the prior at `parameters[M, d]`, shape [M]; −inf outside its support."""
        raise NotImplementedError

    def log_likelihood(self, parameters: Array) -> Array:
        """Return log P(observations | actions, φ), shape [M], up to a constant, for φ inside the support."""
        raise NotImplementedError

    def kernels(self, parameters: Array) -> Array:
        """Return the transition kernels of parameters inside the support, shape [M, A, S, S′]."""
        raise NotImplementedError

    def expected_transitions(self, parameters: Array) -> tuple[Array, Array]:
        """Return the log-likelihoods [M] and the expected number of each transition [M, A, S, S′].

        By Fisher's identity this number is the derivative of the log-likelihood with respect to the logarithm
        of the kernel's entry.
        """
        raise NotImplementedError

    def log_density(self, parameters: Array) -> Array:
        """Return the log density of the posterior, shape [M], up to a constant; −inf outside the support."""
        density, safe = self._inside(parameters)
        return density if safe is None else density + self.log_likelihood(safe)

    def _inside(self, parameters: Array) -> tuple[Array, Array | None]:
        """Return the log density of the prior [M], and the parameters without those outside the support.

        Parameters outside the support are replaced by a vector inside, so that there are always M of them. If
        all are outside, None is returned in their place.
        """
        density = np.full(len(parameters), -np.inf)
        finite = np.asarray(np.isfinite(parameters).all(axis=1))
        if finite.any():
            safe = np.where(finite[:, None], parameters, parameters[int(finite.argmax())])
            density = np.where(finite, self.log_prior(safe), -np.inf)
        inside = density > -np.inf
        if not inside.any():
            return density, None
        return density, np.where(inside[:, None], parameters, parameters[int(inside.argmax())])

    def score(self, parameters: Array) -> tuple[Array, Array]:
        """Return the log density of the posterior [M] and its gradient [M, d], by the prior's gradients.

        Raises
        ------
        InvalidModelError
            If the prior has no `log_density_gradient` or no `kernel_gradient`.
        """
        prior = getattr(self, "prior", None)
        names = ("log_density_gradient", "kernel_gradient")
        if prior is None or not all(hasattr(prior, name) for name in names):
            raise InvalidModelError(
                f"{type(prior).__name__}: HMC needs log_density_gradient(parameters) -> [N, d] and "
                "kernel_gradient(parameters) -> [N, d, A, S, S']"
            )
        density, safe = self._inside(parameters)
        if safe is None:
            return density, np.zeros_like(parameters)
        logs, expected = self.expected_transitions(safe)
        kernels = self.kernels(safe)
        by_entry = np.divide(expected, kernels, out=np.zeros_like(kernels), where=kernels > 0.0)
        steepness, change = (returned(prior, name, safe) for name in names)
        for call, found, wanted in (
            ("log_density_gradient", steepness, safe.shape),
            ("kernel_gradient", change, (*safe.shape, *kernels.shape[1:])),
        ):
            if found.shape != wanted:
                raise InvalidModelError(
                    f"{type(prior).__name__}.{call}(parameters) has shape {found.shape}, not {wanted}"
                )
        gradient = steepness + np.einsum("nast,ndast->nd", by_entry, change)
        return density + logs, np.where(density[:, None] > -np.inf, gradient, 0.0)


class Move(Protocol):
    """A Markov kernel on parameter vectors, for the attribute `move` of a `ParametricPrior`."""

    def __call__(
        self, parameters: Array, target: Target, tuning: Tuning, rng: np.random.Generator
    ) -> tuple[Array, Tuning]:
        """Move every parameter vector.

        Parameters
        ----------
        parameters
            The resampled parameter vectors [N, d], all inside the support.
        target
            The density that the move must leave invariant.
        tuning
            The tuning that the previous call returned; empty at the first call.
        rng
            The only source of random numbers: equal states of `rng` must give equal results.

        Returns
        -------
        tuple
            The new parameter vectors [N, d], and the tuning for the next call: numbers and arrays by name.
        """


def default_move(d: int) -> Move:
    """Return the move for d parameters of a prior that defines none."""
    return RandomWalk() if d <= _FEW else DifferentialEvolution()


@dataclass(frozen=True)
class RandomWalk:
    """Random-walk Metropolis for up to ten parameters, with the covariance of the other half of the ensemble.

    Parameters
    ----------
    sweeps
        The number of sweeps at the first refresh; later refreshes adapt it.
    most
        The largest number of sweeps.
    """

    sweeps: int = 10
    most: int = 80

    def __call__(
        self, parameters: Array, target: Target, tuning: Tuning, rng: np.random.Generator
    ) -> tuple[Array, Tuning]:
        """Move every parameter vector; see `Move`."""
        scale = float(tuning.get("scale", 1.0))
        floor = np.diag((_FLOOR * target.spread + 1e-12) ** 2)

        def propose(moving: Array, others: Array, rng: np.random.Generator) -> tuple[Array, Array]:
            count, d = moving.shape
            spread = np.cov(others, rowvar=False).reshape(d, d) + floor
            root = np.linalg.cholesky(spread) * scale * 2.38 / np.sqrt(d)
            length = np.exp(rng.uniform(np.log(0.3), np.log(1.5), (count, 1)))
            return moving + length * rng.standard_normal((count, d)) @ root.T, np.zeros(count)

        moved, taken, tuning = _swept(self, parameters, target, tuning, rng, lambda sweep: propose)
        scale = min(3.0, max(0.05, scale * float(np.exp(taken - 0.3))))
        return moved, {**tuning, "scale": scale}


@dataclass(frozen=True)
class DifferentialEvolution:
    """Moves for many parameters without gradients: differential evolution and stretch moves.

    One kind of proposal adds γ times the difference of two members of the other half (ter Braak, Stat.
    Comput. 16, 2006; γ = 2.38/√(2d), and 1 in a tenth of the cases, which allows jumps between modes).
    Another kind stretches the line to a member of the other half (Goodman and Weare 2010). The kinds
    alternate.

    Parameters
    ----------
    sweeps
        The number of sweeps at the first refresh; later refreshes adapt it.
    most
        The largest number of sweeps.
    """

    sweeps: int = 30
    most: int = 300

    def __call__(
        self, parameters: Array, target: Target, tuning: Tuning, rng: np.random.Generator
    ) -> tuple[Array, Tuning]:
        """Move every parameter vector; see `Move`."""
        noise = np.asarray(0.1 * _FLOOR * target.spread + 1e-12)

        def difference(moving: Array, others: Array, rng: np.random.Generator) -> tuple[Array, Array]:
            count, d = moving.shape
            pairs = np.array([rng.choice(len(others), 2, replace=False) for _ in range(count)])
            gamma = np.where(rng.random((count, 1)) < 0.1, 1.0, 2.38 / np.sqrt(2 * d))
            gamma = gamma * np.exp(rng.uniform(np.log(0.3), np.log(1.2), (count, 1)))
            step = gamma * (others[pairs[:, 0]] - others[pairs[:, 1]])
            return moving + step + noise * rng.standard_normal((count, d)), np.zeros(count)

        def stretch(moving: Array, others: Array, rng: np.random.Generator) -> tuple[Array, Array]:
            count, d = moving.shape
            towards = others[rng.integers(len(others), size=count)]
            z = np.asarray(0.5 * (1.0 + rng.random(count)) ** 2)  # density ∝ 1/√z on [1/2, 2]
            return towards + z[:, None] * (moving - towards), (d - 1) * np.log(z)

        kinds = (difference, difference, stretch)
        moved, _, tuning = _swept(
            self, parameters, target, tuning, rng, lambda sweep: kinds[sweep % len(kinds)]
        )
        return moved, tuning


@dataclass(frozen=True)
class HMC:
    """Hamiltonian Monte Carlo, for a prior with `log_density_gradient` and `kernel_gradient`.

    `log_density_gradient(parameters) -> [N, d]` is the gradient of the log density and
    `kernel_gradient(parameters) -> [N, d, A, S, S']` is the derivative of the kernels with respect to each
    parameter. (Neal, MCMC using Hamiltonian dynamics, 2011.)

    Parameters
    ----------
    leaps
        The number of leapfrog steps of a trajectory.
    sweeps
        The number of trajectories at the first refresh; later refreshes adapt it.
    most
        The largest number of trajectories.
    """

    leaps: int = 8
    sweeps: int = 2
    most: int = 20

    def __call__(
        self, parameters: Array, target: Target, tuning: Tuning, rng: np.random.Generator
    ) -> tuple[Array, Tuning]:
        """Move every parameter vector; see `Move`."""
        step = float(tuning.get("step", 0.5 / parameters.shape[1] ** 0.25))
        floor = _FLOOR * target.spread + 1e-12

        def trajectory(moving: Array, others: Array, rng: np.random.Generator) -> tuple[Array, Array]:
            width = np.sqrt(others.var(axis=0) + floor**2) * step * rng.uniform(0.7, 1.3, (len(moving), 1))
            momentum = rng.standard_normal(moving.shape)
            before, place = 0.5 * np.square(momentum).sum(axis=1), moving
            _, gradient = target.score(place)
            for _ in range(self.leaps):
                momentum = momentum + 0.5 * width * gradient
                place = place + width * momentum
                _, gradient = target.score(place)
                momentum = momentum + 0.5 * width * gradient
            return place, before - 0.5 * np.square(momentum).sum(axis=1)

        with np.errstate(over="ignore", invalid="ignore"):
            moved, taken, tuning = _swept(self, parameters, target, tuning, rng, lambda sweep: trajectory)
        step = min(2.0, max(1e-3, step * float(np.exp(taken - 0.75))))
        return moved, {**tuning, "step": step}


class _Sweeping(Protocol):
    @property
    def sweeps(self) -> int: ...
    @property
    def most(self) -> int: ...


def _swept(
    move: _Sweeping,
    parameters: Array,
    target: Target,
    tuning: Tuning,
    rng: np.random.Generator,
    proposal: Callable[[int], Proposal],
) -> tuple[Array, float, Tuning]:
    """Sweep over the ensemble and return the new parameters, the acceptance rate and the new tuning."""
    count = min(move.most, round(float(tuning.get("sweeps", move.sweeps))))
    moved, now, taken = parameters.copy(), target.log_density(parameters), 0.0
    for sweep in range(count):
        order = rng.permutation(len(moved))
        half = len(moved) // 2
        for mine, theirs in ((order[:half], order[half:]), (order[half:], order[:half])):
            proposed, more = proposal(sweep)(moved[mine], moved[theirs], rng)
            uniforms = rng.random(len(mine))
            density = target.log_density(proposed)
            with np.errstate(invalid="ignore", divide="ignore"):
                better = np.asarray(np.log(uniforms) < density - now[mine] + more)  # False for NaN
            moved[mine] = np.where(better[:, None], proposed, moved[mine])
            now[mine] = np.where(better, density, now[mine])
            taken += float(better.sum())
    alike = _correlation(parameters, moved)
    wanted = count * (1.5 if alike > _STUCK else 0.8 if alike < _MIXED else 1.0)
    return moved, taken / max(1, count * len(moved)), {**tuning, "sweeps": max(4.0, wanted)}


def _correlation(before: Array, after: Array) -> float:
    """Return the correlation of a parameter before and after a move, averaged over parameters.

    The correlation is taken over the ensemble. The correlation of a parameter that did not change is 1.
    """
    x, y = before - before.mean(axis=0), after - after.mean(axis=0)
    size = np.sqrt(np.square(x).sum(axis=0) * np.square(y).sum(axis=0))
    return float(np.divide((x * y).sum(axis=0), size, out=np.ones_like(size), where=size > 1e-300).mean())
