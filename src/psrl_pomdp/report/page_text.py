"""The verdict of a study in two sentences, and how numbers are written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .page_data import AgentFacts, PageData


def number(value: float | None, digits: int = 3) -> str:
    """For people: no more digits than they can use, and thousands apart.

    >>> [number(v) for v in (51.1714, 95594.2, 0.00012345, -1.0, None)]
    ['51.2', '95,594', '0.000123', '−1', '–']
    """
    if value is None or not np.isfinite(value):
        return "–"
    text = f"{value:,.0f}" if abs(value) >= 10**digits else f"{value:.{digits}g}"
    return text.replace("-", "−")


def interval(ends: tuple[float, float] | None) -> str:
    return "one run only" if ends is None else f"{number(ends[0])} to {number(ends[1])}"


def between(ends: tuple[float, float]) -> str:
    """Two bounds with as many digits as tell them apart, or one number where six do not.

    >>> between((1.0837, 1.0841)), between((1.08379012, 1.08379014))
    ('between 1.0837 and 1.0841', '1.08379, to within 2e−08')
    """
    low, high = (number(end, 6) for end in ends)
    if low != high:
        return f"between {low} and {high}"
    return low if ends[0] == ends[1] else f"{low}, to within {ends[1] - ends[0]:.0e}".replace("-", "−")


def size(n_bytes: float) -> str:
    """
    >>> size(2_110_000), size(800)
    ('2.1 MB', '1 kB')
    """
    return f"{n_bytes / 1e6:.1f} MB" if n_bytes >= 1e6 else f"{max(1.0, n_bytes / 1e3):.0f} kB"


def listed(words: Sequence[str], most: int = 6) -> str:
    """
    >>> listed(["a", "b", "c"]), listed(["a", "b", "c", "d"], most=3)
    ('a, b and c', 'a, b and 2 others')
    """
    if len(words) > most:
        return f"{', '.join(words[: most - 1])} and {len(words) - most + 1} others"
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]])) if words else ""


def verdict(data: PageData) -> tuple[str, str]:
    """Who is ahead and how surely; and how the leader's regret grows."""
    learners = [agent for agent in data.agents if not agent.knows_the_truth] or data.agents
    leader = min(learners, key=lambda agent: agent.regret)
    return _ahead(data, leader, learners), _growing(leader)


def _ahead(data: PageData, leader: AgentFacts, learners: Sequence[AgentFacts]) -> str:
    unit = f" {data.units.total_name}" if data.units.name else ""
    amount = f"{number(leader.regret)}{unit}"
    steps = f"{data.study.horizon:,} step{'s' if data.study.horizon > 1 else ''}"
    if leader.interval:
        amount += f" (95 % interval {interval(leader.interval)})"
    if len(learners) == 1:
        first = f"Over {steps}, {leader.label} did worse than the best possible policy by {amount}"
        return f"{first}." if leader.interval else f"{first}; one run says nothing of how sure that is."
    told = {agent.told for agent in learners if agent.told != "nothing"}
    alike = "" if len(told) <= 1 else " (who were not all told the same)"
    first = f"After {steps}, {leader.label} has the least regret of the learners{alike}, {amount}"
    pairs = _pairs_of(data.comparison["pairs"], leader, learners)
    if not pairs:
        return f"{first}; with one run each nobody can be called ahead."
    sure = [other for other, certain in pairs.items() if certain]
    unsure = [other for other, certain in pairs.items() if not certain]
    level = f"{data.comparison['level']:.0%}".replace("%", " %")
    parts = [f"it is ahead of {listed(sure)} with {level} confidence"] if sure else []
    if unsure:
        parts.append(f"its lead over {listed(unsure)} may be chance")
    return f"{first}: {', and '.join(parts)}."


def _pairs_of(
    pairs: Sequence[dict[str, Any]], leader: AgentFacts, learners: Sequence[AgentFacts]
) -> dict[str, bool]:
    """Whom the leader is compared with, and whether the runs tell them apart with the leader ahead."""
    names = [agent.label for agent in learners if agent.label != leader.label]
    found = {}
    for pair in pairs:
        if leader.label in (pair["better"], pair["worse"]):
            other = pair["worse"] if pair["better"] == leader.label else pair["better"]
            found[other] = bool(pair["sure"]) and pair["better"] == leader.label
    return {name: found[name] for name in names if name in found}


def _growing(leader: AgentFacts) -> str:
    """The fit in words that need no formula."""
    growth = leader.growth
    if growth is None:
        return "How its regret grows with time cannot be said: that takes several runs over a longer time."
    if growth.verdict == "logarithmic":
        doubling = [np.log(2.0) * end for end in (growth.slope.value, growth.slope.low, growth.slope.high)]
        return (
            f"Its regret grows like the logarithm of time: every doubling of the time adds about "
            f"{number(doubling[0])} (95 % interval {interval((doubling[1], doubling[2]))})."
        )
    if growth.verdict == "power":
        p = growth.exponent
        kind = (
            "so slower than time itself"
            if p.high < 1.0
            else "so that growth in step with time is not excluded"
        )
        return (
            f"Its regret grows like time to the power {p.value:.2f} "
            f"(95 % interval {p.low:.2f} to {p.high:.2f}), {kind}."
        )
    if growth.verdict == "no growth":
        return "Its regret shows no growth beyond the noise of these runs."
    return f"How its regret grows with time is undecided: {growth.words.partition(': ')[2]}."
