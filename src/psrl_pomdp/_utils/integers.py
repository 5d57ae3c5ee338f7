"""Check integers from outside the package, where type annotations guarantee nothing."""

from __future__ import annotations

from numbers import Integral


def is_integer(value: object, least: int, most: int | None = None) -> bool:
    """Return whether a value is an integer, of Python or NumPy, from `least` to `most`.

    >>> is_integer(3, least=0, most=3), is_integer(4, least=0, most=3), is_integer(3.0, least=0)
    (True, False, False)
    """
    return isinstance(value, Integral) and least <= int(value) and (most is None or int(value) <= most)
