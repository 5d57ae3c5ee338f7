"""Results as tidy tables, which `pandas.read_csv(DIR / "runs.csv")` reads.

`runs` has a row for each agent, run and checkpoint. Costs are scaled to [0, 1] except for the regret.

    agent, run                  the name of the agent, and the number of the run
    t                           the number of steps
    cost                        Σ C(s, a)
    expected_cost               Σ c(b, a), where b is the belief under the true model
    control                     the sum of the estimator `control_variate` without −J
    j_lower, j_upper            proved bounds on J
    regret_lower, regret_upper  control − t·J for the upper and for the lower bound on J, in the user's units
    belief_gap, kernel_gap, cost_gap   sums of the decomposition: |h(θ*) − h(θ_k)|₁, |θ* − θ_k|₁, c − c_k
    posterior                   f(θ*) if this is positive, else E‖θ − θ*‖₁ per row
    episodes                    the number of episodes that have begun

`episodes` has a row for each agent, run and episode.

    agent, run, episode, start, length, ended, kernel
    j_lower, j_upper            proved bounds on J(θ_k)
    tolerance, status, work     the requested gap and the status of the plan, and its counted operations

`fits` has a row for each run of an agent that tests its model (`inference.predictive_test`).

    agent, run
    readings                    the number of readings that were tested
    log_e_value                 the natural logarithm of the largest e-value of the run
    p_value                     exp(−log_e_value): at most α with probability at most α if the model is right
    alarm                       the time t of the alarm at the level of 1 %; empty without an alarm
    begin                       t from which another prediction was better; empty without an alarm at 10 %
    departures                  the readings that departed most from what was expected, in words
"""

from __future__ import annotations

import csv
import io
import math
from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from .._serialization.atomic_files import write_atomically
from ..errors import PSRLError
from .results import RunResult
from .store import Store
from .study_results import StudyResults

RUNS = (
    "agent", "run", "t", "cost", "expected_cost", "control", "j_lower", "j_upper",
    "regret_lower", "regret_upper", "belief_gap", "kernel_gap", "cost_gap", "posterior", "episodes",
)  # fmt: skip
EPISODES = (
    "agent", "run", "episode", "start", "length", "ended", "kernel", "j_lower", "j_upper",
    "tolerance", "status", "work",
)  # fmt: skip

FITS = ("agent", "run", "readings", "log_e_value", "p_value", "alarm", "begin", "departures")


def run_rows(result: RunResult) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of the table `runs` for one job."""
    truth, starts = result.truth, result.episodes.start
    lower, upper = (end.tolist() for end in result.regret_interval())
    for i, t in enumerate(result.times):
        yield (
            result.agent,
            result.run,
            t,
            *(_at(column, i) for column in (result.cost, result.expected_cost, result.control)),
            truth.lower,
            truth.upper,
            lower[i],
            upper[i],
            *(_at(column, i) for column in (result.belief_gap, result.kernel_gap, result.cost_gap)),
            _at(result.posterior, i),
            bisect_right(starts, t),
        )


def episode_rows(result: RunResult) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of the table `episodes` for one job."""
    for row in result.episodes.rows():
        yield (result.agent, result.run, *msgspec.structs.astuple(row))


def fit_rows(result: RunResult) -> Iterator[tuple[Any, ...]]:
    """Yield the row of the table `fits` for one job; none without a test."""
    fit, values = result.fit, result.log_e_value
    if fit is not None and values:
        alarm, words = fit.alarm_time(0.01), "; ".join(fit.departures)
        test = (fit.readings, values[-1], math.exp(-values[-1]), alarm, fit.begin, words)
        yield (result.agent, result.run, *test)


def _at(column: list[Any] | None, i: int) -> Any:
    return None if column is None else column[i]


def write_tables(source: Store | StudyResults, parquet: bool = False) -> list[Path]:
    """Write the tables to the folder of the study, and return their paths."""
    results = StudyResults.of(source)
    written = []
    for name, header, rows in (
        ("runs", RUNS, (row for result in results.runs for row in run_rows(result))),
        ("episodes", EPISODES, (row for result in results.runs for row in episode_rows(result))),
        ("fits", FITS, (row for result in results.runs for row in fit_rows(result))),
    ):
        path = results.folder / f"{name}.{'parquet' if parquet else 'csv'}"
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
