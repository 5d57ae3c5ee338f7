"""The posterior over Dirichlet rows: recursions by other routes, moves and calibration by exact nulls."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.special import digamma
from scipy.stats import beta as beta_law

from filter_banks import first_likelihood, new_bank, update, update_many
from filter_banks import start as start_filters
from oracles import every_path
from psrl_pomdp import (
    DirichletPosterior,
    DirichletPrior,
    ImpossibleObservationError,
    InvalidModelError,
    OutOfOrderError,
    Setting,
)
from psrl_pomdp._utils.arrays import Array
from psrl_pomdp.inference import filter_bank as belief
from psrl_pomdp.inference import hmc
from psrl_pomdp.inference.dirichlet_prior import log_dirichlet
from psrl_pomdp.inference.hidden_paths import expected_transitions, sample_paths, tabulate
from psrl_pomdp.inference.history import History
from psrl_pomdp.inference.refresh import AdaptationState, beliefs_and_visits, gibbs, hamiltonian
from psrl_pomdp.inference.rows import FreeRows
from psrl_pomdp.inference.step_codes import Steps
from psrl_pomdp.inference.workspace import flat
from psrl_pomdp.testing.calibration import (
    functionals,
    replay,
    sampling_identity,
    simulate_from_prior,
    z_scores,
)


def sensor(n_states: int, sharpness: float) -> Array:
    """Tells the state with this much above chance: 0.9 is sharp, 0.4 in between, 0.1 a blur."""
    return np.full((n_states, n_states), (1 - sharpness) / n_states) + sharpness * np.eye(n_states)


def dense(sharpness: float, alpha: float = 1.0) -> DirichletPrior:
    setting = Setting(sensor(3, sharpness), np.zeros((2, 3)), np.full(3, 1 / 3))
    return DirichletPrior(setting, np.full((2, 3, 3), alpha))


def structured(sharpness: float) -> DirichletPrior:
    """Structural zeros, small concentrations, a known row and a shared one; no first reading."""
    by_action = np.stack([sensor(3, sharpness), sensor(3, sharpness)[:, [1, 2, 0]]])
    setting = Setting(by_action, np.zeros((2, 3)), [0.5, 0.5, 0.0], first_observation=None)
    concentration = np.array(
        [
            [[0.3, 0.3, 0.0], [0.5, 1.0, 0.2], [0.0, 2.0, 1.0]],
            [[1.0, 1.0, 1.0], [0.5, 1.0, 0.2], [0.1, 0.0, 0.1]],
        ]
    )
    return DirichletPrior(setting, concentration, known={(1, 0): [0.2, 0.3, 0.5]}, ties=[[(0, 1), (1, 1)]])


def lived(prior: DirichletPrior, length: int, seed: int) -> DirichletPosterior:
    rng = np.random.default_rng(seed)
    posterior = prior.posterior(rng)
    replay(posterior, simulate_from_prior(prior, length, rng).history)
    return posterior


def codes_at(past: History, i: int) -> tuple[int, int]:
    """Action and code of step i."""
    action, reading = past.reading(i)
    return action, reading.code


def space_of(posterior: DirichletPosterior) -> tuple[Any, ...]:
    space, kernels = posterior._space, flat(posterior._filters.transition.copy())
    return kernels, space.joint, space.alpha, space.checkpoints, space.shares, np.zeros_like(kernels)


@pytest.mark.parametrize(("sharpness", "stickiness"), [(0.9, 0.0), (0.1, 0.999)])
def test_a_refresh_finds_beliefs_and_visits_of_new_kernels(sharpness: float, stickiness: float) -> None:
    """Against the forward recursion over the whole history, for chains that forget and for sticky ones."""
    prior = structured(sharpness)
    posterior = lived(prior, 900, 1)
    if stickiness:
        stay = np.log(stickiness + (1 - stickiness) * np.eye(3)[[0, 1, 2]])
        posterior._log_rows[...] = np.where(posterior._rows.concentration[..., None] > 0, -8.0, -np.inf)
        for (a, s), r in np.ndenumerate(posterior._rows.where):
            if r >= 0 and prior.concentration[a, s, s] > 0:
                posterior._log_rows[r, s] = stay[s, s]
    posterior.refresh()
    assert (posterior.weights == 1 / posterior.size).all()
    kernels, past = posterior.kernels, posterior._past
    again = new_bank(prior.setting, kernels, np.ones(posterior.size))
    start = np.repeat(prior.setting.initial[:, None], posterior.size, axis=1)
    start_filters(again, start, first_likelihood(prior.setting, None))
    steps = [codes_at(past, i) for i in range(past.length)]
    update_many(again, np.array([a for a, _ in steps]), np.array([o for _, o in steps]))
    assert posterior._filters.belief == pytest.approx(again.belief, abs=1e-9)
    assert belief.counts(posterior._filters) == pytest.approx(belief.counts(again), abs=1e-7)


def test_visits_of_chains_that_forget_slowly() -> None:
    """As above, for kernels that no move has changed: after 512 steps they still know 1e-3 of the past."""
    prior = dense(0.1)
    posterior = lived(prior, 900, 1)
    past, size = posterior._past, posterior.size
    leave = np.geomspace(0.01, 0.05, size)
    stay = np.eye(3)[None, :, :, None]
    kernels = np.repeat((1 - leave) * stay + 0.5 * leave * (1 - stay), 2, axis=0)
    found, visits = beliefs_and_visits(kernels, past, posterior._space)
    again = new_bank(prior.setting, kernels.transpose(3, 0, 1, 2), np.ones(size))
    start_filters(again, np.repeat(past.start[:, None], size, axis=1), np.ones(3))
    steps = [codes_at(past, i) for i in range(past.length)]
    update_many(again, np.array([a for a, _ in steps]), np.array([o for _, o in steps]))
    assert found == pytest.approx(again.belief, abs=1e-9)
    assert visits.transpose(2, 0, 1, 3) == pytest.approx(belief.counts(again), abs=1e-7)


def test_expected_transitions_and_their_likelihood_by_enumeration() -> None:
    prior = structured(0.4)
    posterior = lived(prior, 4, 3)
    steps = [codes_at(posterior._past, i) for i in range(4)]
    actions, readings = [a for a, _ in steps], [None if o == 3 else o for _, o in steps]
    space, past = posterior._space, posterior._past
    kernels, joint, alpha, checkpoints, shares, expected = space_of(posterior)
    logs = np.zeros(posterior.size)
    tabulate(kernels, space.likelihood, joint)
    first = np.zeros(3 * posterior.size)
    expected_transitions(
        space.states,
        space.action_of,
        past.codes,
        past.rows,
        4,
        space.start(past.start),
        joint,
        alpha,
        checkpoints,
        shares,
        logs,
        first,
        expected,
    )
    assert first.reshape(3, -1).sum(axis=0) == pytest.approx(1.0)
    start = np.repeat(prior.setting.initial[None], posterior.size, axis=0)
    exact = every_path(prior.setting, posterior.kernels, start, None, actions, readings)
    assert np.exp(logs) == pytest.approx(exact.likelihood, rel=1e-12)
    found = expected.reshape(2, 3, 3, -1)
    assert found.sum(axis=2).transpose(2, 0, 1) == pytest.approx(exact.visits, abs=1e-12)


def test_paths_are_drawn_as_often_as_expected() -> None:
    """Mean counts of 32 × 400 paths against ξ: 18 z-scores; false alarm 18 × 7e-6 = 1.2e-4 at 4.5."""
    prior = dense(0.4)
    posterior = lived(prior, 20, 4)
    posterior._log_rows[...] = posterior._log_rows[:, :, :1]  # all kernels the same
    posterior._filters.transition[...] = posterior._rows.kernels(posterior._log_rows)
    space, past = posterior._space, posterior._past
    kernels, joint, alpha, checkpoints, shares, expected = space_of(posterior)
    tabulate(kernels, space.likelihood, joint)
    drawn = []
    for seed in range(400):
        counts = np.zeros(kernels.shape, dtype=np.int32)
        counter = np.uint64(seed * 1_000_003)
        common = (past.codes, past.rows, past.length, space.start(past.start), joint, alpha, checkpoints)
        state = np.zeros(posterior.size, dtype=np.uint32)
        sample_paths(space.states, kernels, space.action_of, *common, counter, state, counts)
        drawn.append(counts.reshape(2, 3, 3, -1))
    logs = np.zeros(posterior.size)
    first = np.zeros(3 * posterior.size)
    expected_transitions(space.states, space.action_of, *common, shares, logs, first, expected)
    samples = np.concatenate(drawn, axis=-1)
    error = samples.std(axis=-1) / np.sqrt(samples.shape[-1]) + 1e-12
    z = (samples.mean(axis=-1) - expected.reshape(2, 3, 3, -1)[..., 0]) / error
    assert np.abs(z).max() < 4.5


def test_the_gradient_is_that_of_the_log_density() -> None:
    """Finite differences, with structural zeros, a known row and a shared one."""
    posterior = lived(structured(0.4), 40, 5)
    rng = np.random.default_rng(0)
    rows, past, space = posterior._rows, posterior._past, posterior._space
    possible = rows.concentration > 0
    z = np.where(possible[..., None], rng.standard_normal(posterior._log_rows.shape), -np.inf)
    _, gradient = hmc.log_density(rows, z, [past], space)
    for r, t in np.argwhere(possible):
        up, down = z.copy(), z.copy()
        up[r, t] += 1e-5
        down[r, t] -= 1e-5
        rise = hmc.log_density(rows, up, [past], space)[0] - hmc.log_density(rows, down, [past], space)[0]
        assert gradient[r, t] == pytest.approx(rise / 2e-5, abs=1e-5)
    assert not gradient[~possible].any()


def test_perfect_observation_gives_the_product_of_dirichlets() -> None:
    """Refreshed kernels are independent draws: Kolmogorov-Smirnov on 32 × 40 of them, false alarm 1e-6."""
    setting = Setting(np.eye(3), np.zeros((2, 3)), [1.0, 0.0, 0.0])
    prior = DirichletPrior(setting, np.full((2, 3, 3), 0.5))
    world = simulate_from_prior(prior, 60, np.random.default_rng(2), missing_rate=0.0)
    posterior = prior.posterior(np.random.default_rng(3))
    replay(posterior, world.history)
    path = [0, *world.history.observations]
    counts = np.zeros((2, 3, 3))
    for i, a in enumerate(world.history.actions):
        counts[a, path[i], path[i + 1]] += 1
    assert posterior.expected_counts == pytest.approx(counts.sum(axis=2))
    drawn = []
    for _ in range(40):
        posterior.refresh()
        drawn.append(posterior.kernels)
    concentration = 0.5 + counts
    a, s = (int(i) for i in np.unravel_index(counts.sum(axis=2).argmax(), (2, 3)))
    law = beta_law(concentration[a, s, 0], concentration[a, s, 1:].sum())
    values = np.concatenate(drawn)[:, a, s, 0]
    grid = np.linspace(0.001, 0.999, 500)
    furthest = np.abs((values[:, None] <= grid).mean(axis=0) - law.cdf(grid)).max()
    assert furthest < np.sqrt(np.log(2 / 1e-6) / (2 * len(values)))


@pytest.mark.parametrize("sharpness", [0.9, 0.2])
def test_one_unknown_number_agrees_with_a_fine_grid(sharpness: float) -> None:
    """Mean and spread of θ(0 | 0) over 30 ensembles against exact Bayes on 2,000 kernels.

    The mean of 30 × 32 kernels of which half are worth something has a standard error of 0.05 posterior
    standard deviations; 0.25 is five of them, false alarm 6e-7. The spread may be 15% off, as many."""
    known = {(0, 1): [0.3, 0.5, 0.2], (0, 2): [0.1, 0.1, 0.8]}
    setting = Setting(sensor(3, sharpness), np.zeros((1, 3)), np.full(3, 1 / 3))
    prior = DirichletPrior(setting, [[[2.0, 1.0, 0.0], [1.0] * 3, [1.0] * 3]], known=known)
    history = simulate_from_prior(prior, 150, np.random.default_rng(6)).history
    p = (np.arange(2000) + 0.5) / 2000
    kernels = np.repeat(prior.mean[None], 2000, axis=0)
    kernels[:, 0, 0] = np.stack([p, 1 - p, 0 * p], axis=1)
    exact = new_bank(setting, kernels, p / p.sum())  # Beta(2, 1)
    start_filters(exact, np.full((3, 2000), 1 / 3), first_likelihood(setting, history.first))
    for a, o in zip(history.actions, history.observations, strict=True):
        update(exact, a, 3 if o is None else o)
    weights = belief.weights(exact)
    mean = weights @ p
    spread = np.sqrt(weights @ (p - mean) ** 2)
    means, squares = [], []
    for seed in range(30):
        found = prior.posterior(np.random.default_rng(seed))
        replay(found, history)
        value = found.kernels[:, 0, 0, 0]
        means.append(found.weights @ value)
        squares.append(found.weights @ (value - mean) ** 2)
    assert abs(np.mean(means) - mean) < 0.25 * spread
    assert np.sqrt(np.mean(squares)) == pytest.approx(spread, rel=0.15)


@pytest.mark.parametrize("move", ["gibbs", "hmc"])
@pytest.mark.parametrize("prior", [dense(0.9), structured(0.9)], ids=["dense", "structured"])
def test_moves_leave_the_posterior_invariant(prior: DirichletPrior, move: str) -> None:
    """An exact null: from a truth, given its history, three moves lead to what is distributed as the truth.

    8 paired z-scores over 1,200 replicates, threshold 4.8: false alarm 8 × 1.6e-6 = 1.3e-5 for each case."""
    rng = np.random.default_rng(8)
    gaps = []
    for _ in range(1200):
        world = simulate_from_prior(prior, 6, rng)
        posterior = DirichletPosterior(prior, rng, size=8)
        posterior.start(world.history.first)
        _write(posterior, world.history)
        log_rows = np.repeat(_log_rows(posterior._rows, world.kernel)[..., None], 8, axis=-1)
        for _ in range(3):
            log_rows = _moved(posterior, log_rows, move, rng)
        moved = posterior._rows.kernels(log_rows).transpose(3, 0, 1, 2)
        kernels = np.concatenate([world.kernel[None], moved])
        found = functionals(prior.setting, kernels, world.initial, world.history)
        gaps.append(found[1:].mean(axis=0) - found[0])
    assert np.abs(z_scores(np.array(gaps))).max() < 4.8


def _write(posterior: DirichletPosterior, history: Any) -> None:
    """A history without its effect on the ensemble."""
    lost = posterior.setting.n_observations
    readings = np.array([lost if o is None else o for o in history.observations])
    nothing = np.zeros((0, 3))
    posterior._past.write_steps(Steps(np.array(history.actions), readings, nothing, np.zeros(0)))
    posterior._past.length = len(readings)
    posterior._space.fit(len(readings))


def _log_rows(rows: FreeRows, kernel: Array) -> Array:
    found = np.empty(rows.concentration.shape)
    for pair, r in np.ndenumerate(rows.where):
        if r >= 0:
            found[r] = kernel[pair]
    with np.errstate(divide="ignore"):
        return np.log(found)


def _moved(posterior: DirichletPosterior, log_rows: Array, move: str, rng: np.random.Generator) -> Array:
    rows, past, space = posterior._rows, posterior._past, posterior._space
    if move == "gibbs":
        return gibbs(rows, log_rows, [past], space, rng)[0]
    # A step so long that a good part of the proposals must be refused.
    return hamiltonian(rows, log_rows, [past], space, AdaptationState(step=1.4), rng)


@pytest.mark.parametrize("move", ["gibbs", "hmc"])
def test_moves_without_data_keep_the_prior(move: str) -> None:
    """Nothing was read: 8,192 independent draws from the prior, moved five times, are still that.

    Means of the entries and of their logarithms in 4 rows, at most 22 z-scores against exact values;
    threshold 5.5, false alarm 22 × 4e-8 = 8e-7 for each move."""
    prior = structured(0.4)
    rng = np.random.default_rng(15)
    posterior = DirichletPosterior(prior, rng, size=8192)
    posterior.start(None)
    log_rows, alpha = posterior._log_rows, posterior._rows.concentration
    for _ in range(5):
        log_rows = _moved(posterior, log_rows, move, rng)
    possible = alpha > 0
    total = alpha.sum(axis=1, keepdims=True)
    plain = (np.exp(log_rows) - (alpha / total)[..., None])[possible]
    logs = (log_rows[possible].T - (digamma(np.where(possible, alpha, 1.0)) - digamma(total))[possible]).T
    assert np.abs(z_scores(np.concatenate([plain, logs]).T)).max() < 5.5


@pytest.mark.parametrize("move", ["gibbs", "hmc"])
def test_geweke(move: str) -> None:
    """Draw data given θ, move θ given data, and so on: θ must keep its prior.

    6 z-scores by batch means over 4,000 rounds in 40 batches, threshold 6 for a t law with 39 degrees of
    freedom: false alarm 6 × 5e-7 = 3e-6 for each move."""
    prior = structured(0.4)
    rng = np.random.default_rng(9)
    posterior = DirichletPosterior(prior, rng, size=1)
    posterior.start(None)
    log_rows = log_dirichlet(rng, posterior._rows.concentration)[..., None]
    values = []
    for _ in range(4000):
        kernel = posterior._rows.kernels(log_rows)[..., 0]
        _write(posterior, simulate_from_prior(_Fixed(prior, kernel), 5, rng).history)
        posterior._past.length = 5
        log_rows = _moved(posterior, log_rows, move, rng)
        posterior._past.length = 0
        theta = posterior._rows.kernels(log_rows)[..., 0]
        values.append([theta[0, 0, 0], theta[0, 1, 1], theta[0, 1, 2], theta[1, 2, 0], *theta[0, 1, :2] ** 2])
    alpha = prior.concentration
    total = alpha.sum(axis=-1)
    square = alpha * (alpha + 1) / (total * (total + 1))[..., None]
    mean = prior.mean
    wanted = [mean[0, 0, 0], mean[0, 1, 1], mean[0, 1, 2], mean[1, 2, 0], *square[0, 1, :2]]
    batches = np.array(values).reshape(40, 100, -1).mean(axis=1) - wanted
    assert np.abs(z_scores(batches)).max() < 6.0


class _Fixed:
    """A prior that is sure of one kernel."""

    def __init__(self, prior: DirichletPrior, kernel: Array) -> None:
        self.setting, self._kernel = prior.setting, kernel

    def sample(self, rng: np.random.Generator) -> Array:
        return self._kernel

    def posterior(self, rng: np.random.Generator) -> Any:
        raise NotImplementedError


CASES = {
    "sharp": (dense(0.9), 40),
    "between": (dense(0.4), 60),
    "blurred": (dense(0.1), 60),
    "small concentrations": (dense(0.6, alpha=0.1), 40),
    "structured and sharp": (structured(0.9), 40),
    "structured and blurred": (structured(0.2), 60),
}


@pytest.mark.parametrize("case", CASES)
def test_calibrated_end_to_end(case: str) -> None:
    """The sampling identity: 8 z-scores, the log-likelihood among them, over 300 lives; threshold 4.8, false
    alarm 8 × 1.6e-6 = 1.3e-5 for each case."""
    prior, length = CASES[case]
    z = sampling_identity(prior, prior.posterior, 300, length, np.random.default_rng(10), draws=16)
    assert np.abs(z).max() < 4.8, z


def test_moves_are_chosen_by_how_soon_sweeps_forget() -> None:
    """A sharp sensor: a second sweep in each refresh, no HMC. A blurred one: one sweep, then HMC.

    End-to-end calibration cannot tell: over short lives a blurred sensor hardly asks for a refresh."""
    sharp, blurred = lived(dense(0.9), 300, 1).tuning, lived(dense(0.1), 1500, 1).tuning
    assert sharp.refreshes > 10
    assert (sharp.sweeps, sharp.hmc_moves) == (2 * sharp.refreshes, 0)
    assert blurred.refreshes > 1
    assert (blurred.sweeps, blurred.hmc_moves) == (blurred.refreshes, blurred.refreshes)


def test_what_the_prior_fixes_stays_fixed() -> None:
    prior = structured(0.6)
    posterior = lived(prior, 120, 11)
    assert posterior.tuning.refreshes > 0
    kernels = np.concatenate([posterior.kernels, [posterior.mean(), prior.sample(np.random.default_rng(0))]])
    assert (kernels[:, prior.concentration == 0] == 0.0).all()
    assert kernels[:, 1, 0] == pytest.approx(np.broadcast_to([0.2, 0.3, 0.5], (len(kernels), 3)))
    assert (kernels[:, 0, 1] == kernels[:, 1, 1]).all()
    assert kernels.sum(axis=-1) == pytest.approx(np.ones(kernels.shape[:-1]))


def test_lost_readings_teach_nothing() -> None:
    prior = dense(0.9)
    posterior = prior.posterior(np.random.default_rng(0))
    posterior.start(None)
    before = posterior.kernels
    posterior.update_many(np.arange(500) % 2, np.full(500, -1))
    assert posterior.tuning.refreshes == 0
    assert (posterior.kernels == before).all()
    assert posterior.weights == pytest.approx(np.full(32, 1 / 32), rel=1e-9)
    assert posterior.expected_counts.sum() == pytest.approx(500)


def test_one_by_one_many_and_resumed_are_the_same_to_the_last_bit(tmp_path: Any) -> None:
    prior = structured(0.4)
    history = simulate_from_prior(prior, 400, np.random.default_rng(12)).history
    readings = np.array([-1 if o is None else o for o in history.observations])
    one, many = (prior.posterior(np.random.default_rng(13)) for _ in range(2))
    replay(one, history)
    many.start(None)
    many.update_many(history.actions[:150], readings[:150])
    many.sample(np.random.default_rng(1))
    np.savez(tmp_path / "state.npz", **many.state())  # type: ignore[arg-type]
    rng = np.random.default_rng()
    rng.bit_generator.state = many._rng.bit_generator.state
    with np.load(tmp_path / "state.npz", allow_pickle=False) as saved:
        resumed = prior.restore(dict(saved), rng)
    for posterior in (many, resumed):
        posterior.update_many(history.actions[150:], readings[150:])
    one.sample(np.random.default_rng(1))
    ours, theirs, first = many.state(), resumed.state(), one.state()
    assert one.tuning.refreshes > 3
    for name, value in ours.items():
        assert np.array_equal(value, theirs[name]), name
        assert name.startswith("used") or np.array_equal(value, first[name]), name
    with pytest.raises(InvalidModelError, match="another prior"):
        dense(0.4).restore(many.state(), rng)
    with pytest.raises(InvalidModelError, match="history has shape"):
        prior.restore({**many.state(), "history": np.zeros(3)}, rng)


def test_beliefs_of_any_kernel_and_of_the_one_in_use() -> None:
    prior = structured(0.4)
    rng = np.random.default_rng(14)
    posterior = prior.posterior(rng)
    posterior.start(None)
    posterior.update(0, 1)
    used, foreign = posterior.sample(rng), prior.sample(rng)
    posterior.update(1, None)
    posterior.refresh()  # the ensemble moves on, the kernel in use stays
    posterior.update(1, 2)
    start = np.repeat(prior.setting.initial[None], 2, axis=0)
    exact = every_path(prior.setting, np.stack([used, foreign]), start, None, [0, 1, 1], [1, None, 2])
    assert posterior.belief(used) == pytest.approx(exact.belief[0], abs=1e-12)
    assert posterior.belief(foreign) == pytest.approx(exact.belief[1], abs=1e-12)
    assert posterior.belief(posterior.kernels[3]) == pytest.approx(posterior._filters.belief[:, 3], abs=1e-12)


def test_the_impossible_is_named_and_changes_nothing() -> None:
    """A ring in plain sight that never turns back, so from the first place the last cannot be next."""
    setting = Setting(
        np.eye(3), np.zeros((1, 3)), [1.0, 0.0, 0.0], actions=["on"], observations=["a", "b", "c"]
    )
    ring = [[[1.0, 1.0, 0.0], [0.0, 1.0, 1.0], [1.0, 0.0, 1.0]]]
    posterior = DirichletPrior(setting, ring).posterior(np.random.default_rng(0))
    with pytest.raises(OutOfOrderError):
        posterior.update(0, 0)
    with pytest.raises(ImpossibleObservationError, match=r"observation 1 \(b\) .* as the first observation"):
        posterior.start(1)
    posterior.start(0)
    posterior.update_many([0] * 5, [0, 1, 1, 2, 0])
    before = posterior.state()
    with pytest.raises(ImpossibleObservationError, match=r"observation 2 \(c\) .* after action 0 \(on\)"):
        posterior.update(0, 2)
    after = posterior.state()
    assert all(np.array_equal(before[name], after[name]) for name in before)
    posterior.update(0, 1)
    impossible = np.array([[[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]])
    with pytest.raises(ImpossibleObservationError, match="have probability 0 under this kernel"):
        posterior.belief(impossible)


def test_what_no_kernel_of_the_ensemble_expected_is_learned() -> None:
    """With a concentration of 1e-4 every kernel is sure of its next state; all are wrong, and must learn."""
    setting = Setting(np.eye(3), np.zeros((1, 3)), [1.0, 0.0, 0.0])
    prior = DirichletPrior(setting, np.full((1, 3, 3), 1e-4))
    posterior = prior.posterior(np.random.default_rng(0))
    posterior.start(0)
    posterior.update_many([0] * 60, [1, 2, 0] * 20)
    posterior.update(0, 2)  # what never happened before
    assert posterior.mean()[0, 0] == pytest.approx([0.0, 20 / 21, 1 / 21], abs=0.03)
    assert posterior.mean()[0, 1:] == pytest.approx(np.array([[0, 0, 1], [1, 0, 0]]), abs=1e-3)


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ({"known": {(0, 5): [1, 0, 0]}}, "known: (0, 5) is not a pair"),
        ({"known": {(0, 1): [0.5, 0, 0]}}, "known[a=0, s=1] sums to 0.5"),
        ({"known": {(0, 1): [1, 0]}}, "known[a=0, s=1] has shape (2,)"),
        ({"ties": [[(0, 0), (0, 1)]]}, "ties: concentration[a=0, s=1] differs from concentration[a=0, s=0]"),
        (
            {"ties": [[(0, 1), (1, 1)]], "known": {(1, 1): [1, 0, 0]}},
            "concentration[a=1, s=1] is a known row",
        ),
        ({"ties": [[(0, 1), 7]]}, "ties: 7 is not a pair"),
    ],
)
def test_priors_that_make_no_sense(extra: dict[str, Any], message: str) -> None:
    prior = structured(0.5)
    with pytest.raises(InvalidModelError) as caught:
        DirichletPrior(prior.setting, prior.concentration, **extra)
    assert message in str(caught.value)


def test_a_prior_that_leaves_nothing_open() -> None:
    setting = Setting(np.eye(2), np.zeros((1, 2)), [0.5, 0.5])
    prior = DirichletPrior(setting, [[[1.0, 0.0], [1.0, 1.0]]], known={(0, 1): [0.5, 0.5]})
    posterior = prior.posterior(np.random.default_rng(0))
    posterior.start(1)
    posterior.update_many([0, 0, 0], [1, 1, 0])
    assert posterior.mean() == pytest.approx(np.array([[[1.0, 0.0], [0.5, 0.5]]]))
