"""What can go wrong, as one small hierarchy in which every error names its culprit.

`PSRLError` is the root: `except PSRLError` catches whatever this package raises on purpose.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class PSRLError(Exception):
    """Root of the package's errors."""


class InvalidModelError(PSRLError, ValueError):
    """An array or a name that makes no model; the message names the entry."""


class UnknownNameError(PSRLError, LookupError):
    """A name that nothing answers to; the message suggests the nearest known one."""


class ImpossibleObservationError(PSRLError, ValueError):
    """A reading that has probability zero under everything that was held possible."""


class PluginError(PSRLError, RuntimeError):
    """A plug-in that cannot be imported or does not do what its group asks; the message names it."""


class StartDependentError(PSRLError, ValueError):
    """A question about beliefs alone, where what is best to do depends on where a run started."""


class OutOfOrderError(PSRLError, RuntimeError):
    """A call before its time, such as an update before the start."""


class CoarsePlanWarning(UserWarning):
    """An agent plays a plan that may be far from optimal beside what is at stake."""


class ParseError(PSRLError, ValueError):
    """A model file that cannot be read: `hallway.pomdp:41: unknown state 'lft'`."""

    def __init__(self, reason: str, *, path: str = "", line: int | None = None) -> None:
        self.reason = reason
        self.path = path
        self.line = line
        place = path if line is None else f"{path or 'line'}:{line}"
        super().__init__(f"{place}: {reason}" if place else reason)

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild_parse_error, (type(self), self.reason, self.path, self.line)


class MissingFileError(ParseError, FileNotFoundError):
    """There is no file of this name."""


class UnreadableFileError(ParseError, OSError):
    """What has this name is a folder, or may not be read."""


def _rebuild_parse_error(kind: type[ParseError], reason: str, path: str, line: int | None) -> ParseError:
    return kind(reason, path=path, line=line)


# Likeness is quadratic in the length of a word: long ones and huge vocabularies get no suggestion.
_LONGEST_SUGGESTED = 64
_MOST_SUGGESTED = 2000


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """` (did you mean 'left'?)` where a known word is close, else nothing.

    >>> did_you_mean("lft", ["left", "right"])
    " (did you mean 'left'?)"
    >>> did_you_mean("xyz", ["left", "right"])
    ''
    """
    words = list(known)
    if len(word) > _LONGEST_SUGGESTED or len(words) > _MOST_SUGGESTED:
        return ""
    nearest = get_close_matches(word, words, n=1, cutoff=0.6)
    return f" (did you mean {nearest[0]!r}?)" if nearest else ""
