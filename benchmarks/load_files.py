"""How long the largest classic `.pomdp` files take to load.

Writes files of the size of the largest in Cassandra's collection (300 states, 28 readings, 5 actions) in the
two ways in which such files are written, entry by entry and as matrices, and times `load` beside the least
that any reader must do: split the text into words and turn the numbers among them into floats.

    python benchmarks/load_files.py
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from psrl_pomdp import POMDP, Setting, load, save

STATES, ACTIONS, READINGS = 300, 5, 28
REPEATS = 5


def maze(seed: int = 0) -> POMDP:
    """A sparse world: four next states each, and every reading possible in every state."""
    rng = np.random.default_rng(seed)
    transition = np.zeros((ACTIONS, STATES, STATES))
    for row in transition.reshape(-1, STATES):
        row[rng.choice(STATES, 4, replace=False)] = rng.dirichlet(np.ones(4))
    sensor = rng.dirichlet(np.ones(READINGS), size=(ACTIONS, STATES))
    return POMDP(Setting(sensor, rng.random((ACTIONS, STATES)), np.full(STATES, 1 / STATES)), transition)


def entry_by_entry(model: POMDP) -> str:
    """The file with a rule for every entry that is not zero."""
    own = model.setting
    lines = ["discount: 0.95", "values: cost", f"states: {STATES}", f"actions: {ACTIONS}"]
    lines.append(f"observations: {READINGS}")
    for keyword, table in (("T", model.transition), ("O", own.observation)):
        lines += [f"{keyword}: {a} : {s} : {x} {table[a, s, x]:.17g}" for a, s, x in np.argwhere(table > 0)]
    lines += [f"R: {a} : {s} : * : * {own.cost[a, s]:.17g}" for a in range(ACTIONS) for s in range(STATES)]
    return "\n".join(lines)


def least_work(path: Path) -> None:
    for word in path.read_text().split():
        if word[0] in "0123456789.":
            float(word)


def best_time(job: Callable[[], object]) -> float:
    times = []
    for _ in range(REPEATS):
        begun = time.perf_counter()
        job()
        times.append(time.perf_counter() - begun)
    return min(times)


def main() -> None:
    model = maze()
    with tempfile.TemporaryDirectory() as folder:
        matrices, entries = Path(folder) / "matrices.pomdp", Path(folder) / "entries.pomdp"
        save(model, matrices)
        entries.write_text(entry_by_entry(model))
        print(f"{STATES} states, {ACTIONS} actions, {READINGS} readings; best of {REPEATS}")
        print(f"{'file':<10} {'MB':>5} {'load, s':>8} {'least, s':>9} {'ratio':>6}")
        for path in (matrices, entries):
            assert np.allclose(load(path).transition, model.transition)
            took, least = best_time(lambda p=path: load(p)), best_time(lambda p=path: least_work(p))  # type: ignore[misc]
            size = path.stat().st_size / 1e6
            print(f"{path.stem:<10} {size:>5.1f} {took:>8.2f} {least:>9.2f} {took / least:>6.1f}")


if __name__ == "__main__":
    main()
