"""Theory, studies and reports ask a prior what it can do, and never which class it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from psrl_pomdp import POMDP, DirichletPrior, FinitePrior, InvalidModelError, PSRLAgent, Setting, problem
from psrl_pomdp.agents.baselines import BAPOMCPAgent, MeanAgent
from psrl_pomdp.analysis import finite_bound
from psrl_pomdp.analysis.assumptions import FiniteCase, GeneralCase, case_of
from psrl_pomdp.analysis.bounds import finite_bound_at
from psrl_pomdp.analysis.concentration import point_estimate
from psrl_pomdp.inference.choosing import (
    default_kind,
    dirichlet_prior_of,
    is_always_positive,
    kind_of,
    prior_for,
    sample_model,
    with_setting,
)
from psrl_pomdp.models import Frozen
from psrl_pomdp.report.page import page
from psrl_pomdp.report.page_data import PageData
from psrl_pomdp.studies import experiment
from psrl_pomdp.studies.experiment import Experiment
from psrl_pomdp.studies.jobs import perform
from psrl_pomdp.studies.results import jobs_of
from psrl_pomdp.studies.store import Store
from psrl_pomdp.studies.study import study_from
from psrl_pomdp.studies.study_results import StudyResults

WORLD = problem("separated")
assert WORLD.family is not None
FAMILY = WORLD.family


class OwnSet:
    """Finitely many kernels, in a class that has nothing to do with the package's."""

    def __init__(self, like: FinitePrior) -> None:
        self.setting, self.kernels, self.weights = like.setting, like.kernels, like.weights

    def __len__(self) -> int:
        return len(self.kernels)

    def model(self, index: int) -> POMDP:
        return POMDP(self.setting, self.kernels[index])

    def sample(self, rng: np.random.Generator) -> Any:
        return self.kernels[rng.choice(len(self), p=self.weights)]

    def posterior(self, rng: np.random.Generator) -> Any:
        raise NotImplementedError


class OwnRates:
    """Kernels that mix two given ones in unknown parts."""

    def __init__(self, setting: Setting, support: Any = None) -> None:
        self.setting = setting
        if support is not None:
            self.support = support

    def sample(self, rng: np.random.Generator) -> Any:
        share = rng.random()
        return share * FAMILY.kernels[0] + (1.0 - share) * FAMILY.kernels[1]

    def posterior(self, rng: np.random.Generator) -> Any:
        raise NotImplementedError


class OwnStarts(OwnRates):
    """The same, with an initial distribution that is drawn too."""

    def sample_model(self, rng: np.random.Generator) -> POMDP:
        own = self.setting
        start = rng.dirichlet(np.ones(own.n_states))
        setting = Setting(own.observation, own.cost, start, own.first_observation, units=own.units)
        return POMDP(setting, self.sample(rng), name="own")


# -- priors by kind ---------------------------------------------------------------------------------


def test_the_prior_of_a_kind() -> None:
    assert prior_for(WORLD) is prior_for(WORLD, "finite") is FAMILY
    assert prior_for(WORLD, "dirichlet") is WORLD.prior
    plain = POMDP(WORLD.setting, WORLD.transition)
    rows = prior_for(plain)
    assert isinstance(rows, DirichletPrior)
    np.testing.assert_array_equal(rows.concentration, plain.transition > 0)
    assert rows == dirichlet_prior_of(plain)
    with pytest.raises(InvalidModelError, match="no finite prior"):
        prior_for(plain, "finite")
    assert [default_kind(model) for model in (WORLD, plain, None)] == ["finite", "dirichlet", "dirichlet"]
    assert default_kind(WORLD, "dirichlet") == "dirichlet"


def test_kinds_of_priors() -> None:
    priors = (FAMILY, OwnSet(FAMILY), WORLD.prior, OwnRates(WORLD.setting))
    assert [kind_of(prior) for prior in priors] == ["finite", "finite", "dirichlet", "OwnRates"]


def test_models_are_drawn_as_the_prior_wants() -> None:
    """A kernel brings its own start along; a prior that draws whole models is asked for them."""
    starts = np.array([[0.7, 0.1, 0.1, 0.1], [0.1, 0.2, 0.3, 0.4]])
    family = FinitePrior(WORLD.setting, FAMILY.kernels[:2], [0.3, 0.7], initial=starts)
    for seed in range(20):
        index = int(np.random.default_rng(seed).choice(2, p=[0.3, 0.7]))
        assert sample_model(family, np.random.default_rng(seed)) == family.model(index)
        drawn = sample_model(WORLD.prior, np.random.default_rng(seed), "drawn")
        np.testing.assert_array_equal(drawn.transition, WORLD.prior.sample(np.random.default_rng(seed)))
        assert (drawn.name, drawn.setting) == ("drawn", WORLD.setting)
    own = sample_model(OwnStarts(WORLD.setting), np.random.default_rng(1))
    assert own.name == "own"
    assert (own.setting.initial != WORLD.setting.initial).any()


def test_a_prior_moves_to_another_setting_or_says_that_it_cannot() -> None:
    other = problem("separated").setting
    known = DirichletPrior(WORLD.setting, np.ones_like(WORLD.transition), {(0, 0): WORLD.transition[0, 0]})
    moved = with_setting(known, other)
    assert isinstance(moved, DirichletPrior)
    np.testing.assert_array_equal(moved.known, known.known)
    with pytest.raises(InvalidModelError, match="OwnRates has no method replace"):
        with_setting(OwnRates(WORLD.setting), other)


def test_whether_transitions_are_surely_positive() -> None:
    everywhere = np.ones_like(WORLD.transition)
    assert is_always_positive(DirichletPrior(WORLD.setting, everywhere))
    assert not is_always_positive(DirichletPrior(WORLD.setting, everywhere - np.eye(4)[:, ::-1]))
    assert is_always_positive(OwnRates(WORLD.setting, everywhere > 0))
    assert not is_always_positive(OwnRates(WORLD.setting))


# -- theory -----------------------------------------------------------------------------------------


def test_which_theorem_is_about_a_prior() -> None:
    assert isinstance(case_of(FAMILY), FiniteCase)
    assert isinstance(case_of(OwnSet(FAMILY)), FiniteCase)
    assert isinstance(case_of(WORLD.prior), GeneralCase)
    assert isinstance(case_of(OwnRates(WORLD.setting)), GeneralCase)


def test_theorem_one_takes_any_finite_set_and_refuses_others_itself() -> None:
    ours, own = (finite_bound(prior, span=1.5) for prior in (FAMILY, OwnSet(FAMILY)))
    assert ours == own
    for other in (WORLD.prior, OwnRates(WORLD.setting)):
        with pytest.raises(InvalidModelError, match=f"a {type(other).__name__} has no finite support"):
            finite_bound(other)
        with pytest.raises(InvalidModelError, match="no finite support"):
            finite_bound_at(other, [100])


def test_the_estimate_of_a_posterior() -> None:
    """The likeliest of finitely many kernels, and the mean of an ensemble."""

    class Weighted:
        kernels, weights = FAMILY.kernels[:2], np.array([0.4, 0.6])
        beliefs = np.full((2, WORLD.n_states), 0.5)

    posterior: Any = Weighted()
    np.testing.assert_array_equal(point_estimate(FAMILY, posterior), FAMILY.kernels[1])
    mean = 0.4 * FAMILY.kernels[0] + 0.6 * FAMILY.kernels[1]
    np.testing.assert_allclose(point_estimate(WORLD.prior, posterior), mean)
    with pytest.raises(InvalidModelError, match="has no mean"):
        point_estimate(WORLD.prior, object())  # type: ignore[arg-type]


# -- studies and reports ----------------------------------------------------------------------------


class Wear(DirichletPrior):
    """A prior that no word in a study stands for."""


def test_a_prior_without_a_kind_has_a_study_and_a_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wear = Wear(WORLD.setting, np.ones_like(WORLD.transition))
    monkeypatch.setattr(experiment, "prior_of", lambda model, wanted: wear)
    words = {"problem": "separated", "horizon": 60, "seeds": 2, "truth": "prior", "tolerance": 1e-2}
    study = study_from(words | {"agents": [{"kind": "psrl"}]})
    assert not isinstance(Experiment(study).model(0), type(WORLD))
    store = Store.create(tmp_path / "wear", study)
    for job in jobs_of(study):
        store.write(job, perform(study, job))
    data = PageData(StudyResults(store))
    [agent] = data.agents
    assert (agent.prior, agent.prior_text, agent.schedule_text) == ("Wear", "Wear", "tsde")
    assert list(data.posterior_curves) == ["distance"]
    assert data.bound is None
    assert "<td>Wear</td>" in page(data, steps=10)


class OnlyProtocol:
    """The methods of the protocol around another prior or posterior: it cannot be saved."""

    def __init__(self, own: Any) -> None:
        for name in ("setting", "sample", "start", "update", "belief"):
            if hasattr(own, name):
                setattr(self, name, getattr(own, name))
        self._own = own

    def posterior(self, rng: np.random.Generator) -> Any:
        return OnlyProtocol(self._own.posterior(rng))

    @property
    def expected_counts(self) -> Any:
        return self._own.expected_counts


class NoState:
    """A prior whose posterior has every method except `state`: it cannot be saved."""

    def __init__(self, own: Any) -> None:
        self.own = own

    def __getattr__(self, name: str) -> Any:
        if name in ("own", "state"):
            raise AttributeError(name)
        return getattr(self.own, name)

    def posterior(self, rng: np.random.Generator) -> Any:
        return NoState(self.own.posterior(rng))


def test_agents_say_whether_they_can_be_saved() -> None:
    without: Any = NoState(WORLD.prior)
    core: Any = OnlyProtocol(WORLD.prior)
    for kind in (PSRLAgent, MeanAgent, BAPOMCPAgent):
        saved, kept = kind(WORLD.prior), kind(without)
        assert (saved.can_save, kept.can_save) == (True, False)
        assert saved.to_bytes()
        with pytest.raises(InvalidModelError, match=r"no state\(\), so it cannot be saved"):
            kept.to_bytes()
    assert not PSRLAgent(core).can_save


def test_a_prior_that_cannot_be_saved_has_a_study_and_a_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such a run cannot be continued after an interruption, but it has a result."""
    own = OnlyProtocol(WORLD.prior)
    monkeypatch.setattr(experiment, "prior_of", lambda model, wanted: own)
    words = {"problem": "separated", "horizon": 60, "seeds": 2, "tolerance": 1e-2, "truth": "prior"}
    study = study_from(words | {"agents": [{"kind": "psrl"}], "title": "not saved"})
    store = Store.create(tmp_path / "own", study)
    for job in jobs_of(study):
        store.write(job, perform(study, job, tmp_path / "partial"))
    assert not (tmp_path / "partial").exists()
    data = PageData(StudyResults(store))
    assert data.agents[0].prior == "OnlyProtocol"
    assert "<td>OnlyProtocol</td>" in page(data, steps=10)


def test_worlds_of_a_study_are_drawn_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Model, priors and plan of the truth are made once for all jobs of a study."""
    made: list[str] = []

    def counted(name: str, original: Any) -> Any:
        def call(*arguments: Any, **keywords: Any) -> Any:
            made.append(name)
            return original(*arguments, **keywords)

        return call

    for name in ("problem", "prior_of", "plan"):
        monkeypatch.setattr(experiment, name, counted(name, getattr(experiment, name)))
    monkeypatch.setattr(experiment, "_last", None)
    agents = [{"kind": "random"}, {"kind": "psrl", "floor": 0.1, "ceiling": 0.1}, {"kind": "oracle"}]
    study = study_from(
        {"problem": "separated", "horizon": 20, "seeds": 3, "tolerance": 1e-2, "agents": agents}
    )
    for job in jobs_of(study):
        perform(study, job)
    assert sorted(made) == ["plan", "prior_of", "problem"]
    assert issubclass(type(WORLD), Frozen)  # so that what is shared cannot be changed
