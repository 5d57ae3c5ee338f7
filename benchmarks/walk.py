"""The walk of one observation through `PSRLAgent.act`: the files that it visits, in order.

    python benchmarks/walk.py

The agent has Dirichlet rows. No episode ends and no refresh happens in the step that is shown. All code runs
interpreted, so that the profiler sees every call.
"""

from __future__ import annotations

import os

os.environ["PSRL_POMDP_CODE"] = "interpreted"

import sys
from itertools import groupby
from pathlib import Path
from types import FrameType
from typing import Any

import psrl_pomdp
from psrl_pomdp import PSRLAgent, problem

PACKAGE = Path(psrl_pomdp.__file__).parent


def calls_of(agent: PSRLAgent, observation: int) -> list[tuple[str, str]]:
    """Return (file, function) for every call inside of `act`, in order, returns to the caller included."""
    visited: list[tuple[str, str]] = []

    def note(frame: FrameType | None) -> None:
        if frame is None:
            return
        path = Path(frame.f_code.co_filename)
        if path.is_relative_to(PACKAGE) and "_numba" not in path.parts:
            visited.append((str(path.relative_to(PACKAGE)), frame.f_code.co_name))

    def profile(frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            note(frame)

    sys.setprofile(profile)
    try:
        agent.act(observation)
    finally:
        sys.setprofile(None)
    return visited


def main() -> None:
    agent = PSRLAgent(problem("railway").prior, seed=1)
    agent.act(0)
    episode, visited = agent.episode_number, []
    for observation in (1, 2, 1, 2, 1, 2, 1, 2):
        visited = calls_of(agent, observation)
        if agent.episode_number == episode and not any(name == "refresh" for _, name in visited):
            break
        episode = agent.episode_number
    walk = [(file, [name for _, name in calls]) for file, calls in groupby(visited, key=lambda call: call[0])]
    for file, names in walk:
        once = [name for name, _ in groupby(names)]
        print(f"{file:34} {', '.join(once)}")
    print(f"\n{len({file for file, _ in walk})} files, {len(walk) - 1} changes of file")


if __name__ == "__main__":
    main()
