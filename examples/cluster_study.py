"""A study on a Dask cluster: the same bytes as on one process, and nothing lost when it is stopped.

    pip install "psrl-pomdp[dask]"
    python examples/cluster_study.py
    python examples/cluster_study.py --horizon 10000 --seeds 32 --workers 8
    python examples/cluster_study.py --scheduler tcp://localhost:8786

Starts a local cluster (or uses the one at --scheduler), hands the jobs of a study to it through the ordinary
`concurrent.futures` interface, prints the regret of each agent, and then runs some of the jobs again in this
process to show that the results do not depend on where they were made. Run it twice with the same --out: the
second time everything is there already. Whoever can reach a Dask scheduler can run any code on its workers:
keep it on this machine or on a private network.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from distributed import Client, LocalCluster

from psrl_pomdp.studies.runner import Progress, run, verify
from psrl_pomdp.studies.store import Store
from psrl_pomdp.studies.study import study_from
from psrl_pomdp.studies.summary import summarize
from psrl_pomdp.studies.tables import write_tables


def opened(folder: Path, horizon: int, seeds: int) -> Store:
    """The folder of the study: a new one, or the one that is there."""
    study = study_from(
        {
            "title": f"Which wiring? {horizon} steps, {seeds} runs",
            "problem": "separated",
            "horizon": horizon,
            "seeds": seeds,
            "tolerance": 1e-6,
            "agents": [{"kind": "psrl", "prior": "finite"}, {"kind": "oracle"}, {"kind": "random"}],
        }
    )
    return Store.open(folder) if folder.exists() else Store.create(folder, study)


def told(progress: Progress) -> None:
    if progress.here and progress.here % 4 == 0:
        print(f"  {progress.done} of {progress.total} runs done", flush=True)


def on_cluster(store: Store, client: Client, workers: int) -> None:
    """Any executor will do: this one is Dask's."""
    with client.get_executor(pure=False, retries=3) as executor:
        progress = run(store, executor=executor, workers=workers, report=told)
    for failure in progress.failures:
        print(f"  failed: {failure}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--horizon", type=int, default=1000, help="steps of a run (default 1000)")
    parser.add_argument("--seeds", type=int, default=4, help="runs of every agent (default 4)")
    parser.add_argument("--workers", type=int, default=2, help="processes of a local cluster (default 2)")
    parser.add_argument("--scheduler", help="the address of a cluster that is there")
    parser.add_argument("--out", type=Path, help="the folder for results (default: a temporary one)")
    given = parser.parse_args()

    with tempfile.TemporaryDirectory() as temporary:
        store = opened(given.out or Path(temporary) / "study", given.horizon, given.seeds)
        if given.scheduler:
            with Client(given.scheduler) as client:
                on_cluster(store, client, given.workers)
        else:
            options = {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0", "threads_per_worker": 1}
            with LocalCluster(n_workers=given.workers, **options) as cluster, Client(cluster) as client:
                on_cluster(store, client, given.workers)
        write_tables(store)
        found = summarize(store)
        print(found["title"])
        for row in found["agents"]:
            print(f"  {row['agent']:8s} regret {row['regret']:8.2f}, {row['runs']} runs")
        done, different = verify(store, jobs=2)
        print(f"{done} runs made again in this process: {'differ' if different else 'the same bytes'}")


if __name__ == "__main__":
    main()
