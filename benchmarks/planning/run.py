"""Certified intervals of average costs and discounted totals, with time and memory, beside other solvers.

    python benchmarks/planning/run.py --quick                     a few models, some minutes
    python benchmarks/planning/run.py                             all generated models
    python benchmarks/planning/run.py --discount 0.95             discounted totals, beside other solvers
    python benchmarks/planning/run.py --only sparse --seconds 60  the models whose names contain a word
    python benchmarks/planning/run.py --files DIR                 the model files in a folder instead
    python benchmarks/planning/run.py --quick --write docs/planning_benchmark.md

Each plan is made in a process of its own, with a limit of time and of memory: the planner keeps both, and a
process that passes them by far is killed. `--processor` counts our limit in processor time, so that what
else the machine does plays no part. Other solvers optimize discounted totals only; those on the PATH take
part (`pomdpsol` of SARSOP, `pomdp-solve`), and the others are named. `--json FILE` keeps all figures, written
after each row; Ctrl-C ends the benchmark and keeps the rows so far. `--write PAGE` puts the tables between
the marks of a page. Linux and macOS.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from solvers import OTHERS, OURS, Task, discounts, our_answer, our_command, print_answer, write_for_others

from models import MODELS, QUICK, files_in, made
from psrl_pomdp import __version__

COLUMNS = ("model", "S", "A", "O", "solver", "lower", "upper", "gap", "% of value", "CPU s", "MB", "status")
GRACE_SECONDS = 120.0  # to start, to build the model and to compile
GRACE_GIGABYTES = 4.0  # for the model itself and the libraries
BEGIN, END = "<!-- tables: begin -->", "<!-- tables: end -->"


def watched(command: list[str], seconds: float, gigabytes: float, folder: Path) -> dict[str, Any]:
    """Run a command, killed at limits far beyond its own; return what it printed, its time and its memory.

    The memory is the largest that the process held. The time is processor time.
    """
    with (folder / "out").open("w+") as out, (folder / "err").open("w+") as err:
        child = subprocess.Popen(command, stdout=out, stderr=err, cwd=folder, start_new_session=True)
        ended = ""
        try:
            deadline = time.monotonic() + 12.0 * seconds + GRACE_SECONDS
            while True:
                pid, status, usage = os.wait4(child.pid, os.WNOHANG)
                if pid:
                    break
                if time.monotonic() > deadline:
                    ended = "killed: time"
                elif _held(child.pid) > 1e9 * (gigabytes + GRACE_GIGABYTES):
                    ended = "killed: memory"
                if ended:
                    os.killpg(child.pid, signal.SIGKILL)
                    _, status, usage = os.wait4(child.pid, 0)
                    break
                time.sleep(0.05)
        except KeyboardInterrupt:
            os.killpg(child.pid, signal.SIGKILL)
            os.wait4(child.pid, 0)
            raise
        finally:
            child.returncode = 0  # waited for here, not by `subprocess`
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read())
    code = os.waitstatus_to_exitcode(status)
    if code and not ended:
        last = (texts[1].strip() or f"exit code {code}").splitlines()[-1]
        ended = f"failed: {last[:80]}"
    unit = 1.0 if sys.platform == "darwin" else 1024.0
    cpu = usage.ru_utime + usage.ru_stime
    return {"printed": texts[0], "ended": ended, "cpu": cpu, "MB": unit * usage.ru_maxrss / 1e6}


def _held(pid: int) -> float:
    """Return the bytes that a process holds, or 0 where the system does not say."""
    try:
        words = Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()
    except OSError:
        return 0.0
    return float(words[1]) * os.sysconf("SC_PAGE_SIZE")


def our_row(task: Task) -> dict[str, Any]:
    """Return what this package proves for a task."""
    with tempfile.TemporaryDirectory() as folder:
        run = watched(our_command(task), task.seconds, task.gigabytes, Path(folder))
    try:
        answer = json.loads(run["printed"].strip().splitlines()[-1])
    except (IndexError, ValueError):
        return {"status": run["ended"] or "no answer", "CPU s": run["cpu"], "MB": run["MB"]}
    return {**answer, "status": run["ended"] or answer["status"], "CPU s": answer["cpu"], "MB": run["MB"]}


def their_row(name: str, task: Task) -> dict[str, Any]:
    """Return what another solver prints for a task."""
    solver, model = OTHERS[name], made(task.name, task.files)
    assert task.discount is not None
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        file, out = folder / "model.pomdp", folder / "answer"
        write_for_others(model, task.discount, file)
        run = watched(solver.command(file, out, task), task.seconds, task.gigabytes, folder)
        answer = solver.read(run["printed"], out, model)
    status = run["ended"] or answer["status"]
    return {**answer, "status": status, "CPU s": run["cpu"], "MB": run["MB"]}


def cells(row: dict[str, Any]) -> list[str]:
    """Return the cells of a row of the table."""
    found = dict(row)
    if "lower" in row:
        gap, size = row["upper"] - row["lower"], max(abs(row["lower"]), abs(row["upper"]))
        found["gap"] = f"{gap:.1e}"
        found["% of value"] = f"{100 * gap / size:.2g}" if size > 1e-9 else ""
        found |= {end: f"{row[end]:.7g}" for end in ("lower", "upper")}
    elif "value" in row:
        found["lower"] = f"value {row['value']:.7g}"
    found |= {key: f"{row[key]:.1f}" for key in ("CPU s",) if key in row}
    found |= {key: f"{row[key]:.0f}" for key in ("MB",) if key in row}
    return [str(found.get(column, "")) for column in COLUMNS]


def line(words: list[str] | tuple[str, ...]) -> str:
    return f"| {' | '.join(words)} |"


def table(rows: list[dict[str, Any]]) -> str:
    """Return the rows as a table in Markdown."""
    marks = ["---" if name in ("model", "solver", "status") else "---:" for name in COLUMNS]
    return "\n".join([line(COLUMNS), line(marks), *(line(cells(row)) for row in rows)])


def title(options: argparse.Namespace, discount: float | None) -> str:
    """Return the sentence above a table."""
    what = "Average per step" if discount is None else f"Total discounted by {discount:g}"
    clock = "of processor time" if options.processor else "of wall time"
    return f"{what}; {options.seconds:g} s {clock} and {options.gigabytes:g} GB for each model."


def names_of(options: argparse.Namespace, discount: float | None) -> list[str]:
    """Return the models of a table: an absorbing goal makes sense with a discount only."""
    found = list(files_in(options.files)) if options.files else list(QUICK if options.quick else MODELS)
    return [name for name in found if options.only in name and (discount or not name.endswith("once"))]


def rows_of(options: argparse.Namespace, discount: float | None, rows: list[dict[str, Any]]) -> None:
    """Append the rows of one criterion, printing each when it is there."""
    there = {name for name, solver in OTHERS.items() if solver.path} if discount else set()
    if discount:
        missing = [f"{name} ({OTHERS[name].executable})" for name in OTHERS if name not in there]
        if missing:
            print(f"Not on the PATH, and left out: {', '.join(missing)}.\n")
    print(title(options, discount) + "\n\n" + table([]), flush=True)
    for name in names_of(options, discount):
        task = Task(name, options.files, discount, options.seconds, options.gigabytes, options.processor)
        for solver in (OURS, *sorted(there)):
            row = {"model": name, "solver": solver, "discount": discount}
            row |= our_row(task) if solver == OURS else their_row(solver, task)
            rows.append(row)
            print(line(cells(row)), flush=True)
            if options.json:
                write_json(options, rows)


def write_json(options: argparse.Namespace, rows: list[dict[str, Any]]) -> None:
    """Write all rows so far; a file is complete at any moment."""
    given = {"seconds": options.seconds, "gigabytes": options.gigabytes, "processor": options.processor}
    about = {"version": __version__, "python": platform.python_version(), "machine": platform.machine()}
    new = options.json.with_name(options.json.name + ".new")
    new.write_text(json.dumps({**about, **given, "rows": rows}, indent=1) + "\n", encoding="utf-8")
    new.replace(options.json)


def write_page(options: argparse.Namespace, rows: list[dict[str, Any]]) -> None:
    """Put the tables between the marks of a page."""
    parts = []
    for discount in dict.fromkeys(row["discount"] for row in rows):
        parts += [title(options, discount), table([row for row in rows if row["discount"] == discount])]
    text = options.write.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    after = rest.partition(END)[2]
    body = "\n\n".join([before.rstrip(), BEGIN, *parts, END]) + after
    options.write.write_text(body, encoding="utf-8")


def parsed(words: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a few models, with and without a discount")
    parser.add_argument("--discount", type=float, help="discounted totals instead of averages")
    parser.add_argument("--files", type=Path, help="a folder of model files, instead of generated models")
    parser.add_argument("--only", default="", help="only models whose names contain this")
    parser.add_argument("--seconds", type=float, help="limit of time for each model (20; quick: 4)")
    parser.add_argument("--gigabytes", type=float, default=1.0, help="limit of memory for each model (1)")
    parser.add_argument("--processor", action="store_true", help="count our limit in processor time")
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    parser.add_argument("--write", type=Path, help="write the tables into this page")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args(words)
    if options.discount is not None and not 0.0 < options.discount < 1.0:
        parser.error(f"--discount is {options.discount:g}, not above 0 and below 1")
    if options.files and not options.files.is_dir():
        parser.error(f"--files: {options.files} is not a folder")
    if options.write and BEGIN not in options.write.read_text(encoding="utf-8"):
        parser.error(f"--write: {options.write} has no mark {BEGIN}")
    options.files = options.files.resolve() if options.files else None
    options.seconds = options.seconds or (4.0 if options.quick else 20.0)
    return options


def main(words: list[str] | None = None) -> int:
    options = parsed(words)
    if options.worker:
        model = made(options.worker, options.files)
        task = Task(
            options.worker, options.files, options.discount, options.seconds, options.gigabytes,
            options.processor,
        )  # fmt: skip
        sizes = {"S": model.n_states, "A": model.n_actions, "O": model.setting.n_observations}
        print_answer({**sizes, **our_answer(model, task)})
        return 0
    criteria = [None, 0.95] if options.quick and options.discount is None else [options.discount]
    if not discounts():
        if criteria != [None]:
            print("This version of the package does not discount: no discounted totals.\n")
        criteria = [None] if None in criteria else []
    rows: list[dict[str, Any]] = []
    try:
        for discount in criteria:
            rows_of(options, discount, rows)
            print()
    except KeyboardInterrupt:
        print(f"\nInterrupted: {len(rows)} rows are kept.", file=sys.stderr)
        return 130
    finally:
        if options.json and rows:
            write_json(options, rows)
        if options.write and rows:
            write_page(options, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
