"""The walk of one observation through `PSRLAgent.act`: the files that it visits, in order.

    python benchmarks/walk.py

The agent has Dirichlet rows. No episode ends and no refresh happens in the step that is shown. All code runs
interpreted, so that the profiler sees every call. Reads of properties, and what they call, are left out. A
function that is compiled by default is one stop of the walk, at the file of the function that Python calls;
with `--inside`, the walk shows the functions that it calls too. A count by reading is larger if it enters
compiled functions too, where it has every function of a loop once, or if it counts properties that compute
something. The last line counts all changes of file, and those that are left without the snapshot that undoes
a failed call.
"""

from __future__ import annotations

import os

os.environ["PSRL_POMDP_CODE"] = "interpreted"

import argparse
import sys
from itertools import groupby
from pathlib import Path
from types import FrameType
from typing import Any

import psrl_pomdp
from psrl_pomdp import PSRLAgent, problem
from psrl_pomdp._numba.jit import GROUPS

PACKAGE = Path(psrl_pomdp.__file__).parent


def calls_of(agent: PSRLAgent, observation: int, inside: bool) -> list[tuple[str, str]]:
    """Return (file, function) for every call within `act`, in order."""
    visited: list[tuple[str, str]] = []
    loops = {loop.py_func.__code__ for group in GROUPS for loop in group.loops}

    def within_property(frame: FrameType | None) -> bool:
        while frame is not None and Path(frame.f_code.co_filename).is_relative_to(PACKAGE):
            owner, name = type(frame.f_locals.get("self")), frame.f_code.co_name
            if isinstance(getattr(owner, name, None), property):
                return True
            frame = frame.f_back
        return False

    def within_loop(frame: FrameType | None) -> bool:
        while frame is not None and frame.f_code not in loops:
            frame = frame.f_back
        return frame is not None

    def profile(frame: FrameType, event: str, _: Any) -> None:
        path, name = Path(frame.f_code.co_filename), frame.f_code.co_name
        if event != "call" or not path.is_relative_to(PACKAGE) or "_numba" in path.parts:
            return
        if not within_property(frame) and (inside or not within_loop(frame.f_back)):
            visited.append((str(path.relative_to(PACKAGE)), name))

    sys.setprofile(profile)
    try:
        agent.act(observation)
    finally:
        sys.setprofile(None)
    return visited


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--inside", action="store_true", help="show the calls within compiled functions")
    inside = parser.parse_args().inside
    agent = PSRLAgent(problem("railway").prior, seed=1)
    agent.act(0)
    episode, visited = agent.episode_number, []
    for observation in (1, 2, 1, 2, 1, 2, 1, 2):
        visited = calls_of(agent, observation, inside)
        if agent.episode_number == episode and not any(name == "refresh" for _, name in visited):
            break
        episode = agent.episode_number
    walk = [(file, [name for _, name in calls]) for file, calls in groupby(visited, key=lambda call: call[0])]
    for file, names in walk:
        once = [name for name, _ in groupby(names)]
        print(f"{file:34} {', '.join(once)}")
    rest = [file for file, name in visited[-steps_after_snapshot(visited) :]]
    changes, without = len(walk) - 1, len(list(groupby(["agents/psrl.py", *rest]))) - 1
    files = len({file for file, _ in walk})
    print(f"\n{files} files, {changes} changes of file, {without} without the snapshot")


def steps_after_snapshot(visited: list[tuple[str, str]]) -> int:
    """Return how many calls follow when `act` has its snapshot: those from `PSRLAgent._step` on."""
    return len(visited) - [name for _, name in visited].index("_step")


if __name__ == "__main__":
    main()
