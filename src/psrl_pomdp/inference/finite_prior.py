"""The finite-parameter case: θ* is one of M known kernels (the paper's Section 4)."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from .._utils.arrays import Array, Names, distributions, frozen, numbers, shaped
from ..errors import InvalidModelError
from ..models.model import POMDP, Frozen, Setting, kernel

if TYPE_CHECKING:
    from .finite_posterior import FinitePosterior


class FinitePrior(Frozen):
    """f(θ) over kernels `[M, A, S, S]`; `weights[M]` default to equal ones.

    `initial[M, S]` is h(·; θ) where it differs by kernel; by default the setting's start serves all.
    """

    setting: Setting
    kernels: Array  # [M, A, S, S]
    weights: Array  # [M], sums to 1
    initial: Array  # [M, S], rows sum to 1

    def __init__(
        self,
        setting: Setting,
        kernels: npt.ArrayLike,
        weights: npt.ArrayLike | None = None,
        initial: npt.ArrayLike | None = None,
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
        )

    def _contents(self) -> tuple[str, list[Array]]:
        return self.setting.fingerprint, [self.kernels, self.weights, self.initial]

    def __len__(self) -> int:
        return len(self.kernels)

    def model(self, index: int) -> POMDP:
        """The world in which kernel `index` is the truth."""
        if not 0 <= index < len(self):
            raise InvalidModelError(f"kernel {index} of {len(self)} (they count from 0)")
        own = self.setting
        setting = Setting(
            own.observation,
            own.cost,
            self.initial[index],
            own.first_observation,
            units=own.units,
            states=own.names.states,
            actions=own.names.actions,
            observations=own.names.observations,
        )
        return POMDP(setting, self.kernels[index], name=f"kernel {index}")

    def sample(self, rng: np.random.Generator) -> Array:
        """θ ~ f, a kernel `[A, S, S]`."""
        return np.asarray(self.kernels[rng.choice(len(self), p=self.weights)])

    def posterior(self, rng: np.random.Generator | None = None) -> FinitePosterior:
        """f_t from here on. It is exact and draws nothing: `rng` is there for the common protocol."""
        from .finite_posterior import FinitePosterior  # compiled code, which a prior as data does not need

        return FinitePosterior(self)

    def restore(self, state: Mapping[str, object], rng: np.random.Generator | None = None) -> FinitePosterior:
        """The posterior whose `state()` this is; it goes on as that one would have, to the last bit."""
        from .saved_states import has_shape

        n_kernels, n_actions, n_states = self.kernels.shape[:3]
        has_shape(state, "counts", (n_states, n_actions, n_states, n_kernels))
        return self.posterior().resume(state)

    def __repr__(self) -> str:
        return f"FinitePrior({len(self)} kernels, {self.setting!r})"


def _kernels(given: Array, setting: Setting) -> Array:
    """[M, A, S, S], checked all at once; where one is wrong, one at a time, so that the error names it."""
    if given.shape[1:] == (setting.n_actions, setting.n_states, setting.n_states):
        with suppress(InvalidModelError):
            return distributions("kernels", given, "mast", setting.names)
    return np.stack([kernel(f"kernels[{m}]", k, setting) for m, k in enumerate(given)])
