"""How fast the interval for a density of observations closes: by the number of cells, and in one call.

    python benchmarks/continuous_bracket.py           all tables, about two minutes
    python benchmarks/continuous_bracket.py --brief   without the finest cells

The first table has the width of the interval between two finite sensors, one below and one above the
density, each with a plan of its own (cold). The column "study" has the widths that a study with other hubs
found before. The second one has what `plan` takes to a gap when it begins with few cells and halves them
(the ladder), against two cold plans with as many cells as the ladder ended with. CPU seconds are those of
one core.
"""

from __future__ import annotations

import argparse
import os
import time

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import numpy as np  # noqa: E402 - the number of threads is read by the import

from psrl_pomdp import POMDP, Plan, Setting, plan, problem  # noqa: E402
from psrl_pomdp.sensors import GaussianSensor  # noqa: E402

STUDY = {
    "2 states": (5.8e-3, 1.5e-3, 4.0e-4, 1.1e-4, 3.2e-5),
    "3 states": (4.7e-3, 1.1e-3, 2.8e-4, 7.4e-5, 2.8e-5),
    "4 states": (3.9e-3, 9.6e-4, 3.0e-4, 1.3e-4, 1.2e-4),
    "railway": (float("nan"), 3.6e-3, 4.9e-4, 1.4e-4, 4.6e-5),
}


def wear(n_states: int, rate: float) -> POMDP:
    """States that become worse one or two steps at a time; repairs that succeed with probability .95."""
    keep = np.zeros((n_states, n_states))
    for s in range(n_states):
        keep[s, s] = 1.0 - rate if s < n_states - 1 else 1.0
        if s < n_states - 2:
            keep[s, s + 1], keep[s, s + 2] = 0.85 * rate, 0.15 * rate
        elif s < n_states - 1:
            keep[s, s + 1] = rate
    repaired = 0.95 * np.eye(n_states)[0] + 0.05 * np.eye(n_states)
    cost = 0.8 * np.linspace(0.0, 1.0, n_states) ** 1.5
    sensor = GaussianSensor(np.arange(n_states), np.ones(n_states))
    start = np.eye(n_states)[0]
    return POMDP(Setting(sensor, np.stack([cost, 0.25 * cost + 0.4]), start), np.stack([keep, repaired]))


def railway() -> POMDP:
    """The railway with its indicator as it is: Gaussian, not cut into classes."""
    model = problem("railway")
    sensor = GaussianSensor([1.0, 0.0, -1.0], [1.0, 0.5, 0.2])
    setting = model.setting.replace(observation=sensor, first_observation=None, observations=None)
    return POMDP(setting, model.transition)


def timed(model: POMDP, tolerance: float, **options: float) -> tuple[Plan, float]:
    begun = time.process_time()
    found = plan(model, tolerance, **options)  # type: ignore[arg-type]
    return found, time.process_time() - begun


def cold(model: POMDP, n_cells: int, tolerance: float) -> tuple[float, float, int]:
    """Width of the interval from two plans, their CPU seconds, and the number of hubs."""
    below = POMDP(model.setting.quantized(n_cells), model.transition)
    above = POMDP(model.setting.dilated(n_cells), model.transition)
    first, a = timed(below, tolerance, time_limit=60.0)
    second, b = timed(above, tolerance, time_limit=60.0)
    return first.upper_cost - second.lower_cost, a + b, above.n_observations


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--brief", action="store_true")
    brief = parser.parse_args().brief
    models = {
        "2 states": wear(2, 0.08),
        "3 states": wear(3, 0.12),
        "4 states": wear(4, 0.15),
        "railway": railway(),
    }
    timed(models["3 states"], 1e-2)  # compiles or loads the code
    print(f"{'model':10} {'cells':>5} {'hubs':>5} {'width':>9} {'study':>9} {'CPU s':>7}")
    for name, model in models.items():
        for n_cells, before in zip((4, 8, 16, 32, 64), STUDY[name], strict=True):
            if brief and n_cells > 16:
                continue
            width, seconds, hubs = cold(model, n_cells, 1e-4 if name == "4 states" else 1e-5)
            print(f"{name:10} {n_cells:5} {hubs:5} {width:9.1e} {before:9.1e} {seconds:7.2f}", flush=True)
    print(
        f"\n{'model':10} {'gap':>8} {'cells':>5} {'hubs':>5} {'ladder s':>9} {'cold width':>10} {'cold s':>7}"
    )
    for name, model in models.items():
        for gap in (1e-3, 1e-4) if not brief else (1e-3,):
            found, seconds = timed(model, gap)
            assert found.bracket is not None
            assert found.cells is not None
            width, other, _ = cold(model, found.cells, 0.2 * gap)
            hubs = found.bracket.hubs.n_observations
            print(f"{name:10} {found.gap:8.1e} {found.cells:5} {hubs:5} {seconds:9.2f}", end=" ")
            print(f"{width:10.1e} {other:7.2f}", flush=True)
    if not brief:
        found, seconds = timed(models["railway"], 1.0, rtol=1e-4)
        print(
            f"\nrailway, relative gap {found.relative_gap:.1e}: [{found.lower:.5f}, {found.upper:.5f}] "
            f"{found.status}, {found.cells} cells, {seconds:.1f} CPU s"
        )


if __name__ == "__main__":
    main()
