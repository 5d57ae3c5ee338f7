"""Priors on finite sets of kernels: θ* is one of M known kernels (Section 4 of the paper)."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from .._utils.arrays import Array, Names, distributions, frozen, numbers, shaped
from ..errors import InvalidModelError
from ..models import POMDP, Frozen, Setting, kernel
from .step_codes import Reading, StepCodes, kernel_factors

if TYPE_CHECKING:
    from .finite_posterior import FinitePosterior
    from .kernel_groups import FixedGroup


class FinitePrior(Frozen):
    """A prior on M kernels with given weights.

    Parameters
    ----------
    setting
        The POMDP without its transition kernel.
    kernels
        The transition kernels, shape [M, A, S, S′].
    weights
        The prior probabilities of the kernels, shape [M]; by default they are equal.
    initial
        The initial distribution h(·; θ) under each kernel, shape [M, S]; by default that of the setting.
    sensors
        The observation model that belongs to each kernel, shape [M, S, O], [M, A, S′, O] or [M, A, S, S′, O];
        by default that of the setting, which is known. Models of shape [S, O] also give the first
        observation, if the setting has one.

    Raises
    ------
    InvalidModelError
        If an array has the wrong shape or a row that is not a probability distribution.

    >>> setting = Setting([[0.9, 0.1], [0.2, 0.8]], [[0.0, 1.0]], [1.0, 0.0])
    >>> slow, fast = [[[0.9, 0.1], [0.0, 1.0]]], [[[0.5, 0.5], [0.0, 1.0]]]
    >>> prior = FinitePrior(setting, [slow, fast], weights=[0.8, 0.2])
    >>> len(prior), prior.model(1).transition[0, 0].tolist()
    (2, [0.5, 0.5])
    """

    setting: Setting
    kernels: Array  # [M, A, S, S]
    weights: Array  # [M], sums to 1
    initial: Array  # [M, S], rows sum to 1
    sensors: Array | None  # [M, S, O], [M, A, S, O] or [M, A, S, S, O]

    def __init__(
        self,
        setting: Setting,
        kernels: npt.ArrayLike,
        weights: npt.ArrayLike | None = None,
        initial: npt.ArrayLike | None = None,
        sensors: npt.ArrayLike | None = None,
    ) -> None:
        if not isinstance(setting, Setting):
            raise InvalidModelError(f"setting is a {type(setting).__name__}, not a Setting")
        given = numbers("kernels", kernels, "mast")
        count = len(given)
        if weights is None:
            weights = np.full(count, 1.0 / count)
        shaped("weights", numbers("weights", weights, "m"), (count,), f"{count} kernels")
        if initial is None:
            initial = np.broadcast_to(setting.initial, (count, setting.n_states))
        sizes = (count, setting.n_states)
        meaning = f"{count} kernels and {setting.n_states} states"
        shaped("initial", numbers("initial", initial, "ms"), sizes, meaning)
        self._set(
            setting=setting,
            kernels=frozen(_kernels(given, setting)),
            weights=frozen(distributions("weights", weights, "m", Names())),
            initial=frozen(distributions("initial", initial, "ms", setting.names)),
            sensors=None if sensors is None else frozen(_sensors(sensors, count, setting)),
        )

    def _contents(self) -> tuple[str, list[Array]]:
        sensors = [] if self.sensors is None else [self.sensors]
        return self.setting.fingerprint, [self.kernels, self.weights, self.initial, *sensors]

    def __len__(self) -> int:
        return len(self.kernels)

    def model(self, index: int) -> POMDP:
        """Return the POMDP whose transition kernel is kernel `index`."""
        if not 0 <= index < len(self):
            raise InvalidModelError(
                f"kernel {index} is out of range: this prior has {len(self)} kernels (0 to {len(self) - 1})"
            )
        setting = self.setting_of(index).replace(initial=self.initial[index])
        return POMDP(setting, self.kernels[index], name=f"kernel {index}")

    def setting_of(self, index: int) -> Setting:
        """Return the setting with the observation model that belongs to kernel `index`."""
        if self.sensors is None:
            return self.setting
        first = self.sensors[index] if self._sensors_give_first else self.setting.first_observation
        return self.setting.replace(observation=self.sensors[index], first_observation=first)

    @property
    def _sensors_give_first(self) -> bool:
        return self.sensors is not None and self.sensors.ndim == 3 and self.setting.has_first_observation

    @cached_property
    def step_codes(self) -> StepCodes:
        """How steps become numbers in compiled code."""
        return StepCodes(self.setting, unknown=self.sensors is not None)

    @cached_property
    def factors(self) -> Array | None:
        """κ η of each kernel by step number, shape [A·R, S, S′, M]; None if all share one model."""
        if self.sensors is None:
            return None
        tables = np.moveaxis(self.sensors, 0, -1)
        if tables.ndim == 3:
            tables = np.broadcast_to(tables, (self.setting.n_actions, *tables.shape))
        seen = self.setting.seen_cost
        return kernel_factors(tables, None if seen is None else seen.probabilities[..., None])

    def first_likelihood(self, reading: Reading | None) -> Array:
        """Return η(o_1 | s) under each kernel, shape [S, M]; ones without a first observation."""
        if reading is not None and self._sensors_give_first:
            assert self.sensors is not None
            return np.ascontiguousarray(self.sensors[:, :, reading.code].T)
        return np.repeat(self.step_codes.first_likelihood(reading)[:, None], len(self), axis=1)

    @cached_property
    def support(self) -> npt.NDArray[np.bool_]:
        """The transitions that are possible under at least one kernel, shape [A, S, S′]."""
        return np.asarray((self.kernels > 0.0).any(axis=0))

    def sample(self, rng: np.random.Generator) -> Array:
        """Draw a kernel θ ~ f, shape [A, S, S′]."""
        return np.asarray(self.kernels[rng.choice(len(self), p=self.weights)])

    def sample_model(self, rng: np.random.Generator) -> POMDP:
        """Draw θ ~ f and return it as a POMDP with the initial distribution of this kernel."""
        return self.model(int(rng.choice(len(self), p=self.weights)))

    def initial_of(self, kernel: Array) -> Array:
        """Return h(·; `kernel`) under the first equal kernel of the set; without one, that of the setting."""
        same = np.flatnonzero((self.kernels == kernel).all(axis=(1, 2, 3)))
        return np.asarray(self.initial[same[0]]) if len(same) else self.setting.initial

    def replace(self, *, setting: Setting) -> FinitePrior:
        """Return the same kernels, with all that belongs to them, in another setting."""
        return FinitePrior(setting, self.kernels, self.weights, self.initial, self.sensors)

    @property
    def learns_sensor(self) -> bool:
        """Whether each kernel has an observation model of its own."""
        return self.sensors is not None

    @property
    def learns_costs(self) -> bool:
        """Whether the costs are unknown: they are known."""
        return False

    def impossible_part(self, setting: Setting, kernel_index: int | None = None) -> str | None:
        """Return the part of a sampled setting that belongs to no kernel, or not to this one; else None."""
        from .possible_settings import part_unlike_all

        numbers = range(len(self)) if kernel_index is None else [kernel_index]
        return part_unlike_all(setting, (self.setting_of(m) for m in numbers))

    def renaming_evidence(self, states: npt.NDArray[np.int64]) -> float:
        """Return the log odds of two models of the set, one of which is the other with renamed states.

        The new state s is the old state `states[s]`. The result is infinite if there are no such models.
        """
        from .renaming_evidence import evidence_of_set  # compiled code, as below

        return evidence_of_set(self, states)

    def kernel_group(self, rng: np.random.Generator) -> FixedGroup:
        """Return the kernels as a group of a mixture prior."""
        from .kernel_groups import FixedGroup  # compiled code, as below

        return FixedGroup(self)

    def restored_group(self, state: Mapping[str, object], size: int, time: int) -> FixedGroup:
        """Return the kernels as a saved group of a mixture prior."""
        return self.kernel_group(np.random.default_rng(0))

    def posterior(self, rng: np.random.Generator | None = None) -> FinitePosterior:
        """Return the posterior before the first observation. It is exact, so `rng` is not used."""
        from .finite_posterior import FinitePosterior  # compiled code, which the prior itself does not need

        return FinitePosterior(self)

    def restore(self, state: Mapping[str, object], rng: np.random.Generator | None = None) -> FinitePosterior:
        """Return the posterior whose `state()` was saved; later results are equal to the last bit.

        Raises
        ------
        InvalidModelError
            If the state was saved under another prior, or is not a valid state of this posterior.
        """
        from .saved_states import has_shape

        n_kernels, n_actions, n_states = self.kernels.shape[:3]
        has_shape(state, "counts", (n_states, n_actions, n_states, n_kernels))
        return self.posterior().resume(state)

    def __repr__(self) -> str:
        return f"FinitePrior({len(self)} kernels, {self.setting!r})"


def _sensors(sensors: npt.ArrayLike, count: int, setting: Setting) -> Array:
    """Return valid observation models [M, S, O], [M, A, S′, O] or [M, A, S, S′, O]."""
    given = numbers("sensors", sensors, "mso|maso|masto")
    axes = {3: "mso", 4: "maso", 5: "masto"}[given.ndim]
    length = {"m": count, "a": setting.n_actions, "s": setting.n_states, "t": setting.n_states}
    sizes = tuple(length.get(axis, setting.n_observations) for axis in axes)
    shaped("sensors", given, sizes, f"{count} kernels and the sizes of the setting")
    return distributions("sensors", given, axes, setting.names)


def _kernels(given: Array, setting: Setting) -> Array:
    """Return valid kernels [M, A, S, S′].

    All kernels are checked at once. If this fails they are checked one by one, so that the error names the
    kernel.
    """
    if given.shape[1:] == (setting.n_actions, setting.n_states, setting.n_states):
        with suppress(InvalidModelError):
            return distributions("kernels", given, "mast", setting.names)
    return np.stack([kernel(f"kernels[{m}]", k, setting) for m, k in enumerate(given)])
