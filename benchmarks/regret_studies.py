"""The studies behind the figures: regret to a million steps, and Bayesian regret in the general case.

    python benchmarks/regret_studies.py separated --figure docs/images/separated.svg
    python benchmarks/regret_studies.py dirichlet
    python benchmarks/regret_studies.py workers

`separated`: the finite family of that name, T = 10^6, 64 runs: measured regret beside the bound as proved, at
every checkpoint, and how it grows. `dirichlet`: worlds drawn from a Dirichlet prior, T = 10^5, 64 runs on
each problem whose sensor tells all states apart: the exponent of growth, the paper's decomposition, and its
lemmas on every run. `workers`: the same
study on one process and on two, in seconds. Results are kept in --out; what is there is not run again.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from psrl_pomdp import problem
from psrl_pomdp.analysis import finite_bound, fit_growth
from psrl_pomdp.problems import catalogue
from psrl_pomdp.report.plan_figures import save_figure
from psrl_pomdp.report.regret_figures import regret_figure
from psrl_pomdp.studies.runner import run
from psrl_pomdp.studies.store import Store
from psrl_pomdp.studies.study import Study, study_from
from psrl_pomdp.studies.summary import curves, decomposition, violations


def told_apart() -> tuple[str, ...]:
    """The problems whose sensor has full rank after each action: every reading says something of every state.

    Elsewhere the theory's assumptions on the belief and the kernel can fail, and the paper promises nothing.
    They do fail: an action after which nothing is read teaches nothing, and since costs are not seen either,
    a policy of such actions that is wrongly held to be good is never found out. On machine-repair most runs
    of 10^5 steps examine the product a few dozen times: regret grows linearly (`--problem machine-repair`).
    """
    found = []
    for entry in catalogue():
        setting = problem(entry.name).setting
        if (np.linalg.matrix_rank(setting.observation) == setting.n_states).all():
            found.append(entry.name)
    return tuple(found)


def separated_study(horizon: int, seeds: int) -> Study:
    return study_from(
        {
            "title": f"PSRL-POMDP on the separated family, {seeds} runs",
            "problem": "separated",
            "horizon": horizon,
            "seeds": seeds,
            "tolerance": 1e-9,
            "agents": [{"kind": "psrl", "prior": "finite", "floor": 1e-9}, {"kind": "oracle"}],
        }
    )


def dirichlet_study(name: str, horizon: int, seeds: int) -> Study:
    return study_from(
        {
            "problem": name,
            "truth": "prior",
            "horizon": horizon,
            "seeds": seeds,
            "tolerance": 1e-6,
            "agents": [{"kind": "psrl", "prior": "dirichlet"}],
        }
    )


def separated(folder: Path, workers: int, horizon: int, seeds: int, figure: Path | None) -> None:
    store = Store.create(folder / "separated", separated_study(horizon, seeds))
    run(store, workers=workers)
    found = curves(store)
    family = problem("separated").family
    assert family is not None
    bound = finite_bound(family)
    proved = bound.proved(found["psrl"].times)
    for agent, curve in found.items():
        grown = fit_growth(curve)
        print(f"{agent}: {curve!r}")
        print(f"  {grown!r}: {grown.text}")
    high = found["psrl"].interval[1]
    print(f"below the bound as proved at {int((high < proved).sum())} of {len(proved)} checkpoints")
    print(f"  at the horizon: {high[-1]:.4g} at most, the bound is {proved[-1]:.4g} (ε, α, β, H: {bound})")
    print(f"violations of the lemmas: {violations(store) or 'none'}")
    if figure is not None:
        title = "PSRL-POMDP on a finite family: regret to a million steps"
        drawing = regret_figure(found, title, "cost", {"bound as proved": proved})
        save_figure(drawing, figure)
        print(f"drew {figure}")


def dirichlet(folder: Path, workers: int, horizon: int, seeds: int, names: Sequence[str]) -> None:
    for name in names:
        store = Store.create(folder / f"dirichlet-{name}", dirichlet_study(name, horizon, seeds))
        run(store, workers=workers)
        curve = curves(store)["psrl"]
        grown = fit_growth(curve, start=100)
        p = grown.exponent
        print(f"{name}: {curve!r}")
        print(f"  exponent {p.value:.3f}, 95 % in [{p.low:.3f}, {p.high:.3f}] (below 2/3: {p.high < 2 / 3})")
        print(f"  {grown.text}")
        terms = decomposition(store, "psrl")
        found = terms.check()
        print(
            f"  decomposition against: {found or 'nothing'}; lemmas: {violations(store) or 'none violated'}"
        )


def two_workers(horizon: int, seeds: int) -> None:
    spent = {}
    for workers in (1, 2, 1, 2):
        folder = Path(tempfile.mkdtemp())
        store = Store.create(folder / "study", dirichlet_study("random-readout", horizon, seeds))
        begun = time.perf_counter()
        run(store, workers=workers)
        spent[workers] = min(spent.get(workers, np.inf), time.perf_counter() - begun)
        shutil.rmtree(folder)
    print(f"one worker {spent[1]:.1f} s, two {spent[2]:.1f} s: a share of {spent[2] / spent[1]:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("which", choices=("separated", "dirichlet", "workers"))
    parser.add_argument("--out", type=Path, default=Path("regret-studies"))
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--horizon", type=int)
    parser.add_argument("--seeds", type=int)
    parser.add_argument("--figure", type=Path)
    parser.add_argument("--problem", action="append", help="for `dirichlet`, instead of all that it is about")
    options = parser.parse_args()
    if options.which == "workers":
        two_workers(options.horizon or 20_000, options.seeds or 12)
        return
    options.out.mkdir(parents=True, exist_ok=True)
    if options.which == "separated":
        separated(options.out, options.workers, options.horizon or 10**6, options.seeds or 64, options.figure)
    else:
        names = options.problem or told_apart()
        dirichlet(options.out, options.workers, options.horizon or 10**5, options.seeds or 64, names)


if __name__ == "__main__":
    main()
