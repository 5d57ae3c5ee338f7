"""kill -9 under traffic: nothing lost, nothing doubled, actions bit for bit those of a replay.

    python benchmarks/live/kill.py [--kills 100] [--clients 8]

Eight clients send readings without a pause, each for its own units, and remember every answer. The server is
killed at random moments and started again. In the end the log must hold exactly the readings that were
answered, each once, with the answers that the clients got; and `psrl-pomdp audit` replays it from the first
event, without a kill, and compares every decision and belief to the last bit.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import threading
import time
from pathlib import Path

from plants import MODEL, Server, World

from psrl_pomdp.live.audit import audit
from psrl_pomdp.live.client import Client
from psrl_pomdp.live.store import Store


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--model", default=MODEL)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        server = Server(folder, given.model)
        server.start()
        stop, faults = threading.Event(), []
        answers: dict[tuple[str, int], dict[str, object]] = {}

        def traffic(number: int) -> None:
            units = [f"unit{number}-{i}" for i in range(3)]
            world = World(given.model, units, seed=number)
            try:
                with Client(server.url, attempts=400, timeout=30.0) as client:
                    while not stop.is_set():
                        for unit in units:
                            words = world.reading(unit)
                            found = client.reading(unit, words["reading"], step=words["step"])
                            world.actions[unit] = found["action_number"]
                            answers[unit, words["step"]] = found
            except Exception as error:
                faults.append(f"client {number}: {type(error).__name__}: {error}")

        threads = [threading.Thread(target=traffic, args=(n,), daemon=True) for n in range(given.clients)]
        for thread in threads:
            thread.start()
        rng, restarts = random.Random(given.seed), []
        for kill in range(given.kills):
            time.sleep(rng.uniform(0.0, 3.0))
            server.kill()
            restarts.append(server.start())
            if kill % 10 == 9:
                print(f"{kill + 1} kills, {len(answers)} answers", flush=True)
        stop.set()
        for thread in threads:
            thread.join(timeout=120)
        server.kill()
        with Store(str(folder / "plant.db")) as store:
            report = audit(store)
            logged: dict[tuple[str, int], dict[str, object]] = {}
            doubled = adopted = 0
            for row in store.rows():
                adopted += row.kind == "adopted"
                if row.kind == "reading":
                    doubled += (row.unit, row.step) in logged
                    logged[row.unit or "", row.step or 0] = json.loads(row.answer or "{}")
        lost = [place for place in answers if place not in logged]
        other = [place for place in answers if logged.get(place) != answers[place]]
        print(
            f"{given.kills} kills under {given.clients} clients: {len(answers)} readings answered, "
            f"{adopted} plans and refreshes adopted, {len(lost)} lost, {doubled} doubled, "
            f"{len(other)} answered otherwise"
        )
        print(
            f"restart until ready: median {sorted(restarts)[len(restarts) // 2]:.2f} s, "
            f"worst {max(restarts):.2f} s"
        )
        print(f"audit: {'good' if report.good else report.findings}, {report.decisions} decisions replayed")
        if faults or lost or doubled or other or not report.good:
            sys.exit("\n".join(faults) or "not exactly once")


if __name__ == "__main__":
    main()
