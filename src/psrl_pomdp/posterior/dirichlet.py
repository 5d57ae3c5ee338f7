"""The general case: each row θ(· | s, a) is Dirichlet, independently of the others a priori."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..arrays import Array, finite, frozen, numbers, shaped
from ..errors import InvalidModelError
from ..model import Frozen, Setting

_LEAST, _MOST = 1e-50, 1e15  # beyond, sampling and means lose all their digits


class DirichletPrior(Frozen):
    """θ(· | s, a) ~ Dirichlet(`concentration[a, s, :]`); a zero there is a transition that cannot be."""

    setting: Setting
    concentration: Array  # [A, S, S]

    def __init__(self, setting: Setting, concentration: npt.ArrayLike) -> None:
        if not isinstance(setting, Setting):
            raise InvalidModelError(f"setting is a {type(setting).__name__}, not a Setting")
        sizes = (setting.n_actions, setting.n_states, setting.n_states)
        meaning = f"{sizes[0]} actions and {sizes[1]} states"
        given = shaped("concentration", numbers("concentration", concentration, "ast"), sizes, meaning)
        finite("concentration", given, "ast", setting.names)
        wrong = (given < 0) | ((given > 0) & ((given < _LEAST) | (given > _MOST)))
        if wrong.any():
            a, s, t = (int(i) for i in np.argwhere(wrong)[0])
            entry = setting.names.entry("concentration", "ast", (a, s, t))
            raise InvalidModelError(f"{entry} is {given[a, s, t]:g}: neither 0 nor {_LEAST:g} to {_MOST:g}")
        empty = ~(given > 0).any(axis=-1)
        if empty.any():
            a, s = (int(i) for i in np.argwhere(empty)[0])
            entry = setting.names.entry("concentration", "as", (a, s))
            raise InvalidModelError(f"{entry} is zero everywhere: no next state is possible")
        self._set(setting=setting, concentration=frozen(given))

    def _contents(self) -> tuple[str, list[Array]]:
        return self.setting.fingerprint, [self.concentration]

    @property
    def mean(self) -> Array:
        """E[θ], a kernel `[A, S, S]`."""
        return np.asarray(self.concentration / self.concentration.sum(axis=-1, keepdims=True))

    def sample(self, rng: np.random.Generator) -> Array:
        """θ ~ f, a kernel `[A, S, S]`.

        Gamma variables in logarithms, log G(α) = log G(α + 1) + log(U) / α, because for small α the
        variables themselves underflow to a row of zeros.
        """
        possible = self.concentration > 0
        alpha = np.where(possible, self.concentration, 1.0)
        boost = np.log1p(-rng.random(alpha.shape)) / alpha  # 1 - U is never zero
        log_gamma = np.where(possible, np.log(rng.standard_gamma(alpha + 1.0)) + boost, -np.inf)
        weight = np.exp(log_gamma - log_gamma.max(axis=-1, keepdims=True))
        return np.asarray(weight / weight.sum(axis=-1, keepdims=True))

    def __repr__(self) -> str:
        return f"DirichletPrior({self.setting!r})"
