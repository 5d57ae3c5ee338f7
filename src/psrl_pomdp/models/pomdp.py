"""The POMDP model: a `Setting` with a transition kernel."""

from __future__ import annotations

from collections.abc import Sequence

import numpy.typing as npt

from .._utils.arrays import Array, distributions, frozen, numbers, shaped
from .._utils.frozen import Frozen
from ..errors import InvalidModelError
from .setting import Setting


class POMDP(Frozen):
    """A `Setting` with a transition kernel.

    Parameters
    ----------
    setting
        The observation model, the costs and the initial distribution.
    transition
        The transition kernel θ(s′ | s, a), shape [A, S, S′].
    name
        A name for reports and files. It does not affect equality.
    remarks
        Notes on the model, for example on how it was read from a file. They do not affect equality.
    discount
        The discount that a file states for the model, or None. It is used only where a function is told to
        discount by it, and does not affect equality.

    Raises
    ------
    InvalidModelError
        If `setting` is not a `Setting`, `transition` has the wrong shape or a row that is not a probability
        distribution, `remarks` is a single string, or `discount` is not between 0 and 1.

    >>> setting = Setting([[0.9, 0.1], [0.2, 0.8]], [[0.0, 1.0]], [1.0, 0.0])
    >>> POMDP(setting, [[[0.7, 0.3], [0.0, 1.0]]], name="wear")
    POMDP('wear', Setting(2 states, 1 actions, 2 observations, cost 0 to 1))
    """

    setting: Setting
    transition: Array  # [A, S, S], rows sum to 1
    name: str
    remarks: tuple[str, ...]
    discount: float | None = None

    def __init__(
        self,
        setting: Setting,
        transition: npt.ArrayLike,
        name: str = "",
        remarks: Sequence[str] = (),
        discount: float | None = None,
    ) -> None:
        if not isinstance(setting, Setting):
            raise InvalidModelError(f"setting is a {type(setting).__name__}, not a Setting")
        if isinstance(remarks, str):
            raise InvalidModelError(f"remarks is the single string {remarks!r}, not a list of strings")
        if discount is not None and not 0.0 <= discount <= 1.0:
            raise InvalidModelError(f"discount is {discount!r}: expected a number from 0 to 1, or None")
        self._set(
            setting=setting,
            transition=frozen(kernel("transition", transition, setting)),
            name=str(name),
            remarks=tuple(remarks),
            discount=None if discount is None else float(discount),
        )

    @property
    def n_states(self) -> int:
        """The number of states."""
        return self.setting.n_states

    @property
    def n_actions(self) -> int:
        """The number of actions."""
        return self.setting.n_actions

    @property
    def n_observations(self) -> int:
        """The number of observations. Raises `InvalidModelError` if it is not finite."""
        return self.setting.n_observations

    def _contents(self) -> tuple[str, list[Array]]:
        return self.setting.fingerprint, [self.transition]

    def __repr__(self) -> str:
        called = f"{self.name!r}, " if self.name else ""
        return f"POMDP({called}{self.setting!r})"


def kernel(array: str, value: npt.ArrayLike, setting: Setting) -> Array:
    """Return `value` as a transition kernel [A, S, S′] for `setting`; errors call it `array`."""
    sizes = (setting.n_actions, setting.n_states, setting.n_states)
    meaning = f"{sizes[0]} actions and {sizes[1]} states"
    given = shaped(array, numbers(array, value, "ast"), sizes, meaning)
    return distributions(array, given, "ast", setting.names)
