"""The time from request to answer at 40 units, while plans and refreshes go on behind.

    python benchmarks/live/latency.py [--seconds 60] [--rate 40]

Four clients send the readings of 40 units at a steady rate. The time of a bare durable insert on the same
disk is printed beside, because every answer waits for one.
"""

from __future__ import annotations

import argparse
import http.client
import json
import sqlite3
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
from plants import MODEL, World, server


def fsync_times(folder: Path, n: int = 200) -> list[float]:
    connection = sqlite3.connect(folder / "bare.db")
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("CREATE TABLE events (seq INTEGER PRIMARY KEY, body)")
    times = []
    for _ in range(n):
        begun = time.perf_counter()
        connection.execute("INSERT INTO events (body) VALUES (?)", ("x" * 900,))
        connection.commit()
        times.append(time.perf_counter() - begun)
    connection.close()
    return times


def said(what: str, times: list[float]) -> None:
    found = 1e3 * np.quantile(times, [0.5, 0.9, 0.99, 1.0])
    print(f"{what}: median {found[0]:.1f} ms, 90% {found[1]:.1f}, 99% {found[2]:.1f}, worst {found[3]:.1f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--rate", type=float, default=40.0, help="readings a second (default 40)")
    parser.add_argument("--model", default=MODEL)
    given = parser.parse_args()
    clients, per_client = 4, 10
    with tempfile.TemporaryDirectory() as name, server(Path(name), given.model) as found:
        said("a bare durable insert", fsync_times(Path(name)))
        times: list[list[float]] = [[] for _ in range(clients)]
        stop = time.perf_counter() + given.seconds

        def run(number: int) -> None:
            units = [f"unit{number}-{i}" for i in range(per_client)]
            world = World(given.model, units, number)
            connection = http.client.HTTPConnection("127.0.0.1", found.port, timeout=60)
            following = time.perf_counter()
            while time.perf_counter() < stop:
                for unit in units:
                    following += clients / given.rate
                    time.sleep(max(0.0, following - time.perf_counter()))
                    body = json.dumps(world.reading(unit))
                    begun = time.perf_counter()
                    connection.request("POST", f"/v1/units/{unit}/readings", body)
                    answer = json.loads(connection.getresponse().read())
                    times[number].append(time.perf_counter() - begun)
                    world.actions[unit] = answer["action_number"]

        threads = [threading.Thread(target=run, args=(n,)) for n in range(clients)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        everything = [each for one in times for each in one]
        said(f"{len(everything)} answers", everything)
        print(
            f"meanwhile {found.metric('psrl_pomdp_adopted_total'):.0f} plans and refreshes were adopted, "
            f"{found.metric('psrl_pomdp_late_steps'):.0f} steps were played late, "
            f"{found.metric('psrl_pomdp_answers_late_total'):.0f} answers came after the deadline of 200 ms"
        )


if __name__ == "__main__":
    main()
