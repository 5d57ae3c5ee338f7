"""Plan for random models of both criteria, and compare every interval with an independent method.

Two-state models alternate between the average cost and discounts from .5 to .97, with and without a first
observation. Every interval must be verified, be in order, and meet that of value iteration on a line of
beliefs; the program counts those that do not. Models of three to five states follow, whose discounted
interval must meet that of the average-cost model in which the start is drawn afresh with probability 1 − γ,
and is seen.

    python benchmarks/random_intervals.py --models 2000
"""

from __future__ import annotations

import argparse
import sys
import time
from importlib import import_module
from pathlib import Path

import numpy as np

from psrl_pomdp import plan, verify

TESTS = Path(__file__).parents[1] / "tests"
ROUNDING = 1e-9


def check(seed: int) -> str:
    """Return what is wrong with the interval of one model, or nothing."""
    methods, oracles = import_module("test_discounted"), import_module("oracles")
    drawn, reduced, two_state_total = methods.drawn, methods.reduced, methods.two_state_total
    n_states = 2 if seed % 4 else 3 + (seed // 4) % 3
    model, discount = drawn(seed, n_states, "cost" if seed % 2 else "reward")
    discounted = n_states > 2 or bool((seed // 8) % 2)
    found = plan(model, tolerance=1e-4, discount=discount if discounted else None, max_work=1e8)
    low, high = verify(found, model)
    if not low <= high or not found.lower_cost <= found.upper_cost:
        return "crossed"
    if n_states > 2:
        twin = plan(reduced(model, discount), tolerance=1e-3, max_work=1e8)
        other = twin.lower_cost, twin.upper_cost
    elif discounted:
        total = two_state_total(model, discount, 201)
        other = (1 - discount) * total[0], (1 - discount) * total[1]
    else:
        other = oracles.two_state_average(model.transition, model.setting.observation, model.setting.cost)
    wrong = found.lower_cost > other[1] + ROUNDING or other[0] > found.upper_cost + ROUNDING
    return f"false: {found.lower_cost, found.upper_cost} and {other}" if wrong else ""


def main() -> None:
    """Check as many models as asked for, and print how many intervals are wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=int, default=2000)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seconds", type=float, default=np.inf, help="stop after this time")
    options = parser.parse_args()
    sys.path[:0] = [str(TESTS), str(TESTS / "planning")]  # the independent methods are those of the tests
    begun, wrong, done = time.process_time(), 0, 0
    for seed in range(options.first, options.first + options.models):
        found = check(seed)
        done += 1
        if found:
            wrong += 1
            print(f"seed {seed}: {found}", flush=True)
        if time.process_time() - begun > options.seconds:
            break
    print(f"{done} models, {wrong} wrong intervals, {time.process_time() - begun:.0f} CPU seconds")


if __name__ == "__main__":
    main()
