"""When episodes end."""

from __future__ import annotations

import pytest

from psrl_pomdp import PSRLError
from psrl_pomdp.agents.schedules import (
    DoublingSchedule,
    FixedSchedule,
    Schedule,
    TSDESchedule,
    schedule_named,
)


def test_the_papers_two() -> None:
    assert [DoublingSchedule().last(start, 99) for start in (1, 3, 7)] == [2, 6, 14]
    assert TSDESchedule().last(10, 4) == 14
    assert (DoublingSchedule().pseudo_count, TSDESchedule().pseudo_count) == ("time", "expected")


def test_any_sched_with_any_count_and_an_episode_has_a_step() -> None:
    backwards = Schedule("backwards", lambda start, length: start - 5, "expected")
    assert backwards.last(10, 3) == 10
    assert FixedSchedule(4).last(5, 1) == 8


@pytest.mark.parametrize("name", ["doubling", "tsde", "fixed-7"])
def test_by_name(name: str) -> None:
    assert schedule_named(name).name == name


def test_mistakes_are_named() -> None:
    with pytest.raises(PSRLError, match=r"did you mean 'doubling'"):
        schedule_named("dubling")
    with pytest.raises(PSRLError, match="fixed-0"):
        schedule_named("fixed-0")
    with pytest.raises(PSRLError, match="not a whole number of steps"):
        FixedSchedule(0)
    with pytest.raises(PSRLError, match=r"did you mean 'time'"):
        Schedule("x", lambda start, length: start, "tim")  # type: ignore[arg-type]
