"""The posterior of several units with the same θ, against sums over the hidden paths of each unit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from density_settings import over_paths
from joint_oracles import Step, Sums, every_joint_path
from own_priors import WearPrior, WearWithGradient
from psrl_pomdp import DirichletPosterior, DirichletPrior, FinitePrior, MixturePrior, Setting
from psrl_pomdp._utils.arrays import Array
from psrl_pomdp.inference import filter_bank as filtering
from psrl_pomdp.inference import hmc
from psrl_pomdp.inference.gaussian_posterior import GaussianPosterior
from psrl_pomdp.inference.parameter_group import HistoryTarget
from psrl_pomdp.inference.refresh import gibbs, log_likelihood
from psrl_pomdp.inference.sampled_filter import NO_REFRESH
from psrl_pomdp.sensors import NormalInverseGammaSensor
from psrl_pomdp.testing.calibration import functionals, replay, simulate_from_prior, z_scores
from unknown_table_priors import (
    KERNELS,
    PRIORS,
    by_row,
    costs_of,
    flat,
    history,
    setting,
    tables_of,
)

LENGTHS = (4, 1, 3)
Histories = list[tuple[int | None, list[Step]]]
ALL_PRIORS = {"known tables": DirichletPrior(setting(3, 2), flat(3)), **PRIORS}
every_prior = pytest.mark.parametrize("prior", ALL_PRIORS.values(), ids=ALL_PRIORS)


def histories_of(prior: Any) -> Histories:
    """Three histories; the second one lacks its first observation."""
    return [history(prior, length, first_missing=i == 1) for i, length in enumerate(LENGTHS)]


def interleaved(prior: Any, units: list[Any], given: Histories) -> None:
    """Start all units, and then take one step of each in turn."""
    for unit, (first, _) in zip(units, given, strict=True):
        unit.start(first)
    for t in range(max(LENGTHS)):
        for unit, (_, steps) in zip(units, given, strict=True):
            if t < len(steps):
                cost = (costs_of(prior, [steps[t]]) or [None])[0]
                unit.update(steps[t].action, steps[t].observation, cost)


def begun(prior: Any, size: int = KERNELS) -> tuple[Any, list[Any], Histories]:
    """The posterior of a few kernels, and of three units after their histories, without any refresh."""
    root = DirichletPosterior(prior, np.random.default_rng(1), size=size)
    root._rule = NO_REFRESH
    units, given = [root.new_unit() for _ in LENGTHS], histories_of(prior)
    interleaved(prior, units, given)
    root._space.fit(max(LENGTHS))
    return root, units, given


def sums(posterior: Any, kernels: Array, given: Histories, initials: Array | None = None) -> list[list[Sums]]:
    """The sums over paths of each unit, under each kernel."""
    found = []
    for first, steps in given:
        own = []
        for n in range(len(kernels)):
            sampled = posterior.member(n).setting
            initial = None if initials is None else initials[n]
            tables = tables_of(posterior.prior, kernels[n], sampled, initial)
            own.append(every_joint_path(tables, first, steps))
        found.append(own)
    return found


def joint(exact: list[list[Sums]]) -> Array:
    """The likelihood of all histories, shape [N]: the product over units."""
    return np.asarray(np.prod([[one.likelihood for one in own] for own in exact], axis=0))


def check_units(root: Any, units: list[Any], exact: list[list[Sums]], prior_weights: Array) -> None:
    """Weights are products over units; beliefs and φ belong to units."""
    chances = prior_weights * joint(exact)
    assert root.weights == pytest.approx(chances / chances.sum(), abs=1e-12)
    for unit, own in zip(units, exact, strict=True):
        assert np.array_equal(unit.weights, root.weights)
        assert unit.beliefs == pytest.approx(np.stack([one.belief for one in own]), abs=1e-12)
        wanted = np.stack([one.visits.transpose(2, 0, 1) for one in own], axis=-1)
        assert filtering.counts(unit._filters) == pytest.approx(wanted, abs=1e-12)


@every_prior
def test_filters_of_units_are_sums_over_their_paths(prior: DirichletPrior) -> None:
    root, units, given = begun(prior)
    exact = sums(root, root.kernels, given)
    check_units(root, units, exact, np.ones(KERNELS))
    assert [unit.time for unit in units] == [length + 1 for length in LENGTHS]
    assert root.time == 0
    # The first unit took the last step: its ñ counts it by all that was known before.
    first, steps = given[0]
    last = Step(steps[-1].action, None, None)
    before = sums(root, root.kernels, [(first, [*steps[:-1], last])])[0]
    weights = joint([before, *exact[1:]])
    counts = np.stack([one.visits.sum(axis=2) for one in before])
    wanted = np.tensordot(weights / weights.sum(), counts, axes=1)
    assert units[0].expected_counts == pytest.approx(wanted, abs=1e-12)


@every_prior
def test_passes_add_up_over_units(prior: DirichletPrior) -> None:
    """Likelihoods, and the expected counts of the rows with the first observation of each unit."""
    root, _, given = begun(prior)
    rows, space, pasts = root._rows, root._space, root.histories
    exact = sums(root, root.kernels, given)
    logs, expected = hmc.log_likelihood_and_expected_transitions(rows, root._log_rows, pasts, space)
    # Known tables: the passes start from h_1, which is divided by the probability of the first observation.
    begin = prior.setting.first_observation
    if begin is not None and not rows.learns_from_first:
        for first, _ in given:
            logs = logs + (0.0 if first is None else np.log(prior.setting.initial @ begin[:, first]))
    assert logs == pytest.approx(np.log(joint(exact)), abs=1e-11)
    again = log_likelihood(rows, root._log_rows, pasts, space)
    assert again - again[0] == pytest.approx(logs - logs[0], abs=1e-11)
    wanted = sum(
        np.stack([by_row(root, one, first) for one in own], axis=-1)
        for (first, _), own in zip(given, exact, strict=True)
    )
    assert expected == pytest.approx(wanted, abs=1e-12)


@every_prior
def test_the_gradient_for_several_units_is_that_of_the_log_density(prior: DirichletPrior) -> None:
    """Central differences at drawn points."""
    root, _, _ = begun(prior, size=2)
    rows, space, pasts = root._rows, root._space, root.histories
    possible = rows.concentration > 0
    drawn = np.random.default_rng(6).standard_normal(root._log_rows.shape)
    z = np.where(possible[..., None], drawn, -np.inf)
    gradient = hmc.log_density(rows, z, pasts, space)[1]
    for r, k in np.argwhere(possible):
        up, down = z.copy(), z.copy()
        up[r, k] += 1e-5
        down[r, k] -= 1e-5
        rise = hmc.log_density(rows, up, pasts, space)[0] - hmc.log_density(rows, down, pasts, space)[0]
        assert gradient[r, k] == pytest.approx(rise / 2e-5, abs=1e-7), (r, k)


@every_prior
def test_paths_of_units_are_drawn_as_often_as_expected(prior: DirichletPrior) -> None:
    """Mean counts over 4,000 draws; at most 28 z-scores for 13 priors; false alarm 28 × 13 × 6e-7 = 2e-4."""
    root, _, given = begun(prior, size=400)
    rows, space, pasts = root._rows, root._space, root.histories
    same = np.repeat(root._log_rows[..., :1], 400, axis=-1)
    rng = np.random.default_rng(7)
    drawn = np.concatenate([gibbs(rows, same, pasts, space, rng)[1] for _ in range(10)], axis=-1)
    exact = sums(root, root.kernels[:1], given)
    wanted = sum(by_row(root, own[0], first) for (first, _), own in zip(given, exact, strict=True))
    error = np.maximum(drawn.std(axis=-1), 0.02) / np.sqrt(drawn.shape[-1])
    assert np.abs((drawn.mean(axis=-1) - wanted) / error).max() < 5.0


@every_prior
def test_after_a_refresh_each_unit_has_the_belief_and_the_visits_of_its_history(
    prior: DirichletPrior,
) -> None:
    root, units, given = begun(prior)
    silent = root.new_unit()
    counts = [unit.expected_counts for unit in units]
    old = root.kernels
    root.refresh()
    assert not np.array_equal(old, root.kernels)
    exact = sums(root, root.kernels, given)
    assert root.weights == pytest.approx(np.full(KERNELS, 1.0 / KERNELS))
    for unit, own, before in zip(units, exact, counts, strict=True):
        assert unit.beliefs == pytest.approx(np.stack([one.belief for one in own]), abs=1e-9)
        wanted = np.stack([one.visits.transpose(2, 0, 1) for one in own], axis=-1)
        assert filtering.counts(unit._filters) == pytest.approx(wanted, abs=1e-9)
        assert np.array_equal(unit.expected_counts, before)
    assert not silent.beliefs.any()
    assert not silent.time


# -- moved kernels that come late -------------------------------------------------------------------


@every_prior
def test_kernels_that_come_late_are_filtered_from_the_start(prior: DirichletPrior) -> None:
    """Kernels are moved given shorter histories; weights count what came since, beliefs all."""
    given = histories_of(prior)
    root = DirichletPosterior(prior, np.random.default_rng(1), size=KERNELS)
    root._rule = NO_REFRESH
    root.wait_for_refreshes(False)
    units = [root.new_unit(), root.new_unit()]
    short = [(first, steps[: len(steps) - 1]) for first, steps in given[:2]]
    interleaved(prior, units, short)
    moved = prior.restore(root.state(), np.random.default_rng(2))
    moved.refresh()
    # In the meantime the first two units take a step, and a third one joins.
    for unit, (_, steps) in zip(units, given[:2], strict=True):
        unit.update(steps[-1].action, steps[-1].observation, (costs_of(prior, steps[-1:]) or [None])[0])
    units.append(root.new_unit())
    interleaved(prior, units[2:], given[2:])
    counts = [unit.expected_counts for unit in units]
    root.adopt_kernels(moved)
    exact = sums(root, root.kernels, given)
    known = joint(sums(root, root.kernels, short))
    check_units(root, units, exact, 1.0 / known)
    for unit, before in zip(units, counts, strict=True):
        assert np.array_equal(unit.expected_counts, before)


# -- other priors -----------------------------------------------------------------------------------


def numbered(length: int) -> tuple[int | None, list[Step]]:
    """A history of the setting of the parametric priors; every history is possible."""
    rng = np.random.default_rng((8, length))
    steps = [Step(int(rng.integers(2)), int(rng.integers(3))) for _ in range(length)]
    return None, steps


PUMPS = WearPrior().setting
FINITE = FinitePrior(
    PUMPS,
    WearPrior().kernels(np.random.default_rng(0).uniform(0.05, 0.4, (4, 2))),
    [0.1, 0.2, 0.3, 0.4],
    np.random.default_rng(1).dirichlet(np.ones(3), 4),
)
OWN: dict[str, tuple[Any, Array | None]] = {
    "finite": (FINITE, FINITE.initial),
    "parametric": (WearPrior(), None),
    "parametric with gradient": (WearWithGradient(), None),
    "mixture": (
        MixturePrior([(0.3, FINITE), (0.5, DirichletPrior(PUMPS, np.ones((2, 3, 3)))), (0.2, WearPrior())]),
        None,
    ),
}


@pytest.mark.parametrize("name", OWN)
def test_units_under_other_priors(name: str) -> None:
    prior, initials = OWN[name]
    root: Any = prior.posterior(np.random.default_rng(1))
    if hasattr(root, "_rule"):
        root._rule = NO_REFRESH
    before = root.weights
    units, given = [root.new_unit() for _ in LENGTHS], [numbered(length) for length in LENGTHS]
    interleaved(prior, units, given)
    if name == "mixture":
        initials = root._groups.initial.T
    check_units(root, units, sums(root, root.kernels, given, initials), before)
    if hasattr(root, "refresh"):
        root.refresh()
        if name == "mixture":
            initials = root._groups.initial.T
        for unit, own in zip(units, sums(root, root.kernels, given, initials), strict=True):
            alive = root.weights > 0
            wanted = np.stack([one.belief for one in own])
            assert unit.beliefs[alive] == pytest.approx(wanted[alive], abs=1e-9)


def test_the_target_of_a_parametric_prior_adds_up_over_units() -> None:
    prior = WearWithGradient()
    root: Any = prior.posterior(np.random.default_rng(1))
    root._rule = NO_REFRESH
    units, given = [root.new_unit() for _ in LENGTHS], [numbered(length) for length in LENGTHS]
    interleaved(prior, units, given)
    parameters = np.random.default_rng(2).uniform(0.1, 0.5, (5, 2))
    target = HistoryTarget(prior, root.histories, {}, np.ones(2))
    exact = [
        [
            every_joint_path(tables_of(prior, kernel, None), first, steps)
            for kernel in prior.kernels(parameters)
        ]
        for first, steps in given
    ]
    assert target.log_likelihood(parameters) == pytest.approx(np.log(joint(exact)), abs=1e-12)
    logs, expected = target.expected_transitions(parameters)
    assert logs == pytest.approx(np.log(joint(exact)), abs=1e-12)
    wanted = sum(np.stack([one.transitions for one in own]) for own in exact)
    assert expected == pytest.approx(wanted, abs=1e-12)


def test_units_with_a_gaussian_sensor_that_is_learned() -> None:
    """Also of the first observation of each unit, and after a refresh."""
    sensor = NormalInverseGammaSensor([0.0, 1.0, 2.0], [0.7, 0.5, 0.4], 5.0, [4.0, 6.0, 8.0])
    initial = np.array([0.5, 0.3, 0.2])
    own = Setting(sensor.center, np.array([[0.1, 0.4, 1.0], [0.6, 0.2, 0.3]]), initial, sensor.center)
    prior = DirichletPrior(own, np.full((2, 3, 3), 0.7), sensor=sensor)
    root = GaussianPosterior(prior, np.random.default_rng(0), size=5)
    root._rule.least[:] = 0.0  # no refresh: the kernels stay
    given: list[tuple[Any, list[int], list[Any]]] = [
        (0.4, [0, 1, 1, 0], [0.3, 1.4, None, -0.2]),
        (None, [1], [2.1]),
        (1.7, [1, 0], [None, 0.9]),
    ]
    units = [root.new_unit() for _ in given]
    for unit, (first, _, _) in zip(units, given, strict=True):
        unit.start(first)
    for t in range(4):
        for unit, (_, actions, readings) in zip(units, given, strict=True):
            if t < len(actions):
                unit.update(actions[t], readings[t])

    def exact() -> list[list[Any]]:
        found: list[list[Any]] = [[] for _ in given]
        for k, means, sds in zip(root.kernels, root.sensor_means, root.sensor_sds, strict=True):
            for (first, actions, readings), paths in zip(given, found, strict=True):
                begin, *rows = [
                    np.ones(3) if y is None else stats.norm.pdf(y, means, sds) for y in (first, *readings)
                ]
                paths.append(over_paths(k, initial, begin, actions, rows))
        return found

    paths = exact()
    chances = np.prod([[one.likelihood for one in each] for each in paths], axis=0)
    assert root.weights == pytest.approx(chances / chances.sum(), abs=1e-12)
    for unit, each in zip(units, paths, strict=True):
        assert unit.beliefs == pytest.approx(np.stack([one.belief for one in each]), abs=1e-12)
        phi = np.stack([one.visits for one in each], axis=-1)
        assert filtering.counts(unit._filters) == pytest.approx(phi, abs=1e-12)
    root.group.space.fit(4)
    logs = root.group.log_likelihood(root.histories, root.group.now)
    assert logs - logs[0] == pytest.approx(np.log(chances / chances[0]), abs=1e-10)
    root.refresh()
    for unit, each in zip(units, exact(), strict=True):
        assert unit.beliefs == pytest.approx(np.stack([one.belief for one in each]), abs=1e-9)
        phi = np.stack([one.visits for one in each], axis=-1)
        assert filtering.counts(unit._filters) == pytest.approx(phi, abs=1e-9)


# -- the posterior as a whole -----------------------------------------------------------------------


def test_a_first_observation_of_each_unit_informs_about_an_unknown_sensor() -> None:
    """After the first observations alone, w_n ∝ Π_u Σ_s h(s) η_n(o_u | s)."""
    prior = PRIORS["sensor and first observation"]
    root = DirichletPosterior(prior, np.random.default_rng(1), size=KERNELS)
    root._rule = NO_REFRESH
    for observation in (0, 2, 2, None):
        root.new_unit().start(observation)
    tables = np.stack([root.member(n).setting.observation[0] for n in range(KERNELS)])  # type: ignore[union-attr]
    chances = np.prod([tables[:, :, o] @ prior.setting.initial for o in (0, 2, 2)], axis=0)
    assert np.ptp(chances) > 0.01
    assert root.weights == pytest.approx(chances / chances.sum(), abs=1e-12)


@pytest.mark.parametrize("name", ["finite", "dirichlet"])
def test_one_unit_has_the_bits_of_a_posterior_alone(name: str) -> None:
    prior: Any = FINITE if name == "finite" else ALL_PRIORS["known tables"]
    alone: Any = prior.posterior(np.random.default_rng(3))
    one = prior.posterior(np.random.default_rng(3)).new_unit()
    rng = np.random.default_rng(4)
    steps = [(int(rng.integers(2)), int(rng.integers(prior.setting.n_observations))) for _ in range(300)]
    for posterior in (alone, one):
        posterior.start(None)
        for action, observation in steps:
            posterior.update(action, observation)
    ours, others = alone._unit_state(), one._unit_state()
    for field, value in ours.items():
        assert np.array_equal(value, others[field], equal_nan=True), field
    assert np.array_equal(alone.kernels, one.kernels)
    assert np.array_equal(alone.weights, one.weights)


def test_the_order_of_units_matters_only_by_rounding() -> None:
    """Without refreshes: the units one after the other, and in turn."""
    prior = ALL_PRIORS["known tables"]
    root, units, given = begun(prior)
    other = DirichletPosterior(prior, np.random.default_rng(1), size=KERNELS)
    other._rule = NO_REFRESH
    theirs = [other.new_unit() for _ in given]
    for unit, (first, steps) in reversed(list(zip(theirs, given, strict=True))):
        unit.start(first)
        for step in steps:
            unit.update(step.action, step.observation)
    assert other.weights == pytest.approx(root.weights, abs=1e-13)
    for one, two in zip(units, theirs, strict=True):
        assert np.array_equal(one.beliefs, two.beliefs)
        assert np.array_equal(filtering.counts(one._filters), filtering.counts(two._filters))


def test_the_sampling_identity_for_three_units() -> None:
    """Three units of 20 steps: 3 × 15 functions or so, with the log-likelihood of each unit's history.

    A false alarm at |z| > 4.5 has probability 7e-6 for each of at most 60 functions, 4e-4 in all.
    """
    concentration = np.array([[[2.0, 1.0], [1.0, 3.0]], [[1.0, 1.0], [4.0, 1.0]]])
    own = setting(first=None).replace(observation=[[0.8, 0.2], [0.3, 0.7]])
    prior = DirichletPrior(own, concentration)
    rng, gaps = np.random.default_rng(11), []
    refreshes = 0
    for _ in range(250):
        truth = prior.sample(rng)
        known = FinitePrior(own, truth[None])
        given = [simulate_from_prior(known, 20, rng).history for _ in range(3)]
        root = DirichletPosterior(prior, rng)
        for each in given:
            replay(root.new_unit(), each)
        refreshes += root.tuning.refreshes
        kernels = np.stack([truth, *(root.sample_model(rng).kernel for _ in range(8))])
        starts = np.repeat(own.initial[None], 9, axis=0)
        found = np.concatenate([functionals(own, kernels, starts, each) for each in given], axis=1)
        gaps.append(found[1:].mean(axis=0) - found[0])
    assert refreshes > 250
    assert np.abs(z_scores(np.array(gaps))).max() < 4.5


@pytest.mark.parametrize("name", [*OWN, "sensor and first observation"])
def test_units_in_a_saved_state_continue_with_the_same_bits(name: str) -> None:
    prior: Any = OWN[name][0] if name in OWN else ALL_PRIORS[name]
    root: Any = prior.posterior(np.random.default_rng(1))
    units: list[Any] = [root.new_unit() for _ in range(3)]
    rng = np.random.default_rng(2)
    for unit in units[:2]:
        unit.start(None)
        for _ in range(60):
            unit.update(int(rng.integers(2)), int(rng.integers(prior.setting.n_observations)))
    again = prior.restore(root.state(), np.random.default_rng(5))
    root._rng = np.random.default_rng(5)
    for each in root.units:
        each._rng = root._rng
    for pair in ((units, list(again.units[1:])),):
        for posteriors in pair:
            rng = np.random.default_rng(6)
            posteriors[2].start(None)
            for t in range(90):
                action, observation = int(rng.integers(2)), int(rng.integers(prior.setting.n_observations))
                posteriors[t % 3].update(action, observation)
    ours, theirs = root.state(), again.state()
    assert ours.keys() == theirs.keys()
    for field, value in ours.items():
        assert np.array_equal(np.asarray(value), np.asarray(theirs[field])) or (
            np.asarray(value).dtype.kind == "f"
            and np.array_equal(np.asarray(value), np.asarray(theirs[field]), equal_nan=True)
        ), field
