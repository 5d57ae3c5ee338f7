"""Forty pumps from a CSV file to a running plant, on a wear process that this package does not know.

    python benchmarks/live/forty_pumps.py                       a few minutes
    python benchmarks/live/forty_pumps.py --units 10 --days 30

The wear of a pump is a real number that grows every day by a gamma variate; at 1 the pump fails. A meter
shows the wear with noise, and the log has its readings in three classes, with a fourth one for a failed pump.
For `--log` days every pump has been overhauled by the calendar, and when it had failed. The model has four
states, costs and an observation model that an engineer could write down, and no dynamics. Then

    psrl-pomdp fit logs.csv --model plant.toml -o fleet.npz
    psrl-pomdp serve plant.toml                                 with start = "fleet.npz"

and `psrl_pomdp.live.Client` plays the pumps for `--days` days. The same noise is used for the calendar, for
forty lonely agents that each learn from the log of their own pump only, and for a fleet that learns nothing
(its only model is the mean of the prior). A row has the mean cost of a unit and day, the standard error over
units, failures and overhauls per hundred days of a unit. Days begin with new pumps.
"""

from __future__ import annotations

import argparse
import csv
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from plants import Server

STATES, READINGS = ["new", "worn", "bad", "failed"], ["low", "middle", "high", "stopped"]
ACTIONS = ["run", "overhaul"]
EDGES = (0.33, 0.66)  # between the classes of wear, and between those of readings
SHAPE, SCALE, NOISE = 0.25, 0.08, 0.15  # of the increments of a day; of the meter
CALENDAR = 30  # days between two overhauls
OVERHAUL, FAILED, ENERGY = 400.0, 900.0, 40.0  # a day of standstill costs FAILED, wear costs ENERGY a day
TOML = """\
name = "pumps"
model = "pump.json"
prior = "dirichlet"
fallback = "overhaul"
seed = 1
start = "fleet.npz"

[limits]
rate = 0
"""


class Pumps:
    """The true process; the noise of every day is drawn ahead, so that all policies meet the same."""

    def __init__(self, units: int, days: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.steps = rng.gamma(SHAPE, SCALE, (days, units))
        self.noise = rng.normal(0.0, NOISE, (days, units))
        self.wear = np.zeros(units)
        self.costs, self.failures, self.overhauls = np.zeros(units), 0, 0

    def readings(self, day: int) -> list[str]:
        shown = np.searchsorted(EDGES, self.wear + self.noise[day])
        return ["stopped" if w >= 1.0 else READINGS[i] for w, i in zip(self.wear, shown, strict=True)]

    def act(self, day: int, overhaul: Any) -> None:
        failed = self.wear >= 1.0
        self.costs += np.where(failed, FAILED, ENERGY * self.wear) + np.where(overhaul, OVERHAUL, 0.0)
        self.overhauls += int(np.sum(overhaul))
        after = np.where(overhaul, 0.0, self.wear) + self.steps[day]
        self.failures += int(np.sum((after >= 1.0) & ~(failed & ~overhaul)))
        self.wear = after

    def row(self, name: str, days: int, seconds: float) -> str:
        daily, per = self.costs / days, 100.0 / (days * len(self.costs))
        error = float(daily.std(ddof=1)) / np.sqrt(len(daily)) if len(daily) > 1 else 0.0
        return (
            f"{name:<34}{daily.mean():>8.2f} ± {error:<5.2f}{self.failures * per:>9.2f}"
            f"{self.overhauls * per:>11.2f}{seconds:>9.0f}"
        )


def model() -> Any:
    """What an engineer would write down: classes of wear, meter, costs, which transitions are possible."""
    from psrl_pomdp import POMDP, Setting

    grid = np.linspace(0.0, 0.999, 1000)
    rng = np.random.default_rng(0)
    shown = np.searchsorted(EDGES, grid[:, None] + rng.normal(0.0, NOISE, (1000, 200)))
    state = np.searchsorted(EDGES, grid)
    table = np.zeros((4, 4))
    for s in range(3):
        table[s, :3] = np.bincount(shown[state == s].ravel(), minlength=3)
    table[3, 3] = 1.0
    table /= table.sum(axis=1, keepdims=True)
    energy = np.array([ENERGY * grid[state == s].mean() for s in range(3)] + [FAILED])
    setting = Setting(
        table, np.array([energy, energy + OVERHAUL]), [1.0, 0.0, 0.0, 0.0], units="euro",
        states=STATES, actions=ACTIONS, observations=READINGS,
    )  # fmt: skip
    run = np.triu(np.ones((4, 4)))
    kernel = np.array([run, np.tile([1.0, 1.0, 0.0, 0.0], (4, 1))])
    return POMDP(setting, kernel / kernel.sum(axis=2, keepdims=True), name="pump")


def calendar(day: int, readings: list[str]) -> list[str]:
    """The rule of the log: by the calendar, in turn, and when a pump has failed."""
    return [
        "overhaul" if reading == "stopped" or (day + i) % CALENDAR == CALENDAR - 1 else "run"
        for i, reading in enumerate(readings)
    ]


def play(pumps: Pumps, days: int, rule: Callable[[int, list[str]], list[str]]) -> float:
    begun = time.perf_counter()
    for day in range(days):
        pumps.act(day, np.array(rule(day, pumps.readings(day))) == "overhaul")
    return time.perf_counter() - begun


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--units", type=int, default=40)
    parser.add_argument("--days", type=int, default=90, help="of the service and its rivals")
    parser.add_argument("--log", type=int, default=60, help="days of the log")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    from psrl_pomdp.io import save

    warnings.simplefilter("ignore")
    units, days = options.units, options.days
    names = [f"P{i + 1:02d}" for i in range(units)]
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        known = model()
        save(known, folder / "pump.json")
        (folder / "plant.toml").write_text(TOML, encoding="utf-8")
        logs = write_log(folder / "logs.csv", names, options.log, options.seed)
        cli = [sys.executable, "-c", "from psrl_pomdp.cli import main; main()"]
        fit = ["fit", "logs.csv", "--model", "plant.toml", "-o", "fleet.npz"]
        begun = time.perf_counter()
        subprocess.run([*cli, *fit], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        print(f"fit: {units} units, {options.log} days, {time.perf_counter() - begun:.0f} s")
        title = ("", "cost a unit and day", "failures", "overhauls", "seconds")
        print("{:<34}{:>16}{:>9}{:>11}{:>9}".format(*title), flush=True)

        def one(name: str, rule: Callable[[int, list[str]], list[str]]) -> None:
            pumps = Pumps(units, days, options.seed + 1)
            print(pumps.row(name, days, play(pumps, days, rule)), flush=True)

        one(f"calendar, every {CALENDAR} days", calendar)
        one("no learning", no_learning(known, names))
        one(f"{units} lonely agents", lonely(known, logs, names))
        server = Server(folder, toml=TOML)
        server.start()
        try:
            one("fit and serve", served(server, names))
        finally:
            server.stop()


def write_log(path: Path, names: list[str], days: int, seed: int) -> list[tuple[list[str], list[str]]]:
    """Write the CSV of the calendar rule; return each pump's readings and actions."""
    pumps, logs = Pumps(len(names), days, seed), [([], []) for _ in names]  # type: ignore[var-annotated]

    def rule(day: int, readings: list[str]) -> list[str]:
        actions = calendar(day, readings)
        for (seen, done), reading, action in zip(logs, readings, actions, strict=True):
            seen.append(reading)
            done.append(action)
        return actions

    play(pumps, days, rule)
    with path.open("w", encoding="utf-8", newline="") as out:
        writer = csv.writer(out)
        writer.writerow(["unit", "time", "reading", "action"])
        for name, (seen, done) in zip(names, logs, strict=True):
            writer.writerows([name, day, *pair] for day, pair in enumerate(zip(seen, done, strict=True)))
    return logs


def no_learning(known: Any, names: list[str]) -> Callable[[int, list[str]], list[str]]:
    from psrl_pomdp import FinitePrior, Fleet
    from psrl_pomdp.studies.priors import prior_of

    mean = prior_of(known, "dirichlet", (1,)).mean
    fleet = Fleet(FinitePrior(known.setting, np.asarray(mean)[None]), seed=1)
    return lambda day, seen: [
        ACTIONS[fleet.act(name, READINGS.index(r))] for name, r in zip(names, seen, strict=True)
    ]


def lonely(known: Any, logs: Any, names: list[str]) -> Callable[[int, list[str]], list[str]]:
    """Return the rule of agents that each know the log of their own pump; the pump is new afterwards."""
    from psrl_pomdp import Log, PSRLAgent
    from psrl_pomdp.studies.priors import prior_of

    agents = []
    for i, (seen, done) in enumerate(logs):
        agent = PSRLAgent(prior_of(known, "dirichlet", (1, i)), seed=(1, i))
        agent.learn(logs=[Log(seen, done)])
        agents.append(agent)
    return lambda day, seen: [
        ACTIONS[agent.act(READINGS.index(r))] for agent, r in zip(agents, seen, strict=True)
    ]


def served(server: Server, names: list[str]) -> Callable[[int, list[str]], list[str]]:
    from psrl_pomdp.live import Client

    client = Client(server.url)

    def rule(day: int, readings: list[str]) -> list[str]:
        """Send the readings of a day; a plan that is due has until the next day."""
        sent = [
            {"unit": name, "step": day + 1, "reading": reading}
            for name, reading in zip(names, readings, strict=True)
        ]
        answers = client.readings(sent)
        if answers[-1]["late"]:
            episode, until = answers[-1]["episode"], time.perf_counter() + 60.0
            while server.metric("psrl_pomdp_episode") <= episode and time.perf_counter() < until:
                time.sleep(0.1)
        return [answer["action"] for answer in answers]

    return rule


if __name__ == "__main__":
    main()
