"""The checker of posteriors: it passes what is right, and says what is wrong with what is not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from psrl_pomdp import DirichletPrior, FinitePrior, Setting, check_posterior
from psrl_pomdp.inference.filter_bank import counts

# Three states, two actions, and a reading that never comes.
SETTING = Setting([[0.8, 0.2, 0.0], [0.1, 0.9, 0.0], [0.5, 0.5, 0.0]], np.zeros((2, 3)), [0.6, 0.3, 0.1])
KERNELS = np.random.default_rng(0).dirichlet(np.full(3, 0.4), size=(4, 2, 3))
FINITE = FinitePrior(SETTING, KERNELS, [0.4, 0.3, 0.2, 0.1])
ROWS = DirichletPrior(SETTING, np.full((2, 3, 3), 0.5))


@pytest.mark.parametrize("prior", [FINITE, ROWS], ids=["finite", "rows"])
def test_our_posteriors_pass(prior: Any) -> None:
    """False alarm 5e-6 each."""
    assert check_posterior(prior) == []


class Wrapped:
    """Our posterior over the finite set, to be broken in one way at a time."""

    def __init__(self, prior: Any = FINITE) -> None:
        self._own = prior.posterior(np.random.default_rng(0))
        self.setting = SETTING

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own, name)


class CountsLate(Wrapped):
    """Counts that know the newest reading or miss the newest step."""

    @property
    def expected_counts(self) -> Any:
        return counts(self._own._filters).sum(axis=0) @ self._own.weights


class DeafToReadings(Wrapped):
    def update(self, action: int, observation: int | None) -> None:
        self._own.update(action, None)


class Late(Wrapped):
    """One reading behind, as a sampler that is refreshed too seldom."""

    def __init__(self, prior: Any = FINITE) -> None:
        super().__init__(prior)
        self._waiting: list[Any] = []

    def update(self, action: int, observation: int | None) -> None:
        self._waiting.append((action, observation))
        if len(self._waiting) > 12:
            self._own.update(*self._waiting.pop(0))


class TooSure(Wrapped):
    def sample(self, rng: np.random.Generator) -> Any:
        return FINITE.kernels[self._own.weights.argmax()]


class PriorOnly(Wrapped):
    def sample(self, rng: np.random.Generator) -> Any:
        return FINITE.sample(rng)


class NotAKernel(Wrapped):
    def sample(self, rng: np.random.Generator) -> Any:
        return self._own.sample(rng).transpose(0, 2, 1)


class OwnDice(Wrapped):
    dice = np.random.default_rng(5)

    def sample(self, rng: np.random.Generator) -> Any:
        return self._own.sample(self.dice)


class Swallows(Wrapped):
    def update(self, action: int, observation: int | None) -> None:
        self._own.update(action, None if observation == 2 else observation)


class OtherPrior(Wrapped):
    """The weights of another prior."""

    def __init__(self) -> None:
        super().__init__(FinitePrior(SETTING, KERNELS))


@pytest.mark.parametrize(
    ("broken", "word", "lives"),
    [
        (CountsLate, "expected_counts are not those", 3),
        (DeafToReadings, "belief of a sampled kernel", 3),
        (Late, "expected_counts add up to 0", 3),
        (TooSure, "not distributed as the truth", 300),
        (PriorOnly, "not distributed as the truth: the log-likelihood", 300),
        (NotAKernel, "not a kernel", 3),
        (OwnDice, "same seed", 3),
        (Swallows, "was accepted", 3),
        (OtherPrior, "weights are not those", 3),
    ],
)
def test_broken_posteriors_are_told(broken: Callable[[], Any], word: str, lives: int) -> None:
    found = check_posterior(FINITE, lambda rng: broken(), replicates=lives)
    assert any(word in finding.text for finding in found), found


def test_a_posterior_that_raises_is_told() -> None:
    found = check_posterior(ROWS, lambda rng: Wrapped(None), replicates=2)
    assert found[0].text.startswith("raised AttributeError")


def test_a_sampler_that_never_moves_is_told() -> None:
    """An ensemble whose weights are ignored is no posterior; the log-likelihood shows it."""

    class Stale(Wrapped):
        def __init__(self, rng: np.random.Generator) -> None:
            self._own, self.setting = ROWS.posterior(rng), SETTING

        def sample(self, rng: np.random.Generator) -> Any:
            return self._own.kernels[rng.integers(self._own.size)]

        def belief(self, kernel: Any) -> Any:
            return self._own.belief(kernel)

    found = check_posterior(ROWS, Stale, length=12)
    assert any("log-likelihood" in finding.text for finding in found), found
