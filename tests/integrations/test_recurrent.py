"""Recurrent PPO on our worlds: what happened is what the trace says, and the same seed gives it again."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from psrl_pomdp import plan, problem

pytest.importorskip("gymnasium", reason='gymnasium is not installed: pip install "psrl-pomdp[gym]"')

from psrl_pomdp.integrations.recurrent_ppo import OneLife, recurrent_run


@pytest.mark.parametrize("name", ["tiger", "railway"])
def test_what_is_seen_in_a_life(name: str) -> None:
    world = problem(name)
    life, n = OneLife(world, seed=2), world.n_observations + (world.setting.first_observation is None)
    seen, _ = life.reset(seed=99)  # not its own seed: the life does not change
    assert np.flatnonzero(seen).tolist() == [int(life.world.reset(seed=2)[0]), n + world.n_actions]
    life.reset()
    for t in range(20):
        action, state = np.int64(t % world.n_actions), life.world.state
        seen, reward, terminated, truncated, _ = life.step(action)
        assert np.flatnonzero(seen).tolist() == [life.readings[-1], n + action]
        assert reward == 1.0 - world.setting.cost[action, state]
        assert seen in life.observation_space
        assert not terminated
        assert not truncated
    assert life.actions == [t % world.n_actions for t in range(20)]


@pytest.mark.parametrize("name", ["tiger", "random-readout"])
def test_the_trace_is_that_of_the_training(name: str) -> None:
    """That the recorded readings come again is checked inside; here, that a run repeats and has a regret."""
    pytest.importorskip("sb3_contrib", reason='sb3-contrib is not installed: pip install "psrl-pomdp[deep]"')
    world = problem(name)
    small = {"n_steps": 32, "batch_size": 32, "n_epochs": 1}
    small_net = {"policy_kwargs": {"lstm_hidden_size": 8}}
    one, again, other = (recurrent_run(world, 50, seed, **small, **small_net) for seed in (1, 1, 2))
    assert one.horizon == 50
    assert (one.actions == again.actions).all()
    assert (one.actions != other.actions).any()
    assert np.isfinite(float(one.regret(plan(world, 1e-2))))


def test_without_the_extra_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sb3_contrib", None)
    with pytest.raises(ImportError, match=r"psrl-pomdp\[deep\]"):
        recurrent_run(problem("tiger"), 10)
