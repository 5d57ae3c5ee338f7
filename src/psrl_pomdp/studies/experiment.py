"""The model, the priors, the true models and the agents of a study; each of them is computed once.

Every stream of random numbers has a seed that consists of the seed of the study, the number of the run, and
the purpose of the stream. Therefore results do not depend on the number, the order or the load of the
workers. All agents of a study face the same true models with the same random numbers, which reduces the
variance of the differences between agents.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from functools import cached_property
from pathlib import Path

import msgspec
import numpy as np

from .. import registry
from ..agents.planning_budget import PlanningBudget
from ..agents.schedules import schedule_named
from ..errors import InvalidModelError
from ..inference import DirichletPrior
from ..inference.choosing import dirichlet_prior_of, kind_of, prior_for, sample_model
from ..io import load
from ..models import POMDP
from ..planning import Plan, plan
from ..problems import problem
from ..protocols import Agent, Planner, Prior
from ..simulation.runs import Simulation, log_spaced
from .agent_kinds import AgentContext, make
from .agent_kinds import kind_of as agent_kind
from .priors import is_random, prior_of
from .study import AgentSpec, Study
from .variants import CellAgent, in_cells, with_seen_costs

_WORLD, _TRUTH, _AGENT, _CALIBRATION = 0, 1, 2, 3  # what a stream is for
_DEFAULT_TOLERANCE, _DENSITY_TOLERANCE = 1e-7, 1e-5  # of the plan for the true model
_MOST_PLANS = 4  # of true models that are kept, where every run has its own
_MOST_PRIORS = 64


class Experiment:
    """The models, priors and agents of a study. Each is computed at the first access.

    Methods raise `InvalidModelError` or another error of the package if the problem lacks something that the
    study requires, or if the model file cannot be read or was changed.
    """

    def __init__(self, study: Study, problem: POMDP | None = None) -> None:
        self.study = study
        self._given = problem  # in place of the study's own
        self._plans: OrderedDict[POMDP, Plan] = OrderedDict()
        self._priors: OrderedDict[str, Prior] = OrderedDict()
        self._with_cells: OrderedDict[tuple[POMDP, int], POMDP] = OrderedDict()
        self._drawn: tuple[int, POMDP] | None = None  # the latest run, and its true model

    # -- models ---------------------------------------------------------------------------------

    @cached_property
    def problem(self) -> POMDP:
        """The problem of the study, or the model in its file; with seen costs if the study says so."""
        found = self._own_problem()
        return with_seen_costs(found, self.study.seen_cost) if self.study.seen_cost else found

    def _own_problem(self) -> POMDP:
        study = self.study
        if self._given is not None:
            return self._given
        if not study.file_sha256:
            return problem(study.problem, **study.parameters)
        if study.parameters:
            raise InvalidModelError("parameters: a model file has none")
        check_file(study)
        return load(Path(study.problem))

    def model(self, run: int) -> POMDP:
        """Return the true model of a run: the problem itself, or a sample from the agents' common prior."""
        if self.study.truth == "fixed":
            return self.problem
        latest = self._drawn
        if latest is None or latest[0] != run:
            rng = np.random.default_rng((self.study.seed, run, _TRUTH))
            drawn = sample_model(self.common_prior(run), rng)
            name = f"{self.problem.name} drawn for run {run}"
            latest = self._drawn = run, POMDP(drawn.setting, drawn.transition, name=name)
        return latest[1]

    @property
    def tolerance(self) -> float:
        """The gap of the plan for the true model.

        It is that of the study. In place of the default, it is 1e-5 for a density of observations, for which
        the planner needs more cells the smaller the gap is.
        """
        wanted = self.study.tolerance
        if wanted == _DEFAULT_TOLERANCE and not self.problem.setting.is_finite:
            return _DENSITY_TOLERANCE
        return wanted

    def plan_of_truth(self, run: int) -> Plan:
        """Return a plan for the true model of a run, to `tolerance`."""
        model = self.model(run)
        if model not in self._plans:
            best = plan(model, self.tolerance, max_work=self.study.max_work)
            if best.status == "interrupted":  # what was proved so far is no result
                raise KeyboardInterrupt
            self._plans[model] = best
            if len(self._plans) > _MOST_PLANS:
                self._plans.popitem(last=False)
        return self._plans[model]

    # -- priors ---------------------------------------------------------------------------------

    def prior(self, spec: AgentSpec, run: int = 0) -> Prior:
        """Return the prior of an agent. It is the same in all runs, unless it has a simulated calibration."""
        wanted = spec.prior or agent_kind(spec.kind).default_prior
        own_run = run if is_random(wanted) else 0
        key = repr((wanted, spec.cells, own_run))
        if key not in self._priors:
            model = self._in_cells(self.problem, spec.cells)
            self._priors[key] = prior_of(model, wanted, (self.study.seed, own_run, _CALIBRATION))
            if len(self._priors) > _MOST_PRIORS:
                self._priors.popitem(last=False)
        return self._priors[key]

    def _in_cells(self, model: POMDP, n_cells: int) -> POMDP:
        """Return a model with cells in place of a density; the model itself if `n_cells` is 0."""
        if not n_cells:
            return model
        key = model, n_cells
        if key not in self._with_cells:
            self._with_cells[key] = in_cells(model, n_cells)
            if len(self._with_cells) > _MOST_PLANS:
                self._with_cells.popitem(last=False)
        return self._with_cells[key]

    def kind_of_prior(self, spec: AgentSpec) -> str:
        """Return the kind of an agent's prior, as `psrl_pomdp.inference.choosing.kind_of` has it."""
        return kind_of(self.prior(spec))

    @cached_property
    def dirichlet_prior(self) -> DirichletPrior:
        """The Dirichlet prior, for agents that support no other prior."""
        return dirichlet_prior_of(self.problem)

    def common_prior(self, run: int = 0) -> Prior:
        """Return the prior of all agents, from which true models are sampled for the Bayesian regret.

        Agents of a kind with a default prior of its own count only if the study names their prior. Cells in
        place of readings make no other prior.
        """
        kinds = [(agent, agent_kind(agent.kind)) for agent in self.study.agents]
        priors = [
            self.prior(msgspec.structs.replace(agent, cells=0), run)
            for agent, kind in kinds
            if kind.uses_prior and (agent.prior or not kind.default_prior)
        ]
        priors = priors or [prior_for(self.problem)]
        if any(prior != priors[0] for prior in priors):
            raise InvalidModelError(
                "truth = 'prior' with agents of different priors: from which one are worlds drawn?"
            )
        return priors[0]

    # -- agents and runs ------------------------------------------------------------------------

    def agent(self, spec: AgentSpec, run: int) -> Agent:
        """Return a new agent. Its random numbers depend on its name and not on its position in the study."""
        study = self.study
        code = int.from_bytes(hashlib.sha256(spec.label.encode()).digest()[:8], "big")
        rows = self.dirichlet_prior
        if spec.cells:
            rows = dirichlet_prior_of(self._in_cells(self.problem, spec.cells))
        told = AgentContext(
            world=self._in_cells(self.model(run), spec.cells),
            prior=self.prior(spec, run),
            rows=rows,
            seed=(study.seed, run, _AGENT, code),
            budget=PlanningBudget(
                min_tolerance=spec.floor,
                max_tolerance=spec.ceiling,
                max_work=spec.max_work,
                rtol=spec.rtol,
                atol=spec.atol,
            ),
            exact=PlanningBudget(
                min_tolerance=self.tolerance,
                max_tolerance=self.tolerance,
                max_work=study.max_work,
                max_points=10_000,
            ),
            schedule=schedule_named(spec.schedule) if spec.schedule else None,
            options=spec.options,
            planner=_planner_of(spec.planner) if spec.planner else None,
        )
        agent = make(spec.kind, told)
        return CellAgent(agent, self.problem.setting, spec.cells) if spec.cells else agent

    def simulation(self, spec: AgentSpec, run: int, *, every_step: bool = False) -> Simulation:
        """Return the simulation of a new agent before its first step; `every_step` records hidden states."""
        study = self.study
        return Simulation(
            self.model(run),
            self.agent(spec, run),
            seed=(study.seed, run, _WORLD),
            checkpoints=None if every_step else log_spaced(study.horizon, study.per_decade).tolist(),
            every_step=every_step,
        )

    def refusals(self) -> dict[str, str]:
        """Return the agents that are not applicable to the problem: a dictionary from names to reasons."""
        found = {}
        for spec in self.study.agents:
            try:
                self.agent(spec, 0)
            except InvalidModelError as error:
                found[spec.label] = str(error)
        return found


def _planner_of(name: str) -> Planner:
    plugin = registry.find("planners", name)
    planner: Planner = plugin.load()
    if not callable(planner):
        raise plugin.error(f"an object of type {type(planner).__name__} cannot be called")
    return planner


def check_file(study: Study) -> None:
    """Raise `InvalidModelError` if the model file was changed after the start of the study."""
    path = Path(study.problem)
    if hashlib.sha256(path.read_bytes()).hexdigest() != study.file_sha256:
        raise InvalidModelError(f"{path.name} was changed since the study was begun")


_last: Experiment | None = None


def experiment_of(study: Study) -> Experiment:
    """Return the experiment of a study; repeated calls with the same study return the same object.

    Every call checks that the model file was not changed.
    """
    global _last  # noqa: PLW0603 - a cache of one experiment
    if study.file_sha256:
        check_file(study)
    if _last is None or _last.study != study:
        _last = Experiment(study)
    return _last
