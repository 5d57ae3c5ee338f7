"""The kernels of a `ParametricPrior` in an ensemble, and the density that their moves leave invariant."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from .._utils.arrays import Array
from .._utils.integers import is_integer
from ..errors import InvalidModelError, PSRLError
from ..models import Setting
from .hidden_paths import expected_transitions, log_likelihoods
from .history import Histories, History, longest
from .kernel_groups import MOST_KERNELS, possible_steps
from .moves import Target, Tuning, default_move
from .parametric_prior import ParametricPrior, checked_density, checked_kernels, checked_sample, support_of
from .refresh import systematic
from .saved_states import array_in
from .step_codes import StepCodes
from .workspace import Workspace, flat

State = Mapping[str, object]

_FEW, _SMALL, _LARGEST = 16, 64, 1024
_LEAST = 4  # kernels of an ensemble


class ParameterGroup:
    """N parameter vectors and their kernels, moved by `prior.move`."""

    movable = True
    tuning: Any
    factors: Array | None = None  # all kernels share the observation model

    def __init__(
        self, prior: ParametricPrior, parameters: Array, tuning: Tuning, spaces: dict[int, Workspace]
    ) -> None:
        self.prior, self.parameters, self.tuning, self._spaces = prior, parameters, tuning, spaces
        self.size = len(parameters)
        self.weights = np.full(self.size, 1.0 / self.size)
        self.initial = np.repeat(prior.setting.initial[:, None], self.size, axis=1)
        self.kernels = np.ascontiguousarray(checked_kernels(prior, parameters).transpose(1, 2, 3, 0))
        self.space = space_for(prior, self.size, spaces)
        self.support = possible_steps(self.space.step_codes, support_of(prior), None)

    @classmethod
    def drawn(cls, prior: ParametricPrior, rng: np.random.Generator) -> Self:
        """Draw the parameters from the prior, and check that the prior's methods are consistent for them."""
        _check_move(prior)
        parameters = checked_sample(prior, rng, _size_of(prior))
        name = type(prior).__name__
        density = checked_density(prior, parameters)
        if not np.isfinite(density).all():
            n = int(np.isneginf(density).argmax())
            raise InvalidModelError(
                f"{name}.log_density is -inf at {parameters[n].tolist()}, "
                f"a parameter vector that {name}.sample_parameters returned"
            )
        found = cls(prior, parameters, {}, {})
        again = checked_density(prior, parameters), checked_kernels(prior, parameters).transpose(1, 2, 3, 0)
        for method, one, other in zip(
            ("log_density", "kernels"), (density, found.kernels), again, strict=True
        ):
            if not np.array_equal(one, other):
                raise InvalidModelError(f"{name}.{method} returned another value at its second call")
        return found

    def refreshed(self, weights: Array, pasts: Histories, rng: np.random.Generator) -> ParameterGroup:
        """Return a group that is resampled by `weights[N]` and moved, given the histories of all units."""
        chosen = systematic(weights, rng.random())
        target = HistoryTarget(self.prior, pasts, self._spaces, self.parameters.std(axis=0))
        moved, tuning = _moved(self.prior, self.parameters[chosen].copy(), target, dict(self.tuning), rng)
        refreshes = float(self.tuning.get("refreshes", 0.0)) + 1.0
        return ParameterGroup(self.prior, moved, {**tuning, "refreshes": refreshes}, self._spaces)

    def mode(self, weights: Array, pasts: Histories, near: Array | None) -> tuple[Array, Setting]:
        """Return the kernel at a local maximum of the posterior density of the parameters, with the setting.

        The search starts at the best member of the ensemble. For up to ten parameters it continues with the
        simplex method of Nelder and Mead.
        """
        from scipy.optimize import minimize  # imported here because the import is slow

        target = HistoryTarget(self.prior, pasts, self._spaces, self.parameters.std(axis=0))
        best = self.parameters[int(target.log_density(self.parameters).argmax())]
        d = len(best)
        if d <= 10:
            corners = best + np.vstack([np.zeros(d), np.diag(target.spread + 1e-9)])
            found = minimize(
                lambda x: -float(target.log_density(x[None])[0]),
                best,
                method="Nelder-Mead",
                options={"initial_simplex": corners, "maxfev": 60 * d, "xatol": 1e-6, "fatol": 1e-6},
            )
            best = found.x
        return np.asarray(checked_kernels(self.prior, best[None])[0]), self.prior.setting

    def setting_of(self, number: int) -> Setting:
        """Return the setting, which all kernels share."""
        return self.prior.setting

    def first_likelihood(self, past: History) -> Array:
        """Return η(o_1 | s) under each kernel, shape [S, N]."""
        return np.repeat(past.step_codes.first_likelihood(past.first)[:, None], self.size, axis=1)

    def start(self, past: History) -> Array:
        """Return h_1, shape [S]."""
        return past.start

    def tables(self) -> tuple[Array | None, Array | None]:
        """Return None twice, because the setting has the tables."""
        return None, None

    def clear(self) -> None:
        """Clear the scratch arrays of passes over the history."""
        for space in self._spaces.values():
            space.shares[...] = 0.0

    def state(self) -> dict[str, Any]:
        """Return the parameters, the state of the adaptation of the moves, and what the prior's code returns.

        The log densities and one number for each kernel show whether the code was changed before it is used
        to restore this state.
        """
        return {
            "parameters": self.parameters.copy(),
            "log_densities": checked_density(self.prior, self.parameters),
            "kernel_sums": _kernel_sums(self.kernels),
            **{f"tuning_{name}": value for name, value in self.tuning.items()},
        }

    @classmethod
    def restored(cls, prior: ParametricPrior, state: State, size: int) -> Self:
        """Return the group that saved `state`. An invalid state raises `InvalidModelError`."""
        d = checked_sample(prior, np.random.default_rng(0), 1).shape[1]
        parameters = array_in(state, "parameters", (size, d))
        density = checked_density(prior, parameters)
        if not np.isfinite(density).all():
            raise InvalidModelError("parameters: some are outside the prior's support")
        tuning: Tuning = {}
        for name in state:
            if name.startswith("tuning_"):
                found = array_in(state, name, np.asarray(state[name]).shape)
                tuning[name.removeprefix("tuning_")] = float(found) if found.ndim == 0 else found
        group = cls(prior, parameters, tuning, {})
        for name, method, now in (
            ("log_densities", "log_density", density),
            ("kernel_sums", "kernels", _kernel_sums(group.kernels)),
        ):
            if name in state and not np.allclose(array_in(state, name, (size,)), now, 1e-6, 1e-6):
                raise InvalidModelError(
                    f"{type(prior).__name__}.{method} returns other values than when this posterior was "
                    "saved: its code was changed"
                )
        return group


class HistoryTarget(Target):
    """The posterior density of parameters given the histories of all units."""

    def __init__(
        self, prior: ParametricPrior, pasts: Histories, spaces: dict[int, Workspace], spread: Array
    ) -> None:
        self.prior, self.spread = prior, spread
        self._pasts, self._spaces = pasts, spaces

    def log_prior(self, parameters: Array) -> Array:
        """Return the prior's log density of each parameter vector, shape [M]."""
        return checked_density(self.prior, parameters)

    def log_likelihood(self, parameters: Array) -> Array:
        """Return the log likelihood of the history under each parameter vector, shape [M]."""
        kernels, space, logs = self._prepared(parameters)
        total = np.zeros_like(logs)
        space.tabulate(kernels)
        for past in self._pasts:
            log_likelihoods(
                space.states, space.joint, past.codes, past.rows, past.length, space.start(past.start),
                space.alpha, space.checkpoints, logs,
            )  # fmt: skip
            total += logs
        return total

    def expected_transitions(self, parameters: Array) -> tuple[Array, Array]:
        """Return the log likelihoods [M], and the expected numbers of transitions, shape [M, A, S, S′]."""
        kernels, space, logs = self._prepared(parameters)
        total, expected = np.zeros_like(logs), np.zeros_like(kernels)
        space.tabulate(kernels)
        for past in self._pasts:
            expected_transitions(
                space.states, space.action_of, past.codes, past.rows, past.length, space.start(past.start),
                space.joint, space.alpha, space.checkpoints, space.shares, logs,
                np.zeros(space.alpha.shape[1]), flat(expected),
            )  # fmt: skip
            total += logs
        return total, expected.transpose(3, 0, 1, 2)

    def kernels(self, parameters: Array) -> Array:
        """Return the kernel of each parameter vector, shape [M, A, S, S′]."""
        return checked_kernels(self.prior, parameters)

    def _prepared(self, parameters: Array) -> tuple[Array, Workspace, Array]:
        """Return the kernels [A, S, S′, M], scratch arrays for passes over the histories, and zeros [M]."""
        kernels = np.ascontiguousarray(self.kernels(parameters).transpose(1, 2, 3, 0))
        space = space_for(self.prior, len(parameters), self._spaces)
        space.fit(longest(self._pasts))
        return kernels, space, np.zeros(len(parameters))


def space_for(prior: ParametricPrior, size: int, spaces: dict[int, Workspace]) -> Workspace:
    """Return scratch arrays for `size` kernels, allocated at the first call."""
    if size not in spaces:
        spaces[size] = Workspace(StepCodes(prior.setting), size)
    return spaces[size]


def _size_of(prior: ParametricPrior) -> int:
    """Return `prior.ensemble_size`, or its default: 64 for up to 16 parameters, else four times their number.

    A move adapts its proposals to half of the ensemble, so that a half needs two members.
    """
    size = prior.ensemble_size
    if size is None:
        d = checked_sample(prior, np.random.default_rng(0), 1).shape[1]
        return _SMALL if d <= _FEW else min(_LARGEST, 4 * d)
    if not is_integer(size, _LEAST, MOST_KERNELS):
        raise InvalidModelError(
            f"{type(prior).__name__}.ensemble_size is {size!r}: it must be None or an integer from {_LEAST} "
            f"to {MOST_KERNELS}"
        )
    return int(size)


def _check_move(prior: ParametricPrior) -> None:
    """Raise an error that names `prior.move` if it cannot be called like a move."""
    move: object = prior.move
    if isinstance(move, type):
        raise InvalidModelError(f"{type(prior).__name__}.move is the class {move.__name__}, not an object")
    if move is not None and not callable(move):
        raise InvalidModelError(f"{type(prior).__name__}.move is {move!r}, which cannot be called")


def _moved(
    prior: ParametricPrior, parameters: Array, target: HistoryTarget, tuning: Tuning, rng: np.random.Generator
) -> tuple[Array, Tuning]:
    """Return the moved parameters and the new tuning, after a check of both."""
    move = prior.move or default_move(parameters.shape[1])
    call = f"the move {move!r} of {type(prior).__name__}"
    try:
        given, tuning = move(parameters.copy(), target, tuning, rng)
        moved = np.array(given, dtype=np.float64)
        tuning = {str(name): value for name, value in tuning.items()}
        numbers = all(np.isfinite(np.asarray(value)).all() for value in tuning.values())
    except (PSRLError, MemoryError):
        raise
    except Exception as error:
        raise InvalidModelError(
            f"{call} raised {type(error).__name__}, or did not return (parameters, tuning): {error}"
        ) from error
    if moved.shape != parameters.shape or not np.isfinite(moved).all():
        inside = False
    else:
        inside = bool(np.isfinite(checked_density(prior, moved)).all())
    if not inside:
        raise InvalidModelError(
            f"{call} returned parameters of shape {moved.shape}: it must return "
            f"parameters of shape {parameters.shape} inside the prior's support"
        )
    if not numbers:
        raise InvalidModelError(f"{call} returned a tuning with a number that is not finite")
    return moved, tuning


def _kernel_sums(kernels: Array) -> Array:
    """Return a weighted sum of the entries of each kernel [A, S, S′, N], shape [N]."""
    entries = kernels.reshape(-1, kernels.shape[-1])
    return np.asarray(np.cos(np.arange(1.0, len(entries) + 1.0)) @ entries)
