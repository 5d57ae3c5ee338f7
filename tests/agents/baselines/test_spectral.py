"""Sensor and kernel from triples: exact from exact moments, better with more data, named and aligned."""

from __future__ import annotations

import numpy as np
import pytest

from oracles import random_kernel
from psrl_pomdp import POMDP, InvalidModelError, Setting, problem
from psrl_pomdp._utils.arrays import Array
from psrl_pomdp.agents.baselines.spectral import Triples, drawn_model, matched, power_method, recovered
from random_agents import explored


def random_model(seed: int) -> POMDP:
    rng = np.random.default_rng(seed)
    sensor = 0.5 * rng.dirichlet(np.ones(4), 3) + 0.5 * np.eye(4)[:3]
    kernel = 0.6 * random_kernel(rng, 2, 3) + 0.4 * np.stack([np.eye(3), np.eye(3)[[1, 2, 0]]])
    return POMDP(Setting(sensor, rng.random((2, 3)), rng.dirichlet(np.ones(3))), kernel)


def triple_chances(model: POMDP, policy: Array) -> Array:
    """P(o_{t−1}, o_t, a_t, o_{t+1}) in the long run under π(a | o), by every hidden path: `[A, O, O, O]`."""
    sensor, law = model.setting.observation[0], model.setting.initial
    for _ in range(400):
        law = np.einsum("s,so,oa,ast->t", law, sensor, policy, model.transition)
    before = np.einsum("s,so,oa,ast->ot", law, sensor, policy, model.transition)
    return np.asarray(np.einsum("os,sp,pa,ast,tq->aopq", before, sensor, policy, model.transition, sensor))


def exact(model: POMDP, policy: Array) -> Triples:
    triples = Triples(model.setting)
    triples.weighted[...] = triple_chances(model, policy) / policy.T[:, None, :, None]
    triples.counts[:] = 1e6
    return triples


@pytest.mark.parametrize("seed", range(6))
def test_exact_moments_give_the_exact_model(seed: int) -> None:
    """Under a memoryless policy: what it does to the middle view must be undone."""
    model = random_model(seed)
    policy = np.random.default_rng(seed).dirichlet(2.0 * np.ones(2), 4)
    found = exact(model, policy).model(1e-12, np.random.default_rng(0))
    assert found is not None
    np.testing.assert_allclose(found.setting.observation, model.setting.observation, atol=1e-6)
    np.testing.assert_allclose(found.transition, model.transition, atol=1e-6)


def test_an_action_that_resets_is_served_by_the_sensor_of_others() -> None:
    model = random_model(1)
    kernel = model.transition.copy()
    kernel[1] = [0.7, 0.2, 0.1]  # every row the same: rank 1
    reset = POMDP(model.setting, kernel)
    found = exact(reset, np.full((4, 2), 0.5)).model(1e-12, np.random.default_rng(0))
    assert found is not None
    np.testing.assert_allclose(found.transition, kernel, atol=1e-6)


def test_states_are_named_by_the_true_sensor_and_by_nothing_else() -> None:
    """With the setting's states in another order, the same triples give the same model in that order."""
    model, order = random_model(2), [2, 0, 1]
    own = model.setting
    shuffled = Setting(own.observation[0][order], own.cost[:, order], own.initial[order])
    triples = exact(model, np.full((4, 2), 0.5))
    other = Triples(shuffled)
    other.weighted[...] = triples.weighted
    found = other.model(1e-12, np.random.default_rng(0))
    assert found is not None
    np.testing.assert_allclose(found.transition, model.transition[:, order][:, :, order], atol=1e-6)


def test_the_power_method_takes_an_orthogonal_tensor_apart() -> None:
    rng = np.random.default_rng(5)
    vectors = np.linalg.qr(rng.standard_normal((4, 4)))[0]
    values = np.array([3.0, 2.0, 1.5, 1.0])
    tensor = np.einsum("i,ia,ib,ic->abc", values, vectors, vectors, vectors)
    found, rows = power_method(tensor, rng)
    np.testing.assert_allclose(np.sort(found), np.sort(values), atol=1e-9)
    np.testing.assert_allclose(np.abs(rows @ vectors.T)[:, :].max(axis=1), 1.0, atol=1e-9)


def test_rows_are_matched_at_the_least_distance() -> None:
    rows = np.eye(3)[[2, 0, 1]] + 0.1
    assert matched(rows, np.eye(3)).tolist() == [1, 2, 0]


def error(model: POMDP, length: int, seed: int) -> float:
    """‖θ̂ − θ‖ after so many uniformly explored steps; that of nothing known where there is no estimate."""
    actions, readings = explored(model, length, seed)
    triples = Triples(model.setting)
    np.add.at(triples.weighted, (actions[1:-1], readings[:-2], readings[1:-1], readings[2:]), 2.0)
    found = triples.model(1e-6, np.random.default_rng(0))
    kernel = np.full_like(model.transition, 1.0 / model.n_states) if found is None else found.transition
    return float(np.linalg.norm(kernel - model.transition))


def test_errors_shrink_with_data() -> None:
    """Sixty-four times the data, an eighth of the error in theory; a third is asked for.

    Over 24 other seeds errors varied by 33 and 24 percent of their means, whose ratio was 7.4: the ratio of
    two means of 6 has a logarithm with a standard deviation of 0.17, and 3 is 5 of them away: false alarm
    3e-7.
    """
    model = random_model(3)
    few, many = (np.mean([error(model, length, seed) for seed in range(6)]) for length in (8000, 512_000))
    assert few / many > 3.0


def test_degenerate_data_give_no_estimate() -> None:
    setting = problem("railway").setting
    assert Triples(setting).model(1e-3, np.random.default_rng(0)) is None
    same = np.zeros((2, 6, 6, 6))
    same[:, 0, 0, 0] = 10.0  # always the same reading
    assert recovered(same, 3, np.random.default_rng(0)) is None


def test_models_are_drawn_within_the_radius() -> None:
    model, rng = random_model(0), np.random.default_rng(1)
    other = drawn_model(model, np.array([0.1, 0.4]), rng)
    assert (np.abs(other.transition - model.transition).sum(axis=2).max(axis=1) <= [0.1, 0.4]).all()
    assert np.abs(other.setting.observation - model.setting.observation).sum(axis=2).max() <= 0.1
    triples = exact(model, np.full((4, 2), 0.5))
    assert triples.radius(1.0, 1000) == pytest.approx(np.sqrt(np.log(1001.0) / 1e6))


def test_sensors_without_full_rank_are_refused() -> None:
    with pytest.raises(InvalidModelError, match=r"the observation model has rank 1"):
        Triples(Setting([[0.5, 0.5], [0.5, 0.5]], [[0.0, 1.0]], [0.5, 0.5]))
    with pytest.raises(InvalidModelError, match="depends on the action"):
        Triples(problem("tiger").setting)
