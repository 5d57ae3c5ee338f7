"""`act(taken=...)` and `learn(logs=...)`: what was really done, and the finished histories of other units."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from oracles import every_path
from own_priors import WearPrior
from psrl_pomdp import (
    FinitePrior,
    ImpossibleObservationError,
    InvalidModelError,
    Log,
    OutOfOrderError,
    PSRLAgent,
    Setting,
    UnknownNameError,
)
from psrl_pomdp._utils.arrays import Array
from psrl_pomdp.protocols import Prior
from random_agents import COARSE, dirichlet, family

PRIORS: dict[str, Callable[[], Prior]] = {
    "finite": lambda: family(3),
    "dirichlet": lambda: dirichlet(family(3).setting),
    "own": WearPrior,
}
LOGS = [Log([0, 1, None, 2], [1, 0, 1], name="a"), Log([1, 1, 0], [0, 0]), Log([2, 0], [1, 1])]


def likelihood(prior: FinitePrior, log: Log) -> Array:
    """P(observations of a unit | each kernel), by summing over every hidden path."""
    actions = [*log.actions, 0][: len(log.observations)]
    first, *rest = log.observations
    return every_path(prior.setting, prior.kernels, prior.initial, first, actions, rest).likelihood


def test_the_posterior_after_logs_is_the_product_over_units() -> None:
    """By enumeration of all hidden paths of all units, with the agent's own observations after it."""
    prior = family(3)
    agent = PSRLAgent(prior, budget=COARSE)
    agent.learn(logs=LOGS)
    expected = prior.weights.copy()
    for log in LOGS:
        expected *= likelihood(prior, log)
    np.testing.assert_allclose(agent.posterior.weights, expected / expected.sum(), atol=1e-12)
    actions = [agent.act(1), agent.act(0)]
    own = Log([1, 0], actions[:1])
    expected *= likelihood(prior, own)
    np.testing.assert_allclose(agent.posterior.weights, expected / expected.sum(), atol=1e-12)
    assert agent.time == 2
    assert agent.expected_counts.sum() == pytest.approx(1.0)  # of its own step alone
    assert agent.pseudo_counts.max() <= 2


def test_own_past_and_logs_together_in_one_call_or_in_two() -> None:
    prior = family(4)
    one, two = PSRLAgent(prior, budget=COARSE), PSRLAgent(prior, budget=COARSE)
    one.learn([0, 1, 2], [1, 0, 1], logs=LOGS)
    two.learn(logs=LOGS)
    two.learn([0, 1, 2], [1, 0, 1])
    assert one.time == two.time == 3
    np.testing.assert_array_equal(one.posterior.weights, two.posterior.weights)
    assert one.act(0) == two.act(0)
    two.learn(logs=LOGS[:1])  # logs of others can come at any time
    assert two.time == 4
    assert len(two.posterior.units) == 5


@pytest.mark.parametrize("kind", PRIORS)
def test_logs_are_saved_and_resumed_to_the_last_bit(kind: str, tmp_path: Path) -> None:
    agent = PSRLAgent(PRIORS[kind](), budget=COARSE, seed=5)
    logs = LOGS if kind != "own" else [Log([0, 1, None, 2], [0, 0, 1], name="a"), Log([0, 1, 0], [0, 1])]
    agent.learn(logs=logs)
    agent.act(0)
    other = PSRLAgent.from_bytes(agent.to_bytes()) if kind != "own" else agent.restored(agent.to_bytes())
    assert len(other.posterior.units) == len(logs) + 1
    rng = np.random.default_rng(0)
    for reading in rng.integers(0, 2, 40):
        assert agent.act(int(reading)) == other.act(int(reading))
    assert agent.to_bytes() == other.to_bytes()


@pytest.mark.parametrize("kind", PRIORS)
def test_a_log_that_cannot_be_used_changes_nothing(kind: str) -> None:
    agent = PSRLAgent(PRIORS[kind](), budget=COARSE, seed=5)
    agent.act(0)
    before = agent.to_bytes()
    with pytest.raises(UnknownNameError, match=r"log 1 \(pump\): observations\[1\]"):
        agent.learn(logs=[LOGS[0] if kind != "own" else Log([0, 1], [0]), Log([0, 9], [0], name="pump")])
    assert agent.to_bytes() == before
    assert len(agent.posterior.units) == 1


def test_logs_at_the_door() -> None:
    agent = PSRLAgent(family(3), budget=COARSE)
    with pytest.raises(InvalidModelError, match="neither observations and actions nor logs"):
        agent.learn()
    with pytest.raises(InvalidModelError, match="actions are missing"):
        agent.learn([0, 1])
    with pytest.raises(InvalidModelError, match=r"logs must be a list of psrl_pomdp\.Log"):
        agent.learn(logs=[([0], [0])])  # type: ignore[list-item]

    class Alone(WearPrior):
        def posterior(self, rng: np.random.Generator) -> object:  # type: ignore[override]
            return Lonely(super().posterior(rng))

    class Lonely:
        """A posterior with the methods of the protocol alone."""

        def __init__(self, inner: object) -> None:
            for name in ("setting", "expected_counts", "start", "update", "sample", "belief"):
                setattr(self, name, getattr(inner, name))

    with pytest.raises(InvalidModelError, match=r"posterior of a Alone has no method new_unit\(\)"):
        PSRLAgent(Alone(), budget=COARSE).learn(logs=LOGS)  # type: ignore[arg-type]


# -- what was really done -----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", PRIORS)
def test_taken_conditions_on_what_was_done(kind: str) -> None:
    """The posterior is that of an update by hand, and not that of the action which was returned."""
    agent, hand = (PSRLAgent(PRIORS[kind](), budget=COARSE, seed=5) for _ in range(2))
    chosen = agent.act(0)
    hand.act(0)
    hand.posterior.update(1 - chosen, 0)
    agent.act(0, taken=1 - chosen)
    np.testing.assert_array_equal(agent.posterior.weights, hand.posterior.weights)
    np.testing.assert_array_equal(agent.expected_counts, hand.posterior.expected_counts)
    assert agent.expected_counts[1 - chosen].sum() == pytest.approx(1.0)


def test_taken_by_name_and_the_sampled_belief() -> None:
    prior = family(3)
    own = prior.setting.replace(actions=["run", "stop"])
    agent = PSRLAgent(FinitePrior(own, prior.kernels), budget=COARSE)
    agent.act(0)
    belief, kernel = agent.sampled_filter.belief[:, 0].copy(), agent.current_episode.kernel
    agent.act(1, taken="stop")
    if agent.current_episode.start == 1:  # else θ was sampled anew
        expected = (belief @ kernel[1]) * own.observation[1, :, 1]
        np.testing.assert_allclose(agent.sampled_filter.belief[:, 0], expected / expected.sum(), atol=1e-12)
    assert agent.expected_counts[1].sum() == pytest.approx(1.0)
    with pytest.raises(UnknownNameError, match="unknown action 'stopp'"):
        agent.act(1, taken="stopp")
    assert agent.time == 2


def test_taken_is_refused_with_the_first_observation() -> None:
    agent = PSRLAgent(family(3), budget=COARSE)
    with pytest.raises(OutOfOrderError, match="taken=0: no action was taken before the first observation"):
        agent.act(0, taken=0)
    assert agent.time == 0
    agent.learn([0, 1], [0, 1])
    agent.act(0, taken=0)  # instead of the last action of the log
    assert agent.expected_counts[0].sum() == pytest.approx(2.0)


def test_a_finding_that_only_the_real_action_explains() -> None:
    """Under action 0 the state cannot be new again; under action 1 it is."""
    sharp = Setting(np.eye(3), WearPrior().setting.own_cost, [1.0, 0.0, 0.0])
    agent = PSRLAgent(WearPrior(sharp), budget=COARSE)
    agent.act(0)
    agent.act(1, taken=0)
    with pytest.raises(ImpossibleObservationError):
        agent.act(0, taken=0)
    agent.act(0, taken=1)
    assert agent.time == 3
