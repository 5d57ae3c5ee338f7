"""The distribution of the next observation, entry by entry."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from psrl_pomdp import POMDP, Setting
from psrl_pomdp.analysis.observation_laws import joint_matrices, next_observations


@pytest.mark.parametrize("shape", [(2, 3), (2, 2, 3), (2, 2, 2, 3)], ids=["so", "aso", "asto"])
@pytest.mark.parametrize("seen", [None, "exact"])
def test_they_are_sums_over_the_next_state(shape: tuple[int, ...], seen: Any) -> None:
    rng = np.random.default_rng(len(shape))
    table = rng.dirichlet(np.ones(3), shape[:-1])
    kernel = rng.dirichlet(np.ones(2), (2, 2))
    setting = Setting(table, rng.random((2, 2)), [0.5, 0.5], seen_cost=seen)
    model, n_costs = POMDP(setting, kernel), 4 if seen else 1
    found, matrices = next_observations(model), joint_matrices(model)
    assert found.shape == (2, 2, 3 * n_costs)
    assert matrices.shape == (2, 3 * n_costs, 2, 2)
    for a, s, o, c in np.ndindex(2, 2, 3, n_costs):
        paid = 1.0 if setting.seen_cost is None else setting.seen_cost.probabilities[a, s, c]
        terms = []
        for t in (0, 1):
            place: tuple[int, ...] = {2: (t, o), 3: (a, t, o), 4: (a, s, t, o)}[len(shape)]
            terms.append(kernel[a, s, t] * table[place] * paid)
        assert matrices[a, o * n_costs + c, s] == pytest.approx(terms, abs=1e-15)
        assert found[a, s, o * n_costs + c] == pytest.approx(sum(terms), abs=1e-15)
