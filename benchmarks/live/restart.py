"""Memory and the time of a restart after many readings.

    python benchmarks/live/restart.py [--readings 100000]

The readings go through the ledger of the service, in commits of 1,000, with the worker behind.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path

from plants import MODEL, World

from psrl_pomdp.live.config import plant_from
from psrl_pomdp.live.ledger import Ledger, Request
from psrl_pomdp.live.metrics import Metrics
from psrl_pomdp.live.opening import open_log
from psrl_pomdp.live.store import Store
from psrl_pomdp.live.warming import load_compiled_code


def memory() -> float:
    """Resident memory of this process in MB."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--readings", type=int, default=100_000)
    parser.add_argument("--units", type=int, default=40)
    parser.add_argument("--model", default=MODEL)
    given = parser.parse_args()
    load_compiled_code()
    plant = plant_from({"model": given.model, "fallback": "0", "prior": "dirichlet", "seed": 1})
    with tempfile.TemporaryDirectory() as name:
        database = str(Path(name) / "plant.db")
        store = Store(database, create=True)
        open_log(store, plant)
        ledger = Ledger(store, Metrics())
        ledger.start()
        units = [f"unit{i}" for i in range(given.units)]
        world, done, begun = World(given.model, units), 0, time.perf_counter()
        import msgspec

        while done < given.readings:
            answers = ledger.take_all(
                [Request("reading", unit, world.reading(unit)) for unit in units]
            ).result()
            for unit, text in zip(units, answers, strict=True):
                world.actions[unit] = msgspec.json.decode(text)["action_number"]
            done += len(units)
            if done % (given.readings // 10 // len(units) * len(units)) == 0:
                seconds = time.perf_counter() - begun
                print(f"{done} readings, {done / seconds:.0f} a second, {memory():.0f} MB", flush=True)
        ledger.close()
        store.close()
        size = Path(database).stat().st_size / done
        begun = time.perf_counter()
        store = Store(database, create=True)
        open_log(store, plant)
        ledger = Ledger(store, Metrics())
        ledger.start()
        print(f"restart from the snapshot: {time.perf_counter() - begun:.2f} s; {size:.0f} bytes a reading")
        ledger.close()
        store.close()


if __name__ == "__main__":
    main()
