"""Skeleton of a problem: a function that returns a POMDP.

Copy this file, replace the parts marked CHANGE, and run it: `python problem.py` checks the model and solves
it. Then

    psrl-pomdp compare problem:my_problem --horizon 1000 --seeds 4
"""

from __future__ import annotations

from psrl_pomdp import POMDP, Setting, plan
from psrl_pomdp.testing import check_model


def my_problem(wear: float = 0.1) -> POMDP:
    """A machine that wears out with probability `wear` a day and that can be replaced."""
    setting = Setting(  # CHANGE
        observation=[[0.9, 0.1], [0.2, 0.8]],  # [S, O]: good or bad output, in each state
        cost=[[0.0, 50.0], [20.0, 20.0]],  # [A, S], in your own units
        initial=[1.0, 0.0],
        units="euro a day",
        states=("sound", "worn"),
        actions=("run", "replace"),
        observations=("good", "bad"),
    )
    transition = [  # CHANGE: [A, S, S'], rows sum to 1
        [[1.0 - wear, wear], [0.0, 1.0]],
        [[1.0, 0.0], [1.0, 0.0]],
    ]
    return POMDP(setting, transition, name="my-problem")


if __name__ == "__main__":
    for issue in check_model(my_problem()):
        print(issue)
    solution = plan(my_problem(), 1e-4)
    print(f"optimal average cost between {solution.lower:.4f} and {solution.upper:.4f}")
