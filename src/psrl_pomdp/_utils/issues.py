"""What a check of a model, a prior, an agent or a run reports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .deprecation import warn_renamed

Severity = Literal["error", "warning", "info"]

_OLD_LEVELS = {"error": "wrong", "warning": "doubtful", "info": "note"}  # the words of version 0.1


@dataclass(frozen=True)
class Issue:
    """One thing that a check reports.

    Attributes
    ----------
    severity
        "error": it cannot be used. "warning": it is legal, and rarely meant. "info": it is worth knowing.
    text
        The sentence for the user.
    """

    severity: Severity
    text: str

    @property
    def level(self) -> str:
        """The severity in the words of version 0.1: wrong, doubtful or note. Deprecated."""
        warn_renamed("Issue.level", "Issue.severity")
        return _OLD_LEVELS[self.severity]

    def to_dict(self) -> dict[str, str]:
        """Return the issue for `--json`, with the key `level` of version 0.1 beside `severity`."""
        return {"severity": self.severity, "level": _OLD_LEVELS[self.severity], "text": self.text}
