"""What a density is worth: regret of agents that read the meter, beside agents that are given classes of
readings.

    python benchmarks/density_regret.py                         the pump, 12 seeds, 10 000 steps
    python benchmarks/density_regret.py --problem railway-gaussian --seeds 24 --out regret.jsonl

All agents face the same simulated systems. The agent `density` learns from the readings themselves; `2
classes` and so on learn from readings that are divided into so many classes, the cells that
`Setting.quantized` chooses; `oracle` knows the dynamics. Their priors over the dynamics are the same. Regret
is measured against the optimal average cost with the readings themselves, by the control variate, in the
units of the problem, and paired with the regret of `density` in the same systems. The column `classes lose`
is the least that dividing the readings costs: the horizon times the certified difference of the two optimal
average costs. Every run is written to the file --out as soon as it has ended, and a second call with the same
file goes on from there.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from psrl_pomdp import (
    POMDP,
    CoarsePlanWarning,
    FinitePrior,
    Plan,
    Problem,
    PSRLAgent,
    plan,
    problem,
    simulate,
)
from psrl_pomdp.inference.choosing import dirichlet_prior_of, with_setting
from psrl_pomdp.sensors.bracket import QuantizedSensors, quantized

CLASSES = (2, 4, 8)
TIMES = (1000, 10_000, 100_000)


class Classifying:
    """An agent that is given classes of readings in place of the readings."""

    def __init__(self, agent: PSRLAgent, cells: QuantizedSensors) -> None:
        self.agent, self.cells = agent, cells
        self.action: int | None = None

    def act(self, reading: float | None) -> int:
        """Return the next action."""
        missing = reading is None or np.isnan(reading)
        self.action = self.agent.act(None if missing else self.cells.of(self.action).cell(reading))
        return self.action


def agent_for(world: Problem, learner: str, seed: int) -> Any:
    """A new agent: density, oracle, or "K classes"."""
    if learner == "oracle":
        return PSRLAgent(FinitePrior(world.setting, [world.transition]), seed=seed)
    prior = dirichlet_prior_of(world)
    if learner == "density":
        return PSRLAgent(prior, seed=seed)
    classes = int(learner.split(maxsplit=1)[0])
    coarse = with_setting(prior, world.setting.quantized(classes))
    cells = quantized(world.setting.sensor, world.setting.first_sensor, classes)
    return Classifying(PSRLAgent(coarse, seed=seed), cells)


def run(world: Problem, best: Plan, learner: str, seed: int, horizon: int) -> dict[str, Any]:
    """One run, as a row of the file."""
    ends = [t for t in TIMES if t < horizon] + [horizon]
    began = time.process_time()
    trace = simulate(world, agent_for(world, learner, seed), horizon, [1, seed], checkpoints=ends)
    spent = time.process_time() - began
    lower, upper = trace.regret_curve(best)
    regret = dict(zip(map(str, trace.times.tolist()), (0.5 * (lower + upper)).tolist(), strict=True))
    return {"learner": learner, "seed": seed, "horizon": horizon, "regret": regret, "seconds": spent}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--problem", default="pump")
    parser.add_argument("--horizon", type=int, default=10_000)
    parser.add_argument("--seeds", type=int, default=12)
    parser.add_argument("--out", type=Path, help="a file of JSON lines; runs that it has are not repeated")
    given = parser.parse_args()
    warnings.simplefilter("ignore", CoarsePlanWarning)
    world = problem(given.problem)
    if world.setting.is_finite:
        sys.exit(f"{given.problem} has numbered observations: there is nothing to divide")
    best = plan(world, 1e-4, time_limit=120)
    unit = world.setting.units.total_name
    print(f"{given.problem}: the optimal average cost lies in [{best.lower:.6g}, {best.upper:.6g}] {unit}")
    learners = ["density", *(f"{k} classes" for k in CLASSES), "oracle"]
    rows = saved(given.out, given.problem, given.horizon)
    for seed in range(given.seeds):
        for learner in learners:
            if (learner, seed) in rows:
                continue
            rows[learner, seed] = row = run(world, best, learner, seed, given.horizon)
            print(
                f"  seed {seed:2}  {learner:10} {row['regret'][str(given.horizon)]:10.0f} {unit}", flush=True
            )
            if given.out is not None:
                with given.out.open("a") as file:
                    file.write(json.dumps({"problem": given.problem, **row}) + "\n")
    show(world, best, learners, rows, given.horizon, given.seeds)


def saved(path: Path | None, name: str, horizon: int) -> dict[tuple[str, int], dict[str, Any]]:
    """The runs that a file has."""
    if path is None or not path.exists():
        return {}
    rows = [json.loads(line) for line in path.read_text().splitlines() if line]
    return {
        (row["learner"], row["seed"]): row
        for row in rows
        if row["problem"] == name and row["horizon"] == horizon
    }


def show(
    world: Problem,
    best: Plan,
    learners: list[str],
    rows: dict[tuple[str, int], dict[str, Any]],
    horizon: int,
    seeds: int,
) -> None:
    """Print the table."""
    early = str(min(1000, horizon))
    print(
        f"\n{'':11} {'t=' + early:>16} {'t=' + str(horizon):>18} {'minus density':>18}"
        f" {'classes lose':>13}  CPU s"
    )
    of = {name: [rows[name, seed] for seed in range(seeds)] for name in learners}
    base = np.array([row["regret"][str(horizon)] for row in of["density"]])
    for name in learners:
        first = np.array([row["regret"].get(early, np.nan) for row in of[name]])
        last = np.array([row["regret"][str(horizon)] for row in of[name]])
        lost = ""
        if name.endswith("classes"):
            coarse = plan(POMDP(world.setting.quantized(int(name.split()[0])), world.transition), 1e-4)
            lost = f"{horizon * (coarse.lower - best.upper):.0f}"
        seconds = np.mean([row["seconds"] for row in of[name]])
        print(
            f"{name:11} {shown(first):>16} {shown(last):>18} {shown(last - base):>18}"
            f" {lost:>13}  {seconds:.1f}"
        )


def shown(values: np.ndarray[Any, Any]) -> str:
    """Mean ± standard error."""
    error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
    return f"{values.mean():.0f} ± {error:.0f}"


if __name__ == "__main__":
    main()
