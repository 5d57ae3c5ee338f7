"""From a .pomdp file of your own to a plan, a proof and a learner.

    python examples/custom_pomdp.py
    python examples/custom_pomdp.py my-model.pomdp --horizon 5000

Reads a model in Cassandra's format (examples/greenhouse.pomdp unless another is named), says what is doubtful
about it, brackets its best long-run average with a certificate, keeps the plan, has it verified from the file
alone, and lets an agent learn the dynamics that the file would have told. A mistake in the file is reported
with its line.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np

from psrl_pomdp import DirichletPrior, Plan, PSRLAgent, check_model, load, plan, simulate, verify


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    default = Path(__file__).parent / "greenhouse.pomdp"
    parser.add_argument("file", nargs="?", type=Path, default=default, help="a .pomdp file")
    parser.add_argument("--horizon", type=int, default=2000, help="steps of the learner (default 2000)")
    parser.add_argument("--tolerance", type=float, default=1e-4, help="the scaled gap to plan for (1e-4)")
    given = parser.parse_args()

    model = load(given.file)
    print(model)
    for finding in check_model(model):
        print(f"  {finding.severity}: {finding.text}")

    best = plan(model, given.tolerance, max_work=3e9)
    print(f"best average {best.units.kind}: {best.lower:.5f} to {best.upper:.5f} ({best.status})")
    with tempfile.TemporaryDirectory() as folder:
        best.save(Path(folder) / "plan.npz")
        low, high = verify(Plan.load(Path(folder) / "plan.npz"), model)
    print(f"proved again from the file alone: {low:.5f} to {high:.5f}")

    # The file's zeros are taken as known; every other probability is learned.
    prior = DirichletPrior(model.setting, (model.transition > 0).astype(np.float64))
    trace = simulate(model, PSRLAgent(prior, seed=1), given.horizon, seed=1)
    regret = trace.regret(best)
    print(f"learned in {given.horizon} steps: average {best.units.kind} {trace.average_cost:.5f}, "
          f"regret {regret.lower:.1f} to {regret.upper:.1f}")  # fmt: skip


if __name__ == "__main__":
    main()
