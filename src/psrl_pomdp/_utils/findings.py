"""What a check of a model, a prior, an agent or a run finds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Level = Literal["wrong", "doubtful", "note"]


@dataclass(frozen=True)
class Finding:
    """One thing that a check found. `wrong` cannot be used; `doubtful` is legal and rarely meant."""

    level: Level
    text: str
