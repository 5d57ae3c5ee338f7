"""Simulated environments: the arrays of the true model, and observations without numbers, drawn ahead."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .._utils.arrays import Array
from ..agents import compiled_steps as steps
from ..agents.compiled_driver import ObservationsAhead, rows_ahead
from ..errors import InvalidModelError
from ..inference.filter_bank import sample_categorical
from ..inference.sampled_filter import SampledFilter
from ..inference.step_codes import StepCodes
from ..models import POMDP, Setting
from ..protocols import EpisodicAgent
from ..sensors.base import ContinuousSensor, SensorBase
from .trace import first_belief

BLOCK = 1 << 10  # the number of steps whose observations without numbers are drawn at once


def new_environment(
    model: POMDP, codes: StepCodes, rng: np.random.Generator
) -> tuple[steps.EnvironmentState, Any]:
    """Return the environment at t = 1, and o_1."""
    own = model.setting
    uniforms = rng.random(2)
    state = int(sample_categorical(own.initial, uniforms[0]))
    first, observation, number = own.first_sensor, None, -1
    if isinstance(first, ContinuousSensor):
        observation, number = first.draw(rng, 0, np.array([state]))[0], state
    elif first is not None:
        assert own.first_observation is not None
        observation = number = int(sample_categorical(own.first_observation[state], uniforms[1]))
    environment = steps.EnvironmentState(
        model.transition,
        np.ascontiguousarray(codes.matrices(model.transition[..., None])[..., 0]),
        codes.likelihood,
        emission_of(own, codes),
        own.cost,
        np.array([state, number]),
        first_belief(model, observation),
        np.zeros((model.n_actions, model.n_states), np.int64),
        np.zeros(steps.N_SUMS),
        np.empty(model.n_states),
    )
    return environment, observation


def emission_of(setting: Setting, codes: StepCodes) -> Array:
    """Return the probability of each code, shape [A, S or 1, S′, R].

    If observations have no numbers, return the probability of each seen cost, shape [A, S, 1, C].
    """
    if codes.has_rows:
        seen = setting.seen_cost
        return np.zeros((setting.n_actions, 1, 1, 0)) if seen is None else seen.probabilities[:, :, None]
    joint = setting.joint_observation
    table = joint if joint.ndim == 4 else joint[:, None]
    found = np.zeros((*table.shape[:3], codes.n_codes))
    found[..., codes.full_codes] = table
    return found


def nan_filter(model: POMDP) -> SampledFilter:
    """Return a filter of NaN for agents that sample no model, so that its distances to the truth are NaN."""
    n_actions, n_states = model.n_actions, model.n_states
    nothing = np.full((n_actions, n_states, n_states, 1), np.nan)
    empty = np.zeros((n_states, 1))
    return SampledFilter(nothing, nothing, np.full((n_states, 1), np.nan), empty, np.zeros(1))


def check_sizes(model: POMDP, agent: EpisodicAgent) -> None:
    """Raise `InvalidModelError` if the settings of model and agent differ in size."""
    own, given = model.setting, agent.setting
    if own.is_finite != given.is_finite:
        raise InvalidModelError(
            f"the environment has {own.sensor.described()}, and the agent's setting has "
            f"{given.sensor.described()}"
        )
    for what in ("n_actions", "n_states", *(["n_observations"] if own.is_finite else [])):
        if getattr(own, what) != getattr(given, what):
            raise InvalidModelError(
                f"the environment has {getattr(own, what)} {what[2:]}, "
                f"and the agent's setting has {getattr(given, what)}"
            )
    if own.seen_cost != given.seen_cost and not _same_costs(own, given):
        raise InvalidModelError("the environment and the agent disagree about the costs that are seen")
    if own.has_first_observation != given.has_first_observation:
        raise InvalidModelError(
            "the environment and the agent disagree about an observation before the first action"
        )


def _same_costs(own: Setting, given: Setting) -> bool:
    """Return whether the costs that are seen have the same values in both settings, or none are seen."""
    one, other = own.seen_cost, given.seen_cost
    if one is None or other is None:
        return one is other
    return np.array_equal(one.values, other.values)


def draw_block(
    model: POMDP, own: SensorBase | None, seed: int | Sequence[int], number: int
) -> ObservationsAhead:
    """Draw the observations without numbers of block `number` of steps, in each state that could emit them.

    `own` is the agent's sensor, which may depend on the action where the true one does not.
    """
    sensor, n_states = model.setting.sensor, model.n_states
    assert isinstance(sensor, ContinuousSensor)
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(3, number)))
    by_action = sensor.n_actions is not None or (own is not None and own.n_actions is not None)
    components = () if sensor.dimension is None else (sensor.dimension,)
    states, shape = np.tile(np.arange(n_states), BLOCK), (BLOCK, n_states, *components)
    values = [
        sensor.draw(rng, 0 if sensor.n_actions is None else a, states).reshape(shape)
        for a in range(model.n_actions if by_action else 1)
    ]
    together = np.concatenate(values, axis=1)
    nothing = np.full(components, np.nan)
    return ObservationsAhead(sensor, together, rows_ahead(sensor, together, n_states), nothing)
