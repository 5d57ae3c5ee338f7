"""What priors state of themselves by optional protocols: those of the package, and a user's own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import integrate, stats

from psrl_pomdp import (
    POMDP,
    DirichletPrior,
    DirichletSensor,
    FinitePrior,
    InvalidModelError,
    MixturePrior,
    PSRLAgent,
    Setting,
    problem,
)
from psrl_pomdp._serialization.archives import pack, unpack
from psrl_pomdp.agents.baselines.ba_pomcp import BAPOMCPAgent
from psrl_pomdp.agents.baselines.tsde import TSDEAgent
from psrl_pomdp.analysis import label_symmetries
from psrl_pomdp.analysis.unknown_parts import unknown_parts
from psrl_pomdp.errors import LabelWarning, PSRLError
from psrl_pomdp.inference.choosing import kind_of, learns_tables
from psrl_pomdp.models import Frozen
from psrl_pomdp.protocols import DirichletRows, HasKind, HasRenamingEvidence, LearnsTables, TakesUnknownSensor
from psrl_pomdp.sensors import DirichletCosts, GaussianSensor, NormalInverseGammaSensor
from psrl_pomdp.studies.sensor_sensitivity import sensor_sensitivity

TABLE = np.array([[0.9, 0.1], [0.2, 0.8]])
SETTING = Setting(TABLE, [[0.0, 9.0], [1.0, 1.0]], [0.5, 0.5])
ONES = np.ones((2, 2, 2))


class OwnPrior:
    """A prior of a user's own: a class that is no subclass, with the methods of another prior."""

    def __init__(self, inner: Any, *names: str) -> None:
        self.setting, self.sample, self.posterior = inner.setting, inner.sample, inner.posterior
        for name in ("fingerprint", "restore", "step_codes", "sample_model", *names):
            if hasattr(inner, name):
                setattr(self, name, getattr(inner, name))


def lived(prior: Any, length: int = 30) -> PSRLAgent:
    """Return an agent after some steps."""
    agent, rng = PSRLAgent(prior, seed=3), np.random.default_rng(4)
    for _ in range(length):
        agent.act(int(rng.integers(2)))
    return agent


# -- unknown observation models and costs -----------------------------------------------------------


@pytest.mark.parametrize(
    ("prior", "sensor", "costs"),
    [
        (DirichletPrior(SETTING, ONES), False, False),
        (DirichletPrior(SETTING, ONES, sensor=DirichletSensor(10 * TABLE)), True, False),
        (DirichletPrior(SETTING, ONES, costs=DirichletCosts([0.0, 9.0], np.ones((2, 2, 2)))), False, True),
        (FinitePrior(SETTING, [0.5 * ONES] * 2), False, False),
        (FinitePrior(SETTING, [0.5 * ONES] * 2, sensors=[TABLE, TABLE[::-1]]), True, False),
    ],
)
def test_priors_state_what_they_leave_unknown(prior: Any, sensor: bool, costs: bool) -> None:
    stated: Any = isinstance(prior, LearnsTables)
    assert stated
    assert (prior.learns_sensor, prior.learns_costs) == (sensor, costs)
    assert learns_tables(prior) == (sensor or costs) == prior.step_codes.unknown
    rng = np.random.default_rng(0)
    for _ in range(5):
        assert prior.impossible_part(prior.sample_model(rng).setting) is None
    table = [[0.5, 0.5], [0.25, 0.75]]
    other = prior.setting.replace(observation=table, first_observation=table)
    impossible = prior.impossible_part(other)
    assert impossible == (None if sensor and isinstance(prior, DirichletPrior) else "observation")


def test_each_impossible_part_is_named() -> None:
    finite = FinitePrior(SETTING, [0.5 * ONES] * 2, sensors=[TABLE, TABLE[::-1]])
    one, other = finite.setting_of(0), finite.setting_of(1)
    assert finite.impossible_part(one, 0) is None
    assert finite.impossible_part(one, 1) == "observation"
    assert finite.impossible_part(one.replace(first_observation=TABLE[::-1]), 0) == "first_observation"
    assert finite.impossible_part(other.replace(cost=[[0.0, 1.0], [0.5, 0.5]])) == "cost"
    assert finite.impossible_part(other.replace(seen_cost="exact")) == "seen_cost"
    learned = GaussianSensor([0.0, 1.0], [1.0, 1.0])
    density = Setting(learned, SETTING.cost, [0.5, 0.5], first_observation=None)
    wide = NormalInverseGammaSensor([0.0, 1.0], [1.0, 1.0], 1.0, 1.0)
    prior = DirichletPrior(density, ONES, sensor=wide)
    sampled = prior.sample_model(np.random.default_rng(0)).setting
    assert prior.learns_sensor
    assert prior.impossible_part(sampled) is None
    assert prior.impossible_part(sampled.replace(cost=[[0.0, 1.0], [0.5, 0.5]])) == "cost"
    assert DirichletPrior(density, ONES).impossible_part(sampled) == "observation"
    assert unknown_parts(prior) == ("observation model",)


def test_a_prior_of_ones_own_that_learns_tables() -> None:
    """Its agents are saved and resumed, and its own method refuses an impossible observation model."""
    inner = DirichletPrior(
        SETTING, ONES, sensor=DirichletSensor([[9.0, 1.0], [2.0, 8.0]], known={0: [0.9, 0.1]})
    )
    own = OwnPrior(inner, "learns_sensor", "learns_costs", "impossible_part")
    assert isinstance(own, LearnsTables)
    agent = lived(own)
    arrays = unpack(agent.to_bytes(), "good")
    again = agent.restored(pack(arrays))
    assert [again.act(i % 2) for i in range(20)] == [agent.act(i % 2) for i in range(20)]
    changed = arrays["used_observation"].copy()
    changed[:, 0] = [0.5, 0.5]
    with pytest.raises(PSRLError, match="used_observation is not possible under the prior"):
        agent.restored(pack(arrays | {"used_observation": changed}))
    assert unknown_parts(own) == ("observation model",)
    part = OwnPrior(
        inner, "learns_sensor", "learns_costs", "impossible_part", "kernel_group", "restored_group"
    )
    with pytest.raises(InvalidModelError, match="unknown observation model"):
        MixturePrior([(0.5, part), (0.5, inner)])
    with pytest.raises(InvalidModelError, match="unknown observation model"):
        BAPOMCPAgent(own)


def test_a_prior_of_ones_own_takes_an_unknown_sensor() -> None:
    model = problem("machine-repair")
    own = OwnPrior(model.prior, "replace", "with_unknown_sensor", "learns_sensor", "learns_costs")
    own.impossible_part = model.prior.impossible_part  # type: ignore[attr-defined]
    assert isinstance(own, TakesUnknownSensor)
    plain = OwnPrior(model.prior, "replace")
    options: dict[str, Any] = {"radii": [0.1], "horizon": 30, "seeds": 2}
    (mine,) = sensor_sensitivity(model, prior=own, **options)
    (packages,) = sensor_sensitivity(model, prior=model.prior, **options)
    assert mine.learned_sensor is not None
    assert packages.learned_sensor is not None
    np.testing.assert_array_equal(mine.learned_sensor.mean, packages.learned_sensor.mean)
    (without,) = sensor_sensitivity(model, prior=plain, **options)
    assert without.learned_sensor is None


# -- renamings of the states ------------------------------------------------------------------------


def test_a_prior_of_ones_own_states_its_evidence() -> None:
    inner = DirichletPrior(SETTING, ONES, sensor=DirichletSensor([[2.0, 1.0], [1.0, 1.5]]))
    own = OwnPrior(inner, "renaming_evidence")
    assert isinstance(own, HasRenamingEvidence)
    (found,), (packages,) = label_symmetries(own), label_symmetries(inner)
    assert found == packages
    assert found.evidence == inner.renaming_evidence(np.array([1, 0])) > 0.0
    assert label_symmetries(OwnPrior(inner)) == []
    flat = DirichletPrior(SETTING, ONES, sensor=DirichletSensor(np.ones((2, 2))))
    silent = OwnPrior(flat, "renaming_evidence")
    lived(silent, 1)  # no warning: it does not state that tables are unknown
    with pytest.warns(LabelWarning, match="cannot be learned"):
        lived(OwnPrior(flat, "renaming_evidence", "learns_sensor", "learns_costs", "impossible_part"), 1)


def gaussian(means: Any, sds: Any, sensor: Any = None, **changes: Any) -> DirichletPrior:
    setting = Setting(
        GaussianSensor(means, sds), SETTING.cost, [0.5, 0.5], **({"first_observation": None} | changes)
    )
    return DirichletPrior(setting, ONES, sensor=sensor)


def test_densities_tell_states_apart() -> None:
    swap = np.array([1, 0])
    assert gaussian([0.0, 5.0], [1.0, 1.0]).renaming_evidence(swap) == np.inf
    assert gaussian([0.0, 0.0], [1.0, 2.0]).renaming_evidence(swap) == np.inf
    assert gaussian([[0.0, 0.0], [0.0, 1.0]], [1.0, 1.0]).renaming_evidence(swap) == np.inf
    alike = gaussian([3.0, 3.0], [2.0, 2.0])
    assert [each.states for each in label_symmetries(alike)] == [(1, 0)]
    begun = alike.setting.replace(first_observation=GaussianSensor([3.0, 4.0], [2.0, 2.0]))
    assert alike.replace(setting=begun).renaming_evidence(swap) == np.inf
    flat = NormalInverseGammaSensor([0.0, 0.0], [1.0, 1.0], 1.0, 1.0)
    with pytest.warns(LabelWarning, match="cannot be learned"):
        PSRLAgent(gaussian([0.0, 0.0], [1.0, 1.0], flat))


def test_the_evidence_of_unknown_densities_is_a_divergence() -> None:
    """KL(p ‖ q) of the means and precisions of both states, by integrals over precision and mean."""
    sensor = NormalInverseGammaSensor([0.0, 0.4], [1.0, 1.3], [2.0, 3.0], [4.0, 5.0])
    prior = gaussian([0.0, 0.4], [1.0, 1.3], sensor)

    def log_density(s: int, mean: float, precision: float) -> float:
        shape = 0.5 * sensor.degrees[s]
        rate = shape * sensor.sds[s] ** 2
        sd = 1.0 / np.sqrt(precision * sensor.strength[s])
        return float(
            stats.gamma.logpdf(precision, shape, scale=1.0 / rate)
            + stats.norm.logpdf(mean, sensor.means[s], sd)
        )

    total = 0.0
    nodes, shares = np.polynomial.hermite_e.hermegauss(12)
    for one, other in ((0, 1), (1, 0)):

        def inner(precision: float, one: int = one, other: int = other) -> float:
            sd = 1.0 / np.sqrt(precision * sensor.strength[one])
            shape = 0.5 * sensor.degrees[one]
            density = stats.gamma.pdf(precision, shape, scale=1.0 / (shape * sensor.sds[one] ** 2))
            gaps = [
                log_density(one, m, precision) - log_density(other, m, precision)
                for m in sensor.means[one] + sd * nodes
            ]
            return float(density * (shares @ gaps) / np.sqrt(2.0 * np.pi))

        total += integrate.quad(inner, 0.0, 40.0, epsabs=1e-9, epsrel=1e-7)[0]
    found = prior.renaming_evidence(np.array([1, 0]))
    assert found == pytest.approx(total, rel=1e-5)
    assert prior.renaming_evidence(np.array([0, 1])) == 0.0


# -- rows and kinds ---------------------------------------------------------------------------------


def test_tsde_takes_rows_of_any_class() -> None:
    inner = problem("river-swim-observed").prior
    own = OwnPrior(inner, "concentration", "known", "row")
    assert isinstance(own, DirichletRows)
    agents = [TSDEAgent(prior, seed=1) for prior in (inner, own)]
    rng = np.random.default_rng(0)
    readings = rng.integers(inner.setting.n_observations, size=40).tolist()
    first, second = ([agent.act(o) for o in readings] for agent in agents)
    assert first == second
    assert agents[1].can_save
    again = agents[1].restored(agents[1].to_bytes())
    assert [again.act(o) for o in readings] == [agents[1].act(o) for o in readings]
    with pytest.raises(InvalidModelError, match="code"):
        TSDEAgent.from_bytes(agents[1].to_bytes())
    with pytest.raises(InvalidModelError, match="needs a DirichletPrior, or a prior with"):
        TSDEAgent(OwnPrior(inner))  # type: ignore[arg-type]


def test_kinds_are_declared() -> None:
    class Renamed(DirichletPrior):
        kind = "renamed rows"

    class Subclass(DirichletPrior):
        pass

    class Named(OwnPrior):
        kind = "mine"

    rows = DirichletPrior(SETTING, ONES)
    assert isinstance(rows, HasKind)
    priors: list[Any] = [rows, Renamed(SETTING, ONES), Subclass(SETTING, ONES), Named(rows), OwnPrior(rows)]
    assert [kind_of(prior) for prior in priors] == [
        "dirichlet",
        "renamed rows",
        "Subclass",
        "mine",
        "OwnPrior",
    ]
    assert isinstance(rows, Frozen)


def test_a_problem_moves_to_another_setting() -> None:
    model = problem("railway")
    moved = model.with_setting(model.setting.replace(seen_cost="exact"))
    assert isinstance(moved, POMDP)
    assert moved.parameters == model.parameters
    assert moved.family is not None
    assert moved.setting == moved.prior.setting == moved.family.setting != model.setting


@pytest.mark.parametrize("near", [None, np.full((2, 2, 2), 0.5)])
def test_a_mode_is_that_of_the_model(near: Any) -> None:
    wide = NormalInverseGammaSensor([0.0, 1.0], [1.0, 1.0], 1.0, 1.0)
    priors: list[tuple[Any, list[Any]]] = [
        (DirichletPrior(SETTING, ONES), [0, 1, 1, 0]),
        (gaussian([0.0, 1.0], [1.0, 1.0], wide), [0.2, 0.9, 1.4, -0.3]),
    ]
    for prior, readings in priors:
        posterior = prior.posterior(np.random.default_rng(0))
        posterior.start(None)
        posterior.update_many([0, 1, 0, 1], readings)
        np.testing.assert_array_equal(posterior.mode(near), posterior.mode_model(near).kernel)
