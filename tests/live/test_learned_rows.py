"""What the service tells beside the log: rows of the posterior beside the prior, and pages of lists."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from page_plants import (
    model_of,
    serving,
    some_history,
)

from psrl_pomdp import DirichletPrior
from psrl_pomdp.live.learned_rows import Learned, learned_rows, prior_tables, weighted_tables

# -- what the page stands on ----------------------------------------------------------------------------


def test_units_and_histories_come_in_pages(tmp_path: Path) -> None:
    with serving(tmp_path) as plant:
        for i in range(5):
            plant.read(f"u{i}", None)
        some_history(plant, "p", 7)
        names: list[str] = []
        after: int | None = 0
        while after is not None:
            page = plant.client.get("/v1/units", params={"after": after, "limit": 2}).json()
            names += [each["unit"] for each in page["units"]]
            after = page["next"]
        assert names == ["u0", "u1", "u2", "u3", "u4", "p"]
        steps: list[int] = []
        before: int | None = 0
        while before is not None:
            page = plant.client.get("/v1/units/p/history", params={"before": before, "limit": 3}).json()
            steps = [row["step"] for row in page["events"] if row["kind"] == "reading"] + steps
            before = page["previous"]
        assert steps == list(range(1, 8))


def test_intervals_of_weighted_kernels_are_those_of_the_definition() -> None:
    rng = np.random.default_rng(5)
    kernels = rng.dirichlet([1, 1], (12, 2, 2))
    weights = rng.dirichlet(np.ones(12))
    mean, lower, upper = weighted_tables(kernels, weights, 0.8)
    for place in np.ndindex(2, 2, 2):
        values = kernels[(slice(None), *place)]
        assert mean[place] == pytest.approx(float((weights * values).sum()))
        # The smallest value with more than a tenth of the weight up to it, and that with nine tenths.
        assert lower[place] == min(v for v in values if weights[values <= v].sum() > 0.1)
        assert upper[place] == min(v for v in values if weights[values <= v].sum() >= 0.9)


def test_the_interval_of_a_dirichlet_prior_has_its_probability() -> None:
    setting = model_of("pump").setting
    counts = np.array([[[8.0, 1, 1], [0, 3, 2], [0, 0, 1]]] * 3)
    found = prior_tables(DirichletPrior(setting, counts))
    assert found is not None
    mean, lower, upper = found
    np.testing.assert_allclose(mean[0, 0], [0.8, 0.1, 0.1])
    drawn = np.random.default_rng(3).dirichlet([8.0, 1, 1], 40_000)
    inside = ((lower[0, 0] <= drawn) & (drawn <= upper[0, 0])).mean(axis=0)
    # Three shares of 40,000 draws, each within 5 standard deviations: a false alarm in 2 million.
    assert (abs(inside - 0.95) < 5 * np.sqrt(0.95 * 0.05 / 40_000)).all()
    assert lower[0, 2, 2] == upper[0, 2, 2] == 1.0


def test_rows_that_are_known_are_not_told() -> None:
    model = model_of("pump")
    known = {(0, 0): [0.9, 0.1, 0.0], (2, 1): [1.0, 0.0, 0.0]}
    prior = DirichletPrior(model.setting, np.array([[[1.0, 1, 1]] * 3] * 3), known)
    rng = np.random.default_rng(2)
    kernels = np.stack([prior.sample(rng) for _ in range(20)])
    found = learned_rows(Learned(model.setting, prior, kernels, np.full(20, 0.05), None))["rows"]
    assert len(found) == 7
    assert ("run", "good") not in {(row["action"], row["state"]) for row in found}
    assert found[0]["next"] == ["good", "worn", "failing"]
