"""Every built-in prior, agent, planner, problem, executor and file format keeps the contract of its group.

The names come from the registry, so that a new one is tested without a line here. The executors `dask` and
`ray` start clusters; `tests/studies/test_study.py` tests them where they are installed.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from psrl_pomdp import InvalidModelError, load, problem, registry, save
from psrl_pomdp.studies.agent_kinds import kind_of
from psrl_pomdp.studies.experiment import Experiment
from psrl_pomdp.studies.plugin_checks import check_plugin
from psrl_pomdp.studies.priors import prior_of
from psrl_pomdp.studies.study import study_from
from psrl_pomdp.testing import check_agent, check_model, check_planner, check_posterior, check_prior

CLUSTERS = ("dask", "ray")
# A finite set of kernels; no first observation and a sensor that depends on the action; costs in money.
SMALL = ("separated", "tiger", "railway")


def built_in(group: str) -> list[str]:
    """The names of a group without those that other packages add on this machine."""
    return [name for name in registry.names(group) if name in registry.BUILT_IN[group]]


EVERY = [(group, name) for group in registry.GROUPS for name in built_in(group) if name not in CLUSTERS]


@pytest.mark.parametrize(("group", "name"), EVERY)
def test_the_command_that_checks_plugins_finds_nothing(group: str, name: str) -> None:
    """`psrl-pomdp plugins --check`, with notes on what cannot be tried. False alarm below 2e-5."""
    found = check_plugin(registry.find(group, name))
    assert [finding for finding in found if finding.severity != "info"] == []


@pytest.mark.parametrize("name", built_in("priors"))
def test_priors(name: str) -> None:
    """On each problem that they do not refuse with a reason. False alarm below 2e-5 a problem."""
    tried = 0
    for model in map(problem, SMALL):
        try:
            prior = prior_of(model, name)
        except InvalidModelError:
            continue
        assert check_prior(prior, samples=500) == [], model.name
        assert check_posterior(prior, replicates=40, length=12) == [], model.name
        tried += 1
    assert tried


@pytest.mark.parametrize("name", built_in("agents"))
def test_agents(name: str) -> None:
    """With each prior that they may have, on each problem that they do not refuse with a reason."""
    priors = built_in("priors") if kind_of(name).uses_prior else [""]
    tried = 0
    for model in map(problem, SMALL):
        for prior in priors:
            words = {"kind": name} | ({"prior": prior} if prior else {})
            experiment = Experiment(
                study_from({"problem": model.name, "horizon": 9, "seeds": 1, "agents": [words]}), model
            )
            [spec] = experiment.study.agents
            if refusals := experiment.refusals():
                assert refusals[spec.label]
                continue
            make = partial(experiment.agent, spec)
            found = check_agent(make, model, steps=24)
            assert found == [], (model.name, prior)
            tried += 1
    assert tried >= len(priors)


@pytest.mark.parametrize("name", built_in("planners"))
def test_planners(name: str) -> None:
    """On four models whose optimal averages are known. False alarm 1e-9 each."""
    assert check_planner(registry.load("planners", name)) == []


@pytest.mark.parametrize("name", built_in("problems"))
def test_problems(name: str) -> None:
    assert [finding for finding in check_model(problem(name)) if finding.severity == "error"] == []


@pytest.mark.parametrize("name", built_in("problems"))
@pytest.mark.parametrize("ending", built_in("formats"))
def test_every_problem_goes_to_disk_and_back(ending: str, name: str, tmp_path: Path) -> None:
    model, path = problem(name), tmp_path / f"model.{ending}"
    if registry.load("formats", ending).write is None:
        with pytest.raises(InvalidModelError, match="unknown ending"):
            save(model, path)
        return
    own = model.setting
    if ending == "pomdp" and not (own.is_finite and not own.sensor_depends_on_previous):
        with pytest.raises(InvalidModelError, match=r"cannot represent"):
            save(model, path)
        return
    save(model, path)
    assert load(path) == model
    doubts = [finding for finding in check_model(model) if finding.severity != "info"]
    assert [finding for finding in check_model(path) if finding.severity != "info"] == doubts
