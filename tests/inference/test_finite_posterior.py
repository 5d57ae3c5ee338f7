"""The posterior over a finite set: exact, restartable, and loud about the impossible."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracles import every_path, random_kernel
from psrl_pomdp import (
    FinitePosterior,
    FinitePrior,
    ImpossibleObservationError,
    InvalidModelError,
    OutOfOrderError,
    Setting,
    UnknownNameError,
)


def random_prior(rng: np.random.Generator, n_states: int, first: bool, density: float = 1.0) -> FinitePrior:
    sensor = rng.dirichlet(np.ones(3), size=(2, n_states))
    start = rng.dirichlet(np.ones(3), size=n_states) if first else None
    setting = Setting(sensor, rng.random((2, n_states)), np.full(n_states, 1 / n_states), start)
    kernels = np.stack([random_kernel(rng, 2, n_states, density) for _ in range(4)])
    return FinitePrior(setting, kernels, rng.dirichlet(np.ones(4)), rng.dirichlet(np.ones(n_states), size=4))


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 4), st.booleans())
def test_every_quantity_agrees_with_every_path(seed: int, n_states: int, first: bool) -> None:
    """Weights, beliefs, expected counts; starts by kernel, sensors by action, lost readings."""
    rng = np.random.default_rng(seed)
    prior = random_prior(rng, n_states, first, density=0.7)
    posterior = prior.posterior(rng)
    o_1 = int(rng.integers(3)) if first else None
    posterior.start(o_1)
    actions: list[int] = []
    readings: list[int | None] = []
    assert not posterior.expected_counts.any()
    for _ in range(4):
        actions.append(int(rng.integers(2)))
        before = every_path(prior.setting, prior.kernels, prior.initial, o_1, actions, readings)
        weights = prior.weights * before.likelihood / (prior.weights @ before.likelihood)
        readings.append(None if rng.random() < 0.3 else int(rng.integers(3)))
        posterior.update(actions[-1], readings[-1])
        after = every_path(prior.setting, prior.kernels, prior.initial, o_1, actions, readings)
        now = prior.weights * after.likelihood
        assert posterior.weights == pytest.approx(now / now.sum(), abs=1e-12)
        assert posterior.expected_counts == pytest.approx(
            np.einsum("m,mas->as", weights, before.visits), abs=1e-12
        )
        for m, kernel in enumerate(prior.kernels):
            assert posterior.belief(kernel) == pytest.approx(after.belief[m], abs=1e-12)
    assert posterior.mean() == pytest.approx(np.tensordot(posterior.weights, prior.kernels, axes=1))


def steps(rng: np.random.Generator, length: int) -> tuple[Any, Any]:
    return rng.integers(2, size=length), rng.integers(-1, 3, size=length)


def test_many_updates_are_the_same_as_one_by_one() -> None:
    rng = np.random.default_rng(3)
    prior = random_prior(rng, 3, first=True)
    actions, readings = steps(rng, 700)
    one, many = prior.posterior(rng), prior.posterior(rng)
    one.start(2)
    many.start(2)
    for a, o in zip(actions, readings, strict=True):
        one.update(int(a), None if o < 0 else int(o))
    many.update_many(actions, readings)
    _same(one, many)


def _same(one: FinitePosterior, other: FinitePosterior) -> None:
    ours, theirs = one.state(), other.state()
    assert ours.keys() == theirs.keys()
    for name, value in ours.items():
        assert np.array_equal(value, theirs[name]), name


def test_a_restored_posterior_goes_on_to_the_last_bit(tmp_path: Any) -> None:
    rng = np.random.default_rng(4)
    prior = random_prior(rng, 3, first=True)
    actions, readings = steps(rng, 300)
    whole = prior.posterior(rng)
    whole.start(0)
    whole.update_many(actions[:100], readings[:100])
    np.savez(tmp_path / "state.npz", **whole.state())  # type: ignore[arg-type]
    with np.load(tmp_path / "state.npz", allow_pickle=False) as saved:
        resumed = prior.restore(dict(saved))
    whole.update_many(actions[100:], readings[100:])
    resumed.update_many(actions[100:], readings[100:])
    _same(whole, resumed)
    with pytest.raises(InvalidModelError, match="another prior"):
        random_prior(rng, 3, first=True).restore(whole.state())


def test_samples_follow_the_weights() -> None:
    """Chi-square over 4 cells, false alarm 1e-6."""
    rng = np.random.default_rng(5)
    prior = random_prior(rng, 2, first=True)
    posterior = prior.posterior(rng)
    posterior.start(1)
    posterior.update_many(*steps(rng, 6))
    drawn = np.bincount([posterior.sample_index(rng) for _ in range(4000)], minlength=4)
    wanted = 4000 * posterior.weights
    assert ((drawn - wanted) ** 2 / wanted).sum() < 30.7
    assert any((posterior.sample(rng) == kernel).all() for kernel in prior.kernels)


def falsifiable() -> FinitePrior:
    """The light shows the state; one kernel stays for ever, the other always moves."""
    setting = Setting(
        np.eye(3)[:2], np.zeros((2, 2)), [1.0, 0.0], actions=["wait", "push"], observations=["a", "b", "c"]
    )
    stay, move = np.eye(2), 1 - np.eye(2)
    return FinitePrior(setting, [[stay, stay], [move, move]])


def test_a_falsified_kernel_has_weight_zero_for_good() -> None:
    posterior = falsifiable().posterior()
    posterior.start(0)
    posterior.update(0, 0)
    assert posterior.weights.tolist() == [1.0, 0.0]
    assert posterior.sample_index(np.random.default_rng(0)) == 0
    posterior.update(1, None)
    assert posterior.weights.tolist() == [1.0, 0.0]
    with pytest.raises(ImpossibleObservationError, match="impossible under this kernel"):
        posterior.belief(posterior.prior.kernels[1])


def test_what_is_left_when_the_leader_is_ruled_out_has_weight() -> None:
    """However little it had: weights are relative to the largest, and 1e-400 of it is no number."""
    setting = Setting([[0.5, 0.5, 0.0], [0.0, 0.0, 1.0]], [[0.0, 1.0]], [1.0, 0.0], first_observation=None)
    stays = [[[1.0, 0.0], [0.0, 1.0]]]
    leaves = [[[1e-30, 1.0 - 1e-30], [1.0 - 1e-30, 1e-30]]]
    posterior = FinitePrior(setting, [stays, leaves]).posterior()
    posterior.start(None)
    posterior.update_many([0] * 40, [0] * 40)
    posterior.update(0, 2)  # which the first kernel rules out
    posterior.update(0, 0)
    assert posterior.weights.tolist() == [0.0, 1.0]
    assert np.isfinite(posterior.expected_counts).all()
    assert posterior.expected_counts.sum() == pytest.approx(42.0)


def test_the_impossible_is_named_and_changes_nothing() -> None:
    posterior = falsifiable().posterior()
    with pytest.raises(ImpossibleObservationError, match=r"observation 1 \(b\) .* as the first observation"):
        posterior.start(1)
    posterior.start(0)
    posterior.update(0, 0)
    before = posterior.state()
    with pytest.raises(ImpossibleObservationError, match=r"observation 1 \(b\) .* after action 1 \(push\)"):
        posterior.update(1, 1)
    with pytest.raises(ImpossibleObservationError, match=r"observation 2 \(c\) .* after action 0 \(wait\)"):
        posterior.update_many([0], [2])
    after = posterior.state()
    assert all(np.array_equal(before[name], after[name]) for name in before)
    posterior.update(1, 0)
    assert posterior.time == 3


def test_calls_out_of_order_and_out_of_range() -> None:
    posterior = falsifiable().posterior()
    with pytest.raises(OutOfOrderError, match="before start"):
        posterior.update(0, 0)
    posterior.start(0)
    with pytest.raises(OutOfOrderError, match="started already"):
        posterior.start(0)
    for action, reading in ((2, 0), (-1, 0), (0, 3), (0.0, 0), (True, 0)):
        with pytest.raises(UnknownNameError):
            posterior.update(action, reading)  # type: ignore[arg-type]
    with pytest.raises(UnknownNameError, match="action 5"):
        posterior.update_many([0, 5], [0, 0])
    with pytest.raises(InvalidModelError, match="not one of the 2"):
        posterior.belief(np.full((2, 2, 2), 0.5))
    silent = FinitePrior(
        Setting(np.eye(2), np.zeros((1, 2)), [0.5, 0.5], first_observation=None), [[np.eye(2)]]
    )
    with pytest.raises(OutOfOrderError, match="no observation before the first action"):
        silent.posterior().start(0)


def test_one_kernel_with_two_starts_mixes_its_beliefs() -> None:
    setting = Setting(np.full((2, 2), 0.5), np.zeros((1, 2)), [0.5, 0.5], first_observation=None)
    prior = FinitePrior(setting, [[np.eye(2)], [np.eye(2)]], [0.25, 0.75], [[1.0, 0.0], [0.0, 1.0]])
    posterior = prior.posterior()
    posterior.start(None)
    assert posterior.belief(prior.kernels[0]) == pytest.approx([0.25, 0.75])


def test_a_million_steps_leave_counts_and_beliefs_in_order() -> None:
    rng = np.random.default_rng(6)
    prior = random_prior(rng, 2, first=True)
    posterior = prior.posterior()
    posterior.start(0)
    posterior.update_many(*steps(rng, 1_000_000))
    assert posterior.expected_counts.sum() == pytest.approx(1_000_000, rel=1e-9)
    assert posterior.beliefs.sum(axis=1) == pytest.approx(np.ones(4))
    assert posterior.weights.sum() == pytest.approx(1.0)


def test_the_mean_model_has_the_mean_of_the_kernels_own_observation_models() -> None:
    setting = Setting([[0.5, 0.5], [0.5, 0.5]], np.zeros((1, 2)), [0.5, 0.5])
    kernels = [[[[0.9, 0.1], [0.1, 0.9]]], [[[0.5, 0.5], [0.5, 0.5]]]]
    sensors = np.array([[[0.9, 0.1], [0.2, 0.8]], [[0.6, 0.4], [0.5, 0.5]]])
    posterior = FinitePrior(setting, kernels, sensors=sensors).posterior()
    posterior.start(0)
    assert posterior.weights == pytest.approx([0.5, 0.5])  # .55 under both
    posterior.update(0, 1)
    found = posterior.mean_model().setting
    assert found is not None
    expected = np.tensordot(posterior.weights, sensors, axes=1)
    assert found.observation[0] == pytest.approx(expected)
    assert found.first_observation == pytest.approx(expected)
