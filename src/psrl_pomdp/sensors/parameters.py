"""Checks of the parameters of sensors: each error names the parameter and the entry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .._utils.arrays import Array, frozen
from ..errors import InvalidModelError

LARGEST_VALUE = 1e150  # observations and parameters are at most this large, so that their squares are finite


def real_array(name: str, values: object, wanted: str = "an array of numbers") -> Array:
    """Return an array of finite numbers of at most `LARGEST_VALUE`.

    Raises
    ------
    InvalidModelError
        The message names the parameter and the entry.
    """
    try:
        found = np.asarray(values)
        if found.dtype.kind not in "iuf" or found.size == 0:
            raise TypeError
        found = found.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InvalidModelError(f"{name} is not {wanted}: {shortened(values)}") from None
    refuse(name, found, ~(np.abs(found) <= LARGEST_VALUE), f"finite and at most {LARGEST_VALUE:g}")
    return np.asarray(found)


def by_state(
    name: str,
    values: npt.ArrayLike,
    *,
    positive: bool = False,
    least: float = -np.inf,
    most: float = LARGEST_VALUE,
) -> Array:
    """Return a parameter of shape [S], or [A, S], after a check of its numbers.

    Parameters
    ----------
    name
        The name of the parameter in error messages.
    values
        The numbers.
    positive
        Whether all numbers must be positive.
    least, most
        Further limits, both allowed.

    Raises
    ------
    InvalidModelError
        The message names the parameter and the entry.
    """
    found = real_array(name, values)
    if found.ndim not in (1, 2):
        raise InvalidModelError(f"{name} has shape {found.shape}, not [S] or [A, S]")
    if positive:
        refuse(name, found, found < 1 / LARGEST_VALUE, "positive")
    if (found < least).any() or (found > most).any():
        limits = f"at most {most:g}" if least == -np.inf else f"between {least:g} and {most:g}"
        refuse(name, found, (found < least) | (found > most), limits)
    return frozen(found)


def together(**parameters: Array) -> dict[str, Array]:
    """Return parameters of shapes [S] or [A, S] broadcast to a common one; a scalar axis is not accepted."""
    shape = max((p.shape for p in parameters.values()), key=len)
    for name, value in parameters.items():
        if value.shape not in (shape, shape[-1:]):
            first = next(iter(parameters))
            raise InvalidModelError(
                f"{name} has shape {value.shape}, but {first} has shape {parameters[first].shape}: "
                "both must be [S] or [A, S]"
            )
    return {name: frozen(np.broadcast_to(value, shape)) for name, value in parameters.items()}


def refuse(name: str, values: Array, wrong: npt.NDArray[np.bool_], wanted: str) -> None:
    """Raise `InvalidModelError` for the first entry that is wrong, if there is one."""
    if wrong.any():
        where = tuple(int(i) for i in np.argwhere(wrong)[0])
        entry = ", ".join(map(str, where))
        raise InvalidModelError(f"{name}[{entry}] is {values[where]:g}: it must be {wanted}")


def checked_parts(
    name: str, parts: object, kind: type[Any] | tuple[type[Any], ...], wanted: str
) -> tuple[Any, ...]:
    """Return a nonempty list of objects of a class as a tuple; the error names the first other object."""
    if isinstance(parts, str) or not isinstance(parts, Sequence) or not parts:
        raise InvalidModelError(f"{name} is {shortened(parts)}, not a list of {wanted}")
    for i, part in enumerate(parts):
        if not isinstance(part, kind):
            raise InvalidModelError(f"{name}[{i}] is {shortened(part)}, not {wanted}")
    return tuple(parts)


def shortened(value: object) -> str:
    """Return the representation of a value, cut after 60 characters."""
    shown = repr(value)
    return shown if len(shown) <= 60 else shown[:57] + "..."
