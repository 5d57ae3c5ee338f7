"""An agent in front of a real process, over HTTP: the service is killed, and nothing is lost.

    python examples/live_plant.py
    python examples/live_plant.py --steps 400 --units 5 --kills 4

`psrl-pomdp serve` runs in a process of its own, with its log in a database. The *plant*, which is this
program, sends the readings of its units, waits for the actions and carries them out; now and then a reading
is lost. Every so often the service is killed without a warning and started again. The plant sends the reading
that had no answer once more: the client does so by itself, with the same unit and step, so that a reading
counts once. In the end the log is replayed from its first event: every decision must be the one that was
given, to the last bit.

It needs `pip install 'psrl-pomdp[serve]'`. With a plant of your own, copy the class `Plant`.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from psrl_pomdp import problem
from psrl_pomdp.live import Client

PLANT = """\
name = "wiring"
model = "separated"        # a machine with four conditions, and four candidates for its dynamics
prior = "finite"
fallback = "0"
seed = 3
"""
COMMAND = "from psrl_pomdp.cli import main; main()"


class Plant:
    """Units of the true model, of which the service sees only the readings."""

    def __init__(self, n_units: int, lost: float, seed: int) -> None:
        self.model = problem("separated")
        self.rng = np.random.default_rng(seed)
        self.lost = lost
        self.n_lost = 0
        initial = self.model.setting.initial
        self.states = {f"unit{i}": int(self.rng.choice(len(initial), p=initial)) for i in range(n_units)}
        self.actions = dict.fromkeys(self.states, 0)
        self.cost = 0.0

    def reading(self, unit: str) -> int | None:
        sensor = self.model.setting.observation[self.actions[unit], self.states[unit]]
        reading = int(self.rng.choice(len(sensor), p=sensor))
        if self.rng.random() >= self.lost:
            return reading
        self.n_lost += 1
        return None

    def carry_out(self, unit: str, action: int) -> None:
        self.cost += float(self.model.setting.own_cost[action, self.states[unit]])
        row = self.model.transition[action, self.states[unit]]
        self.states[unit] = int(self.rng.choice(len(row), p=row))
        self.actions[unit] = action


class Service:
    """The service in a process of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, 0
        (folder / "plant.toml").write_text(PLANT, encoding="utf-8")
        self.start()

    def start(self) -> None:
        words = ["serve", "plant.toml", "--db", "sqlite:///plant.db", "--port", str(self.port)]
        with (self.folder / "log.jsonl").open("a", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-c", COMMAND, *words],
                cwd=self.folder, stdout=subprocess.PIPE, stderr=log, text=True,
            )  # fmt: skip
        assert self.process.stdout is not None
        said = self.process.stdout.readline()  # such as "wiring: http://127.0.0.1:8642"
        if "http://" not in said:
            raise SystemExit((self.folder / "log.jsonl").read_text(encoding="utf-8"))
        self.port = int(said.strip().rpartition(":")[2])

    def kill(self) -> None:
        self.process.kill()  # no warning, no goodbye
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--steps", type=int, default=120, help="readings of each unit (default 120)")
    parser.add_argument("--units", type=int, default=3, help="units of the plant (default 3)")
    parser.add_argument("--kills", type=int, default=2, help="how often the service is killed (default 2)")
    parser.add_argument("--lost", type=float, default=0.05, help="the share of readings that is lost (.05)")
    given = parser.parse_args()
    plant = Plant(given.units, given.lost, seed=1)
    with tempfile.TemporaryDirectory() as name:
        service = Service(Path(name))
        kill_at = {round(given.steps * (i + 1) / (given.kills + 1)) for i in range(given.kills)}
        with Client(f"http://127.0.0.1:{service.port}", attempts=30) as client:
            for step in range(1, given.steps + 1):
                if step in kill_at:
                    service.kill()
                    service.start()
                for unit in plant.states:
                    answer = client.reading(unit, plant.reading(unit), step=step)
                    plant.carry_out(unit, answer["action_number"])
            learned = client.plant()
            stood = {unit: client.step(unit) for unit in plant.states}
        service.kill()
        audit = subprocess.run(
            [sys.executable, "-c", COMMAND, "audit", "plant.db"],
            cwd=name, capture_output=True, text=True, check=False,
        )  # fmt: skip
    n = given.steps * given.units
    if set(stood.values()) != {given.steps}:
        raise SystemExit(f"the units stand at {stood}")
    print(
        f"{n} readings, of which {plant.n_lost} were lost on the way; "
        f"the service was killed {given.kills} times"
    )
    print(
        f"cost a step: {plant.cost / n:.3f}; episodes: {learned['episode']}; "
        f"late: {learned['late_steps']} steps"
    )
    print(audit.stdout.strip())
    if audit.returncode:
        raise SystemExit("the log is not good")


if __name__ == "__main__":
    main()
