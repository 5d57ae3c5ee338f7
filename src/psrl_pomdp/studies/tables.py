"""Results as tidy tables: `pandas.read_csv(DIR / "runs.csv")` is all that it takes.

`runs`: a row for each agent, run and checkpoint. Costs are scaled to [0, 1] unless a column says otherwise.

    agent, run                  who, and which seed
    t                           steps done
    cost                        Σ C(s, a), what was paid
    expected_cost               Σ c(b, a), with b the belief under the true model
    control                     the control variate's sum (see `Trace.regret_curve`), without −J
    j_lower, j_upper            the certified interval of J
    regret_lower, regret_upper  control − t·J for both ends of it, in the user's units
    belief_gap, kernel_gap, cost_gap   sums of the decomposition: |h(θ*) − h(θ_k)|₁, |θ* − θ_k|₁, c − c_k
    posterior                   f(θ*) for a finite set that holds it, else E‖θ − θ*‖₁ a row
    episodes                    how many have begun

`episodes`: a row for each agent, run and episode.

    agent, run, episode, start, length, ended, kernel
    j_lower, j_upper            the certified interval of J(θ_k)
    tolerance, status, work     how well it was planned, and at what cost in counted operations
"""

from __future__ import annotations

import csv
import io
from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .._serialization.atomic_files import write_atomically
from ..errors import PSRLError
from .store import Store

RUNS = (
    "agent", "run", "t", "cost", "expected_cost", "control", "j_lower", "j_upper",
    "regret_lower", "regret_upper", "belief_gap", "kernel_gap", "cost_gap", "posterior", "episodes",
)  # fmt: skip
EPISODES = (
    "agent", "run", "episode", "start", "length", "ended", "kernel", "j_lower", "j_upper",
    "tolerance", "status", "work",
)  # fmt: skip


def run_rows(result: dict[str, Any]) -> Iterator[tuple[Any, ...]]:
    """The rows of `runs` of one job."""
    low, high, _, _ = result["units"]
    truth, starts = result["truth"], result["episodes"]["start"]
    for i, t in enumerate(result["times"]):
        control = result["control"][i]
        yield (
            result["agent"],
            result["run"],
            t,
            *(_at(result[name], i) for name in ("cost", "expected_cost", "control")),
            truth["lower"],
            truth["upper"],
            (control - t * truth["upper"]) * (high - low),
            (control - t * truth["lower"]) * (high - low),
            *(_at(result[name], i) for name in ("belief_gap", "kernel_gap", "cost_gap", "posterior")),
            bisect_right(starts, t),
        )


def episode_rows(result: dict[str, Any]) -> Iterator[tuple[Any, ...]]:
    """The rows of `episodes` of one job."""
    columns = result["episodes"]
    names = ("start", "length", "ended", "kernel", "lower", "upper", "tolerance", "status", "work")
    for k, row in enumerate(zip(*(columns[name] for name in names), strict=True), start=1):
        yield (result["agent"], result["run"], k, *row)


def _at(column: list[Any] | None, i: int) -> Any:
    return None if column is None else column[i]


def write_tables(store: Store, parquet: bool = False) -> list[Path]:
    """Both tables into the folder; the paths."""
    results = list(store.done())
    written = []
    for name, header, rows in (
        ("runs", RUNS, (row for result in results for row in run_rows(result))),
        ("episodes", EPISODES, (row for result in results for row in episode_rows(result))),
    ):
        path = store.folder / f"{name}.{'parquet' if parquet else 'csv'}"
        write_atomically(path, _parquet(header, rows) if parquet else _csv(header, rows))
        written.append(path)
    return written


def _csv(header: tuple[str, ...], rows: Iterator[tuple[Any, ...]]) -> bytes:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return buffer.getvalue().encode()


def _parquet(header: tuple[str, ...], rows: Iterator[tuple[Any, ...]]) -> bytes:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise PSRLError('Parquet needs pyarrow: pip install "psrl-pomdp[parquet]"') from None
    listed = list(rows)
    table = pyarrow.table({name: [row[i] for row in listed] for i, name in enumerate(header)})
    buffer = io.BytesIO()
    pyarrow.parquet.write_table(table, buffer)
    return buffer.getvalue()
