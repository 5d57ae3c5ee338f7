"""The solvers of the planning benchmark: this package, and those that are found on the machine.

Each solver is a process of its own. `psrl-pomdp` proves its interval, and `verify` checks the proof. SARSOP
(`pomdpsol`) prints bounds; the benchmark does not verify them. pomdp-solve prints a value without an error.
"""

from __future__ import annotations

import inspect
import json
import re
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from psrl_pomdp import POMDP, Setting, plan, problem, save, verify
from psrl_pomdp.planning import limits

TOLERANCE = 1e-6
OURS = "psrl-pomdp"


@dataclass(frozen=True)
class Task:
    """A model with the criterion and the limits of a run."""

    name: str
    files: Path | None
    discount: float | None
    seconds: float
    gigabytes: float
    processor: bool  # whether our planner counts its limit in processor time


@dataclass(frozen=True)
class Solver:
    """A solver: how it is started for a model file, and how its answer is read."""

    executable: str
    command: Callable[[Path, Path, Task], list[str]]  # from the model file, a prefix of outputs, the task
    read: Callable[[str, Path, POMDP], dict[str, Any]]  # from what it printed and wrote

    @property
    def path(self) -> str | None:
        """Where it is on this machine, or None."""
        return shutil.which(self.executable)


def discounts() -> bool:
    """Return whether this version of the package plans for discounted totals."""
    return "discount" in inspect.signature(plan).parameters


def our_command(task: Task) -> list[str]:
    """Return the command that plans for the task in a process of its own, and prints the answer as JSON."""
    worker = Path(__file__).with_name("run.py")
    words = [sys.executable, str(worker), "--worker", task.name, "--seconds", str(task.seconds)]
    words += ["--gigabytes", str(task.gigabytes)] + (["--processor"] if task.processor else [])
    words += ["--files", str(task.files)] if task.files else []
    return words + (["--discount", str(task.discount)] if task.discount else [])


def our_answer(model: POMDP, task: Task) -> dict[str, Any]:
    """Plan for a model within the limits, check the certificate, and return what is proved."""
    plan(problem("tiger"), 1e-3)  # compiles, or loads what is compiled
    if task.processor:
        clock = SimpleNamespace(monotonic=time.process_time)
        vars(limits)["time"] = clock
    options: dict[str, Any] = {} if task.discount is None else {"discount": task.discount}
    begun, spent = time.perf_counter(), time.process_time()
    found = plan(model, TOLERANCE, time_limit=task.seconds, memory_limit=1e9 * task.gigabytes, **options)
    taken = {"wall": time.perf_counter() - begun, "cpu": time.process_time() - spent}
    ends = sorted((float(found.lower), float(found.upper)))
    verify(found, model)
    return {"lower": ends[0], "upper": ends[1], "status": found.status, **taken}


def write_for_others(model: POMDP, discount: float, path: Path) -> None:
    """Write a model with rewards and a discount, as all solvers read it."""
    setting = model.setting
    sign = 1.0 if setting.units.kind == "reward" else -1.0
    rewards = Setting.from_rewards(
        setting.observation, sign * setting.own_cost, setting.initial, first_observation=None
    )
    save(POMDP(rewards, model.transition), path)
    text = path.read_text(encoding="utf-8")
    path.write_text(re.sub(r"(?m)^discount:.*$", f"discount: {discount!r}", text, count=1), encoding="utf-8")


def _own_interval(model: POMDP, lower: float, upper: float) -> dict[str, Any]:
    """Return bounds on rewards in the units of the model."""
    if model.setting.units.kind == "reward":
        return {"lower": lower, "upper": upper}
    return {"lower": -upper, "upper": -lower}


def read_sarsop(printed: str, out: Path, model: POMDP) -> dict[str, Any]:
    """Return the bounds in the last row of the progress table of pomdpsol.

    A row has the time, the numbers of trials and backups, both bounds, their difference, and the numbers of
    vectors and of beliefs.
    """
    del out
    rows = [line.split() for line in printed.splitlines()]
    tables = []
    for row in rows:
        try:
            tables.append([float(word) for word in row])
        except ValueError:
            continue
    tables = [row for row in tables if len(row) == 8]
    if not tables:
        return {"status": "no bounds printed"}
    return {**_own_interval(model, tables[-1][3], tables[-1][4]), "status": "bounds not checked"}


def read_pomdp_solve(printed: str, out: Path, model: POMDP) -> dict[str, Any]:
    """Return the value at the initial belief: the best of the vectors that pomdp-solve wrote.

    Its file repeats a line with an action and a line with the entries of a vector.
    """
    del printed
    file = out.with_name(out.name + ".alpha")
    lines = file.read_text(encoding="utf-8").split("\n") if file.exists() else []
    vectors = [np.array(line.split(), float) for line in lines if len(line.split()) == model.n_states > 1]
    if not vectors:
        return {"status": "no vectors written"}
    value = max(float(vector @ model.setting.initial) for vector in vectors)
    own = value if model.setting.units.kind == "reward" else -value
    return {"value": own, "status": "value without error bounds"}


def _sarsop(model: Path, out: Path, task: Task) -> list[str]:
    megabytes = round(1000 * task.gigabytes)
    words = ["--precision", "1e-6", "--timeout", f"{task.seconds:g}", "--memory", str(megabytes)]
    return ["pomdpsol", *words, "--output", f"{out}.policy", str(model)]


def _pomdp_solve(model: Path, out: Path, task: Task) -> list[str]:
    limit = str(max(1, round(task.seconds)))
    return ["pomdp-solve", "-pomdp", str(model), "-o", str(out), "-time_limit", limit]


OTHERS = {
    "SARSOP": Solver("pomdpsol", _sarsop, read_sarsop),
    "pomdp-solve": Solver("pomdp-solve", _pomdp_solve, read_pomdp_solve),
}


def print_answer(answer: dict[str, Any]) -> None:
    """Print the answer of a worker, for the parent to read."""
    print(json.dumps(answer), flush=True)
