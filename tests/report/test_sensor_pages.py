"""Policies, figures and pages of studies with densities, acknowledgments, seen costs and learned sensors."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from psrl_pomdp import (
    POMDP,
    DirichletPrior,
    DirichletSensor,
    FinitePrior,
    Plan,
    Setting,
    plan,
    problem,
)
from psrl_pomdp.analysis.unknown_parts import conclusions_for_unknown, remarks_on_pairs, unknown_parts
from psrl_pomdp.report import observation_text as texts
from psrl_pomdp.report.page import write_page
from psrl_pomdp.report.page_data import PageData
from psrl_pomdp.report.page_replay import learned_table, replay, replay_figure
from psrl_pomdp.report.paper_figures import policy_figure
from psrl_pomdp.report.policy_text import describe, labels, successors
from psrl_pomdp.studies.experiment import Experiment
from psrl_pomdp.studies.jobs import perform
from psrl_pomdp.studies.results import Job, decode
from psrl_pomdp.studies.runner import run
from psrl_pomdp.studies.store import Store
from psrl_pomdp.studies.study import study_from
from psrl_pomdp.studies.variants import with_seen_costs


@pytest.fixture(scope="module")
def pump() -> tuple[POMDP, Plan]:
    world = problem("pump")
    return world, plan(world, 3e-3)


def inside(text: str, reading: float) -> bool:
    """Return whether a reading is in a range in words, of numbers with four digits."""
    words = text.split(" ")
    if words[0] == "any":
        return True
    if words[0] == "up":
        return reading <= float(words[2])
    return reading > float(words[1]) if words[0] == "above" else float(words[0]) < reading <= float(words[2])


def test_ranges_of_readings_lead_to_the_successors(pump: tuple[POMDP, Plan]) -> None:
    world, best = pump
    next_nodes = successors(best, world)
    edges = best.bracket.cells.of(0).edges[1:-1]  # type: ignore[union-attr]
    rng = np.random.default_rng(0)
    readings = rng.lognormal(1.4, 0.6, 400)
    readings = readings[np.abs(readings[:, None] / edges - 1).min(axis=1) > 1e-3]  # texts are rounded
    for node in range(len(best.controller)):
        groups = texts.by_successor(best, world, node, next_nodes[node])
        for reading in readings.tolist():
            [found] = [to for to, ranges in groups.items() if any(inside(each, reading) for each in ranges)]
            cell = best.cell(int(best.controller.actions[node]), reading)
            assert found == best.controller.successors[node, cell]
    columns = texts.controller_labels(best, world)
    assert len(set(columns)) == len(columns) == best.cells


def test_the_policy_for_a_density_is_told_and_drawn(pump: tuple[POMDP, Plan]) -> None:
    world, best = pump
    lines = describe(best, world)["words"]["lines"]
    assert any(" → " in line and ("up to" in line or "above" in line) for line in lines)
    assert labels(world).observations == ()
    assert len(policy_figure(best, world).axes) == 1


@pytest.mark.parametrize("seen", [False, True])
def test_which_observations_are_possible(seen: bool) -> None:
    """Against loops over states, with zeros in kernel and observation model."""
    rng = np.random.default_rng(3)
    table = rng.dirichlet(np.ones(4), (2, 3, 3)) * (rng.random((2, 3, 3, 4)) < 0.5)
    table[..., 0] += 0.1
    table[1, :, :, 1] = 0.0
    table /= table.sum(axis=-1, keepdims=True)
    kernel = rng.dirichlet(np.ones(3), (2, 3))
    kernel[:, :, 0] = 0.0
    kernel /= kernel.sum(axis=-1, keepdims=True)
    world = POMDP(Setting(table, rng.random((2, 3)).round(1), [0.5, 0.5, 0.0]), kernel)
    world = with_seen_costs(world, "exact") if seen else world
    best = plan(world, 0.05)
    joint = world.setting.joint_observation
    found = texts.possible_observations(best, world)
    for a in range(2):
        for o in range(joint.shape[-1]):
            some = any(
                kernel[a, s, t] > 0 and joint[a, s, t, o] > 0 for s in best.states for t in best.states
            )
            assert found[a, o] == some
    assert len(texts.controller_labels(best, world)) == joint.shape[-1]
    assert describe(best, world)["words"]["lines"]


def made(folder: Path, agents: list[dict[str, Any]], **changes: Any) -> Store:
    words = {"problem": "railway-gaussian", "horizon": 60, "seeds": 2, "tolerance": 1e-2, "agents": agents}
    store = Store.create(folder, study_from(words | changes))
    with ThreadPoolExecutor(1) as executor:
        run(store, executor=executor)
    return store


def test_a_page_with_readings(tmp_path: Path) -> None:
    agents: list[dict[str, Any]] = [
        {"kind": "psrl"},
        {"kind": "memoryless", "cells": 4},
        {"kind": "oracle", "cells": 4},
    ]
    store = made(tmp_path / "own", agents)
    written = write_page(store, tmp_path / "page.html", steps=30)
    assert written["notes"] == []
    page = (tmp_path / "page.html").read_text()
    assert "Gaussian observations; cost from" in page
    assert [agent.knows_the_truth for agent in PageData(store).agents] == [False, True, True]
    experiment = Experiment(store.study)
    found = replay(experiment, store.read(Job("psrl", 0)), 30)
    assert found.same
    trace = experiment.simulation(store.study.agents[0], 0).until(30)
    assert found.observations == pytest.approx([trace.first_observation, *trace.observations[:-1]], rel=1e-5)
    figure = replay_figure(found, labels(experiment.problem), experiment.problem.setting.units)
    [readings] = [each for each in figure.traces if each.get("yaxis") == "y2"]
    assert readings["y"] == found.observations
    assert "tickvals" not in figure.layout["yaxis2"]
    assert [float(row[1]) for row in figure.table.rows] == pytest.approx(found.observations, rel=1e-5)


def test_a_page_with_seen_costs_and_a_learned_sensor(tmp_path: Path) -> None:
    prior = {"kind": "dirichlet", "sensor": {"calibration": 10}}
    store = made(
        tmp_path / "own", [{"kind": "psrl", "prior": prior}], problem="spectrum-access", seen_cost="exact"
    )
    written = write_page(store, tmp_path / "page.html", steps=20)
    assert any(
        "no decomposition" in note and "learns the observation model" in note for note in written["notes"]
    )
    assert "2 observations and the reward of each step" in (tmp_path / "page.html").read_text()
    experiment = Experiment(store.study)
    found = replay(experiment, store.read(Job("psrl", 0)), 20)
    own = experiment.problem.setting
    assert found.seen_costs is not None
    assert found.seen_costs[0] is None
    assert found.seen_costs[1:] == pytest.approx(own.own_cost[found.actions, found.states][:-1])
    assert found.observations[0] is None
    assert set(found.observations[1:]) <= {0, 1}
    figure = replay_figure(found, labels(experiment.problem), own.units)
    assert figure.table.columns[2] == "seen reward"
    assert [row[2] for row in figure.table.rows][1:] == found.seen_costs[1:]


def test_the_learned_sensor_is_told_beside_the_truth() -> None:
    world = problem("tiger")
    truth = world.setting.observation
    learned = SimpleNamespace(told=truth * 0 + 0.5, mean=truth, lower=truth / 2, upper=truth, level=0.9)
    table = learned_table(world, learned)
    assert table.columns[0] == "action"
    assert "lower end (90 %)" in table.columns
    assert len(table.rows) == truth.size
    by_name = {row[:3]: row[3:] for row in table.rows}
    names = labels(world)
    key = names.actions[1], names.states[0], names.observations[1]
    expected = 0.5, truth[1, 0, 1], truth[1, 0, 1] / 2, truth[1, 0, 1], truth[1, 0, 1]
    assert by_name[key] == pytest.approx(expected, abs=1e-4)


def test_no_theorem_is_claimed_for_a_learned_sensor() -> None:
    world = problem("tiger")
    known = world.prior
    counts = world.setting.observation * 20
    learned = DirichletPrior(world.setting, known.concentration, sensor=DirichletSensor(counts))
    assert unknown_parts(known) == conclusions_for_unknown(known) == remarks_on_pairs(known) == ()
    assert unknown_parts(learned) == ("observation model",)
    [text] = conclusions_for_unknown(learned)
    assert "does not know the observation model, and no theorem" in text
    tables = np.stack([world.setting.observation, 0.5 * world.setting.observation + 0.25])
    pairs = FinitePrior(world.setting, np.stack([world.transition] * 2), sensors=tables)
    assert unknown_parts(pairs) == ()
    [text] = remarks_on_pairs(pairs)
    assert "pairs in place of kernels" in text


def test_a_result_in_cells_is_a_result() -> None:
    words = {"problem": "railway-gaussian", "horizon": 20, "seeds": 1, "tolerance": 1e-2}
    study = study_from(words | {"agents": [{"kind": "psrl", "cells": 3}]})
    result = decode(perform(study, Job("psrl", 0)), "x")
    assert result.violations == []
    assert not result.episodes.start
    assert len(result.cost) == len(result.times)
