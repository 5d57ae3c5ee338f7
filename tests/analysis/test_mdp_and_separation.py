"""The MDP's optimal gain against every policy, and the margin of Assumption 2 against a search."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import rel_entr

import oracles
from psrl_pomdp import FinitePrior, Setting, problem
from psrl_pomdp.analysis.separation import least_divergence, separation
from psrl_pomdp.planning import optimal_gain


def test_gain_is_the_best_over_all_policies_from_each_state() -> None:
    rng = np.random.default_rng(4)
    for density in (1.0, 0.3, 0.1):
        for _ in range(25):
            transition = oracles.random_kernel(rng, 2, int(rng.integers(1, 5)), density)
            cost = rng.random(transition.shape[:2])
            every = [oracles.policy_gain(transition, cost, p) for p in oracles.policies(*cost.shape)]
            assert optimal_gain(transition, cost) == pytest.approx(np.min(every, axis=0), abs=1e-8)


def test_divergence_bound_is_below_and_near_the_minimum() -> None:
    rng = np.random.default_rng(11)
    for _ in range(40):
        one, other = rng.dirichlet(np.ones(3), size=3), rng.dirichlet(np.ones(3), size=3)
        weights = rng.dirichlet(np.full(3, 0.4), size=(2, 4000))
        corners = np.eye(3)
        ps = np.concatenate([weights[0], np.repeat(corners, 3, axis=0)]) @ one
        qs = np.concatenate([weights[1], np.tile(corners, (3, 1))]) @ other
        searched = float(rel_entr(ps, qs).sum(axis=1).min())
        bound = least_divergence(one, other)
        assert 0.0 <= bound <= searched + 1e-12
        assert bound >= searched - 0.05  # the search is coarse, the bound is not


def test_divergence_of_points_is_exact() -> None:
    p, q = np.array([[0.7, 0.3]]), np.array([[0.2, 0.8]])
    assert least_divergence(p, q) == pytest.approx(float(rel_entr(p, q).sum()), abs=1e-11)
    assert least_divergence(p, p) == 0.0


def test_divergence_where_readings_are_excluded() -> None:
    sure, other = np.array([[1.0, 0.0]]), np.array([[0.0, 1.0]])
    assert least_divergence(sure, other) > 100.0  # infinite in truth, and a bound all the same
    assert least_divergence(np.array([[0.5, 0.5]]), np.array([[1.0, 0.0], [0.5, 0.5]])) == pytest.approx(0.0)


def test_divergence_bound_with_sparse_rows() -> None:
    """Zeros in the rows: also at the corners where KL has no slope the bound stays a bound."""
    one, other = np.array([[0.9, 0.1, 0], [0.5, 0, 0.5]]), np.array([[0.8, 0.2, 0], [0.5, 0, 0.5]])
    assert least_divergence(one, other) == 0.0  # the second rows are equal
    rng = np.random.default_rng(3)
    for _ in range(150):
        rows = rng.dirichlet(np.ones(3), size=6) * (rng.random((6, 3)) < 0.6)
        rows[rows.sum(axis=1) == 0, 0] = 1.0
        rows /= rows.sum(axis=1, keepdims=True)
        weights = np.concatenate([np.eye(3), rng.dirichlet(np.full(3, 0.3), size=60)])
        pairs = rel_entr((weights @ rows[:3])[:, None], (weights @ rows[3:])[None]).sum(axis=2)
        assert least_divergence(rows[:3], rows[3:]) <= pairs.min() + 1e-12


def test_tiny_transitions_are_beyond_the_solver() -> None:
    kernel = np.array([[[1 - 1e-9, 1e-9], [0.0, 1.0]]])
    with pytest.raises(ArithmeticError, match="1e-09"):
        optimal_gain(kernel, np.array([[0.5, 0.1]]))


def test_separation_names_the_pair_and_the_action() -> None:
    # Kernels 0 and 2 agree under action 1 only.
    setting = Setting(np.eye(2), np.zeros((2, 2)), [0.5, 0.5])
    rows = {"a": [[0.9, 0.1]] * 2, "b": [[0.2, 0.8]] * 2, "c": [[0.5, 0.5]] * 2}
    prior = FinitePrior(setting, [[rows["a"], rows["b"]], [rows["b"], rows["a"]], [rows["c"], rows["b"]]])
    found = separation(prior)
    assert found.epsilon == 0.0
    assert found.worst == (0, 2, 1)
    assert found.margins[0, 1, 0] == pytest.approx(0.9 * np.log(0.9 / 0.2) + 0.1 * np.log(0.1 / 0.8))


def test_the_separated_family_is_separated() -> None:
    family = problem("separated").family
    assert family is not None
    assert separation(family).epsilon > 0.5
    for n_kernels in (2, 3):
        smaller = problem("separated", n_kernels=n_kernels).family
        assert smaller is not None
        assert separation(smaller).epsilon > 0.5
