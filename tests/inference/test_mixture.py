"""Mixtures of priors: against one big finite set, against quadrature, and by calibration."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from filter_banks import first_likelihood, new_bank, update_many
from filter_banks import start as start_filters
from own_priors import PUMP, WearPrior
from psrl_pomdp import (
    POMDP,
    DirichletPrior,
    FinitePrior,
    InvalidModelError,
    MixturePrior,
    PlanningBudget,
    PSRLAgent,
    Setting,
    check_posterior,
    simulate,
)
from psrl_pomdp._utils.arrays import Array
from psrl_pomdp.agents.baselines.ba_pomcp import BAPOMCPAgent
from psrl_pomdp.agents.baselines.certainty import MAPAgent, MeanAgent
from psrl_pomdp.inference import filter_bank as belief
from psrl_pomdp.inference.parameter_group import HistoryTarget
from psrl_pomdp.testing.calibration import Draw, replay
from psrl_pomdp.testing.calibration import simulate_from_prior as lived

pytestmark = pytest.mark.filterwarnings("ignore::psrl_pomdp.CoarsePlanWarning")

QUICK = PlanningBudget(min_tolerance=1e-2, max_tolerance=0.05, rtol=np.inf, max_work=2e6)
WEAR = WearPrior(k=1.0)
KERNELS = WEAR.kernels(np.array([[0.04, 0.1], [0.2, 0.1], [0.1, 0.3], [0.3, 0.3]]))
ROWS = DirichletPrior(PUMP, np.ones((2, 3, 3)))
STARTS = np.array([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.2, 0.3, 0.5], [1.0, 0.0, 0.0]])


def test_a_mixture_of_finite_sets_is_one_big_set() -> None:
    """Weights, beliefs, counts, mean and distances, with initial distributions that differ by kernel."""
    one = FinitePrior(PUMP, KERNELS[:1], initial=STARTS[:1])
    two = FinitePrior(PUMP, KERNELS[1:], [0.5, 0.3, 0.2], STARTS[1:])
    big = FinitePrior(PUMP, KERNELS, [0.3, 0.35, 0.21, 0.14], STARTS)
    mixed = MixturePrior([(0.3, one), (0.7, two)])
    rng = np.random.default_rng(0)
    for seed in range(5):
        world = lived(big, 60, np.random.default_rng(seed))
        found, wanted = mixed.posterior(rng), big.posterior()
        replay(found, world.history)
        replay(wanted, world.history)
        assert found.weights == pytest.approx(wanted.weights, abs=1e-12)
        assert found.beliefs == pytest.approx(wanted.beliefs, abs=1e-12)
        assert found.expected_counts == pytest.approx(wanted.expected_counts, abs=1e-9)
        assert found.mean() == pytest.approx(wanted.mean(), abs=1e-12)
        assert found.distance(KERNELS[0]) == pytest.approx(wanted.distance(KERNELS[0]), abs=1e-12)
        assert found.group_weights == pytest.approx([wanted.weights[0], wanted.weights[1:].sum()], abs=1e-12)
        for kernel in KERNELS:
            assert found.belief(kernel) == pytest.approx(wanted.belief(kernel), abs=1e-12)
        assert (found.mode_model().kernel == wanted.mode_model().kernel).all() or wanted.weights.max() < 0.5


def test_a_refresh_of_one_group_finds_beliefs_and_visits_and_leaves_the_others() -> None:
    """Against the forward recursion over the whole history, for the kernels of all groups."""
    mixed = MixturePrior([(0.2, FinitePrior(PUMP, KERNELS)), (0.5, WEAR), (0.3, ROWS)])
    posterior = mixed.posterior(np.random.default_rng(3))
    history = lived(mixed, 300, np.random.default_rng(4)).history
    replay(posterior, history)
    for g in (1, 2):
        before, kernels = posterior.group_weights, posterior.kernels
        posterior._refresh([g])
        assert posterior.group_weights == pytest.approx(before, abs=1e-12)
        changed = (posterior.kernels != kernels).any(axis=(1, 2, 3))
        begin, end = posterior._groups.ends[g - 1], posterior._groups.ends[g]
        assert changed[begin:end].mean() > 0.5
        assert not changed[:begin].any()
        assert not changed[end:].any()
    size = posterior.size
    again = new_bank(PUMP, posterior.kernels, np.ones(size))
    start = np.repeat(PUMP.initial[:, None], size, axis=1)
    start_filters(again, start, first_likelihood(PUMP, history.first))
    lost = PUMP.n_observations
    readings = np.array([lost if o is None else o for o in history.observations])
    update_many(again, np.array(history.actions), readings)
    alive = posterior.weights > 0
    assert posterior.beliefs[alive] == pytest.approx(again.belief.T[alive], abs=1e-9)
    assert belief.counts(posterior._filters)[..., alive] == pytest.approx(
        belief.counts(again)[..., alive], abs=1e-7
    )


def evidence(prior: WearPrior, world: Draw, points: int = 150) -> float:
    """log ∫ P(observations | φ) f(φ) dφ / P(o_1), by the midpoint rule."""
    posterior = prior.posterior(np.random.default_rng(0))
    replay(posterior, world.history)
    target = HistoryTarget(prior, posterior.histories, {}, np.zeros(2))
    grid = (np.arange(points) + 0.5) / points
    logs = target.log_likelihood(np.stack(np.meshgrid(grid, grid), axis=-1).reshape(-1, 2))
    return float(logs.max() + np.log(np.exp(logs - logs.max()).mean()))


def test_components_are_weighed_by_their_evidence() -> None:
    """The logarithm of the odds against a single kernel, 40 times, by quadrature; refreshes included.

    The estimate of the evidence is unbiased, so its logarithm is low by half its variance: that is added. A
    z-score, false alarm 7e-6.
    """
    single = FinitePrior(PUMP, KERNELS[:1])
    mixed = MixturePrior([(0.5, single), (0.5, WEAR)])
    rng = np.random.default_rng(1)
    world = lived(mixed, 150, np.random.default_rng(7))
    alone = single.posterior()
    replay(alone, world.history)
    exact = evidence(WEAR, world) - float(_log_likelihood(single, world))
    found, refreshes = [], 0
    for _ in range(40):
        posterior = mixed.posterior(rng)
        replay(posterior, world.history)
        weights = posterior.group_weights
        found.append(np.log(weights[1] / weights[0]))
        refreshes += bool(posterior._groups[1].tuning)
    assert refreshes > 20
    spread = np.std(found, ddof=1)
    assert spread < 1.0
    assert abs(np.mean(found) + spread**2 / 2 - exact) < 4.5 * spread * np.sqrt((1 + spread**2 / 2) / 40)


def _log_likelihood(prior: FinitePrior, world: Draw) -> Array:
    from psrl_pomdp.testing.calibration import log_likelihood

    history = world.history
    first = 0.0
    if history.first is not None and prior.setting.first_observation is not None:
        first = float(np.log(prior.setting.initial @ prior.setting.first_observation[:, history.first]))
    return log_likelihood(prior.setting, prior.kernels, prior.setting.initial, history)[0] - first  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    "mixed",
    [
        MixturePrior([(0.4, FinitePrior(PUMP, KERNELS)), (0.6, WEAR)]),
        MixturePrior([(0.3, WEAR), (0.7, ROWS)]),
    ],
    ids=["finite and own", "own and rows"],
)
def test_mixtures_are_calibrated(mixed: MixturePrior) -> None:
    """False alarm 5e-6 each."""
    assert check_posterior(mixed, replicates=150, length=100) == []


def test_a_mixture_that_forgets_to_weigh_its_components_is_told() -> None:
    parts: list[Any] = [WEAR, ROWS]

    class Forgets:
        """The components' weights stay as they were."""

        def __init__(self, rng: Any) -> None:
            self._parts = [prior.posterior(rng) for prior in parts]
            self.setting = PUMP

        def start(self, o: Any) -> None:
            for part in self._parts:
                part.start(o)

        def update(self, a: Any, o: Any) -> None:
            for part in self._parts:
                part.update(a, o)

        expected_counts = property(lambda self: self._parts[1].expected_counts)

        def sample(self, rng: Any) -> Any:
            return self._parts[int(rng.random() < 0.5)].sample(rng)

        def belief(self, kernel: Any) -> Any:
            return self._parts[1].belief(kernel)

    found = check_posterior(MixturePrior([(0.5, WEAR), (0.5, ROWS)]), Forgets, replicates=120, length=60)
    assert any("not distributed as the truth" in finding.text for finding in found), found


OTHER = Setting(np.eye(3), np.zeros((2, 3)), [1, 0, 0])
MIXED = MixturePrior([(0.2, FinitePrior(PUMP, KERNELS[1:])), (0.5, WEAR), (0.3, ROWS)])
TRUTH = POMDP(PUMP, KERNELS[0])


def test_both_ways_choose_the_same_actions() -> None:
    runs = [
        simulate(TRUTH, PSRLAgent(MIXED, seed=1, budget=QUICK), 400, 2, driver=driver)
        for driver in ("compiled", "streaming")
    ]
    assert (runs[0].actions == runs[1].actions).all()
    assert runs[0].episodes == runs[1].episodes


@pytest.mark.parametrize("kind", [PSRLAgent, MeanAgent, MAPAgent])
def test_saved_and_loaded_it_goes_on_to_the_last_bit(kind: Any, tmp_path: Path) -> None:
    agent = kind(MIXED, seed=1, budget=QUICK)
    simulate(TRUTH, agent, 150, 2)
    agent.save(tmp_path / "agent.npz")
    again = kind.load(tmp_path / "agent.npz", prior=MIXED)
    for o in np.random.default_rng(0).integers(0, 3, 100).tolist():
        assert agent.act(o) == again.act(o)
    assert again.to_bytes() == agent.to_bytes()


def test_tree_search_takes_a_mixture() -> None:
    agent = BAPOMCPAgent(MIXED, seed=1, n_simulations=20, depth=3)
    actions = [agent.act(o) for o in (0, 0, 1, None, 2)]
    assert set(actions) <= {0, 1}


def test_a_component_that_an_observation_rules_out_stays_out() -> None:
    """An exact sensor shows a new pump broken: only rows that allow it are left."""
    setting = PUMP.replace(observation=np.eye(3), first_observation=np.eye(3))
    mixed = MixturePrior([(0.9, WEAR.replace(setting=setting)), (0.1, ROWS.replace(setting=setting))])
    posterior = mixed.posterior(np.random.default_rng(0))
    posterior.start(0)
    posterior.update(0, 2)
    for _ in range(100):
        posterior.update(0, 2)
        posterior.update(1, 0)
    assert posterior.group_weights == pytest.approx([0.0, 1.0], rel=1e-12, abs=0.0)
    assert posterior._groups[0].tuning == {}  # what is ruled out is not moved any more
    assert posterior._groups[1].tuning.refreshes > 0


def test_mixtures_of_mixtures_are_flattened_and_equal() -> None:
    inner = MixturePrior([(0.5, WEAR), (0.5, ROWS)])
    outer = MixturePrior([(0.4, FinitePrior(PUMP, KERNELS)), (0.6, inner)])
    flat = MixturePrior([(0.4, FinitePrior(PUMP, KERNELS)), (0.3, WEAR), (0.3, ROWS)])
    assert outer == flat
    assert len(outer) == 3
    assert outer != MixturePrior([(0.4, FinitePrior(PUMP, KERNELS)), (0.3, ROWS), (0.3, WEAR)])
    other = PUMP.replace(initial=[0.0, 1.0, 0.0])
    assert outer.replace(setting=other).setting == other
    assert outer.support.all()
    assert (MixturePrior([(1.0, WEAR)]).support == WEAR.support).all()


@pytest.mark.parametrize(
    ("parts", "says"),
    [
        ([], "a mixture needs at least one prior"),
        ([(0.5, WEAR)], "components sums to 0.5"),
        ([(0.0, WEAR), (1.0, ROWS)], "probability 0.0 is not a positive number"),
        ([WEAR], "is not a pair"),
        ([(1.0, 3)], r"prior is a int, which has no method sample\(rng\)"),
        ([(0.5, WEAR), (0.5, ROWS.replace(setting=OTHER))], "different settings"),
    ],
)  # fmt: skip
def test_what_is_no_mixture_is_refused(parts: Any, says: str) -> None:
    with pytest.raises(InvalidModelError, match=says):
        MixturePrior(parts)


def test_a_prior_that_cannot_be_a_component_says_what_it_lacks() -> None:
    class Bare:
        setting = PUMP

        def sample(self, rng: Any) -> Any:
            return KERNELS[0]

        def posterior(self, rng: Any) -> Any:
            return None

    with pytest.raises(InvalidModelError, match="a Bare cannot be a component: it lacks kernel_group"):
        MixturePrior([(1.0, Bare())])
