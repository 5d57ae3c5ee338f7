"""Whether the observations of a study came as the agents predicted them, in sentences."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..studies.results import FitResult, RunResult
from .page_data import PageData
from .page_text import listed

LEVEL = 0.01  # the false-alarm rate in each run


def fit_sentences(data: PageData) -> list[str]:
    """Return a sentence for all agents without an alarm, and one for each agent with an alarm."""
    tested = {agent.label: _tested(data.results.by_agent[agent.label]) for agent in data.agents}
    silent = [label for label, runs in tested.items() if runs and not _alarms(runs)]
    found = []
    if silent:
        n = sum(len(tested[label]) for label in silent)
        largest = max(_largest(run) for label in silent for run in tested[label])
        found.append(
            f"The observations of {listed(silent)} came as predicted: no alarm in {_runs(n)}. The largest "
            f"e-value is {e_value_text(largest)}; an alarm is one of {1 / LEVEL:.0f} or more."
        )
    return found + [_misfit(label, runs) for label, runs in tested.items() if runs and label not in silent]


def _tested(runs: Sequence[RunResult]) -> list[RunResult]:
    return [run for run in runs if run.fit is not None and run.fit.readings]


def _alarms(runs: Sequence[RunResult]) -> list[tuple[RunResult, FitResult, int]]:
    """Return the runs with an alarm, what the test found in them, and the time of the alarm."""
    times = [(run, run.fit, run.fit.alarm_time(LEVEL)) for run in runs if run.fit is not None]
    return [(run, fit, time) for run, fit, time in times if time is not None]


def _largest(run: RunResult) -> float:
    return run.log_e_value[-1] if run.log_e_value else 0.0


def _misfit(label: str, runs: Sequence[RunResult]) -> str:
    """Return the sentence for an agent with an alarm; the details are those of the run with most evidence."""
    alarms = _alarms(runs)
    run, fit, time = max(alarms, key=lambda each: _largest(each[0]))
    largest = _largest(run)
    text = (
        f"The observations of {label} did not come as predicted: its observation model or its prior over the "
        f"dynamics does not fit. There is an alarm in {len(alarms)} of {_runs(len(runs))}. In run {run.run} "
        f"it came at step {time:,}, and the e-value reached {e_value_text(largest)}"
    )
    text += "".join(f"; {departure}" for departure in fit.departures[:1])
    if len(runs) > 1 and largest < math.log(len(runs) / LEVEL):
        text += f"; among {_runs(len(runs))}, a false alarm is not excluded"
    return f"{text}."


def _runs(n: int) -> str:
    return f"{n} run{'s' if n > 1 else ''}"


def e_value_text(logarithm: float) -> str:
    """Return a number, given by its natural logarithm, with two digits or as a power of ten.

    >>> e_value_text(0.5), e_value_text(400.0)
    ('1.6', '10^173')
    """
    if logarithm < math.log(1e4):
        return f"{math.exp(logarithm):,.2g}" if logarithm < math.log(100.0) else f"{math.exp(logarithm):,.0f}"
    return f"10^{math.floor(logarithm / math.log(10.0))}"
