"""Studies of densities, learned sensors and seen costs: what they mean, and that they can be resumed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from psrl_pomdp import (
    POMDP,
    DirichletPrior,
    InvalidModelError,
    ParseError,
    PluginError,
    PSRLAgent,
    Setting,
    plan,
    problem,
    simulate,
)
from psrl_pomdp.agents.baselines.memoryless import average_cost
from psrl_pomdp.simulation.runs import Simulation
from psrl_pomdp.studies import jobs
from psrl_pomdp.studies.comparison import information_of
from psrl_pomdp.studies.experiment import Experiment
from psrl_pomdp.studies.jobs import perform
from psrl_pomdp.studies.results import Job, decode
from psrl_pomdp.studies.sensor_sensitivity import perturbed, sensor_sensitivity
from psrl_pomdp.studies.study import Study, study_from
from psrl_pomdp.studies.variants import CellAgent, in_cells, with_seen_costs

LEARNED = {"kind": "dirichlet", "sensor": {"calibration": 20}}


def small(agents: list[dict[str, Any]], **changes: Any) -> Study:
    words = {"problem": "railway-gaussian", "horizon": 80, "seeds": 2, "tolerance": 1e-2, "agents": agents}
    return study_from(words | changes)


# -- cells in place of readings -----------------------------------------------------------------------


def test_an_agent_in_cells_gets_the_cell_of_each_reading() -> None:
    """The same agent for the finite setting, given the cells that a search of the edges finds."""
    world = problem("railway-gaussian")
    finite = in_cells(world, 5)
    assert isinstance(finite.prior, DirichletPrior)  # type: ignore[attr-defined]
    assert finite.setting == world.setting.quantized(5)
    agent = CellAgent(PSRLAgent(finite.family, seed=1), world.setting, 5)  # type: ignore[attr-defined]
    trace = simulate(world, agent, 150, seed=2)
    alone = PSRLAgent(finite.family, seed=1)  # type: ignore[attr-defined]
    edges = agent.cells.of(0).edges
    given = [trace.first_observation, *trace.observations[:-1].tolist()]
    cells = [int(np.flatnonzero((edges[:-1] < y) & (y <= edges[1:]))[0]) for y in given]
    assert [alone.act(cell) for cell in cells] == trace.actions.tolist()
    assert len(set(cells)) == 5
    assert agent.act(None) in (0, 1)
    assert agent.act(float("nan")) in (0, 1)


def test_a_run_in_cells_is_resumed() -> None:
    world, agent = problem("railway-gaussian"), {"kind": "psrl", "cells": 4, "prior": LEARNED}
    experiment = Experiment(small([agent]))
    spec = experiment.study.agents[0]
    whole = experiment.simulation(spec, 1).until(60)
    half = experiment.simulation(spec, 1)
    half.until(33)
    other = experiment.simulation(spec, 1)
    other.resume(half.to_bytes())
    trace = other.until(60)
    assert (trace.actions == whole.actions).all()
    assert (trace.observations == whole.observations).all()
    assert trace.observations.dtype == np.float64
    assert isinstance(Simulation(world, experiment.agent(spec, 0)).agent, CellAgent)
    with pytest.raises(InvalidModelError, match="restored from one with the same cells"):
        CellAgent.from_bytes(half.agent.to_bytes())  # type: ignore[attr-defined]


def test_a_study_in_cells_keeps_the_regret_of_the_density() -> None:
    """All agents face the density: the optimum and the readings are the same for all of them."""
    study = small([{"kind": "random"}, {"kind": "random", "name": "in-cells", "cells": 3}])
    one, other = (decode(perform(study, Job(name, 0)), "x") for name in ("random", "in-cells"))
    assert one.truth == other.truth
    models = {Experiment(study).simulation(spec, 0).model.fingerprint for spec in study.agents}
    assert models == {problem("railway-gaussian").fingerprint}


def test_which_agents_need_cells() -> None:
    kinds = [
        "memoryless",
        "tsde",
        "oas-ucrl",
        "oas-ucrl-actions",
        "seeu-known",
        "seeu",
        "sm-ucrl",
        "ba-pomcp",
    ]
    fitting = ["psrl", "mean", "map", "calendar", "oracle", "random"]
    refused = Experiment(small([{"kind": kind} for kind in (*kinds, *fitting)])).refusals()
    assert set(refused) == set(kinds)
    for why in refused.values():
        assert "cannot be used with Gaussian observations" in why
        assert "`cells = K` of an agent in a study" in why
    in_cells_too = [
        {"kind": kind, "cells": 6} for kind in kinds if kind not in ("oas-ucrl-actions", "sm-ucrl")
    ]
    assert Experiment(small(in_cells_too)).refusals() == {}


def test_agents_for_observations_that_depend_on_the_state_before() -> None:
    kinds = ["tsde", "oas-ucrl", "seeu-known", "seeu", "sm-ucrl", "ba-pomcp"]
    study = small([{"kind": kind} for kind in (*kinds, "psrl", "mean", "memoryless", "calendar")])
    study = study_from({"problem": "spectrum-access-acks", "horizon": 9, "seeds": 1, "agents": [
        {"kind": agent.kind} for agent in study.agents]})  # fmt: skip
    refused = Experiment(study).refusals()
    assert set(refused) == set(kinds)
    assert all("depend on the state before the action" in why for why in refused.values())


def test_the_memoryless_average_with_acknowledgments() -> None:
    """Against the stationary distribution of a chain that is written out entry by entry."""
    rng = np.random.default_rng(4)
    table = rng.dirichlet(np.ones(3), (2, 2, 2))  # [A, S, S', O]
    model = POMDP(Setting(table, rng.random((2, 2)), [1.0, 0.0]), rng.dirichlet(np.ones(2), (2, 2)))
    policy = rng.dirichlet(np.ones(2), 4)  # the last row is for a missing observation
    chain, cost = np.zeros((6, 6)), np.zeros(6)
    for s in range(2):
        for o in range(3):
            for a in range(2):
                cost[3 * s + o] += policy[o, a] * model.setting.cost[a, s]
                for t in range(2):
                    for p in range(3):
                        moved = model.transition[a, s, t] * table[a, s, t, p]
                        chain[3 * s + o, 3 * t + p] += policy[o, a] * moved
    stationary = np.linalg.matrix_power(chain, 4096)[0]
    assert average_cost(model, policy) == pytest.approx(stationary @ cost, abs=1e-7)


# -- learned sensors ----------------------------------------------------------------------------------


def prior_in(study: Study, place: int = 0, run: int = 0) -> DirichletPrior:
    found = Experiment(study).prior(study.agents[place], run)
    assert isinstance(found, DirichletPrior)
    return found


def test_calibrations_are_drawn_for_each_run() -> None:
    agents: list[dict[str, Any]] = [
        {"kind": "psrl", "prior": LEARNED},
        {"kind": "mean", "prior": LEARNED},
        {"kind": "map", "prior": {"kind": "dirichlet", "sensor": {"calibration": 20, "seed": 3, "added": 2}}},
    ]
    study = small(agents, problem="railway")
    first, again, other = prior_in(study), prior_in(study, 1), prior_in(study, 0, 1)
    assert first.sensor is not None
    assert first.sensor.counts.sum(axis=1) == pytest.approx(np.full(3, 20 + 6 * 0.5))
    assert ((first.sensor.counts - 0.5) % 1 == 0).all()
    assert first == again
    assert first != other
    assert prior_in(small(agents, problem="railway", seed=1)) != first
    fixed = prior_in(study, 2)
    assert fixed == prior_in(study, 2, 1)
    assert fixed.sensor is not None
    assert fixed.sensor.counts.sum(axis=1) == pytest.approx(np.full(3, 20 + 6 * 2))
    assert (first.concentration == problem("railway").prior.concentration).all()
    assert first.setting.observation[0] == pytest.approx(first.sensor.mean)  # the truth is not told
    assert information_of(study.agents[0]) == "learned sensor, prior"


def test_calibration_readings_follow_the_true_sensor() -> None:
    agents: list[dict[str, Any]] = [
        {"kind": "psrl", "prior": {"kind": "dirichlet", "sensor": {"calibration": 40_000}}}
    ]
    for name in ("railway", "tiger"):  # the same for all actions, and by action
        found, own = prior_in(small(agents, problem=name)), problem(name).setting
        assert found.sensor is not None
        table = own.observation if own.sensor_depends_on_action else own.observation[0]
        # At most 18 binomial shares at six standard errors: false alarm under 1e-7.
        assert np.abs(found.sensor.mean - table).max() < 6 * 0.5 / 200 + 1e-3


def test_other_ways_to_say_what_is_known() -> None:
    own = problem("railway").setting.observation[0]
    for options, counts in (({"worth": 30}, 30 * own), ({"concentration": 0.5}, np.full((3, 6), 0.5))):
        prior = {"kind": "dirichlet", "sensor": options}
        found = prior_in(small([{"kind": "psrl", "prior": prior}], problem="railway"))
        assert found.sensor is not None
        assert found.sensor.counts == pytest.approx(counts)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("railway", {"sensor": 5}, r"prior\.sensor is 5: a table such as"),
        ("railway", {"sensor": {"wort": 5}}, r"no option 'wort' \(did you mean 'worth'\?\)"),
        ("railway", {"sensor": {}}, "exactly one of calibration, worth, concentration"),
        ("railway", {"sensor": {"worth": 5, "calibration": 5}}, "exactly one of"),
        ("railway", {"sensor": {"worth": 0}}, r"prior\.sensor\.worth is 0: a number above 0"),
        ("railway", {"sensor": {"worth": 5, "added": 1}}, "added belongs to a calibration"),
        ("railway", {"sensor": {"calibration": 2.5}}, "a whole number from 0"),
        ("railway", {"sensr": {"worth": 5}}, "no option 'sensr'.*sensor"),
        ("railway", {"costs": {"worth": 5}}, 'add `seen_cost = "exact"` to the study'),
        ("railway-gaussian", {"sensor": {"worth": 5}}, "no table that could be learned; `cells = K`"),
        ("spectrum-access-acks", {"sensor": {"worth": 5}}, "depends on the state before the action"),
    ],
)
def test_mistakes_in_a_learned_sensor_are_named(name: str, options: dict[str, Any], message: str) -> None:
    study = small([{"kind": "psrl", "prior": {"kind": "dirichlet", **options}}], problem=name)
    with pytest.raises((InvalidModelError, PluginError), match=message):
        Experiment(study).prior(study.agents[0])


def test_searching_refuses_unknown_tables() -> None:
    study = small([{"kind": "ba-pomcp", "prior": LEARNED}], problem="railway")
    [why] = Experiment(study).refusals().values()
    assert "unknown observation model" in why


# -- costs that are seen ------------------------------------------------------------------------------


def test_costs_that_are_seen_are_the_costs() -> None:
    world = problem("spectrum-access")
    seen = with_seen_costs(world, "exact")
    assert seen.family.setting == seen.prior.setting == seen.setting  # type: ignore[attr-defined]
    assert (seen.family.kernels == world.family.kernels).all()  # type: ignore[attr-defined, union-attr]
    study = small([{"kind": "psrl"}], problem="spectrum-access", seen_cost="exact")
    run = Experiment(study).simulation(study.agents[0], 0, every_step=True)
    trace = run.until(50)
    assert trace.states is not None
    paid = world.setting.own_cost[trace.actions, trace.states[:-1]]
    assert trace.seen_costs == pytest.approx(paid)
    best = plan(seen, 1e-2)
    assert best.upper >= plan(world, 1e-2).lower  # rewards: who sees more earns more


def test_costs_can_be_learned() -> None:
    prior = {"kind": "dirichlet", "costs": {"concentration": 1.0}, "sensor": {"worth": 20}}
    study = small([{"kind": "psrl", "prior": prior}], problem="spectrum-access", seen_cost="exact")
    found = prior_in(study)
    assert found.costs is not None
    assert found.costs.values.tolist() == [0.0, 1.0]
    assert (found.costs.counts == 1.0).all()
    assert information_of(study.agents[0]) == "learned sensor, prior, learned costs"
    result = decode(perform(study, Job("psrl", 0)), "x")
    assert result.violations == []


# -- study files, and the same bytes ------------------------------------------------------------------


def test_new_keys_are_checked_and_leave_old_fingerprints() -> None:
    old = {"problem": "separated", "horizon": 300, "seeds": 2, "tolerance": 1e-4, "agents": [
        {"kind": "psrl", "floor": 1e-2}, {"kind": "oracle"}, {"kind": "random"}]}  # fmt: skip
    assert study_from(old).fingerprint == "8ebce6d4af5c6864"  # as before there were these keys
    assert study_from(old | {"seen_cost": "exact"}).fingerprint != study_from(old).fingerprint
    one, other = ({"kind": "random", "cells": cells} for cells in (0, 4))
    assert (
        study_from(old | {"agents": [one]}).fingerprint != study_from(old | {"agents": [other]}).fingerprint
    )
    with pytest.raises(ParseError, match="seen_cost is 'exakt', not one of"):
        small([{"kind": "random"}], seen_cost="exakt")
    with pytest.raises(ParseError, match=r"agents\[0\]\.cells is -1"):
        small([{"kind": "random", "cells": -1}])
    [why] = Experiment(small([{"kind": "random", "cells": 4}], problem="tiger")).refusals().values()
    assert "cells are for a density" in why


def test_the_tolerance_for_a_density() -> None:
    agents = [{"kind": "random"}]
    default = study_from({"problem": "pump", "horizon": 5, "seeds": 1, "agents": agents})
    assert Experiment(default).tolerance == 1e-5
    assert Experiment(study_from({"problem": "tiger", "horizon": 5, "seeds": 1})).tolerance == 1e-7
    assert Experiment(small(agents, tolerance=1e-6)).tolerance == 1e-6


@pytest.mark.parametrize(
    ("agent", "changes"),
    [
        ({"kind": "psrl"}, {}),
        ({"kind": "psrl", "prior": "dirichlet"}, {}),
        ({"kind": "psrl", "cells": 4, "prior": LEARNED}, {}),
        ({"kind": "psrl", "prior": LEARNED}, {"problem": "railway", "seen_cost": "exact"}),
        ({"kind": "memoryless"}, {"problem": "spectrum-access", "seen_cost": "exact"}),
        ({"kind": "mean", "prior": "dirichlet"}, {"problem": "spectrum-access-acks"}),
    ],
)
def test_a_run_that_is_killed_gives_the_same_bytes(
    agent: dict[str, Any], changes: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = small([agent], **changes)
    job = Job(study.agents[0].label, 1)
    whole = perform(study, job)
    monkeypatch.setattr(jobs, "_BETWEEN", -1.0)
    partial, kept = tmp_path / "half.run", []

    class KilledError(Exception):
        pass

    def write_and_die(path: Path, data: bytes) -> None:
        kept.append(data)
        path.write_bytes(data)
        if len(kept) == 9:
            raise KilledError

    monkeypatch.setattr(jobs, "write_atomically", write_and_die)
    with pytest.raises(KilledError):
        perform(study, job, partial)
    monkeypatch.undo()
    assert perform(study, job, partial) == whole
    assert perform(study, job) == whole  # nothing is left in the experiment


# -- sensitivity --------------------------------------------------------------------------------------


def test_sensitivity_with_acknowledgments_and_seen_costs() -> None:
    world = problem("spectrum-access-acks")
    rng = np.random.default_rng(0)
    rough = perturbed(with_seen_costs(world, "exact").setting, 0.1, rng)
    assert rough.observation.shape == world.setting.observation.shape
    assert 0.01 < np.abs(rough.observation - world.setting.observation).max() <= 0.1
    assert rough.seen_cost is not None
    [found] = sensor_sensitivity(with_seen_costs(world, "exact"), (0.0,), horizon=20, seeds=2)
    assert found.other_action == 0.0  # η′ = η: the first agent is optimal
    with pytest.raises(InvalidModelError, match="Gaussian observations have no table"):
        perturbed(problem("railway-gaussian").setting, 0.1, rng)
