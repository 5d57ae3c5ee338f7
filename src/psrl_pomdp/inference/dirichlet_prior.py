"""The general case: each row θ(· | s, a) is Dirichlet, independently of the others a priori."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from .._utils.arrays import Array, distributions, finite, frozen, numbers, shaped
from ..errors import InvalidModelError
from ..models.model import Frozen, Setting

if TYPE_CHECKING:
    from .dirichlet_posterior import DirichletPosterior

_LEAST, _MOST = 1e-50, 1e15  # beyond, sampling and means lose all their digits

Pair = tuple[int, int]  # (a, s)


class DirichletPrior(Frozen):
    """θ(· | s, a) ~ Dirichlet(`concentration[a, s, :]`); a zero there is a transition that cannot be.

    `known` gives rows that are not in question, `{(a, s): row}`. `ties` lists groups of pairs (a, s) that
    share one row, so that what is learned of one is learned of all; their concentrations must agree.

    >>> setting = Setting([[0.9, 0.1], [0.2, 0.8]], [[0.0, 1.0], [0.5, 0.5]], [1.0, 0.0])
    >>> prior = DirichletPrior(
    ...     setting,
    ...     [[[3.0, 1.0], [0.0, 1.0]], [[1.0, 1.0], [1.0, 1.0]]],
    ...     known={(1, 1): [1.0, 0.0]},
    ... )
    >>> prior.mean.tolist()
    [[[0.75, 0.25], [0.0, 1.0]], [[0.5, 0.5], [1.0, 0.0]]]
    """

    setting: Setting
    concentration: Array  # [A, S, S]; a known row stands for itself
    known: npt.NDArray[np.bool_]  # [A, S]
    row: npt.NDArray[np.int64]  # [A, S]: pairs with the same number share their row

    def __init__(
        self,
        setting: Setting,
        concentration: npt.ArrayLike,
        known: Mapping[Pair, npt.ArrayLike] | None = None,
        ties: Iterable[Sequence[Pair]] = (),
    ) -> None:
        if not isinstance(setting, Setting):
            raise InvalidModelError(f"setting is a {type(setting).__name__}, not a Setting")
        sizes = (setting.n_actions, setting.n_states, setting.n_states)
        meaning = f"{sizes[0]} actions and {sizes[1]} states"
        given = shaped("concentration", numbers("concentration", concentration, "ast"), sizes, meaning).copy()
        is_known = np.zeros(sizes[:2], dtype=bool)
        for pair, row in (known or {}).items():
            a, s = _pair("known", pair, setting)
            given[a, s] = _known_row((a, s), row, setting)
            is_known[a, s] = True
        _check(given, is_known, setting)
        self._set(
            setting=setting,
            concentration=frozen(given),
            known=_locked(is_known),
            row=_locked(_shared_rows(ties, given, is_known, setting)),
        )

    def _contents(self) -> tuple[str, list[Array]]:
        return self.setting.fingerprint, [
            self.concentration,
            self.known.astype(np.float64),
            self.row.astype(np.float64),
        ]

    @property
    def mean(self) -> Array:
        """E[θ], a kernel `[A, S, S]`."""
        return np.asarray(self.concentration / self.concentration.sum(axis=-1, keepdims=True))

    def sample(self, rng: np.random.Generator) -> Array:
        """θ ~ f, a kernel `[A, S, S]`."""
        drawn = np.exp(log_dirichlet(rng, self.concentration))
        first = np.unique(self.row, return_index=True)[1]  # the first pair of those that share a row
        shared = drawn.reshape(-1, drawn.shape[-1])[first][self.row]
        return np.where(self.known[..., None], self.concentration, shared)

    def posterior(self, rng: np.random.Generator) -> DirichletPosterior:
        """f_t from here on, as a weighted ensemble of kernels that moves with randomness from `rng`."""
        from .dirichlet_posterior import DirichletPosterior  # compiled code, which a prior does not need

        return DirichletPosterior(self, rng)

    def restore(self, state: Mapping[str, object], rng: np.random.Generator) -> DirichletPosterior:
        """The posterior whose `state()` this is. With `rng` in the state that the other's was in, it goes on
        as that one would have, to the last bit."""
        from .dirichlet_posterior import DirichletPosterior

        return DirichletPosterior.resumed(self, state, rng)

    def __repr__(self) -> str:
        return f"DirichletPrior({self.setting!r})"


def log_dirichlet(rng: np.random.Generator, concentration: Array, axis: int = -1) -> Array:
    """Logarithms of Dirichlet rows along `axis`; −inf where the concentration is zero.

    Gamma variables in logarithms, log G(α) = log G(α + 1) + log(U) / α, because for small α the variables
    themselves underflow to a row of zeros.
    """
    possible = concentration > 0
    alpha = np.where(possible, concentration, 1.0)
    boost = np.log1p(-rng.random(alpha.shape)) / alpha  # 1 - U is never zero
    log_gamma = np.where(possible, np.log(rng.standard_gamma(alpha + 1.0)) + boost, -np.inf)
    log_gamma -= log_gamma.max(axis=axis, keepdims=True)
    return np.asarray(log_gamma - np.log(np.exp(log_gamma).sum(axis=axis, keepdims=True)))


def _locked(array: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
    array.setflags(write=False)
    return array


def _check(given: Array, known: npt.NDArray[np.bool_], setting: Setting) -> None:
    finite("concentration", given, "ast", setting.names)
    wrong = (given < 0) | ((given > 0) & ((given < _LEAST) | (given > _MOST)) & ~known[..., None])
    if wrong.any():
        a, s, t = (int(i) for i in np.argwhere(wrong)[0])
        entry = setting.names.entry("concentration", "ast", (a, s, t))
        raise InvalidModelError(f"{entry} is {given[a, s, t]:g}: neither 0 nor {_LEAST:g} to {_MOST:g}")
    empty = ~(given > 0).any(axis=-1)
    if empty.any():
        a, s = (int(i) for i in np.argwhere(empty)[0])
        entry = setting.names.entry("concentration", "as", (a, s))
        raise InvalidModelError(f"{entry} is zero everywhere: no next state is possible")


def _pair(what: str, pair: Pair, setting: Setting) -> Pair:
    try:
        a, s = pair
        inside = 0 <= int(a) < setting.n_actions and 0 <= int(s) < setting.n_states
    except (TypeError, ValueError):
        inside = False
    if not inside:
        raise InvalidModelError(f"{what}: {pair!r} is not a pair (action, state) of this setting, by number")
    return int(a), int(s)


def _known_row(pair: Pair, row: npt.ArrayLike, setting: Setting) -> Array:
    called = setting.names.entry("known", "as", pair)
    given = shaped(called, numbers(called, row, "s"), (setting.n_states,), f"{setting.n_states} states")
    return distributions(called, given, "s", setting.names)


def _shared_rows(
    ties: Iterable[Sequence[Pair]], given: Array, known: npt.NDArray[np.bool_], setting: Setting
) -> npt.NDArray[np.int64]:
    """[A, S]: a number for each distinct row, in the order of their first pairs."""
    label = np.arange(known.size).reshape(known.shape)
    members = {int(number): [pair] for pair, number in np.ndenumerate(label)}  # of each row, by its number
    for group in ties:
        pairs = [_pair("ties", pair, setting) for pair in group]
        for pair in pairs:
            entry = setting.names.entry("concentration", "as", pair)
            if known[pair]:
                raise InvalidModelError(f"ties: {entry} is known, so it cannot be shared")
            if (given[pair] != given[pairs[0]]).any():
                first = setting.names.entry("concentration", "as", pairs[0])
                raise InvalidModelError(f"ties: {entry} differs from {first}, with which it is shared")
            one, other = int(label[pairs[0]]), int(label[pair])
            if one != other:
                joined = members.pop(other)
                members[one] += joined
                for moved in joined:
                    label[moved] = one
    return np.unique(label, return_inverse=True)[1].reshape(known.shape).astype(np.int64)
