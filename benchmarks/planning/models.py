"""The models of the planning benchmark: families with seeds, problems of the package, files of users."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from psrl_pomdp import POMDP, Setting, load, problem

SUFFIXES = (".pomdp", ".pomdpx", ".json", ".npz")


def dense(n_states: int, n_actions: int, n_observations: int, seed: int) -> POMDP:
    """Rows of the kernel and of the observation model uniform on the simplex; costs uniform on [0, 1]."""
    rng = np.random.default_rng([1, n_states, n_actions, n_observations, seed])
    kernel = rng.dirichlet(np.ones(n_states), (n_actions, n_states))
    sensor = rng.dirichlet(np.ones(n_observations), (n_actions, n_states))
    cost = rng.random((n_actions, n_states))
    return POMDP(Setting(sensor, cost, np.full(n_states, 1 / n_states)), kernel)


def sparse(n_states: int, seed: int, n_actions: int = 4, n_observations: int = 10, moves: int = 5) -> POMDP:
    """Five next states, four of them near; two observations a state; costs higher in some states."""
    rng = np.random.default_rng([2, n_states, n_actions, n_observations, seed])
    kernel = np.zeros((n_actions, n_states, n_states))
    for a in range(n_actions):
        for s in range(n_states):
            near = (s + rng.integers(1, 6, moves - 1)) % n_states
            onward = np.append(near, rng.integers(n_states))
            np.add.at(kernel[a, s], onward, rng.dirichlet(np.ones(moves)))
    sensor = np.zeros((n_states, n_observations))
    for s in range(n_states):
        sensor[s, rng.choice(n_observations, 2, replace=False)] = 0.8, 0.2
    cost = rng.random((n_actions, n_states)) * np.linspace(0.2, 1.0, n_states)[rng.permutation(n_states)]
    return POMDP(Setting(sensor, cost, np.full(n_states, 1 / n_states), first_observation=None), kernel)


def wear(levels: int, seed: int) -> POMDP:
    """A machine wears by levels, with a sensor that blurs them; run, inspect, mend half, or replace."""
    rng = np.random.default_rng([3, levels, seed])
    rates = rng.uniform(0.05, 0.3, levels)
    kernel = np.zeros((4, levels, levels))
    for s in range(levels):
        kernel[:2, s, s] += 1 - rates[s]
        kernel[:2, s, min(s + 1, levels - 1)] += 0.8 * rates[s]
        kernel[:2, s, min(s + 3, levels - 1)] += 0.2 * rates[s]
        kernel[2, s, s // 2] = kernel[3, s, 0] = 1.0
    far = np.abs(np.subtract.outer(np.arange(levels), np.arange(levels)))
    blur = [np.exp(-((far / (width * levels)) ** 2)) for width in (0.4, 0.08, 0.4, 0.4)]
    sensor = np.stack([table / table.sum(axis=1, keepdims=True) for table in blur])
    lost = (np.arange(levels) / (levels - 1)) ** 2
    cost = np.stack([lost, lost + 0.03, lost + 0.15, lost + 0.5])
    return POMDP(Setting(sensor, cost, np.eye(levels)[0]), kernel)


def _of(name: str, **parameters: object) -> Callable[[], POMDP]:
    return lambda: problem(name, **parameters)


# The order is that of the table. A model with an absorbing goal is planned for with a discount only.
MODELS: dict[str, Callable[[], POMDP]] = {
    "tiger": _of("tiger"),
    "machine-repair": _of("machine-repair"),
    "spectrum-access": _of("spectrum-access"),
    "noisy-grid 3x4": _of("noisy-grid"),
    "bridge-ratings 6": _of("bridge-ratings"),
    "bridge-ratings 10": _of("bridge-ratings", ratings=10),
    "fatigue-crack 6": _of("fatigue-crack"),
    "fatigue-crack 12x3": _of("fatigue-crack", levels=12, rates=3),
    "rock-sample 3x3, 2": _of("rock-sample", leave=0.0),
    "rock-sample 4x4, 4": _of("rock-sample", size=4, rocks=4),
    "rock-sample 5x5, 5": _of("rock-sample", size=5, rocks=5),
    "tag 5x2": _of("tag", columns=5),
    "tag 29 cells": _of("tag", columns=10, tower=3),
    "fishery 21": _of("fishery", levels=21),
    "fishery 41": _of("fishery", levels=41),
    "rock-sample 4x4, 4, once": _of("rock-sample", size=4, rocks=4, restart=False),
    "rock-sample 5x5, 5, once": _of("rock-sample", size=5, rocks=5, restart=False),
    "tag 29 cells, once": _of("tag", columns=10, tower=3, restart=False),
    **{f"dense 5, seed {seed}": (lambda seed=seed: dense(5, 3, 4, seed)) for seed in range(3)},  # type: ignore[misc]
    **{f"dense 20, seed {seed}": (lambda seed=seed: dense(20, 3, 6, seed)) for seed in range(2)},  # type: ignore[misc]
    **{f"wear 15, seed {seed}": (lambda seed=seed: wear(15, seed)) for seed in range(2)},  # type: ignore[misc]
    **{f"wear 60, seed {seed}": (lambda seed=seed: wear(60, seed)) for seed in range(2)},  # type: ignore[misc]
    **{f"sparse {n}": (lambda n=n: sparse(n, 0)) for n in (30, 100, 300, 1000)},  # type: ignore[misc]
}
QUICK = (
    "machine-repair", "bridge-ratings 10", "fatigue-crack 6", "rock-sample 3x3, 2", "rock-sample 4x4, 4",
    "tag 29 cells", "fishery 21", "rock-sample 4x4, 4, once", "tag 29 cells, once", "wear 15, seed 0",
    "sparse 100",
)  # fmt: skip


def files_in(folder: Path) -> dict[str, Path]:
    """Return the model files in a folder, by name."""
    found = sorted(path for path in folder.iterdir() if path.suffix.lower() in SUFFIXES)
    return {path.name: path for path in found}


def made(name: str, folder: Path | None) -> POMDP:
    """Return a model by its name in the table or in the folder.

    It has no observation before the first action: files of models have none, so that other solvers could not
    use it.
    """
    if name in MODELS:
        found = MODELS[name]()
    else:
        assert folder is not None
        found = load(folder / name)
    setting = found.setting
    if setting.has_first_observation:
        setting = setting.replace(first_observation=None)
    return POMDP(setting, found.transition, name=name)
