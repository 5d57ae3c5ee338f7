"""The filter against the enumeration of every hidden path, and the weights over very long runs."""

from __future__ import annotations

from math import fsum, log

import numpy as np
import pytest
from numba import njit

import psrl_pomdp._numba.machine_code  # noqa: F401 - tells numba of our functions
from filter_banks import first_likelihood, new_bank, update, update_many
from filter_banks import start as start_filters
from oracles import every_path, random_kernel
from psrl_pomdp import Setting
from psrl_pomdp.inference import filter_bank as belief
from psrl_pomdp.inference.kernel_weights import update_weights


@njit
def reweigh_many(log_weight, product, scale, chances, readings):  # type: ignore[no-untyped-def]
    for o in readings:
        update_weights(log_weight, product, scale, chances[o])


def random_setting(rng: np.random.Generator, n_states: int, by_action: bool, first: bool) -> Setting:
    n_actions, n_readings = 2, 3
    shape = (n_actions, n_states) if by_action else (n_states,)
    sensor = rng.dirichlet(np.ones(n_readings), size=shape)
    start = rng.dirichlet(np.ones(n_readings), size=n_states) if first else None
    cost = rng.random((n_actions, n_states))
    return Setting(sensor, cost, rng.dirichlet(np.ones(n_states)), first_observation=start)


@pytest.mark.parametrize("n_states", [2, 3, 4])
@pytest.mark.parametrize("by_action", [False, True])
@pytest.mark.parametrize("first", [False, True])
def test_filters_agree_with_every_path(n_states: int, by_action: bool, first: bool) -> None:
    """Belief, weights, φ and ñ at each of six steps, one of them with a lost reading."""
    rng = np.random.default_rng([n_states, by_action, first])
    setting = random_setting(rng, n_states, by_action, first)
    kernels = np.stack([random_kernel(rng, 2, n_states, density=0.8) for _ in range(3)])
    initial = rng.dirichlet(np.ones(n_states), size=3)
    prior = rng.dirichlet(np.ones(3))
    actions = [int(a) for a in rng.integers(2, size=6)]
    readings: list[int | None] = [int(o) for o in rng.integers(3, size=5)]
    readings[2] = None
    o_1 = 1 if first else None

    own = new_bank(setting, kernels, prior)
    assert start_filters(own, np.ascontiguousarray(initial.T), first_likelihood(setting, o_1))
    for t in range(6):
        exact = every_path(setting, kernels, initial, o_1, actions[: t + 1], readings[:t])
        weights = prior * exact.likelihood / (prior * exact.likelihood).sum()
        assert belief.weights(own) == pytest.approx(weights, abs=1e-13)
        assert pytest.approx(exact.belief, abs=1e-13) == own.belief.T
        before = every_path(setting, kernels, initial, o_1, actions[:t], readings[:t])
        assert belief.counts(own).sum(axis=0).transpose(2, 0, 1) == pytest.approx(before.visits, abs=1e-13)
        if t < 5:
            o = readings[t]
            assert update(own, actions[t], 3 if o is None else o)
            assert own.expected == pytest.approx(np.einsum("m,mas->as", weights, exact.visits), abs=1e-13)


def test_visits_by_present_state() -> None:
    """φ itself, not only its sum: the mean number of visits where the present state is x."""
    setting = Setting(np.full((2, 1), 1.0), np.zeros((1, 2)), [0.5, 0.5], first_observation=None)
    kernels = np.array([[[[0.9, 0.1], [0.2, 0.8]]]])
    own = new_bank(setting, kernels, np.ones(1))
    start_filters(own, np.full((2, 1), 0.5), np.ones(2))
    update(own, 0, 0)
    assert pytest.approx(0.5 * kernels[0, 0]) == belief.counts(own)[:, 0, :, 0].T


def test_impossible_reading_changes_nothing() -> None:
    setting = Setting(np.eye(2), np.zeros((1, 2)), [1.0, 0.0])
    own = new_bank(setting, np.array([[[[1.0, 0.0], [0.0, 1.0]]]]), np.ones(1))
    assert not start_filters(own, np.array([[1.0], [0.0]]), np.array([0.0, 1.0]))
    assert start_filters(own, np.array([[1.0], [0.0]]), np.array([1.0, 0.0]))
    kept = [own.belief.copy(), belief.counts(own), belief.weights(own), own.expected.copy()]
    assert not update(own, 0, 1)
    for now, then in zip(
        (own.belief, belief.counts(own), belief.weights(own), own.expected), kept, strict=True
    ):
        assert (now == then).all()


def test_weights_neither_underflow_nor_drift_in_ten_million_steps() -> None:
    """Independent readings: the exact log weights are sums of counts times logarithms."""
    rng = np.random.default_rng(0)
    steps, n_kernels = 10_000_000, 4
    base = np.array([0.1, 0.2, 0.3, 0.4])
    chances = base * (1 + 1e-3 * rng.standard_normal((n_kernels, 4)))
    chances /= chances.sum(axis=1, keepdims=True)
    log_weight, product, scale = np.zeros(n_kernels), np.ones(n_kernels), np.ones(n_kernels)
    readings = rng.choice(4, size=steps, p=chances[0])
    reweigh_many(log_weight, product, scale, chances.T.copy(), readings)
    counts = np.bincount(readings, minlength=4)
    exact = np.array([fsum(counts[o] * log(chances[m, o]) for o in range(4)) for m in range(n_kernels)])
    found = log_weight + np.log(product)
    assert found - found.max() == pytest.approx(exact - exact.max(), abs=2e-8)


def test_a_kernel_far_behind_can_come_back() -> None:
    """4,000 readings against it and 5,000 for it: with linear weights it would be lost for good."""
    setting = Setting([[0.6, 0.4], [0.4, 0.6]], np.zeros((1, 2)), [0.5, 0.5], first_observation=None)
    kernels = np.array([[[[1.0, 0.0], [1.0, 0.0]]], [[[0.0, 1.0], [0.0, 1.0]]]])
    own = new_bank(setting, kernels, np.full(2, 0.5))
    start_filters(own, np.full((2, 2), 0.5), np.ones(2))
    readings = np.concatenate([np.zeros(4000, dtype=int), np.ones(5000, dtype=int)])
    assert update_many(own, np.zeros(9000, dtype=int), readings) == 9000
    logs = own.log_weight + np.log(own.product)
    assert logs[1] - logs[0] == pytest.approx(1000 * log(1.5), rel=1e-9)


def test_a_chance_that_is_nearly_zero_is_not_zero() -> None:
    setting = Setting([[1e-300, 1.0], [1e-300, 1.0]], np.zeros((1, 2)), [0.5, 0.5], first_observation=None)
    own = new_bank(setting, np.full((1, 1, 2, 2), 0.5), np.ones(1))
    start_filters(own, np.full((2, 1), 0.5), np.ones(2))
    for _ in range(5):
        assert update(own, 0, 0)
    assert own.belief.sum() == pytest.approx(1.0)
    assert own.log_weight[0] > -np.inf
    assert own.product[0] > 0.0
