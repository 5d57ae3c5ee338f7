"""The compiled look-ahead: sums over many vectors at once."""

from __future__ import annotations

import numpy as np
import pytest

from psrl_pomdp._numba.jit import running
from psrl_pomdp.agents.lookahead import CompiledPolicy, best_action, least_product, lookahead_value, value_at
from psrl_pomdp.inference.sampled_filter import SampledFilter


@pytest.mark.parametrize("n_states", [1, 2, 3, 4, 7])
@pytest.mark.parametrize("n_vectors", [1, 2, 3, 16, 17, 100])
def test_the_least_product_has_the_bits_of_the_product_of_the_best_vector(
    n_states: int, n_vectors: int
) -> None:
    rng = np.random.default_rng(n_states * n_vectors)
    vectors, scratch = rng.normal(size=(n_vectors, n_states)), np.zeros(n_vectors)
    for belief in rng.dirichlet(np.ones(n_states), size=5):
        expected = value_at.py_func(vectors, belief)
        assert least_product.py_func(vectors.T.copy(), belief, scratch) == expected
        assert least_product(vectors.T.copy(), belief, scratch) == expected


@pytest.mark.parametrize("n_vectors", [15, 16, 50])
def test_the_action_is_one_of_least_value_by_enumeration(n_vectors: int) -> None:
    rng = np.random.default_rng(n_vectors)
    n_actions, n_observations, n_states = 3, 4, 3
    vectors = rng.normal(size=(n_vectors, n_states))
    likelihood = np.ones((n_actions, n_observations + 1, n_states))
    likelihood[:, :-1] = rng.dirichlet(np.ones(n_observations), size=(n_actions, n_states)).transpose(0, 2, 1)
    transition = rng.dirichlet(np.ones(n_states), size=(n_actions, n_states))
    policy = CompiledPolicy(
        vectors=vectors,
        columns=np.ascontiguousarray(vectors.T),
        actions=rng.integers(0, n_actions, n_vectors),
        successors=np.zeros((n_vectors, n_observations), np.int64),
        node=np.array([-1]),
        likelihood=likelihood,
        codes=np.zeros(0, np.int64),
        observation_of=np.zeros(0, np.int64),
        cost=rng.random((n_actions, n_states)),
        action_values=np.zeros(n_actions),
        scratch=np.zeros((2, n_states)),
        products=np.zeros(n_vectors),
    )
    kernel = transition[..., None].copy()
    for belief in rng.dirichlet(np.ones(n_states), size=5):
        column = belief[:, None].copy()
        sampled = SampledFilter(kernel, kernel, column, np.zeros_like(column), np.zeros(1))
        values = []
        for a in range(n_actions):
            joint = (belief @ transition[a]) * likelihood[a, :-1]
            values.append(policy.cost[a] @ belief + (joint @ vectors.T).min(axis=1).sum())
        for compiled in (False, True):
            with running(compiled):
                chosen = best_action(policy, sampled)
                lookahead_value.py_func(policy, sampled, 0)
            assert values[chosen] == pytest.approx(min(values), abs=1e-12)
            np.testing.assert_allclose(policy.action_values, values, atol=1e-13)
