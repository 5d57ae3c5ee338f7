"""Acts that are interrupted at random moments, and planners that fail: is the agent as if nothing had been?

    python benchmarks/interrupted_act.py                a thousand interrupts, for each of two priors
    python benchmarks/interrupted_act.py --interrupts 100

A timer raises an exception at a random moment of `act`, and a planner fails every third time. Then the same
reading is given again. After every interrupt the agent's bytes are compared with those before the call, and
at the end of every life with the bytes of an agent that lived in peace.
"""

from __future__ import annotations

import argparse
import random
import signal
import time
from types import FrameType

import numpy as np

from psrl_pomdp import POMDP, DirichletPrior, FinitePrior, Plan, PSRLAgent, plan, problem

LIFE = 400  # acts of one life


class DeadlineError(Exception):
    """What the timer raises."""


class FailingPlanner:
    """Fails every third time it is asked, where `failing`."""

    def __init__(self, failing: bool) -> None:
        self.failing, self.calls, self.failures = failing, 0, 0

    def __call__(self, model: POMDP, tolerance: float = 1e-4, time_limit: float | None = None) -> Plan:
        self.calls += 1
        if self.failing and self.calls % 3 == 0:
            self.failures += 1
            raise DeadlineError
        return plan(model, tolerance)


def life(
    prior: FinitePrior | DirichletPrior, seed: int, moments: random.Random | None
) -> tuple[PSRLAgent, list[int]]:
    """An agent after its life, and how often it was interrupted, failed, and was not as before."""
    planner = FailingPlanner(moments is not None)
    agent = PSRLAgent(prior, seed=seed, planner=planner)
    interrupts, changed = 0, 0
    for reading in np.random.default_rng(seed).integers(prior.setting.n_observations, size=LIFE).tolist():
        while True:
            before, begun = (None if moments is None else agent.to_bytes()), agent.time
            try:
                if moments is not None and moments.random() < 0.7:
                    signal.setitimer(signal.ITIMER_REAL, 10 ** moments.uniform(-5, -2))
                agent.act(reading)
                signal.setitimer(signal.ITIMER_REAL, 0.0)
                break
            except DeadlineError:
                signal.setitimer(signal.ITIMER_REAL, 0.0)
                interrupts += 1
                if agent.time > begun:  # as the call returned
                    break
                changed += agent.to_bytes() != before
    return agent, [interrupts, planner.failures, changed]


def late(_: int, frame: FrameType | None) -> None:
    """Raises where `act` is running: an alarm that comes later is not meant for it."""
    while frame is not None:
        if frame.f_code is PSRLAgent.act.__code__:
            raise DeadlineError
        frame = frame.f_back


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--interrupts", type=int, default=1000)
    wanted = parser.parse_args().interrupts
    world = problem("railway")

    signal.signal(signal.SIGALRM, late)
    for name, prior in (("finite set", world.family), ("Dirichlet rows", world.prior)):
        total, lives, unequal, begun = np.zeros(3, int), 0, 0, time.perf_counter()
        moments = random.Random(1)
        while total[0] < wanted:
            shaken, counts = life(prior, lives, moments)
            calm, _ = life(prior, lives, None)
            total += counts
            lives += 1
            unequal += shaken.to_bytes() != calm.to_bytes()
        print(
            f"{name}: {total[0]} interrupts ({total[1]} of them a planner that failed) in {lives} lives of "
            f"{LIFE} acts; {total[2]} left the agent changed; {unequal} lives ended in other bytes "
            f"({time.perf_counter() - begun:.0f} s)",
            flush=True,
        )


if __name__ == "__main__":
    main()
