"""Kernels from moments of consecutive readings: exact from exact moments, at the rate 1/√N from data."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from oracles import random_kernel
from psrl_pomdp import POMDP, InvalidModelError, Setting, problem
from psrl_pomdp._utils.arrays import Array
from psrl_pomdp.agents.baselines.base import drawn_near, floored
from psrl_pomdp.agents.baselines.moments import Moments
from random_agents import explored

Codes = npt.NDArray[np.int64]


def random_model(seed: int) -> POMDP:
    rng = np.random.default_rng(seed)
    sensor = 0.3 * rng.dirichlet(np.ones(4), 3) + 0.7 * np.eye(4)[:3]
    setting = Setting(sensor, rng.random((2, 3)), rng.dirichlet(np.ones(3)))
    return POMDP(setting, random_kernel(rng, 2, 3))


def pair_chances(model: POMDP, policy: Array) -> Array:
    """P(o_t, a_t, o_{t+1}) in the long run under π(a | o), by summing over every hidden path: `[A, O, O]`."""
    sensor, law = model.setting.observation[0], model.setting.initial
    for _ in range(400):
        law = np.einsum("s,so,oa,ast->t", law, sensor, policy, model.transition)
    return np.asarray(np.einsum("s,so,oa,ast,tp->aop", law, sensor, policy, model.transition, sensor))


@pytest.mark.parametrize("seed", range(5))
def test_exact_moments_give_the_exact_kernel(seed: int) -> None:
    """Under a policy that looks at the reading: the weights must undo that."""
    model = random_model(seed)
    policy = np.random.default_rng(seed).dirichlet(np.ones(2), 4)
    moments = Moments(model.setting)
    moments.weighted[...] = pair_chances(model, policy) / policy.T[:, :, None]
    np.testing.assert_allclose(moments.kernel(1e-12), model.transition, atol=1e-8)


def test_without_the_weights_the_estimate_is_biased() -> None:
    model = random_model(0)
    policy = np.random.default_rng(0).dirichlet(np.ones(2), 4)
    moments = Moments(model.setting)
    moments.weighted[...] = pair_chances(model, policy)
    assert np.abs(moments.kernel(1e-12) - model.transition).max() > 0.02


def counted(model: POMDP, length: int, seed: int) -> Moments:
    actions, readings = explored(model, length, seed)
    moments = Moments(model.setting)
    pairs = zip(*(part.ravel().tolist() for part in (actions[:-1], readings[:-1], readings[1:])), strict=True)
    for action, before, after in pairs:
        moments.add(action, before, after, 1.0 / model.n_actions)
    return moments


def error(model: POMDP, length: int, seed: int) -> float:
    return float(np.linalg.norm(counted(model, length, seed).kernel(1e-9) - model.transition))


def test_errors_shrink_like_one_over_root_n() -> None:
    """Sixteen times the data, a quarter of the error.

    Over 40 seeds errors varied by 16 percent of their mean, so that the ratio of two means of 8 has a
    logarithm with a standard deviation of 0.08. Around 4.27, which was found with other seeds, the limits
    are 5 of them away: false alarm 1e-6.
    """
    model = problem("random-readout")
    few, many = (np.mean([error(model, length, seed) for seed in range(8)]) for length in (2000, 32_000))
    assert 2.85 < few / many < 6.4


def test_the_radius_covers_the_truth_and_shrinks() -> None:
    model = random_model(3)
    few, many = counted(model, 500, 1), counted(model, 8000, 1)
    for moments in (few, many):
        off = np.abs(moments.kernel(1e-9) - model.transition).sum(axis=2)
        assert (off <= moments.radius(1.0)).all()
    assert (many.radius(0.01) < 0.4 * few.radius(0.01)).all()
    assert (many.radius(0.0) == 0.0).all()
    assert (Moments(model.setting).radius(1.0) == 2.0).all()


def test_moments_of_two_policies_may_be_added() -> None:
    """D differs and θ does not: exact moments under two policies, multiplied as they may be, are exact."""
    model, rng = random_model(4), np.random.default_rng(4)
    total = Moments(model.setting)
    for pairs in (300.0, 700.0):
        policy = rng.dirichlet(np.ones(2), 4)
        chances = pair_chances(model, policy)
        part = Moments(model.setting)
        part.weighted[...] = pairs * chances / policy.T[:, :, None]
        part.squares[:] = pairs * (chances.sum(axis=2) / policy.T**2).sum(axis=1)
        part.pairs[0] = pairs
        total.absorb(part)
    np.testing.assert_allclose(total.kernel(1e-12), model.transition, atol=1e-8)
    assert total.pairs[0] == 1000.0
    alone = Moments(model.setting)
    alone.absorb(part)  # a multiple changes neither the kernel nor how sure it is
    np.testing.assert_allclose(alone.radius(1e-3), part.radius(1e-3))


def test_sensors_that_cannot_be_inverted_are_refused() -> None:
    cost, start = [[0.0, 1.0], [1.0, 0.0]], [0.5, 0.5]
    blind = Setting([[0.5, 0.5], [0.5, 0.5]], cost, start)
    with pytest.raises(InvalidModelError, match="rank 1, less than the number of states 2"):
        Moments(blind)
    by_action = Setting([[[0.9, 0.1], [0.1, 0.9]], [[0.5, 0.5], [0.5, 0.5]]], cost, start)
    with pytest.raises(InvalidModelError, match="depends on the action"):
        Moments(by_action)


def test_floors_and_draws_are_distributions() -> None:
    rows = floored(np.array([[0.5, -0.1, 0.6], [0.0, 0.0, 0.0], [-1.0, 0.2, 0.1]]), 1e-3)
    np.testing.assert_allclose(rows.sum(axis=1), 1.0)
    assert rows.min() > 0.9e-3
    np.testing.assert_allclose(rows[1], 1.0 / 3.0)
    rng = np.random.default_rng(0)
    kernel = random_kernel(rng, 2, 3)
    radius = np.array([[0.0, 0.1, 2.0], [0.05, 0.3, 1.0]])
    for _ in range(50):
        near = drawn_near(kernel, radius, rng)
        np.testing.assert_allclose(near.sum(axis=2), 1.0)
        assert (near >= 0.0).all()
        assert (np.abs(near - kernel).sum(axis=2) <= radius + 1e-12).all()
