"""When should we inspect and repair? A pump wears out of sight, and nobody knows how fast.

    python examples/maintenance.py
    python examples/maintenance.py --days 10000 --seeds 8 --wear 0.08

Shows the way from a few matrices to a learning agent: what is known (readings, costs), what is believed
beforehand (parts do not mend themselves, looking does not change the wear), what somebody who knew the wear
would pay, and what learning it cost. The tutorial of the manual tells the same story slowly.
"""

from __future__ import annotations

import argparse

import numpy as np

from psrl_pomdp import POMDP, DirichletPrior, PSRLAgent, Setting, check_model, plan, regret_curve, simulate

METER = [[0.80, 0.18, 0.02], [0.45, 0.45, 0.10], [0.10, 0.30, 0.60]]  # [state, reading]
INSPECTED = [[0.96, 0.03, 0.01], [0.05, 0.90, 0.05], [0.01, 0.04, 0.95]]
NEW = [1.0, 0.0, 0.0]


def what_is_known() -> Setting:
    """Readings, costs and the start: all that the agent is told."""
    return Setting(
        observation=[METER, INSPECTED, METER],
        cost=[[0, 60, 400], [25, 85, 425], [150, 180, 300]],  # [action, state], euro a day
        initial=NEW,
        units="euro a day",
        states=["sound", "worn", "failing"],
        actions=["run", "inspect", "repair"],
        observations=["low", "raised", "high"],
    )


def what_is_believed(setting: Setting) -> DirichletPrior:
    """Wear goes one way, a repair makes new, and looking changes nothing."""
    possible = np.zeros((3, 3, 3))
    possible[:2] = np.triu(np.ones((3, 3)))
    possible[2, :, 0] = 1.0
    return DirichletPrior(
        setting,
        possible,
        known={(2, s): NEW for s in range(3)},
        ties=[[(0, s), (1, s)] for s in range(2)],
    )


def what_is_true(setting: Setting, wear: float) -> POMDP:
    """The world, which only the simulation knows."""
    worn = [[1 - wear, wear, 0.0], [0.0, 0.9, 0.1], [0.0, 0.0, 1.0]]
    return POMDP(setting, [worn, worn, [NEW] * 3], name="pump")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--days", type=int, default=2000, help="how long each pump runs (default 2000)")
    parser.add_argument("--seeds", type=int, default=4, help="how many pumps are tried (default 4)")
    parser.add_argument("--wear", type=float, default=0.04, help="the true chance to wear in a day (.04)")
    given = parser.parse_args()

    setting = what_is_known()
    pump = what_is_true(setting, given.wear)
    for finding in check_model(pump):
        print(f"{finding.severity}: {finding.text}")
    best = plan(pump, tolerance=1e-4, max_work=1e9)
    print(f"Whoever knows the wear pays {best.lower:.2f} to {best.upper:.2f} euro a day.")
    for belief in ([1, 0, 0], [0.8, 0.2, 0], [0.4, 0.5, 0.1]):
        print(f"  sound, worn, failing {belief}: {setting.actions[best.action(belief)]}")

    prior = what_is_believed(setting)
    runs = [simulate(pump, PSRLAgent(prior, seed=i), given.days, seed=i) for i in range(given.seeds)]
    curve = regret_curve(runs, best)
    print(f"Learning it cost, over {given.days} days and {given.seeds} pumps:")
    for time, middle in zip(curve.times[::5].tolist(), curve.middle[::5].tolist(), strict=True):
        print(f"  by day {time:6d}: {middle:8.0f} euro more")
    shares = np.mean([np.bincount(run.actions, minlength=3) / given.days for run in runs], axis=0)
    print("Days spent: " + ", ".join(f"{a} {x:.0%}" for a, x in zip(setting.actions, shares, strict=True)))


if __name__ == "__main__":
    main()
