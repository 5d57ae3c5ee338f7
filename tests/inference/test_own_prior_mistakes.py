"""Mistakes in a user's own prior: each is told by the name of the class and of the method, and nothing is
lost.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from own_priors import PUMP, WearPrior, WearWithGradient
from psrl_pomdp import (
    POMDP,
    DirichletPrior,
    InvalidModelError,
    MixturePrior,
    ParametricPrior,
    PlanningBudget,
    PSRLAgent,
    simulate,
)
from psrl_pomdp.inference.choosing import declared_support, is_always_positive
from psrl_pomdp.inference.moves import HMC
from psrl_pomdp.testing import check_prior

pytestmark = pytest.mark.filterwarnings("ignore::psrl_pomdp.CoarsePlanWarning")

QUICK = PlanningBudget(min_tolerance=1e-2, max_tolerance=0.05, rtol=np.inf, max_work=2e6)
WEAR = WearPrior()
TRUTH = POMDP(PUMP, WEAR.kernels(np.array([[0.04, 0.1]]))[0])


class Mistaken(WearPrior):
    """One attribute at a time is another."""

    def __init__(self, name: str, value: Any) -> None:
        super().__init__()
        setattr(self, name, value)


class Undefined(ParametricPrior):
    """Without any method."""


class WithoutInit(WearPrior):
    def __init__(self) -> None:
        self.k = 9.0


# -- what methods return ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "mistake", "says"),
    [
        ("sample_parameters", lambda rng, size: None, "Mistaken.sample_parameters returned None"),
        ("sample_parameters", lambda rng: rng.random(2), "Mistaken.sample_parameters raised TypeError"),
        ("sample_parameters", lambda rng, size: rng.random((size, 2)) + 0j, "contains complex128"),
        ("sample_parameters", lambda rng, size: [["1", "2"]] * size, "sample_parameters is not an array"),
        (
            "log_density",
            lambda p: p.missing,
            "Mistaken.log_density raised AttributeError: 'numpy.ndarray' object",
        ),
        ("kernels", lambda p: p.reshape(-1, 7), "Mistaken.kernels raised ValueError: cannot reshape"),
        ("ensemble_size", 0, r"Mistaken.ensemble_size is 0: it must be None or an integer from 4 to 65536"),
        ("ensemble_size", 3, "ensemble_size is 3"),
        ("ensemble_size", 64.0, "ensemble_size is 64.0"),
        ("ensemble_size", 10**9, "ensemble_size is 1000000000"),
        ("move", "random walk", "Mistaken.move is 'random walk', which cannot be called"),
        ("move", HMC, "Mistaken.move is the class HMC, not an object"),
        ("support", [[1, 0], [1]], "Mistaken.support is object"),
        ("support", np.full((2, 3, 3), 0.5), "Mistaken.support is float64"),
    ],
)
def test_a_mistake_is_told_by_class_and_method(name: str, mistake: Any, says: str) -> None:
    prior = Mistaken(name, mistake)
    with pytest.raises(InvalidModelError, match=says):
        PSRLAgent(prior, budget=QUICK)
    found = check_prior(prior, samples=100)
    assert any(re.search(says, each.text) for each in found), found


def test_the_error_of_a_method_is_kept_as_the_cause() -> None:
    with pytest.raises(InvalidModelError) as raised:
        Mistaken("kernels", lambda p: p.nothing).sample(np.random.default_rng(0))
    assert isinstance(raised.value.__cause__, AttributeError)


def test_what_is_no_prior_is_refused_with_the_reason() -> None:
    for prior, says in (
        (WearPrior, "prior is the class WearPrior: pass an object"),
        (WithoutInit(), r"WithoutInit, which has no setting: does its __init__ call super\(\).__init__"),
        (Undefined(PUMP), "Undefined.sample_parameters is not implemented"),
    ):
        with pytest.raises(InvalidModelError, match=says):
            PSRLAgent(prior)  # type: ignore[arg-type]
        with pytest.raises(InvalidModelError, match=says):
            MixturePrior([(1.0, prior)]).posterior(np.random.default_rng(0))


def test_a_method_may_change_the_array_that_it_gets() -> None:
    class Scales(WearPrior):
        def kernels(self, parameters: Any) -> Any:
            parameters *= 0.5
            return super().kernels(parameters)

        def log_density(self, parameters: Any) -> Any:
            found = super().log_density(parameters)
            parameters[:] = np.nan
            return found

    posterior = Scales().posterior(np.random.default_rng(0))
    posterior.start(0)
    posterior.update_many([0] * 80, [0] * 80)
    assert np.isfinite(posterior._groups[0].parameters).all()  # type: ignore[attr-defined]
    assert posterior.kernels[:, 0, 0, 1].max() <= 0.5


@pytest.mark.parametrize(
    ("name", "mistake", "says"),
    [
        ("log_density_gradient", lambda p: None, "Mistaken.log_density_gradient returned None"),
        ("kernel_gradient", lambda p: 1 / 0, "Mistaken.kernel_gradient raised ZeroDivisionError"),
        ("kernel_gradient", lambda p: p, r"kernel_gradient\(parameters\) has shape"),
    ],
)
def test_a_mistake_in_a_gradient_is_told(name: str, mistake: Any, says: str) -> None:
    class Mistaken(WearWithGradient):
        pass

    setattr(Mistaken, name, lambda self, parameters: mistake(parameters))
    posterior = Mistaken().posterior(np.random.default_rng(0))
    posterior.start(0)
    with pytest.raises(InvalidModelError, match=says):
        posterior.refresh()


@pytest.mark.parametrize(
    ("move", "says"),
    [
        (lambda p, target, tuning, rng: p, "did not return"),
        (lambda p, target, tuning, rng: None, "did not return"),
        (lambda p, target, tuning, rng: (p * np.nan, tuning), "inside the prior's support"),
        (lambda p, target, tuning, rng: (p, {"step": np.nan}), "tuning with a number that is not finite"),
        (lambda p, target, tuning, rng: (p, {"step": "long"}), "WearPrior raised TypeError"),
    ],
)
def test_a_mistake_in_a_move_is_told_before_it_is_in_a_file(move: Any, says: str) -> None:
    posterior = WEAR.replace(move=move).posterior(np.random.default_rng(0))
    posterior.start(0)
    before = posterior.state()
    with pytest.raises(InvalidModelError, match=says):
        posterior.refresh()
    assert all(np.array_equal(before[name], value) for name, value in posterior.state().items())


def test_an_agent_survives_a_method_that_fails_later() -> None:
    """A call that raises changes nothing: given again, the observation has the same effect as at first."""

    class Fails(WearPrior):
        def kernels(self, parameters: Any) -> Any:
            if broken:
                raise RuntimeError("no licence")
            return super().kernels(parameters)

    broken = False
    agent, twin = (PSRLAgent(Fails(), seed=1, budget=QUICK) for _ in range(2))
    refused: list[str] = []
    for o in np.random.default_rng(0).integers(0, 3, 60).tolist():
        wanted = twin.act(o)
        broken = True
        try:
            assert agent.act(o) == wanted
        except InvalidModelError as error:
            refused.append(str(error))
            broken = False
            assert agent.act(o) == wanted
        broken = False
    assert set(refused) == {"Fails.kernels raised RuntimeError: no licence"}
    assert agent.to_bytes() == twin.to_bytes()


# -- supports and files -----------------------------------------------------------------------------

LISTED = WearPrior.support.tolist()
ZEROS_AND_ONES = WearPrior.support.astype(int).tolist()


@pytest.mark.parametrize(
    "support", [None, WearPrior.support, LISTED, ZEROS_AND_ONES], ids=["none", "array", "lists", "numbers"]
)
def test_an_agent_is_loaded_whatever_way_the_support_is_declared(support: Any, tmp_path: Path) -> None:
    own = WEAR.replace(support=support)
    rows = DirichletPrior(PUMP, WearPrior.support.astype(float))
    for prior in (own, MixturePrior([(0.5, own), (0.5, MixturePrior([(1.0, rows)]))])):
        agent = PSRLAgent(prior, seed=1, budget=QUICK)
        simulate(TRUTH, agent, 120, 2)
        agent.save(tmp_path / "agent.npz")
        again = PSRLAgent.load(tmp_path / "agent.npz", prior=prior)
        for o in np.random.default_rng(0).integers(0, 3, 80).tolist():
            assert agent.act(o) == again.act(o)
        assert again.to_bytes() == agent.to_bytes()
        assert not is_always_positive(prior)
    found = declared_support(own)
    if support is None:
        assert found is None
    else:
        np.testing.assert_array_equal(found, WearPrior.support)


def test_code_that_was_changed_is_noticed_when_an_agent_is_loaded(tmp_path: Path) -> None:
    """The name and the attributes of the class are the same, its methods are not."""
    agent = PSRLAgent(WEAR, seed=1, budget=QUICK)
    simulate(TRUTH, agent, 120, 2)
    agent.save(tmp_path / "agent.npz")
    changes: dict[str, Any] = {
        "log_density": lambda self, p: 1.01 * WearPrior.log_density(self, p),
        "kernels": lambda self, p: WearPrior.kernels(self, 0.99 * p),
    }
    for name, change in changes.items():
        other = type("WearPrior", (WearPrior,), {"__qualname__": "WearPrior", name: change})()
        assert other.fingerprint == WEAR.fingerprint
        with pytest.raises(InvalidModelError, match=f"WearPrior.{name} returns other values"):
            PSRLAgent.load(tmp_path / "agent.npz", prior=other)


def test_a_mixture_is_always_positive_only_if_every_component_is() -> None:
    everywhere = DirichletPrior(PUMP, np.ones((2, 3, 3)))
    assert is_always_positive(MixturePrior([(0.5, everywhere), (0.5, everywhere)]))
    for other in (WEAR, WEAR.replace(support=None)):
        assert not is_always_positive(MixturePrior([(0.5, everywhere), (0.5, other)]))
