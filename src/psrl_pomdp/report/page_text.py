"""The verdict of a study in two sentences, and the formats of numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .page_data import PageData
from .page_records import AgentFacts


def number(value: float | None, digits: int = 3) -> str:
    """Return a number with few significant digits and separators between thousands.

    >>> [number(v) for v in (51.1714, 95594.2, 0.00012345, -1.0, None)]
    ['51.2', '95,594', '0.000123', '−1', '–']
    """
    if value is None or not np.isfinite(value):
        return "–"
    text = f"{value:,.0f}" if abs(value) >= 10**digits else f"{value:.{digits}g}"
    return text.replace("-", "−")


def interval(ends: tuple[float, float] | None) -> str:
    """Return an interval as text; None stands for a single run."""
    return "one run only" if ends is None else f"{number(ends[0])} to {number(ends[1])}"


def between(ends: tuple[float, float]) -> str:
    """Return two bounds with up to six digits, or one number if six digits do not distinguish them.

    >>> between((1.0837, 1.0841)), between((1.08379012, 1.08379014))
    ('between 1.0837 and 1.0841', '1.08379, to within 2e−08')
    """
    low, high = (number(end, 6) for end in ends)
    if low != high:
        return f"between {low} and {high}"
    return low if ends[0] == ends[1] else f"{low}, to within {ends[1] - ends[0]:.0e}".replace("-", "−")


def size(n_bytes: float) -> str:
    """Return the size of a file as text.

    >>> size(2_110_000), size(800)
    ('2.1 MB', '1 kB')
    """
    return f"{n_bytes / 1e6:.1f} MB" if n_bytes >= 1e6 else f"{max(1.0, n_bytes / 1e3):.0f} kB"


def listed(names: Sequence[str], max_names: int = 6) -> str:
    """Return the names as one phrase.

    >>> listed(["a", "b", "c"]), listed(["a", "b", "c", "d"], max_names=3)
    ('a, b and c', 'a, b and 2 others')
    """
    if len(names) > max_names:
        return f"{', '.join(names[: max_names - 1])} and {len(names) - max_names + 1} others"
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]])) if names else ""


def verdict(data: PageData) -> tuple[str, str]:
    """Return which learner has the least regret and with what confidence, and how its regret grows."""
    learners = [agent for agent in data.agents if not agent.knows_the_truth] or data.agents
    leader = min(learners, key=lambda agent: agent.regret)
    return _least_regret(data, leader, learners), _regret_growth(leader)


def _least_regret(data: PageData, leader: AgentFacts, learners: Sequence[AgentFacts]) -> str:
    unit = f" {data.units.total_name}" if data.units.name else ""
    amount = f"{number(leader.regret)}{unit}"
    steps = f"{data.study.horizon:,} step{'s' if data.study.horizon > 1 else ''}"
    if leader.interval:
        amount += f" (95 % interval {interval(leader.interval)})"
    if len(learners) == 1:
        first = f"Over {steps}, the regret of {leader.label} against the optimal policy is {amount}"
        return f"{first}." if leader.interval else f"{first}; one run gives no confidence interval."
    information = {agent.information for agent in learners if agent.information != "nothing"}
    caveat = "" if len(information) <= 1 else " (the learners have different prior information)"
    first = f"After {steps}, {leader.label} has the least regret of the learners{caveat}, {amount}"
    pairs = _pairs_of(data.comparison["pairs"], leader, learners)
    if not pairs:
        return f"{first}; with one run of each agent, the difference may be chance."
    sure = [other for other, certain in pairs.items() if certain]
    unsure = [other for other, certain in pairs.items() if not certain]
    level = f"{data.comparison['level']:.0%}".replace("%", " %")
    parts = [f"it has less regret than {listed(sure)} with {level} confidence"] if sure else []
    if unsure:
        parts.append(f"the difference from {listed(unsure)} may be chance")
    return f"{first}: {', and '.join(parts)}."


def _pairs_of(
    pairs: Sequence[dict[str, Any]], leader: AgentFacts, learners: Sequence[AgentFacts]
) -> dict[str, bool]:
    """Return, for each learner that the leader was compared with, whether the leader is surely better."""
    names = [agent.label for agent in learners if agent.label != leader.label]
    found = {}
    for pair in pairs:
        if leader.label in (pair["better"], pair["worse"]):
            other = pair["worse"] if pair["better"] == leader.label else pair["better"]
            found[other] = bool(pair["sure"]) and pair["better"] == leader.label
    return {name: found[name] for name in names if name in found}


def _regret_growth(leader: AgentFacts) -> str:
    """Return the fit of the growth of regret as a sentence without formulas."""
    growth = leader.growth
    if growth is None:
        return "The growth of its regret was not analyzed: this needs several runs and a longer horizon."
    if growth.verdict == "logarithmic":
        doubling = [np.log(2.0) * end for end in (growth.slope.value, growth.slope.low, growth.slope.high)]
        return (
            f"Its regret grows like the logarithm of time: each doubling of the horizon adds about "
            f"{number(doubling[0])} (95 % interval {interval((doubling[1], doubling[2]))})."
        )
    if growth.verdict == "power":
        p = growth.exponent
        kind = "which is sublinear" if p.high < 1.0 else "so that linear growth is not excluded"
        return (
            f"Its regret grows like time to the power {p.value:.2f} "
            f"(95 % interval {p.low:.2f} to {p.high:.2f}), {kind}."
        )
    if growth.verdict == "no growth":
        return "Its regret shows no growth beyond the noise of these runs."
    return f"The growth of its regret is undecided: {growth.text.partition(': ')[2]}."
