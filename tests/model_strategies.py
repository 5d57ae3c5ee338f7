"""Random models for property tests: every shape of setting that the package knows."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st

from psrl_pomdp import POMDP, Setting, Units

# Classic model files that are not ours to ship: tests that read them are skipped where there are none.
PUBLIC_FILES = Path(
    os.environ.get("PSRL_POMDP_MODEL_FILES", Path(__file__).parents[2] / "shared" / "problems")
)


@st.composite
def models(draw: st.DrawFn) -> POMDP:
    """Sizes up to five, sparse or dense rows, named or not, costs or rewards of any scale."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_states, n_actions, n_readings = (draw(st.integers(1, 5)) for _ in range(3))
    thin = draw(st.sampled_from([0.05, 1.0, 20.0]))

    def rows(*shape: int) -> Any:
        drawn = rng.dirichlet(np.full(shape[-1], thin), size=shape[:-1])
        return drawn if draw(st.booleans()) else np.eye(shape[-1])[drawn.argmax(axis=-1)]

    by_action = draw(st.booleans())
    sensor = rows(n_actions, n_states, n_readings) if by_action else rows(n_states, n_readings)
    scale = draw(st.sampled_from([1.0, 1e-3, 7.0, 1e6]))
    shift = draw(st.sampled_from([0.0, -0.5, 3.0]))
    own = scale * (rng.random((n_actions, n_states)) + shift)
    if draw(st.booleans()):
        own = own.round(2)
    make = draw(st.sampled_from([Setting, Setting.from_rewards]))
    named = draw(st.booleans())
    extra: dict[str, Any] = {"first_observation": None} if draw(st.booleans()) else {}
    setting = make(
        sensor,
        own,
        rows(n_states),
        units=draw(st.sampled_from(["", "euro a day"])),
        states=[f"state-{i}" for i in range(n_states)] if named else None,
        actions=[f"do_{i}" for i in range(n_actions)] if named else None,
        observations=[f"see{i}" for i in range(n_readings)] if named else None,
        **extra,
    )
    if draw(st.booleans()):  # a scale that is not the range of the values
        units = Units(
            draw(st.sampled_from([0.0, -3.5])), 100.0, draw(st.sampled_from(["cost", "reward"])), "x"
        )
        setting = Setting(
            setting.observation,
            setting.cost,
            setting.initial,
            setting.first_observation,
            units=units,
            states=setting.names.states,
            actions=setting.names.actions,
            observations=setting.names.observations,
        )
    return POMDP(setting, rows(n_actions, n_states, n_states), name="a random model")


def random_model(seed: int, n_states: int = 2, n_actions: int = 3, n_readings: int = 2) -> POMDP:
    """Sticky or not, sensors by action or not: whatever the seed says."""
    rng = np.random.default_rng(seed)
    thin = float(rng.choice([0.3, 1.0, 3.0]))
    transition = rng.dirichlet(np.full(n_states, thin), size=(n_actions, n_states))
    sensor = rng.dirichlet(np.ones(n_readings), size=(n_actions, n_states))
    if seed % 2:
        sensor[:] = sensor[0]
    setting = Setting(sensor, rng.random((n_actions, n_states)), np.full(n_states, 1 / n_states))
    return POMDP(setting, 0.98 * transition + 0.02 / n_states)


def previous_state_model(seed: int, n_states: int = 2, n_actions: int = 2, n_readings: int = 2) -> POMDP:
    """Random; what is read depends on the state before the action, the action and the state after it."""
    rng = np.random.default_rng(seed)
    transition = rng.dirichlet(np.ones(n_states), size=(n_actions, n_states))
    sensor = rng.dirichlet(np.full(n_readings, 0.3), size=(n_actions, n_states, n_states))
    setting = Setting(
        sensor, rng.random((n_actions, n_states)), np.full(n_states, 1 / n_states), units=Units(0.0, 1.0)
    )
    return POMDP(setting, 0.98 * transition + 0.02 / n_states)


def remembering_states(model: POMDP) -> POMDP:
    """The same system with pairs (state, state before it) as states and an ordinary table, for [A, S, S', O].

    Pair (s, p) has the number s S + p. At the start, every state is paired with state 0.
    """
    own, n = model.setting, model.n_states
    transition = np.zeros((model.n_actions, n, n, n, n))
    for s in range(n):
        transition[:, s, :, :, s] = model.transition[:, None, s]
    sensor = own.observation.transpose(0, 2, 1, 3)
    initial = np.zeros((n, n))
    initial[:, 0] = own.initial
    first = None if own.first_observation is None else np.repeat(own.first_observation, n, axis=0)
    setting = Setting(
        sensor.reshape(model.n_actions, n * n, -1),
        np.repeat(own.cost, n, axis=1),
        initial.ravel(),
        first,
        units=own.units,
    )
    return POMDP(setting, transition.reshape(model.n_actions, n * n, n * n))
