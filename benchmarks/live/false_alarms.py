"""How often a fleet raises a false alarm, and how soon it finds a fault.

    python benchmarks/live/false_alarms.py                  1,000 plants, some minutes
    python benchmarks/live/false_alarms.py --plants 100     a tenth of them

The plants are simulated by this file, and not by the package. Each has three units that wear (new, worn) and
are repaired when worn is probable. Their wear rate is drawn from the prior, as the guarantee supposes. Half
of the plants have a sensor with three readings, half a meter with Gaussian noise, of which the state moves
the mean by two standard deviations. The first table compares the share of plants with an alarm with the
stated rate α. The second one has the delay until a fault of one unit that begins at step 100 is found: the
number of readings of this unit from the fault to the first alarm.
"""

from __future__ import annotations

import argparse
import os
import time
from dataclasses import dataclass

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import numpy as np  # noqa: E402 - the number of threads is read by the import

from psrl_pomdp import FinitePrior, Fleet, GaussianSensor, Setting  # noqa: E402

RATES = (0.03, 0.06, 0.12)
COST = [[0.0, 1.0], [0.4, 0.4]]
TABLE = np.array([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]])
WRONG_BY_A_TENTH = np.array([[0.6, 0.2, 0.2], [0.0, 0.3, 0.7]])
MEANS = np.array([0.0, 2.0])
UNITS = ("a", "b", "c")
FAULTY, BEGIN = "b", 100


class Threshold:
    """A planner without planning: repair where the unit is probably worn."""

    lower, upper, status = 0.0, 1.0, "none"

    def action(self, belief: np.ndarray) -> int:
        return int(belief[1] > 0.6)


@dataclass
class Plant:
    """Three units whose true wear rate and sensor are those of the model, until one of them is faulty."""

    meter: bool
    rate: float
    rng: np.random.Generator

    def __post_init__(self) -> None:
        self.states = dict.fromkeys(UNITS, 0)

    def wear(self, unit: str, action: int, factor: float) -> None:
        if action == 1:
            self.states[unit] = 0
        elif self.rng.random() < self.rate * factor:
            self.states[unit] = 1

    def reading(self, unit: str, table: np.ndarray, shift: float) -> int | float:
        state = self.states[unit]
        if self.meter:
            return float(self.rng.normal(MEANS[state] + shift, 1.0))
        return int(self.rng.choice(3, p=table[state]))


def new_fleet(meter: bool, alpha: float, seed: int) -> Fleet:
    sensor = GaussianSensor(MEANS, [1.0, 1.0]) if meter else TABLE
    kernels = [[[[1 - p, p], [0.0, 1.0]], [[1.0, 0.0], [1.0, 0.0]]] for p in RATES]
    setting = Setting(sensor, COST, [1.0, 0.0])
    return Fleet(
        FinitePrior(setting, kernels), seed=seed, planner=lambda *_, **__: Threshold(), false_alarm_rate=alpha
    )


def step(
    fleet: Fleet, plant: Plant, unit: str, table: np.ndarray = TABLE, shift: float = 0.0, wear: float = 1.0
) -> None:
    """Take one step of a unit."""
    action = fleet.unit(unit).action if unit in fleet.units else None
    if action is not None:
        plant.wear(unit, action, wear)
    fleet.act(unit, plant.reading(unit, table, shift))


def false_alarms(plants: int, steps: int, alpha: float) -> None:
    """Print the share of healthy plants with an alarm."""
    print(
        f"\n{plants} healthy plants of {len(UNITS)} units, {steps} readings of each unit, alpha = {alpha:g}"
    )
    print(f"{'sensor':<10}{'wear rate':>10}{'plants':>8}{'alarms':>8}{'share':>9}")
    count: dict[tuple[bool, float], list[int]] = {}
    for i in range(plants):
        rng = np.random.default_rng([i, 1])
        meter, rate = bool(i % 2), float(rng.choice(RATES))
        fleet, plant = new_fleet(meter, alpha, i), Plant(meter, rate, rng)
        for _ in range(steps):
            for unit in UNITS:
                step(fleet, plant, unit)
        count.setdefault((meter, rate), []).append(int(fleet.watch.alarm))
    for (meter, rate), found in sorted(count.items()):
        name = "meter" if meter else "table"
        print(f"{name:<10}{rate:>10.2f}{len(found):>8}{sum(found):>8}{np.mean(found):>9.4f}")
    everything = [alarm for found in count.values() for alarm in found]
    verdict = "at most alpha" if np.mean(everything) <= alpha else "ABOVE ALPHA"
    print(f"{'all':<20}{len(everything):>8}{sum(everything):>8}{np.mean(everything):>9.4f}  {verdict}")


def delays(repeats: int, longest: int, alpha: float) -> None:
    """Print how many readings of the faulty unit it takes until there is an alarm."""
    usual, fast = RATES[1:]  # twice the fast rate is above all rates of the prior
    faults = {
        "meter shifted by one sd": (True, usual, (TABLE, 1.0, 1.0)),
        "sensor wrong by .1": (False, usual, (WRONG_BY_A_TENTH, 0.0, 1.0)),
        "doubled wear, table": (False, fast, (TABLE, 0.0, 2.0)),
        "doubled wear, meter": (True, fast, (TABLE, 0.0, 2.0)),
    }
    print(f"\nreadings of a unit from its fault to the alarm, {repeats} plants each, alpha = {alpha:g}")
    print(f"{'fault':<26}{'wear rate':>10}{'found':>9}{'median':>8}{'90 %':>8}{'unit named':>12}")
    for fault, (meter, rate, change) in faults.items():
        found: list[float] = []
        named = 0
        for i in range(repeats):
            fleet, plant = new_fleet(meter, alpha, i), Plant(meter, rate, np.random.default_rng([i, 2]))
            for t in range(BEGIN + longest):
                for unit in UNITS:
                    step(fleet, plant, unit, *(change if unit == FAULTY and t >= BEGIN else ()))
                if t >= BEGIN and fleet.alarms:
                    found.append(t - BEGIN + 1)
                    named += fleet.alarms[0].unit == FAULTY
                    break
        ends = sorted(found) + [np.inf] * (repeats - len(found))
        median, most = (ends[min(repeats - 1, int(share * repeats))] for share in (0.5, 0.9))
        share = f"{len(found)}/{repeats}"
        print(f"{fault:<26}{rate:>10.2f}{share:>9}{median:>8g}{most:>8g}{named:>9}/{len(found)}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--plants", type=int, default=1000, help="healthy plants (1000)")
    parser.add_argument(
        "--steps", type=int, default=100, help="readings of each unit of a healthy plant (100)"
    )
    parser.add_argument("--repeats", type=int, default=20, help="plants with each fault (20)")
    parser.add_argument("--longest", type=int, default=3000, help="readings until a fault counts as missed")
    parser.add_argument("--alpha", type=float, default=0.05, help="the false-alarm rate (0.05)")
    options = parser.parse_args()
    begun = time.process_time()
    false_alarms(options.plants, options.steps, options.alpha)
    delays(options.repeats, options.longest, options.alpha)
    print(f"\n{time.process_time() - begun:.0f} CPU seconds")


if __name__ == "__main__":
    main()
