"""Gaussian observations with unknown means and sds: sums over all paths, conjugacy, calibration, files."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from density_settings import over_paths
from psrl_pomdp import (
    POMDP,
    DirichletCosts,
    DirichletPrior,
    GaussianSensor,
    InvalidModelError,
    MixturePrior,
    ParseError,
    PlanningBudget,
    PoissonSensor,
    PSRLAgent,
    Setting,
    simulate,
)
from psrl_pomdp._numba.jit import running
from psrl_pomdp._serialization.archives import pack, unpack
from psrl_pomdp._utils.arrays import Array
from psrl_pomdp.inference import filter_bank as filtering
from psrl_pomdp.inference.gaussian_posterior import GaussianPosterior
from psrl_pomdp.sensors import NormalInverseGammaSensor
from psrl_pomdp.simulation import Simulation
from psrl_pomdp.testing.calibration import sampling_identity, z_scores
from psrl_pomdp.testing.importance_checks import importance_violations

pytestmark = pytest.mark.filterwarnings("ignore::psrl_pomdp.errors.CoarsePlanWarning")

COST, INITIAL = np.array([[0.1, 0.4, 1.0], [0.6, 0.2, 0.3]]), np.array([0.5, 0.3, 0.2])
BY_STATE = NormalInverseGammaSensor([0.0, 1.0, 2.0], [0.7, 0.5, 0.4], 5.0, [4.0, 6.0, 8.0])
BY_ACTION = NormalInverseGammaSensor([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]], [0.7, 0.5, 0.4], 5.0, 6.0)
SENSORS = {"by state": BY_STATE, "by action": BY_ACTION}
ACTIONS, READINGS = [0, 1, 1, 0, 1], [0.3, 1.4, None, -0.2, 2.1]


def prior_of(name: str, *, first: bool = True, alpha: float = 0.7) -> DirichletPrior:
    sensor = SENSORS[name]
    setting = Setting(sensor.center, COST, INITIAL, sensor.center if first else None)
    return DirichletPrior(setting, np.full((2, 3, 3), alpha), sensor=sensor)


def cases() -> list[tuple[str, bool]]:
    return [("by state", True), ("by state", False), ("by action", False)]


def densities(means: Array, sds: Array, actions: list[int], readings: list[Any]) -> list[Array]:
    """Densities of the readings under one kernel's sensor, [A, S] or [S]; ones where they are missing."""
    found = []
    for a, y in zip(actions, readings, strict=True):
        mean, sd = (p if p.ndim == 1 else p[a] for p in (means, sds))
        found.append(np.ones(3) if y is None else stats.norm.pdf(y, mean, sd))
    return found


@pytest.mark.parametrize(("name", "first"), cases())
@pytest.mark.parametrize("readings", [READINGS, [0.3, 12.0, None, -9.0, 2.1]])
def test_filters_and_passes_are_sums_over_paths(name: str, first: bool, readings: list[Any]) -> None:
    """Each kernel with its own sensor: weights, beliefs, φ, likelihoods; single steps and the batch."""
    prior, y1 = prior_of(name, first=first), 0.4 if first else None
    posterior, many = (GaussianPosterior(prior, np.random.default_rng(0), size=5) for _ in range(2))
    posterior._rule.least[:] = many._rule.least[:] = 0.0  # no refresh: the kernels stay
    posterior.start(y1)
    many.start(y1)
    for a, y in zip(ACTIONS, readings, strict=True):
        posterior.update(a, y)
    many.update_many(ACTIONS, readings)
    for field in ("belief", "log_weight", "product", "scale", "expected"):
        assert np.array_equal(getattr(posterior._filters, field), getattr(many._filters, field))
    exact, before = [], []
    for k, means, sds in zip(posterior.kernels, posterior.sensor_means, posterior.sensor_sds, strict=True):
        begin = np.ones(3) if y1 is None else stats.norm.pdf(y1, means, sds)
        rows = densities(means, sds, ACTIONS, readings)
        exact.append(over_paths(k, INITIAL, begin, ACTIONS, rows))
        before.append(over_paths(k, INITIAL, begin, ACTIONS[:-1], rows[:-1]))
    chances = np.array([e.likelihood for e in exact])
    assert posterior.weights == pytest.approx(chances / chances.sum(), abs=1e-12)
    assert posterior.beliefs == pytest.approx(np.array([e.belief for e in exact]), abs=1e-12)
    phi = np.stack([e.visits for e in exact], axis=-1)
    assert filtering.counts(posterior._filters) == pytest.approx(phi, abs=1e-12)
    weights = np.array([e.likelihood for e in before])
    counts = np.einsum("m,mas->as", weights / weights.sum(), [e.visits.sum(axis=0) for e in before])
    counts[ACTIONS[-1]] += weights / weights.sum() @ [e.belief for e in before]
    assert posterior.expected_counts == pytest.approx(counts, abs=1e-12)
    group, past = posterior.group, posterior._past
    group.space.fit(past.length)
    logs = group.log_likelihood([past], group.now)
    assert logs - logs[0] == pytest.approx(np.log(chances / chances[0]), abs=1e-10)
    belief, visits = group.beliefs_and_visits(past)
    assert belief == pytest.approx(posterior.beliefs.T, abs=1e-12)
    assert visits == pytest.approx(phi.transpose(1, 2, 0, 3), abs=1e-12)
    sample = posterior.sample_model(np.random.default_rng(1))
    n = int(np.flatnonzero((posterior.kernels == sample.kernel).all(axis=(1, 2, 3)))[0])
    assert sample.setting is not None
    assert np.array_equal(sample.setting.sensor.means, posterior.sensor_means[n])  # type: ignore[attr-defined]
    assert sample.belief == pytest.approx(exact[n].belief, abs=1e-12)
    drawn = posterior.sample(np.random.default_rng(1))
    assert np.array_equal(drawn, sample.kernel)
    posterior.update(0, 0.5)
    rows = densities(posterior.sensor_means[n], posterior.sensor_sds[n], [*ACTIONS, 0], [*readings, 0.5])
    begin = np.ones(3)
    if y1 is not None:
        begin = stats.norm.pdf(y1, posterior.sensor_means[n], posterior.sensor_sds[n])
    wanted = over_paths(drawn, INITIAL, begin, [*ACTIONS, 0], rows).belief
    assert posterior.belief(drawn) == pytest.approx(wanted, abs=1e-12)
    assert posterior._belief_under(drawn, group.setting_of(n)) == pytest.approx(wanted, abs=1e-12)


def test_a_refresh_agrees_with_the_forward_recursion() -> None:
    """700 steps, several segments: the filters after a refresh, and those from the start."""
    prior = prior_of("by state")
    rng = np.random.default_rng(3)
    posterior = GaussianPosterior(prior, rng, size=20)
    posterior.start(0.2)
    actions, readings = rng.integers(2, size=700), rng.normal(1.0, 1.0, 700)
    readings[rng.random(700) < 0.1] = np.nan
    posterior.update_many(actions, readings)
    posterior.refresh()
    again = GaussianPosterior(prior, np.random.default_rng(0), size=20)
    again._shared.groups = posterior._groups
    again._shared.banks[0] = again._new_filters(again._groups, np.full(20, 0.05))
    again._rule.least[:] = 0.0
    again.start(0.2)
    again.update_many(actions, readings)
    assert posterior.beliefs == pytest.approx(again.beliefs, abs=1e-9)
    assert filtering.counts(posterior._filters) == pytest.approx(filtering.counts(again._filters), abs=1e-7)


@pytest.mark.parametrize("name", ["by state", "by action"])
def test_sums_of_readings_along_paths(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Mean sums of 32 × 150 paths against enumeration; false alarm 18 × 7e-6 = 1.2e-4 at 4.5."""
    prior, first = prior_of(name, first=name == "by state"), name == "by state"
    posterior = GaussianPosterior(prior, np.random.default_rng(0), size=32)
    posterior.start(0.4 if first else None)
    posterior._rule.least[:] = 0.0
    posterior.update_many(ACTIONS, READINGS)
    group, past = posterior.group, posterior._past
    group.space.fit(past.length)
    same = group.now.chosen(np.zeros(32, int))
    found: list[Array] = []

    def recorded(self: Any, rng: np.random.Generator, sums: Array) -> tuple[Array, Array]:
        found.append(sums)
        return same.means, same.sds

    monkeypatch.setattr(NormalInverseGammaSensor, "draw_given", recorded)
    rng = np.random.default_rng(1)
    for _ in range(150):
        group.sweep(same, [past], rng)
    sums = np.concatenate(found, axis=-1)
    kernel, means, sds = posterior.kernels[0], same.means[..., 0], same.sds[..., 0]
    begin = stats.norm.pdf(0.4, means, sds) if first else np.ones(3)
    rows = densities(means, sds, ACTIONS, READINGS)
    center = np.broadcast_to(SENSORS[name].means, (2, 3))
    exact = np.zeros((3, 2, 3))
    whole = over_paths(kernel, INITIAL, begin, ACTIONS, rows)
    for i, (a, y) in enumerate(zip(ACTIONS, READINGS, strict=True)):
        if y is not None:
            backward = np.ones(3)
            for b, row in zip(ACTIONS[:i:-1], rows[:i:-1], strict=True):
                backward = kernel[b] @ (row * backward)
            chance = over_paths(kernel, INITIAL, begin, ACTIONS[: i + 1], rows[: i + 1])
            smooth = chance.belief * backward * chance.likelihood / whole.likelihood
            exact[:, a] += smooth * np.stack([np.ones(3), y - center[a], (y - center[a]) ** 2])
    if first:
        exact = exact.sum(axis=1)
        exact += whole.first * np.stack([np.ones(3), 0.4 - center[0], (0.4 - center[0]) ** 2])
    error = sums.std(axis=-1) / np.sqrt(sums.shape[-1]) + 1e-9
    assert np.abs((sums.mean(axis=-1) - exact) / error).max() < 4.5


def test_draws_given_readings_have_the_conjugate_distribution() -> None:
    """Against scipy's: 6 tests by Kolmogorov and Smirnov, false alarm 6 × 1e-6."""
    rng = np.random.default_rng(0)
    samples = [rng.normal(3.0, 2.0, n) for n in (0, 1, 30)]
    centered = [sample - m for sample, m in zip(samples, BY_STATE.means, strict=True)]
    sums = np.array([[len(u), u.sum(), (u * u).sum()] for u in centered]).T
    means, sds = BY_STATE.draw_given(rng, np.repeat(sums[..., None], 4000, axis=-1))
    for s, sample in enumerate(samples):
        strength, degrees = BY_STATE.strength[s] + len(sample), BY_STATE.degrees[s] + len(sample)
        mean = (BY_STATE.strength[s] * BY_STATE.means[s] + sample.sum()) / strength
        # The scale by another formula: spread around the sample's mean, and its distance from the prior's.
        scale = BY_STATE.degrees[s] * BY_STATE.sds[s] ** 2
        if len(sample):
            scale += ((sample - sample.mean()) ** 2).sum()
            scale += BY_STATE.strength[s] * len(sample) / strength * (sample.mean() - BY_STATE.means[s]) ** 2
        of_variance = stats.invgamma(degrees / 2, scale=scale / 2)
        of_mean = stats.t(degrees, mean, np.sqrt(scale / degrees / strength))
        assert stats.kstest(sds[s] ** 2, of_variance.cdf).pvalue > 1e-6
        assert stats.kstest(means[s], of_mean.cdf).pvalue > 1e-6
    grid, spread = (
        np.array([[-1.0, 0.5], [0.0, 1.0], [1.0, 3.0]]),
        np.array([[0.3, 2.0], [1.0, 0.4], [0.2, 0.9]]),
    )
    for s in range(3):
        degrees = BY_STATE.degrees[s]
        law = stats.norm.logpdf(grid[s], BY_STATE.means[s], spread[s] / np.sqrt(BY_STATE.strength[s]))
        law += stats.invgamma.logpdf(spread[s] ** 2, degrees / 2, scale=degrees * BY_STATE.sds[s] ** 2 / 2)
        law += 2.0 * np.log(spread[s])  # the density of log σ
        found = BY_STATE.log_density(grid, spread)[s]
        assert np.diff(found) == pytest.approx(np.diff(law), abs=1e-10)


def functionals(prior: DirichletPrior, models: list[POMDP], y1: Any, actions: Any, readings: Any) -> Array:
    """Nine functions of kernel, sensor and history, with the log-likelihood by another forward filter."""
    found = []
    for model in models:
        sensor: Any = model.setting.sensor
        belief, log = INITIAL.copy(), 0.0
        if y1 is not None:
            belief = belief * stats.norm.pdf(y1, sensor.means, sensor.sds)
        for a, y in zip(actions, readings, strict=True):
            log += np.log(belief.sum())
            belief = belief / belief.sum() @ model.transition[a]
            if not np.isnan(y):
                mean, sd = (p if p.ndim == 1 else p[a] for p in (sensor.means, sensor.sds))
                z = (y - mean) / sd
                belief = belief * np.exp(-0.5 * z * z) / sd
        log = (log + np.log(belief.sum())) / np.sqrt(len(actions))
        m, sd = sensor.means.reshape(-1), sensor.sds.reshape(-1)
        entry = model.transition[0, 0, 0]
        found.append(
            [
                log,
                log**2,
                m[0],
                (m**2).sum(),
                np.log(sd).sum(),
                (np.log(sd) ** 2).sum(),
                entry,
                entry**2,
                entry * log,
            ]
        )
    return np.array(found)


EVEN = NormalInverseGammaSensor([0.0, 0.0, 0.0], [0.6, 0.6, 0.6], 0.5, 6.0)


@pytest.mark.parametrize("name", ["by state", "by action", "exchangeable"])
def test_calibration(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Nine z-scores, the log-likelihood among them; false alarm 9 × 7e-6 = 6e-5 at 4.5."""
    monkeypatch.setitem(SENSORS, "exchangeable", EVEN)
    prior = prior_of(name, first=name != "by action")
    rng, gaps, first = np.random.default_rng(5), [], name != "by action"
    for _ in range(100):
        world = prior.sample_model(rng)
        sensor: Any = world.setting.sensor
        state = int(rng.choice(3, p=INITIAL))
        y1 = float(rng.normal(sensor.means[state], sensor.sds[state])) if first else None
        actions, readings = [], []
        for _ in range(30):
            actions.append(int(rng.integers(2)))
            state = int(rng.choice(3, p=world.transition[actions[-1], state]))
            number = 0 if sensor.n_actions is None else actions[-1]
            drawn = sensor.draw(rng, number, np.array([state]))[0]
            readings.append(np.nan if rng.random() < 0.1 else drawn)
        posterior = GaussianPosterior(prior, rng, size=32)
        posterior.start(y1)
        posterior.update_many(actions, readings)
        draws = [posterior.sample_model(rng) for _ in range(8)]
        models = [world, *(POMDP(draw.setting, draw.kernel) for draw in draws)]  # type: ignore[arg-type]
        values = functionals(prior, models, y1, actions, readings)
        gaps.append(values[1:].mean(axis=0) - values[0])
    scores = z_scores(np.array(gaps))
    assert np.abs(scores).max() < 4.5, scores


def test_the_checks_of_posteriors_pass() -> None:
    """What `check_posterior` compares with weighted draws of the prior; false alarm 5e-6."""
    prior = prior_of("by state")
    assert list(importance_violations(prior, prior.posterior, 48, 8, 3)) == []
    scores = sampling_identity(prior, prior.posterior, 30, 10, np.random.default_rng(0))
    assert len(scores) == 14
    assert np.abs(scores).max() < 5.5  # Student's distribution, false alarm 14 × 7e-6


def test_renamings_are_accepted_where_states_are_exchangeable() -> None:
    """Uniform initial states, equal rows and equal opinions: every renaming has the ratio 1."""
    even = Setting(EVEN.center, COST, np.full(3, 1 / 3))
    posterior = GaussianPosterior(
        DirichletPrior(even, np.full((2, 3, 3), 0.7), sensor=EVEN), np.random.default_rng(0), size=64
    )
    posterior.start(0.1)
    posterior.update_many([0, 1] * 20, np.linspace(-2.0, 2.0, 40))
    group = posterior.group
    after = group.rename_states(group.now, posterior.histories, np.random.default_rng(1))
    assert (after.means != group.now.means).any(axis=0).mean() > 0.9
    logs = group.log_likelihood(posterior.histories, group.now)
    assert group.log_likelihood(posterior.histories, after) == pytest.approx(logs, abs=1e-9)
    assert np.sort(after.means, axis=0) == pytest.approx(np.sort(group.now.means, axis=0))


COARSE = PlanningBudget(min_tolerance=0.05, max_tolerance=0.2, max_work=1_000_000)


@pytest.mark.parametrize(("name", "first"), cases())
def test_agents_are_saved_and_loaded_to_the_last_bit(name: str, first: bool) -> None:
    prior = prior_of(name, first=first)
    world = prior.sample_model(np.random.default_rng(2))

    def agent() -> PSRLAgent:
        return PSRLAgent(prior, seed=1, budget=COARSE)

    whole, half, rest = (Simulation(world, agent(), 3) for _ in range(3))
    trace = whole.until(120)
    half.until(50)
    rest.resume(half.to_bytes())
    assert rest.to_bytes() == half.to_bytes()
    again = rest.until(120)
    assert np.array_equal(again.actions, trace.actions)
    assert again.episodes == trace.episodes
    assert len(trace.episodes) > 3
    one: Any = whole.agent
    assert one.to_bytes() == rest.agent.to_bytes()  # type: ignore[attr-defined]
    assert one.current_episode.setting.sensor != prior.setting.sensor  # the agent plans with its sample
    loaded = PSRLAgent.from_bytes(one.to_bytes())
    assert loaded.prior == prior
    assert [loaded.act(y) for y in (0.3, None, 1e6, -1e6, 1.0)] == [
        one.act(y) for y in (0.3, None, 1e6, -1e6, 1.0)
    ]
    assert loaded.to_bytes() == one.to_bytes()
    before = loaded.to_bytes()
    with pytest.raises(Exception, match="not a number"):
        loaded.act("high")
    assert loaded.to_bytes() == before
    assert one.posterior.mean_model().belief.sum() == pytest.approx(1.0)
    assert one.posterior.mode_model().belief.sum() == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("name", "place", "value"),
    [
        ("posterior.sensor_sds", 0, -1.0),
        ("posterior.sensor_sds", 0, 0.0),
        ("posterior.sensor_sds", 0, np.inf),
        ("posterior.sensor_means", 0, np.nan),
        ("density_sds", 0, -1.0),
        ("density_strength", 0, 0.0),
        ("density_degrees", 0, np.nan),
        ("density_means", 0, 0.25),
        ("used_sds", 0, 0.0),
        ("used_means", 0, np.nan),
        ("posterior.history_values", 2, np.inf),
    ],
)
def test_changed_files_are_refused(name: str, place: int, value: float) -> None:
    prior = prior_of("by state")
    agent = PSRLAgent(prior, seed=1, budget=COARSE)
    simulate(prior.sample_model(np.random.default_rng(2)), agent, 10, 3)
    arrays = {key: array.copy() for key, array in unpack(agent.to_bytes(), "agent").items()}
    arrays[name].reshape(-1)[place] = value
    with pytest.raises((InvalidModelError, ParseError)):
        PSRLAgent.from_bytes(pack(arrays))


def test_mistakes_are_named() -> None:
    means, sds = [0.0, 1.0, 2.0], [1.0, 1.0, 1.0]
    for name, wrong in (("sds", [1.0, -1.0, 1.0]), ("strength", 0.0), ("degrees", [1.0, np.nan, 1.0])):
        given: dict[str, Any] = {"means": means, "sds": sds, "strength": 1.0, "degrees": 1.0, name: wrong}
        with pytest.raises(InvalidModelError, match=name):
            NormalInverseGammaSensor(**given)
    samples: Any
    for samples in ([[1.0, 2.0], [1.0]], [[1.0, 2.0], [1.0, 1.0]], [], [[1.0, 2.0], [np.nan, 1.0]]):
        with pytest.raises(InvalidModelError, match="readings"):
            NormalInverseGammaSensor.from_calibration(samples)
    setting = Setting(GaussianSensor(means, sds), COST, INITIAL)
    ones, opinion = np.ones((2, 3, 3)), NormalInverseGammaSensor(means, sds, 1.0, 1.0)
    with pytest.raises(InvalidModelError, match="Poisson"):
        DirichletPrior(Setting(PoissonSensor([1.0, 2.0, 3.0]), COST, INITIAL), ones, sensor=opinion)
    with pytest.raises(InvalidModelError, match=r"sensor\.means"):
        DirichletPrior(setting, ones, sensor=NormalInverseGammaSensor([0.0, 1.0], [1.0, 1.0], 1.0, 1.0))
    with pytest.raises(InvalidModelError, match="unknown costs"):
        DirichletPrior(setting, ones, sensor=opinion, costs=DirichletCosts([0.0, 1.0], np.ones((2, 3, 2))))
    with pytest.raises(InvalidModelError, match="mixture"):
        MixturePrior([(1.0, DirichletPrior(setting, ones, sensor=opinion))]).posterior(
            np.random.default_rng(0)
        )


def test_interpreted_and_compiled_steps_have_the_same_bits() -> None:
    found = []
    for way in (True, False):
        with running(way):
            posterior = GaussianPosterior(prior_of("by state"), np.random.default_rng(0), size=20)
            posterior.start(0.2)
            posterior.update_many([0, 1, 1] * 4, [0.3, np.nan, 2.0] * 4)
            posterior.refresh()
            posterior.update_many([0, 1, 1], [1e6, 0.7, -1e6])
            posterior.refresh()
            kept = (posterior.weights, posterior.kernels, posterior.sensor_means, posterior.sensor_sds)
            counted = posterior.expected_counts, posterior._filters.test.memory
            found.append([each.tobytes() for each in (*kept, posterior.beliefs, *counted)])
    assert found[0] == found[1]


def test_calibration_readings_determine_the_opinion() -> None:
    readings = [[[0.9, 1.1, 1.0], [0.0, 0.4]], [[5.0, 7.0], [1.0, 2.0, 3.0, 4.0]]]
    found = NormalInverseGammaSensor.from_calibration(readings)
    assert found.means.tolist() == [[1.0, 0.2], [6.0, 2.5]]
    assert found.strength.tolist() == [[3.0, 2.0], [2.0, 4.0]]
    assert found.degrees.tolist() == [[2.0, 1.0], [1.0, 3.0]]
    assert found.sds[1, 1] == pytest.approx(np.std([1, 2, 3, 4], ddof=1))
    assert NormalInverseGammaSensor.from_calibration(readings[0]).means.tolist() == [1.0, 0.2]
