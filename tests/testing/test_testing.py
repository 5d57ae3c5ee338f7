"""`psrl_pomdp.testing`: right priors and posteriors pass, and each that is broken on purpose is told."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from own_priors import PUMP, ManyRates, WearPrior, WearWithGradient
from psrl_pomdp import DirichletPrior, FinitePrior, MixturePrior
from psrl_pomdp.inference.ensemble_posterior import EnsemblePosterior
from psrl_pomdp.inference.step_codes import Steps
from psrl_pomdp.testing import check_posterior, check_prior

WEAR = WearPrior()
FAMILY = FinitePrior(PUMP, WEAR.kernels(np.array([[0.04, 0.1], [0.2, 0.1], [0.1, 0.3]])), [0.5, 0.3, 0.2])
ROWS = DirichletPrior(PUMP, np.ones((2, 3, 3)))


@pytest.mark.parametrize(
    "prior",
    [WEAR, WearWithGradient(), ManyRates(PUMP), FAMILY, ROWS, MixturePrior([(0.5, FAMILY), (0.5, WEAR)])],
    ids=["own", "gradients", "many", "finite", "rows", "mixture"],
)
def test_right_priors_pass(prior: Any) -> None:
    """False alarm below 1e-6 each."""
    assert check_prior(prior) == []


class WrongDensity(WearPrior):
    """The density of Beta(1, k + 1.5), for samples of Beta(1, k)."""

    def log_density(self, parameters: Any) -> Any:
        found = super().log_density(parameters)
        with np.errstate(invalid="ignore", divide="ignore"):
            more = 1.5 * np.log1p(-parameters).sum(axis=1)
        return np.where(np.isfinite(found), found + more, -np.inf)


class Dependent(WearPrior):
    """Independent rates by the samples, correlated ones by the density."""

    def log_density(self, parameters: Any) -> Any:
        return super().log_density(parameters) + 100 * parameters.prod(axis=1)


class TooWide(WearPrior):
    """A density that goes on where no sample ever is."""

    def sample_parameters(self, rng: Any, size: int) -> Any:
        return np.minimum(rng.beta(1.0, self.k, (size, 2)), 0.15)


class SlightlyTooSteep(WearPrior):
    """The density of Beta(1, 1.1 k), for samples of Beta(1, k)."""

    def log_density(self, parameters: Any) -> Any:
        return super().log_density(parameters) * (1.1 * self.k - 1) / (self.k - 1)


class Logits(WearPrior):
    """Logits of the rates, with the density of the rates: the derivative of the change is missing."""

    def sample_parameters(self, rng: Any, size: int) -> Any:
        rates = super().sample_parameters(rng, size)
        return np.log(rates) - np.log1p(-rates)

    def log_density(self, parameters: Any) -> Any:
        return super().log_density(np.clip(1 / (1 + np.exp(-parameters)), 1e-12, 1 - 1e-12))

    def kernels(self, parameters: Any) -> Any:
        return super().kernels(1 / (1 + np.exp(-parameters)))


class LeavesOut(WearPrior):
    """The samples avoid rates that the density allows."""

    def sample_parameters(self, rng: Any, size: int) -> Any:
        found = super().sample_parameters(rng, 16 * size)
        return found[(found[:, 0] < 0.05) | (found[:, 0] > 0.07)][:size]


class Copies(WearPrior):
    """One call returns the same vector again and again."""

    def sample_parameters(self, rng: Any, size: int) -> Any:
        return np.repeat(super().sample_parameters(rng, 1), size, axis=0)


class Sorted(WearPrior):
    def sample_parameters(self, rng: Any, size: int) -> Any:
        return np.sort(super().sample_parameters(rng, size), axis=0)


class OtherAlone(WearPrior):
    """A single vector has another distribution than one of many."""

    def sample_parameters(self, rng: Any, size: int) -> Any:
        return rng.beta(1.0, self.k if size > 2 else 0.7 * self.k, (size, 2))


class OwnSample(WearPrior):
    """Kernels of larger rates than those of `sample_parameters`."""

    def sample(self, rng: Any) -> Any:
        return self.kernels(rng.beta(1.3, self.k, (1, 2)))[0]


class NoDistribution(WearPrior):
    def kernels(self, parameters: Any) -> Any:
        return super().kernels(parameters) * 1.01


class BeyondSupport(WearPrior):
    def kernels(self, parameters: Any) -> Any:
        return np.full((len(parameters), 2, 3, 3), 1 / 3)


class Together(WearPrior):
    """Kernels of the mean parameters of the call."""

    def kernels(self, parameters: Any) -> Any:
        return super().kernels(np.repeat(parameters.mean(axis=0)[None], len(parameters), axis=0))


class WrongSlope(WearWithGradient):
    def log_density_gradient(self, parameters: Any) -> Any:
        return -super().log_density_gradient(parameters)


class WrongJacobian(WearWithGradient):
    def kernel_gradient(self, parameters: Any) -> Any:
        return 2 * super().kernel_gradient(parameters)


class OwnDice(WearPrior):
    def sample_parameters(self, rng: Any, size: int) -> Any:
        return super().sample_parameters(np.random.default_rng(), size)


class NotWeighted(FinitePrior):
    """Every kernel as often as every other."""

    def sample(self, rng: Any) -> Any:
        return self.kernels[rng.integers(len(self))]


class Forgetful(WearPrior):
    """A restored posterior has lost its history."""

    def restore(self, state: Any, rng: Any) -> Any:
        found = super().restore(state, rng)
        found._past.codes[:] = 0
        found.refresh()
        return found


@pytest.mark.parametrize(
    ("prior", "says"),
    [
        (WrongDensity(), "log_density is not the density of sample_parameters"),
        (Dependent(), "log_density is not the density"),
        (TooWide(), "log_density is not the density"),
        (SlightlyTooSteep(), "log_density is not the density"),
        (Logits(), "log_density is not the density"),
        (LeavesOut(), "log_density is not the density of sample_parameters: the frequency of an interval"),
        (Copies(), "parameter vectors of one call of sample_parameters are not independent"),
        (Sorted(), "parameter vectors of one call of sample_parameters are not independent"),
        (
            OtherAlone(),
            "sample_parameters(rng, 1) has another distribution than sample_parameters(rng, 20000)",
        ),
        (OwnSample(), "sample(rng) has another distribution than kernels(sample_parameters(rng, N))"),
        (NoDistribution(), "NoDistribution.kernels(parameters)[m=0, a=0, s=0] sums to 1.01"),
        (BeyondSupport(), "support excludes this transition"),
        (Together(), "kernels of a parameter vector depends on the others"),
        (WrongSlope(), "log_density_gradient does not agree with finite differences"),
        (WrongJacobian(), "kernel_gradient does not agree with finite differences"),
        (OwnDice(), "same seed gave another sample"),
        (NotWeighted(PUMP, FAMILY.kernels, FAMILY.weights), "do not follow the weights"),
        (Forgetful(k=1.0), "saved and restored continues differently"),
        (3, "which has no method sample(rng)"),
    ],
)
def test_broken_priors_are_told(prior: Any, says: str) -> None:
    found = check_prior(prior)
    assert any(says in finding.text for finding in found), found
    assert {finding.severity for finding in found} == {"error"}


class LosesSteps(EnsemblePosterior):
    """What the compiled loop has done is not in the history."""

    def commit(self, steps: Steps, *, refresh: bool) -> None:
        codes, rows, values = steps.codes[1:], steps.rows[1:], steps.values[1:]
        super().commit(Steps(steps.actions[1:], codes, rows, values), refresh=refresh)


class IgnoresWeights(EnsemblePosterior):
    """Every kernel of the ensemble as often as every other, and none is ever moved."""

    def _refresh_due(self) -> None:
        pass

    def sample_index(self, rng: Any) -> int:
        return int(rng.integers(self.size))


class WrongBelief(EnsemblePosterior):
    def sample_model(self, rng: Any) -> Any:
        drawn = super().sample_model(rng)
        return drawn._replace(belief=drawn.belief[::-1].copy())


@pytest.mark.parametrize(
    ("kind", "says", "lives"),
    [
        (LosesSteps, "the compiled loop gives other", 2),
        (IgnoresWeights, "not distributed as the truth", 150),
        (WrongBelief, "sample_model returns another belief", 2),
    ],
)
def test_broken_posteriors_are_told(kind: Any, says: str, lives: int) -> None:
    prior = WearPrior(k=1.0)
    found = check_posterior(
        prior, lambda rng: kind(prior, [prior.kernel_group(rng)], rng), replicates=lives, length=60
    )
    assert any(says in finding.text for finding in found), found
