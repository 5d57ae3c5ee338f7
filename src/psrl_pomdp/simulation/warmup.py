"""Compilation ahead: a separate process calls every compiled function once, so that numba caches it on disk.

`psrl_pomdp._numba.background` starts this process. These groups of functions can be compiled:

    planning            the planner
    learning            the functions that all runs use
    others              the functions of the other agents
    finite-3            the posterior over a finite set of kernels with three states, and the compiled driver
    dirichlet-3         the same for Dirichlet rows, with the passes over the history
    gaussian-3          the same, and unknown Gaussian observations

Processes that need the same group wait for one another, so that each group is compiled once.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .._numba import jit as compiled
from ..inference.choosing import FINITE
from ..inference.gaussian_posterior import REHEARSAL as GAUSSIAN

if TYPE_CHECKING:
    from .._utils.arrays import Array
    from ..inference import DirichletPrior
    from ..models import Setting
    from ..protocols import Prior


def main(parent: int, what: Sequence[str]) -> None:
    """Compile the groups `what`; `parent` is the process that needs them."""
    if os.name != "nt":  # on Windows the parent's number never changes and may be that of a launcher
        threading.Thread(target=_exit_with_parent, args=(parent,), daemon=True).start()
    for one in what:
        compile_once(one)


def _exit_with_parent(parent: int) -> None:
    """Exit when the parent process has ended."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


def compile_once(what: str) -> None:
    """Compile one group, unless it is on disk; wait for another process that compiles it."""
    done = compiled.on_disk(what)
    with _exclusive(done.with_name(f"{done.name}.lock")):
        if not done.exists():
            rehearse(what)
            with suppress(OSError):
                done.touch()


@contextmanager
def _exclusive(path: Path) -> Iterator[None]:
    """Hold a lock file, if the system can lock files."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = path.open("w")
    except OSError:
        yield
        return
    with handle:
        with suppress(OSError, ImportError):
            if os.name == "nt":
                import msvcrt

                msvcrt.locking(handle.fileno(), msvcrt.LK_LOCK, 1)  # type: ignore[attr-defined]
            else:
                import fcntl

                fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def rehearse(what: str) -> None:
    """Call every function of a group, compiled."""
    if what == "planning":
        compiled.PLANNING.compile()
        _run_planner()
        return
    compiled.LEARNING.compile()
    kind, _, states = what.partition("-")
    if kind == "learning":
        _run_random_agent()
    elif kind == "others":
        _run_other_agents()
    else:
        _run_posterior(kind, int(states))


def _run_planner() -> None:
    """Plan for a tiny model."""
    from ..planning.bound_pair import BoundPair
    from ..planning.dynamics import Dynamics
    from ..planning.lower import grid_steps
    from ..planning.lower.grid import Grid
    from ..planning.multichain.bounds import MultichainBounds
    from ..planning.upper.evaluation import Controller

    halves = np.full((1, 2, 2, 2), 0.25)
    tiny = Dynamics(halves, np.array([[0.0, 1.0]]), np.array([[0.3, 0.7]]), np.ones(1), (0, 1))
    bounds = BoundPair(tiny, 16)
    bounds.run_round(1e-9)
    bounds.grid.sample_trajectory(tiny.start, np.array([0.5]))
    bounds.grid.bellman_residual(bounds.grid.candidates(tiny.starts, np.zeros(1), np.zeros((1, 3), np.int64)))
    bounds.grid.certify()
    assert bounds.grid.best_certificate is not None
    grid = bounds.grid
    grid_steps.damped_sweeps(
        grid.n, grid.obs_prob, grid.basis, grid.weights, grid.cost, grid.h, grid.policy, 0.0, 0.5, 1
    )
    Grid(tiny, 16).warm_start(bounds.grid.best_certificate)
    one = Controller(np.zeros(1, np.int64), np.zeros((1, 2), np.int64), np.zeros((1, 2)), 1.0, 0)
    bounds.search.split_nodes(one, bounds.search.visited_beliefs(one, np.array([0.5])), 1.0)
    MultichainBounds(tiny, 16).run_round(1e-9)


def _run_random_agent() -> None:
    """Run a random agent."""
    from ..agents.baselines.random_agent import RandomAgent
    from ..models import POMDP, Setting
    from ..planning import plan
    from .runs import simulate

    halves = np.full((2, 2, 2), 0.5)
    world = POMDP(Setting(halves[0], halves[0], halves[0, 0]), halves)
    simulate(world, RandomAgent(2), 2).control_variate_sums(plan(world, 0.5))


def _run_posterior(kind: str, n_states: int) -> None:
    """Run an agent with a posterior of this kind for a few steps with both drivers; move an ensemble."""
    from ..inference import DirichletPrior, FinitePrior
    from ..models import Setting

    even = np.full((2, n_states, n_states), 1.0 / n_states)
    cost = np.linspace(0.0, 1.0, 2 * n_states).reshape(2, n_states)
    setting = Setting(np.full((n_states, 2), 0.5), cost, even[0, 0], first_observation=None)
    if kind == FINITE:
        _run_agent(FinitePrior(setting, [even, even]), even)
    else:
        prior = DirichletPrior(setting, np.ones_like(even))
        _move_ensemble(prior, _run_agent(prior, even))
    if kind == GAUSSIAN:
        _learn_gaussians(setting, even)


def _learn_gaussians(setting: Setting, kernel: Array) -> None:
    """Call the functions for unknown Gaussian observations."""
    from ..inference import DirichletPrior
    from ..sensors import GaussianSensor, NormalInverseGammaSensor

    n_states = setting.n_states
    given = setting.replace(observation=GaussianSensor(np.zeros(n_states), np.ones(n_states)))
    opinion = NormalInverseGammaSensor(np.zeros(n_states), np.ones(n_states), 1.0, 1.0)
    own = DirichletPrior(given, np.ones_like(kernel), sensor=opinion).posterior(np.random.default_rng(0))
    own.start(None)
    own.update_many([0, 1, 0], [0.5, np.nan, -0.5])
    own.refresh()
    own.mode_model()


def _run_agent(prior: Prior, kernel: Array) -> Any:
    """Run an agent for a few steps with both drivers, and return its posterior."""
    from ..agents.psrl import PlanningBudget, PSRLAgent
    from ..models import POMDP
    from ..planning import plan
    from .runs import simulate

    world = POMDP(prior.setting, kernel)
    budget = PlanningBudget(min_tolerance=0.5, max_tolerance=0.5)
    trace = simulate(world, PSRLAgent(prior, budget=budget), 4, driver="compiled")
    trace.control_variate_sums(plan(world, 0.5))
    agent = PSRLAgent(prior, budget=budget)
    agent.learn([None, 0, 1], [0, 1, 0])
    assert agent.act(1) is not None
    assert agent.info is not None
    return agent.posterior


def _move_ensemble(prior: DirichletPrior, posterior: Any) -> None:
    """Call the functions that move an ensemble of Dirichlet rows."""
    from ..inference.hidden_paths import log_likelihoods
    from ..inference.history import History
    from ..inference.kernel_groups import RowGroup
    from ..inference.refresh import hamiltonian

    posterior.refresh()
    posterior.belief(posterior.kernels[0])
    rng = np.random.default_rng(0)
    group = RowGroup.drawn(prior, rng)
    space, past = group.space, History(prior.step_codes)
    past.start = prior.setting.initial.copy()
    past.write_steps(prior.step_codes.steps([0, 1, 0], [0, 1, 0]))
    past.length = 3
    hamiltonian(group.rows, group.log_rows, [past], space, group.tuning, rng)
    space.fit(past.length)
    space.tabulate(np.ascontiguousarray(group.kernels))
    log_likelihoods(
        space.states, space.joint, past.codes, past.rows, past.length, space.start(past.start),
        space.alpha, space.checkpoints, np.zeros(group.size),
    )  # fmt: skip


def _run_other_agents() -> None:
    """Call the functions that only the other agents use."""
    from ..agents.baselines.ba_pomcp import BAPOMCPAgent
    from ..agents.baselines.base import belief_after
    from ..agents.baselines.coarse_planner import nearest
    from ..inference import DirichletPrior
    from ..models import POMDP, Setting

    halves = np.full((2, 2, 2), 0.5)
    world = POMDP(Setting(halves[0], halves[0], halves[0, 0]), halves)
    searching = BAPOMCPAgent(DirichletPrior(world.setting, np.ones_like(halves)))
    searching.act(0)
    codes = np.zeros(2, np.int64)
    belief_after(world, 0, codes, codes)
    nearest(halves[0], 4)
