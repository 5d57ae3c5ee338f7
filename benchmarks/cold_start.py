"""How long the first run after an installation takes, beside the second, and whether results are the same.

    python benchmarks/cold_start.py                  `solve tiger`, and a study of two learners
    python benchmarks/cold_start.py --demo           the demo, too
    python benchmarks/cold_start.py --demo --seeds 4 --horizon 3000   a shorter one

Everything runs in a fresh copy of the package whose code was never run. Processor seconds are those of the
command with all its processes, also of one that compiles beside it; wall seconds depend on what else the
machine does. A row is there when the first result of the study is in its folder. The study is run cold, once
more warm, and once interpreted throughout, and the bytes of its results are compared.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import psrl_pomdp

_COMMAND = "from psrl_pomdp.cli import main; main()"


class Took(NamedTuple):
    """What a command took."""

    processor: float
    wall: float
    first: float  # wall seconds until the first result, where there are any


def run(place: Path, words: Sequence[str], results: Path | None = None, **settings: str) -> Took:
    """Run a command of the package in this place, with its output in the file `out`."""
    environment = os.environ | {"PYTHONPATH": str(place), **settings}
    begun, first = time.monotonic(), float("nan")
    before = os.times()
    with (place / "out").open("w") as out:
        process = subprocess.Popen([sys.executable, "-c", _COMMAND, *words], env=environment, stdout=out)
        while process.poll() is None:
            if results is not None and math.isnan(first) and any(results.glob("results/*.json")):
                first = time.monotonic() - begun
            time.sleep(0.02)
    if process.returncode:
        raise SystemExit(f"{' '.join(words)} ends with {process.returncode}")
    after = os.times()
    used = after.children_user + after.children_system - before.children_user - before.children_system
    return Took(used, time.monotonic() - begun, first)


def fresh(folder: Path) -> Path:
    """A copy of the package without anything that running it left behind."""
    home = Path(psrl_pomdp.__file__).parent
    shutil.copytree(home, folder / home.name, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def results_in(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.glob("results/*.json"))}


def bounds(place: Path) -> dict[str, object]:
    """What `solve` printed, but for the time that it took."""
    document = json.loads((place / "out").read_text())
    kept = {name: value for name, value in document.items() if name not in ("seconds", "rounds")}
    return kept | {"rounds": [{k: v for k, v in r.items() if k != "seconds"} for r in document["rounds"]]}


def solve(place: Path) -> None:
    words = ["solve", "tiger", "--json"]
    cold, of_cold = run(place, words), bounds(place)
    warm = run(place, words)
    ratio, same = cold.processor / warm.processor, of_cold == bounds(place)
    print(f"solve tiger: {cold.processor:.2f} processor seconds cold, {warm.processor:.2f} warm, "
          f"ratio {ratio:.2f}; same results: {same}")  # fmt: skip


def study(place: Path) -> None:
    """Two learners, long enough to go over from interpreted to compiled code on the way."""
    words = ["run", "tiger", "--seeds", "2", "--horizon", "300", "--json", "--workers", "1"]
    found = {}
    for way, settings in (("cold", {}), ("warm", {}), ("interpreted", {"PSRL_POMDP_CODE": "interpreted"})):
        folder = place / way
        took = run(place, [*words, "--out", str(folder)], folder, **settings)
        found[way] = results_in(folder)
        print(f"run tiger, {way}: first result after {took.first:.1f} s, all after {took.wall:.1f} s, "
              f"{took.processor:.1f} processor seconds")  # fmt: skip
    same = found["cold"] == found["warm"] == found["interpreted"]
    print(f"same bytes of {len(found['cold'])} results cold, warm and interpreted: {same}")


def demo(place: Path, more: Sequence[str]) -> None:
    found = {}
    for way in ("cold", "warm"):
        folder = place / f"demo {way}"
        took = run(place, ["demo", "--out", str(folder), *more], folder)
        found[way] = results_in(folder)
        print(f"demo, {way}: first result after {took.first:.1f} s, all after {took.wall:.1f} s, "
              f"{took.processor:.1f} processor seconds on {os.cpu_count()} cores")  # fmt: skip
    print(f"same bytes of {len(found['cold'])} results cold and warm: {found['cold'] == found['warm']}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--demo", action="store_true")
    parser.add_argument("--seeds", type=int)
    parser.add_argument("--horizon", type=int)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        place = fresh(Path(name))
        solve(place)
        if given.demo:
            wanted = {"--seeds": given.seeds, "--horizon": given.horizon}
            demo(place, [word for k, v in wanted.items() if v is not None for word in (k, str(v))])
    with tempfile.TemporaryDirectory() as name:
        study(fresh(Path(name)))


if __name__ == "__main__":
    main()
