"""Compute the numbers that the manual quotes and that no code block of its pages prints.

    python docs/quoted.py demo         the output of the demo; also written into the README
    python docs/quoted.py sensitivity  regret on railway caused by a wrong observation model
    python docs/quoted.py blind        regret on machine-repair, whose informative action costs extra
    python docs/quoted.py noise        three estimators of the same regret and their standard deviations
    python docs/quoted.py growth       the growth of three regret curves, and docs/images/growth.svg
    python docs/quoted.py all

Each command prints its table and writes it to docs/quoted, from where the pages include it. It takes minutes
on two cores.
"""

from __future__ import annotations

import argparse
import io
import re
import tempfile
import textwrap
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path

import numpy as np

from psrl_pomdp import FinitePrior, PSRLAgent, plan, problem, simulate
from psrl_pomdp.analysis import RegretCurve, fit_growth
from psrl_pomdp.analysis.estimators import ESTIMATORS, run_sums
from psrl_pomdp.studies.results import RunResult
from psrl_pomdp.studies.runner import run
from psrl_pomdp.studies.store import Store
from psrl_pomdp.studies.study import study_from
from psrl_pomdp.studies.summary import curves

HERE = Path(__file__).resolve().parent


def demo(workers: int) -> None:
    """Print what `psrl-pomdp demo` prints, without the folder of its results; also update the README."""
    from psrl_pomdp.cli import cli

    said = io.StringIO()
    with tempfile.TemporaryDirectory() as folder, redirect_stdout(said):
        words = ["demo", "--workers", str(workers), "--out", f"{folder}/demo"]
        cli.main(words, prog_name="psrl-pomdp", standalone_mode=False)
    text = said.getvalue().partition("\nResults are in")[0].rstrip()
    print(text)
    readme = HERE.parent / "README.md"
    table = text.partition("\n\n")[2].partition("\n\nMeans of")[0]
    old = readme.read_text(encoding="utf-8")
    new = re.sub(r"```text\n.*?```", lambda _: f"```text\n{table}\n```", old, count=1, flags=re.DOTALL)
    readme.write_text(new, encoding="utf-8")


def sensitivity(workers: int) -> None:
    """`psrl-pomdp sensitivity railway`."""
    from psrl_pomdp.cli import cli

    words = ["sensitivity", "railway", "--workers", str(workers)]
    cli.main(words, prog_name="psrl-pomdp", standalone_mode=False)


def studied(
    name: str, horizon: int, seeds: int, agent: dict[str, object], workers: int
) -> tuple[RegretCurve, list[RunResult]]:
    """Return the regret curve of one agent and the results of its runs, without keeping the study."""
    words = {"problem": name, "horizon": horizon, "seeds": seeds, "tolerance": 1e-6, "agents": [agent]}
    with tempfile.TemporaryDirectory() as folder:
        store = Store.create(Path(folder) / "study", study_from(words))
        run(store, workers=workers)
        (curve,) = curves(store).values()
        return curve, list(store.done())


def at(curve: RegretCurve, time: int) -> str:
    i = int(np.flatnonzero(curve.times == time)[0])
    low, high = (float(end[i]) for end in curve.interval)
    return f"{curve.middle[i]:8.1f}  [{low:.1f}, {high:.1f}]"


def blind(workers: int, times: tuple[int, ...] = (100, 1000, 10_000), seeds: int = 8) -> None:
    curve, results = studied(
        "machine-repair", times[-1], seeds, {"kind": "psrl", "prior": "dirichlet"}, workers
    )
    print(f"PSRL-POMDP on machine-repair, Dirichlet prior, {seeds} runs of {times[-1]:,} steps")
    print("     T    regret  95 % interval        distance to the true row")
    for time in times:
        i = int(np.flatnonzero(curve.times == time)[0])
        away = np.mean([result.posterior[i] for result in results])
        print(f"{time:6d}  {at(curve, time):30s} {away:.2f}")
    grown = fit_growth(curve)
    exponent = grown.exponent
    print(f"regret fitted by c T^p: p = {exponent.value:.2f} [{exponent.low:.2f}, {exponent.high:.2f}]")
    world = problem("machine-repair")
    known = FinitePrior(world.setting, world.transition[None])
    print("actions in the second half of 4 runs of 2,000 steps, by an agent that")
    for who, prior in (("knows the kernel", known), ("learns the kernel", world.prior)):
        runs = [simulate(world, PSRLAgent(prior, seed=i), 2000, seed=i) for i in range(4)]
        shares = np.mean([np.bincount(trace.actions[1000:], minlength=4) / 1000 for trace in runs], axis=0)
        listed = zip(world.setting.actions, shares, strict=True)
        print(f"  {who}: " + ", ".join(f"{action} {share:.1%}" for action, share in listed))


def noise(workers: int, horizon: int = 10_000, seeds: int = 40) -> None:
    world = problem("separated")
    assert world.family is not None
    best = plan(world, 1e-6)
    runs = [simulate(world, PSRLAgent(world.family, seed=i), horizon, seed=i) for i in range(seeds)]
    print(f"PSRL-POMDP on separated, finite prior, {seeds} runs of {horizon:,} steps")
    print("estimator       mean regret  standard deviation of one run")
    middle = 0.5 * (best.lower_cost + best.upper_cost)
    for estimator in ("plain", "expected", "control_variate"):
        assert estimator in ESTIMATORS
        sums = np.array([run_sums(trace, best, estimator)[-1] for trace in runs]) - horizon * middle
        print(f"{estimator:15s} {sums.mean():11.2f}  {sums.std(ddof=1):.2f}")


def growth(workers: int) -> None:
    from psrl_pomdp.report.plan_figures import save_figure
    from psrl_pomdp.report.regret_figures import regret_figure

    asked = {
        "PSRL-POMDP, finite prior": ("separated", {"kind": "psrl", "prior": "finite"}),
        "PSRL-POMDP, Dirichlet prior": ("separated", {"kind": "psrl", "prior": "dirichlet"}),
        "random actions": ("separated", {"kind": "random"}),
    }
    found: dict[str, RegretCurve] = {}
    print("regret on separated, 16 runs of 10,000 steps for each agent")
    for label, (name, agent) in asked.items():
        curve, _ = studied(name, 10_000, 16, agent, workers)
        found[label] = curve
        print(textwrap.fill(f"{label}: {fit_growth(curve).text}", 96, subsequent_indent="    "))
    figure = regret_figure(found, "Regret on the problem separated", "")
    save_figure(figure, HERE / "images" / "growth.svg")


WHAT: dict[str, Callable[[int], None]] = {
    "demo": demo, "sensitivity": sensitivity, "blind": blind, "noise": noise, "growth": growth,
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=[*WHAT, "all"])
    parser.add_argument("--workers", type=int, default=2, help="processes")
    given = parser.parse_args()
    for name in WHAT if given.what == "all" else [given.what]:
        text = io.StringIO()
        with redirect_stdout(text):
            WHAT[name](given.workers)
        print(text.getvalue(), end="")
        (HERE / "quoted").mkdir(exist_ok=True)
        (HERE / "quoted" / f"{name}.txt").write_text(text.getvalue(), encoding="utf-8")


if __name__ == "__main__":
    main()
