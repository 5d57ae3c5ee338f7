"""A call that fails leaves the agent as it was, byte for byte."""

from __future__ import annotations

import copy
import gc
import random
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from psrl_pomdp import InvalidModelError, OutOfOrderError, PSRLAgent, UnknownNameError, plan, simulate
from psrl_pomdp._utils.atomic_calls import AtomicCalls
from psrl_pomdp.simulation import Simulation
from random_agents import COARSE, dirichlet, family

MAKERS: dict[str, Callable[[int], PSRLAgent]] = {
    "finite": lambda seed: PSRLAgent(family(1), seed=seed, budget=COARSE),
    "dirichlet": lambda seed: PSRLAgent(dirichlet(family(1).setting), seed=seed, budget=COARSE),
}


class InterruptionError(Exception):
    """What is raised at a random moment."""


@contextmanager
def interrupted_after(lines: int) -> Iterator[list[bool]]:
    """`InterruptionError`, as soon as so many lines of the package were executed; whether it was raised.

    A tracing function raises it, so that the moment is as exact as a line and the same in every run. Where a
    `with` statement lets go of its lock it would leave the lock taken, which no signal can; so it spares
    the two methods that take the lock.
    """
    left, raised = [lines], [False]
    spared = AtomicCalls._atomically.__code__, AtomicCalls._undisturbed.__code__

    def trace(frame: FrameType, event: str, _: object) -> Any:
        if "psrl_pomdp" not in frame.f_code.co_filename or frame.f_code in spared:
            return None
        if event == "line":
            left[0] -= 1
            if left[0] < 0 and not raised[0]:
                raised[0] = True
                raise InterruptionError
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield raised
    finally:
        sys.settrace(before)


@pytest.mark.parametrize("kind", MAKERS)
def test_an_act_that_was_interrupted_never_happened(kind: str) -> None:
    """At every kind of moment: each act is interrupted at a random line, then done in peace."""
    calm, shaken = MAKERS[kind](2), MAKERS[kind](2)
    rng, readings = random.Random(3), np.random.default_rng(4)
    hits = 0
    for _ in range(60):
        reading = int(readings.integers(3))
        before, time = shaken.to_bytes(), shaken.time
        with suppress(InterruptionError), interrupted_after(int(10 ** rng.uniform(0, 3))) as raised:
            shaken.act(reading)
        hits += raised[0]
        if shaken.time == time:  # else the call was done but for its last lines
            assert shaken.to_bytes() == before
            shaken.act(reading)
        calm.act(reading)
        assert shaken.to_bytes() == calm.to_bytes()
    assert hits > 20


@pytest.mark.parametrize("kind", MAKERS)
def test_a_planner_that_fails_leaves_no_trace(kind: str) -> None:
    calls = 0

    def planner(model: Any, tolerance: float = 1e-4, time_limit: float | None = None) -> Any:
        nonlocal calls
        calls += 1
        if calls % 3:
            raise RuntimeError("no plan today")
        return plan(model, tolerance)

    def agent(own: Any) -> PSRLAgent:
        prior = family(1) if kind == "finite" else dirichlet(family(1).setting)
        return PSRLAgent(prior, seed=6, budget=COARSE, planner=own)

    shaken, calm = agent(planner), agent(lambda model, tolerance, time_limit: plan(model, tolerance))
    failures = 0
    for reading in np.random.default_rng(7).integers(3, size=120).tolist():
        while True:
            before = shaken.to_bytes()
            try:
                action = shaken.act(reading)
                break
            except RuntimeError:
                failures += 1
                assert shaken.to_bytes() == before
        assert action == calm.act(reading)
    assert failures > 1
    assert shaken.to_bytes() == calm.to_bytes()


def test_a_way_back_that_is_cut_short_is_finished_by_the_next_use() -> None:
    class Counter(AtomicCalls):
        def __init__(self) -> None:
            super().__init__()
            self.one = self.two = 0
            self.failing = True

        def _snapshot(self) -> tuple[int, int]:
            return self.one, self.two

        def _restore(self, snapshot: tuple[int, int]) -> None:
            self.one = snapshot[0]
            if self.failing:
                self.failing = False
                raise KeyboardInterrupt
            self.two = snapshot[1]

        def count(self, error: BaseException | None = None) -> None:
            self._atomically(self._count, error)

        def _count(self, error: BaseException | None) -> None:
            self.one += 1
            self.two += 1
            if error is not None:
                raise error

    counter = Counter()
    counter.count()
    with pytest.raises(KeyboardInterrupt):
        counter.count(ValueError())
    assert (counter.one, counter.two) == (1, 2)  # half way back
    counter._settle()
    assert (counter.one, counter.two) == (1, 1)
    counter.failing = True
    with pytest.raises(KeyboardInterrupt):
        counter.count(ValueError())
    counter.count()
    assert (counter.one, counter.two) == (2, 2)


def test_threads_take_turns() -> None:
    agent, alone = MAKERS["finite"](8), MAKERS["finite"](8)
    errors: list[BaseException] = []

    def life() -> None:
        try:
            for _ in range(150):
                agent.act(1)
                assert agent.info.time >= 1
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=life) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    for _ in range(450):
        alone.act(1)
    assert agent.to_bytes() == alone.to_bytes()


def test_a_call_that_failed_is_not_taken_for_one_that_is_running() -> None:
    """When another thread has its turn, and has not yet said so."""
    agent = MAKERS["finite"](8)
    with pytest.raises(UnknownNameError):
        agent.act(99)
    with pytest.raises(OutOfOrderError):
        assert agent.info is None
    agent._lock.acquire()
    other = threading.Timer(0.1, agent._lock.release)
    other.start()
    assert agent.act(1) in (0, 1)
    other.join()


@pytest.mark.parametrize("action", [2, -1, 0.5, None, "0"])
def test_an_action_that_a_plan_made_up_is_refused(action: Any) -> None:
    """Before anybody carries it out: the reading after it could not be taken in."""
    chosen = [action]
    made_up: Any = SimpleNamespace(lower=0.0, upper=1.0, status="mine", action=lambda belief: chosen[0])
    planner: Any = lambda model, tolerance, time_limit: made_up  # noqa: E731
    agent = PSRLAgent(family(1), planner=planner)
    with pytest.raises(InvalidModelError, match="chose action"):
        agent.act(0)
    assert agent.time == 0
    chosen[0] = np.int64(1)
    assert agent.act(0) == 1


def test_a_call_from_inside_another_one_is_refused() -> None:
    inside: list[PSRLAgent] = []

    def planner(model: Any, tolerance: float = 1e-4, time_limit: float | None = None) -> Any:
        inside[0].act(0)

    agent = PSRLAgent(family(1), planner=planner)
    inside.append(agent)
    with pytest.raises(OutOfOrderError, match="from inside another of its calls"):
        agent.act(0)
    assert agent.time == 0


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers")
def test_a_deadline_by_a_signal_leaves_the_agent_as_it_was() -> None:
    def late(_: int, frame: FrameType | None) -> None:
        while frame is not None:  # only where it is meant for `act`
            if frame.f_code is PSRLAgent.act.__code__:
                raise TimeoutError
            frame = frame.f_back

    agent, calm = MAKERS["dirichlet"](9), MAKERS["dirichlet"](9)
    readings = np.random.default_rng(10).integers(3, size=300).tolist()
    before, missed = signal.signal(signal.SIGALRM, late), 0
    gc.disable()  # Python ignores an exception that is raised within a callback of the garbage collector
    try:
        for i, reading in enumerate(readings):
            time = agent.time
            try:
                signal.setitimer(signal.ITIMER_REAL, (2e-5, 1e-4, 1e-3)[i % 3])
                agent.act(reading)
            except TimeoutError:
                pass
            except ValueError as error:  # scipy converts exceptions from within its constructors
                assert isinstance(error.__cause__, TimeoutError)  # noqa: PT017 - only sometimes raised
            signal.setitimer(signal.ITIMER_REAL, 0.0)
            if agent.time == time:
                missed += 1
                agent.act(reading)
            calm.act(reading)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
        gc.enable()
    assert missed > 10
    assert agent.to_bytes() == calm.to_bytes()


def test_agents_can_be_copied() -> None:
    agent = MAKERS["dirichlet"](11)
    for reading in (0, 1, 2):
        agent.act(reading)
    clone = copy.deepcopy(agent)
    assert clone.to_bytes() == agent.to_bytes()
    assert clone.act(1) == agent.act(1)


def test_a_simulation_that_was_cut_short_refuses_to_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its world may be ahead of its agent."""
    prior = family(1)
    agent = PSRLAgent(prior, budget=COARSE)
    run = Simulation(prior.model(0), agent)
    run.until(20)
    good = PSRLAgent.choose_kernel

    def bad(self: PSRLAgent) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(PSRLAgent, "choose_kernel", bad)
    with pytest.raises(KeyboardInterrupt):
        run.until(200)
    monkeypatch.setattr(PSRLAgent, "choose_kernel", good)
    with pytest.raises(OutOfOrderError, match="cut short"):
        run.until(200)
    assert agent.act(0) in (0, 1)  # the agent itself is whole
    assert len(simulate(prior.model(0), PSRLAgent(prior, budget=COARSE), 50).actions) == 50


def test_what_a_signal_handler_raised_comes_out_as_itself() -> None:
    """Compiled code wraps it into a SystemError, or two."""

    def planner(model: Any, tolerance: float = 1e-4, time_limit: float | None = None) -> Any:
        inner = SystemError("a result with an exception set")
        inner.__cause__ = TimeoutError("late")
        raise SystemError("a result with an exception set") from inner

    agent = PSRLAgent(family(1), planner=planner)
    with pytest.raises(TimeoutError, match="late"):
        agent.act(0)
    assert agent.time == 0
