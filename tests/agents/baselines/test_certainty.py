"""Certainty equivalence: its guesses against brute force, and what it is made of."""

from itertools import pairwise

import numpy as np
import pytest
from scipy.optimize import minimize

from psrl_pomdp import (
    POMDP,
    DirichletPrior,
    FinitePrior,
    InvalidModelError,
    PSRLAgent,
    Setting,
    check_agent,
    plan,
    problem,
    simulate,
)
from psrl_pomdp.agents.baselines.certainty import CertaintyAgent, MAPAgent, MeanAgent
from psrl_pomdp.agents.psrl import PlanningBudget
from psrl_pomdp.agents.schedules import FixedSchedule

COARSE = PlanningBudget(min_tolerance=0.02)


def blurred(n_states: int = 2) -> Setting:
    sensor = np.full((n_states, n_states), 0.2 / (n_states - 1)) if n_states > 1 else np.ones((1, 1))
    np.fill_diagonal(sensor, 0.8)
    cost = np.linspace(0.0, 1.0, 2 * n_states).reshape(2, n_states)
    return Setting(sensor, cost, np.full(n_states, 1.0 / n_states))


def log_likelihood(
    setting: Setting, kernel: np.ndarray, first: int, actions: list[int], readings: list[int]
) -> float:
    belief = setting.initial * setting.observation[0][:, first]
    total = 0.0
    for action, reading in zip(actions, readings, strict=True):
        belief = belief @ kernel[action] * setting.observation[action][:, reading]
        total += np.log(belief.sum())
        belief = belief / belief.sum()
    return total


@pytest.mark.parametrize("alpha", [0.5, 1.0, 3.0])
def test_the_mode_is_that_of_the_density_of_logarithms(alpha: float) -> None:
    """Against a general optimizer over log-odds, from a log of 60 steps."""
    setting = blurred()
    prior = DirichletPrior(setting, np.full((2, 2, 2), alpha))
    rng = np.random.default_rng(1)
    actions, readings = rng.integers(2, size=60).tolist(), rng.integers(2, size=60).tolist()
    posterior = prior.posterior(np.random.default_rng(2))
    posterior.start(0)
    posterior.update_many(actions, readings)
    found = posterior.mode(passes=20_000, close=1e-12)

    def loss(odds: np.ndarray) -> float:
        p = 1.0 / (1.0 + np.exp(-odds.reshape(2, 2)))
        kernel = np.stack([p, 1 - p], axis=-1)
        prior = alpha * float(np.log(kernel).sum())
        return -log_likelihood(setting, kernel, 0, actions, readings) - prior

    start = np.log(found[..., 0] / found[..., 1]).ravel()
    best = minimize(loss, start, tol=1e-12)
    assert loss(start) <= best.fun + 1e-8
    np.testing.assert_allclose(1.0 / (1.0 + np.exp(-best.x.reshape(2, 2))), found[..., 0], atol=1e-4)


def test_every_pass_raises_the_density() -> None:
    setting = blurred(3)
    prior = DirichletPrior(setting, np.ones((2, 3, 3)))
    rng = np.random.default_rng(3)
    actions, readings = rng.integers(2, size=300).tolist(), rng.integers(3, size=300).tolist()
    posterior = prior.posterior(np.random.default_rng(4))
    posterior.start(0)
    posterior.update_many(actions, readings)
    densities = []
    for passes in (0, 1, 2, 4, 8, 16, 32):
        kernel = posterior.mode(passes=passes, close=0.0)
        densities.append(log_likelihood(setting, kernel, 0, actions, readings) + np.log(kernel).sum())
    assert all(later > earlier for earlier, later in pairwise(densities))


def test_known_and_shared_rows_stay_known_and_shared() -> None:
    setting = blurred()
    prior = DirichletPrior(
        setting, np.ones((2, 2, 2)), known={(0, 0): np.array([0.3, 0.7])}, ties=[[(1, 0), (1, 1)]]
    )
    posterior = prior.posterior(np.random.default_rng(5))
    posterior.start(0)
    posterior.update_many([1, 0, 1, 1, 0] * 8, [0, 1, 1, 0, 1] * 8)
    kernel = posterior.mode()
    np.testing.assert_array_equal(kernel[0, 0], [0.3, 0.7])
    np.testing.assert_array_equal(kernel[1, 0], kernel[1, 1])
    np.testing.assert_allclose(kernel.sum(axis=-1), 1.0, atol=1e-12)


def test_in_plain_sight_the_mode_is_prior_plus_counts() -> None:
    setting = Setting(np.eye(2), [[0.0, 1.0]], [1.0, 0.0])
    posterior = DirichletPrior(setting, [[[1.0, 2.0], [3.0, 1.0]]]).posterior(np.random.default_rng(6))
    posterior.start(0)
    posterior.update_many([0] * 5, [0, 0, 1, 1, 0])  # 0 -> 0, 0, 1; 1 -> 1, 0
    np.testing.assert_allclose(posterior.mode()[0], [[3 / 6, 3 / 6], [4 / 6, 2 / 6]], atol=1e-9)


def test_of_a_finite_set_the_likeliest_and_the_mean() -> None:
    family = problem("separated").family
    assert family is not None
    world = family.model(1)
    likeliest, mean = MAPAgent(family, seed=1, budget=COARSE), MeanAgent(family, seed=1, budget=COARSE)
    for agent in (likeliest, mean):
        simulate(world, agent, 100, seed=2)
        agent._begin_episode(1)
    assert likeliest.info.kernel_number == int(np.argmax(likeliest.posterior.weights)) == 1
    weights = mean.posterior.weights
    np.testing.assert_allclose(mean.info.kernel, np.tensordot(weights, family.kernels, axes=1))
    np.testing.assert_allclose(mean.info.belief, weights @ mean.posterior.beliefs)
    assert mean.info.kernel_number is None


@pytest.mark.parametrize("kind", [MAPAgent, MeanAgent])
@pytest.mark.parametrize("exploration", [0.0, 1.0])
def test_they_keep_to_the_protocol(kind: type[CertaintyAgent], exploration: float) -> None:
    world = problem("random-readout")

    def make(seed: int) -> CertaintyAgent:
        return kind(world.prior, seed=seed, budget=COARSE, exploration=exploration)

    assert check_agent(make, world) == []
    assert make(0).can_compile is False  # before the first action
    trace = simulate(world, make(1), 200, seed=2)
    streamed = simulate(world, make(1), 200, seed=2, driver="streaming")
    assert (trace.actions == streamed.actions).all()


def test_a_saved_one_keeps_exploring() -> None:
    world = problem("random-readout")
    agent = MeanAgent(world.prior, exploration=2.5)
    agent.act(0)
    assert MeanAgent.from_bytes(agent.to_bytes()).options == {"exploration": 2.5}


def test_exploration_is_as_often_as_it_says() -> None:
    """With two actions half of the explored ones are the other: Σ c t^(−1/3)/2 of 3,000 steps.

    Five standard deviations: a false alarm in two million.
    """
    setting = Setting(np.eye(2), [[0.0, 0.0], [1.0, 1.0]], [1.0, 0.0])
    kernel = np.full((2, 2, 2), 0.5)
    agent = MAPAgent(FinitePrior(setting, kernel[None]), seed=7, budget=COARSE, exploration=1.0)
    trace = simulate(POMDP(setting, kernel), agent, 3000, seed=8)
    chances = 0.5 * np.arange(1, 3001) ** (-1 / 3)
    spread = np.sqrt((chances * (1 - chances)).sum())
    assert abs((trace.actions == 1).sum() - chances.sum()) < 5 * spread


@pytest.mark.parametrize("value", [-1.0, "high", float("inf"), True])
def test_what_is_no_rate_of_exploration_is_refused(value: float) -> None:
    with pytest.raises(InvalidModelError, match=f"exploration is {value!r}: a number of at least 0"):
        MeanAgent(problem("separated").prior, exploration=value)


def test_the_guess_alone_can_be_fooled_for_ever() -> None:
    """Two kernels differ only after an action that the likelier one thinks bad.

    The likeliest kernel's policy never takes that action, so its regret is linear; samples find out. A run
    misses the truth, of weight .4, in ten episodes with probability .6^10; for the test to fail four of eight
    would have to do so: a false alarm in a hundred million.
    """
    setting = Setting(np.eye(2), [[0.0, 0.95], [0.05, 1.0]], [1.0, 0.0])
    safe = [[0.5, 0.5], [0.5, 0.5]]
    good, bad = [[0.9, 0.1], [0.9, 0.1]], [[0.1, 0.9], [0.1, 0.9]]
    prior = FinitePrior(setting, [[safe, bad], [safe, good]], [0.6, 0.4])
    world = prior.model(1)
    best = plan(world, 1e-9)
    stuck = [float(simulate(world, MAPAgent(prior, seed=i), 2000, seed=i).regret(best)) for i in range(8)]
    sampled = [float(simulate(world, PSRLAgent(prior, seed=i), 2000, seed=i).regret(best)) for i in range(8)]
    assert min(stuck) > 300
    assert np.mean(sampled) < 0.5 * np.mean(stuck)


def test_the_mean_of_a_set_may_come_to_reach_fewer_states() -> None:
    """Then the plan before is no start for the next one."""
    setting = Setting(np.eye(3), [[0.0, 1.0, 2.0], [0.5, 0.5, 0.5]], [1.0, 0.0, 0.0])
    few = [[[0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0]]] * 2
    many = [[[0.5, 0.0, 0.5], [0.5, 0.0, 0.5], [0.5, 0.0, 0.5]]] * 2
    agent = MeanAgent(FinitePrior(setting, [few, many]), FixedSchedule(1), budget=COARSE)
    agent.act(0)
    assert agent.info.kernel[0, 0].tolist() == [0.5, 0.25, 0.25]
    agent.act(1)
    assert agent.info.kernel[0, 0].tolist() == [0.5, 0.5, 0.0]
