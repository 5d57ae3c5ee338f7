"""Old names that go on to work for some minor versions, with a warning that names the new ones."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

_UNTIL = "the old name works until version 0.4"


def warn_renamed(old: str, new: str, stacklevel: int = 3) -> None:
    """Give a `DeprecationWarning` that says what `old` is called now."""
    warnings.warn(f"{old} is now {new}; {_UNTIL}", DeprecationWarning, stacklevel=stacklevel)


def renamed_keywords(**new_names: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator that lets a function take keywords by their old names.

    >>> @renamed_keywords(effort="budget")
    ... def agent(budget: int = 0) -> int:
    ...     return budget
    >>> import warnings
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     print(agent(effort=3), caught[0].message)
    3 agent(effort=...) is now agent(budget=...); the old name works until version 0.4
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        called = function.__qualname__.removesuffix(".__init__")

        @wraps(function)
        def accepting(*args: P.args, **options: P.kwargs) -> R:
            for old, new in new_names.items():
                if old in options:
                    if new in options:
                        raise TypeError(f"{called}: both {new} and its old name {old} were given")
                    warn_renamed(f"{called}({old}=...)", f"{called}({new}=...)")
                    options[new] = options.pop(old)
            return function(*args, **options)

        return accepting

    return decorate
