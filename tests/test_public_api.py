"""The public names and their signatures, against a snapshot.

`python tests/test_public_api.py` writes the snapshot anew: a commit that does so says what changed and why.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from enum import Enum
from pathlib import Path

import psrl_pomdp

SNAPSHOT = Path(__file__).parent / "data" / "public_api.txt"


def signature(value: object) -> str:
    """The parameters with their defaults; annotations may be sharpened without a change of the interface."""
    try:
        found = inspect.signature(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return ""
    parameters = [p.replace(annotation=inspect.Parameter.empty) for p in found.parameters.values()]
    shown = str(found.replace(parameters=parameters, return_annotation=inspect.Signature.empty))
    return re.sub(r" at 0x[0-9a-f]+", "", shown)


def lines_of(name: str, value: object) -> Iterator[str]:
    if not inspect.isclass(value):
        yield name + signature(value)
        return
    yield f"class {name}" + ("" if issubclass(value, Exception | Enum) else signature(value))
    for base in [*value.__mro__]:
        if not base.__module__.startswith("psrl_pomdp"):
            continue
        for member, kind in sorted(vars(base).items()):
            if member.startswith("_") or any(member in vars(nearer) for nearer in before(value, base)):
                continue
            if isinstance(kind, staticmethod | classmethod) or inspect.isfunction(kind):
                yield f"{name}.{member}" + signature(getattr(value, member))
            else:
                yield f"{name}.{member}"


def before(value: type, base: type) -> list[type]:
    """The classes that come before `base` in the order of resolution."""
    order = value.__mro__
    return list(order[: order.index(base)])


def listing() -> str:
    lines: list[str] = []
    for name in sorted(psrl_pomdp.__all__):
        found = list(lines_of(name, getattr(psrl_pomdp, name)))
        lines += [found[0], *sorted(found[1:])]
    return "\n".join(lines) + "\n"


def test_the_public_names_and_signatures_are_those_of_the_snapshot() -> None:
    assert listing().splitlines() == SNAPSHOT.read_text(encoding="utf-8").splitlines()


def test_every_public_name_is_listed() -> None:
    assert set(psrl_pomdp.__all__) <= set(dir(psrl_pomdp))


# Their fields are documented by the comments beside them, which the manual shows.
RECORDS = {"ModelStructure", "Plan", "Problem", "Study", "Trace"}


def lacks_sections(value: object) -> bool:
    """Whether a docstring lacks the section of its parameters, or that of what a function returns."""
    text = inspect.getdoc(value) or ""
    parameters = signature(value) not in ("()", "(*args, **kwargs)", "")
    if parameters and not re.search(r"^(Parameters|Attributes)\n-", text, re.MULTILINE):
        return True
    returns = inspect.isfunction(value) and inspect.signature(value).return_annotation not in (None, "None")
    return returns and not re.search(r"^Returns\n-", text, re.MULTILINE)


def test_public_names_have_the_sections_of_numpydoc() -> None:
    public = {name: getattr(psrl_pomdp, name) for name in psrl_pomdp.__all__}
    found = {
        name
        for name, value in public.items()
        if callable(value)
        and not (inspect.isclass(value) and issubclass(value, Exception))
        and lacks_sections(value)
    }
    assert found == RECORDS


if __name__ == "__main__":
    SNAPSHOT.write_text(listing(), encoding="utf-8")
