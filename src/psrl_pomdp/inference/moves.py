"""Moves: Markov kernels over the parameters of an ensemble that leave the posterior invariant.

After an ensemble is resampled, several of its N parameter vectors are copies of each other. A move makes them
differ again. All moves here treat the ensemble in two halves, drawn at random: each half is moved by
proposals that are fitted to the other half, and accepted or refused by the rule of Metropolis and Hastings.
Given the other half, a proposal is not fitted to what it moves, so the product of N posteriors is exactly
invariant (Goodman and Weare, Comm. App. Math. Comp. Sci. 5, 2010).

What a move learns for the next refresh (a step size, how many sweeps it takes) is its *tuning*: plain numbers
and arrays by name, which files hold.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from .._utils.arrays import Array
from ..errors import InvalidModelError

Tuning: TypeAlias = dict[str, float | npt.NDArray[np.float64]]
# (moving [M, d], others [N − M, d], rng) -> proposals [M, d] and the log of what they count more, [M]
Proposal: TypeAlias = Callable[[Array, Array, np.random.Generator], tuple[Array, Array]]

_FEW = 10  # parameters up to which a random walk is the default
_FLOOR = 0.01  # of the spread before the refresh: where all copies are the same, steps are at least that long
_MIXED, _STUCK = 0.1, 0.3  # correlations with what was before, below and above which sweeps are fewer or more


class Target:
    """The posterior density of parameters, as a move may ask for it. M is any number of parameter vectors.

    Attributes
    ----------
    spread
        The standard deviation [d] of each parameter over the ensemble, before it was resampled.
    """

    spread: Array

    def log_prior(self, parameters: Array) -> Array:
        """Return the prior log density [M] of `parameters[M, d]`, −inf outside of the support."""
        raise NotImplementedError

    def log_likelihood(self, parameters: Array) -> Array:
        """Return log P(observations | actions, φ) [M], up to a constant, inside of the support."""
        raise NotImplementedError

    def kernels(self, parameters: Array) -> Array:
        """Return the transition kernels [M, A, S, S'] of parameters inside of the support."""
        raise NotImplementedError

    def expected_transitions(self, parameters: Array) -> tuple[Array, Array]:
        """Return the log-likelihoods [M], and the expected number of each transition [M, A, S, S'].

        By Fisher's identity the number is the derivative of the log-likelihood by the logarithm of the entry
        of the kernel.
        """
        raise NotImplementedError

    def log_density(self, parameters: Array) -> Array:
        """Return the posterior log density [M], up to a constant; −inf outside of the support."""
        density, safe = self._inside(parameters)
        return density if safe is None else density + self.log_likelihood(safe)

    def _inside(self, parameters: Array) -> tuple[Array, Array | None]:
        """The prior log density [M], and the parameters with an inner point in place of those outside.

        So every call for kernels has M of them, all inside; None where no point is.
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
        """Return the posterior log density [M] and its gradient [M, d], from the prior's own gradients.

        Raises
        ------
        InvalidModelError
            If the prior has no `log_density_gradient` or no `kernel_gradient`.
        """
        prior = getattr(self, "prior", None)
        slope, jacobian = (getattr(prior, name, None) for name in ("log_density_gradient", "kernel_gradient"))
        if slope is None or jacobian is None:
            raise InvalidModelError(
                f"{type(prior).__name__}: HMC asks for log_density_gradient(parameters) -> [N, d] and "
                "kernel_gradient(parameters) -> [N, d, A, S, S']"
            )
        density, safe = self._inside(parameters)
        if safe is None:
            return density, np.zeros_like(parameters)
        logs, expected = self.expected_transitions(safe)
        kernels = self.kernels(safe)
        by_entry = np.divide(expected, kernels, out=np.zeros_like(kernels), where=kernels > 0.0)
        steepness = np.asarray(slope(safe), dtype=np.float64)
        change = np.asarray(jacobian(safe), dtype=np.float64)
        for call, found, wanted in (
            ("log_density_gradient", steepness, safe.shape),
            ("kernel_gradient", change, (*safe.shape, *kernels.shape[1:])),
        ):
            if found.shape != wanted:
                raise InvalidModelError(
                    f"{type(prior).__name__}.{call}(parameters) has shape {found.shape}: {wanted} is wanted"
                )
        gradient = steepness + np.einsum("nast,ndast->nd", by_entry, change)
        return density + logs, np.where(density[:, None] > -np.inf, gradient, 0.0)


class Move(Protocol):
    """What a `ParametricPrior` may have as its `move`."""

    def __call__(
        self, parameters: Array, target: Target, tuning: Tuning, rng: np.random.Generator
    ) -> tuple[Array, Tuning]:
        """Move every parameter vector.

        Parameters
        ----------
        parameters
            The resampled parameter vectors [N, d], all inside of the support.
        target
            The density that has to be left invariant.
        tuning
            What the last call returned; empty at first.
        rng
            The only source of random numbers: the same state has to give the same result.

        Returns
        -------
        tuple
            The new parameter vectors [N, d], and the tuning for the next call: numbers and arrays by name.
        """


def default_move(d: int) -> Move:
    """Return the move for d parameters of a prior that names none."""
    return RandomWalk() if d <= _FEW else DifferentialEvolution()


@dataclass(frozen=True)
class RandomWalk:
    """Random-walk Metropolis with the covariance of the other half of the ensemble: for up to ten parameters.

    Parameters
    ----------
    sweeps
        How often each parameter vector is moved at the first refresh; later as often as it takes.
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
    """Moves without gradients for many parameters: differences between members, and stretches towards them.

    In turns, a proposal adds γ times the difference of two members of the other half (ter Braak, Stat.
    Comput. 16, 2006; γ = 2.38/√(2d), and 1 in a tenth of the cases, which lets members change modes), or
    stretches the line to a member of the other half (Goodman and Weare 2010).

    Parameters
    ----------
    sweeps
        How often each parameter vector is moved at the first refresh; later as often as it takes.
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

    `log_density_gradient(parameters) -> [N, d]` is the gradient of the log density,
    `kernel_gradient(parameters) -> [N, d, A, S, S']` the derivative of the kernels by each parameter. (Neal,
    MCMC using Hamiltonian dynamics, 2011.)

    Parameters
    ----------
    leaps
        Leapfrog steps of a trajectory.
    sweeps
        How many trajectories each parameter vector takes at the first refresh; later as many as it takes.
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
    """Sweep as often as earlier refreshes say: new parameters, the share of moves taken, the tuning."""
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
                better = np.asarray(np.log(uniforms) < density - now[mine] + more)  # no NaN is
            moved[mine] = np.where(better[:, None], proposed, moved[mine])
            now[mine] = np.where(better, density, now[mine])
            taken += float(better.sum())
    alike = _correlation(parameters, moved)
    wanted = count * (1.5 if alike > _STUCK else 0.8 if alike < _MIXED else 1.0)
    return moved, taken / max(1, count * len(moved)), {**tuning, "sweeps": max(4.0, wanted)}


def _correlation(before: Array, after: Array) -> float:
    """The correlation of parameters before and after, over the ensemble, averaged; 1 where nothing moves."""
    x, y = before - before.mean(axis=0), after - after.mean(axis=0)
    size = np.sqrt(np.square(x).sum(axis=0) * np.square(y).sum(axis=0))
    return float(np.divide((x * y).sum(axis=0), size, out=np.ones_like(size), where=size > 1e-300).mean())
