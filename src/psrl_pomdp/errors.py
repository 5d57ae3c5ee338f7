"""The exceptions of the package. Each message names the input that is wrong.

`PSRLError` is the base class: `except PSRLError` catches every exception that this package raises on purpose.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class PSRLError(Exception):
    """Base class of the package's exceptions."""


class InvalidModelError(PSRLError, ValueError):
    """Raised for an invalid array, name or argument; the message names the wrong entry."""


class UnknownNameError(PSRLError, LookupError):
    """Raised for an unknown name; the message suggests a similar known name."""


class ImpossibleObservationError(PSRLError, ValueError):
    """Raised for an observation that has probability 0 under every kernel of the prior."""


class PluginError(PSRLError, RuntimeError):
    """Raised if a plug-in cannot be imported or violates its requirements; the message names it."""


class StartDependentError(PSRLError, ValueError):
    """Raised for a request that needs a policy on beliefs, if the plan has only a finite-state controller.

    This is the case if the optimal average cost depends on the initial belief.
    """


class OutOfOrderError(PSRLError, RuntimeError):
    """Raised for a call in the wrong order, such as an update of a posterior before its start."""


class CoarsePlanWarning(UserWarning):
    """Issued if the gap of an agent's plan exceeds both `rtol` and 20 % of the reference value."""


class CalibrationWarning(UserWarning):
    """Issued if observations in known states do not tell two states apart, or are missing in a state."""


class LabelWarning(UserWarning):
    """Issued if an agent cannot learn which hidden state is which, although their costs differ.

    `psrl_pomdp.analysis.label_symmetries` returns the renamings of the states that leave the prior unchanged.
    """


class ParseError(PSRLError, ValueError):
    """Raised for a file that cannot be read: `hallway.pomdp:41: unknown state 'lft'`."""

    def __init__(self, reason: str, *, path: str = "", line: int | None = None) -> None:
        self.reason = reason
        self.path = path
        self.line = line
        place = path if line is None else f"{path or 'line'}:{line}"
        super().__init__(f"{place}: {reason}" if place else reason)

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild_parse_error, (type(self), self.reason, self.path, self.line)


class MissingFileError(ParseError, FileNotFoundError):
    """Raised if there is no file of this name."""


class UnreadableFileError(ParseError, OSError):
    """Raised if the path is a folder, or a file that the user may not read."""


def _rebuild_parse_error(kind: type[ParseError], reason: str, path: str, line: int | None) -> ParseError:
    return kind(reason, path=path, line=line)


# Likeness is quadratic in the length of a word: long ones and huge vocabularies get no suggestion.
_LONGEST_SUGGESTED = 64
_MOST_SUGGESTED = 2000


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return ` (did you mean 'left'?)` if a known word is similar, and the empty string otherwise.

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
