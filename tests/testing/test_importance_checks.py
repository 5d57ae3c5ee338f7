"""`check_posterior` finds a posterior that ignores or repeats a single observation, and wrong counts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from oracles import every_path
from own_priors import PUMP, WearPrior
from psrl_pomdp import DirichletPrior, check_posterior
from psrl_pomdp.testing.calibration import simulate_from_prior
from psrl_pomdp.testing.importance_checks import expected_visits, importance_violations

WEAR = WearPrior(k=1.0)


class Weighted:
    """Kernels of the prior, weighted by exact filters: correct, but for what a subclass changes."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.setting = PUMP
        self.kernels = WEAR.kernels(WEAR.sample_parameters(rng, 500))
        self.log_weight, self.beliefs = np.zeros(500), np.tile(PUMP.initial, (500, 1))
        self.visits, self.expected, self.steps = np.zeros((500, 2, 3, 3)), np.zeros((2, 3)), 0

    def times(self, step: int) -> float:
        """How often the observation of this step is counted."""
        return 1.0

    @property
    def now(self) -> Any:
        weights = np.exp(self.log_weight - self.log_weight.max())
        return weights / weights.sum()

    @property
    def expected_counts(self) -> Any:
        return self.expected

    def start(self, first_observation: Any) -> None:
        if first_observation is not None and PUMP.first_observation is not None:
            self.beliefs = self.beliefs * PUMP.first_observation[:, first_observation]
            self.beliefs /= self.beliefs.sum(axis=1, keepdims=True)

    def update(self, action: Any, observation: Any) -> None:
        likelihood = np.ones(3) if observation is None else PUMP.observation[action, :, observation]
        for s in range(3):
            self.visits[:, action, s, s] += self.beliefs[:, s]
        self.expected = np.einsum("n,nast->as", self.now, self.visits)
        move = self.kernels[:, action] * likelihood
        self.beliefs = np.einsum("ns,nst->nt", self.beliefs, move)
        chance = self.beliefs.sum(axis=1)
        self.beliefs /= chance[:, None]
        self.visits = np.einsum("nasj,njk->nask", self.visits, move) / chance[:, None, None, None]
        self.log_weight = self.log_weight + self.times(self.steps) * np.log(chance)
        self.steps += 1

    def sample(self, rng: np.random.Generator) -> Any:
        return self.kernels[rng.choice(500, p=self.now)]


class Ignores(Weighted):
    def times(self, step: int) -> float:
        return float(step != 12)


class Repeats(Weighted):
    def times(self, step: int) -> float:
        return 1.0 + (step == 12)


class Spreads(Weighted):
    """Counts that say nothing about the states: they only have the right sum."""

    @property
    def expected_counts(self) -> Any:
        return np.tile(self.expected.sum(axis=1, keepdims=True) / 3, 3)


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        (Weighted, ""),
        (Ignores, "samples given a history of 30 steps"),
        (Repeats, "samples given a history of 30 steps"),
        (Spreads, "expected_counts after 30 steps"),
    ],
)
def test_one_observation_makes_a_difference(kind: Any, says: str) -> None:
    """False alarm 5e-6."""
    found = list(importance_violations(WEAR, kind, 300, 30, 0))
    assert [text for text in found if not says or says not in text] == []
    assert bool(found) == bool(says), found


def test_visits_are_sums_over_every_hidden_path() -> None:
    rng = np.random.default_rng(3)
    history = simulate_from_prior(WEAR, 6, rng).history
    kernels, starts = WEAR.kernels(WEAR.sample_parameters(rng, 5)), np.tile(PUMP.initial, (5, 1))
    exact = every_path(PUMP, kernels, starts, history.first, history.actions, history.observations)
    assert expected_visits(PUMP, kernels, starts, history) == pytest.approx(exact.visits, abs=1e-9)


def test_an_error_of_the_package_is_told_in_its_own_words() -> None:
    class Wrong(WearPrior):
        def kernels(self, parameters: Any) -> Any:
            return None

    [found] = check_posterior(Wrong(), replicates=2)
    assert found.text == "Wrong.kernels returned None: does it end without a return statement?"


def test_a_prior_on_many_rows_passes() -> None:
    """False alarm 5e-6."""
    rows = DirichletPrior(PUMP, np.ones((2, 3, 3)))
    assert list(importance_violations(rows, rows.posterior, 200, 20, 1)) == []
