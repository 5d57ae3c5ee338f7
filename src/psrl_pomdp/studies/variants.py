"""Variants of a problem that a study asks for: costs that are seen, and readings put into cells."""

from __future__ import annotations

from inspect import signature
from typing import Any, Self

import msgspec
import numpy as np

from .._serialization.archives import as_saved_agent
from ..errors import InvalidModelError
from ..models import POMDP, Setting
from ..problems.catalogue import as_problem
from ..protocols import Agent, ConditionallySavable, RestoresAgents, SavableAgent
from ..sensors.bracket import QuantizedSensors, quantized


def with_seen_costs(model: POMDP, how: str) -> POMDP:
    """Return a problem in which the agents see the cost of every step; `how` is "exact"."""
    assert how == "exact", how
    return _moved(model, model.setting.replace(seen_cost="exact"))


def in_cells(model: POMDP, n_cells: int) -> POMDP:
    """Return a problem with about so many cells of readings in place of a density of observations.

    Raises
    ------
    InvalidModelError
        If the observations are finite already, or are no single numbers.
    """
    if model.setting.is_finite:
        raise InvalidModelError(
            f"cells: {model.name or 'this model'} has finitely many observations: cells are for a density"
        )
    return _moved(model, model.setting.quantized(n_cells))


def _moved(model: POMDP, setting: Setting) -> POMDP:
    """Return the same kernel, and the same priors over kernels, in another setting."""
    own = as_problem(model)
    if own is None:
        return POMDP(setting, model.transition, name=model.name)
    return own.with_setting(setting)


def takes_cost(agent: Agent) -> bool:
    """Return whether the method `act` of an agent takes the cost that was seen."""
    return "cost" in signature(agent.act).parameters


class CellAgent:
    """An agent for finitely many observations that is given the cells of readings in their place.

    Parameters
    ----------
    agent
        The agent, for the setting with cells.
    setting
        The setting with a density, whose readings the environment gives.
    n_cells
        The number of cells.
    """

    def __init__(self, agent: Agent, setting: Setting, n_cells: int) -> None:
        self.agent = agent
        self.cells: QuantizedSensors = quantized(setting.sensor, setting.first_sensor, n_cells)
        self.action: int | None = None  # the last one; the cells may depend on it

    def act(self, observation: Any, cost: float | None = None) -> int:
        """Return the action after a reading and the cost that was seen; None and NaN are missing ones."""
        missing = observation is None or bool(np.isnan(observation))
        number = None if missing else self.cells.of(self.action).cell(float(observation))
        paid = {} if cost is None or not takes_cost(self.agent) else {"cost": cost}
        self.action = int(self.agent.act(number, **paid))
        return self.action

    @property
    def can_save(self) -> bool:
        """Whether `to_bytes` can return the agent as bytes."""
        if isinstance(self.agent, ConditionallySavable):
            return self.agent.can_save
        return isinstance(self.agent, SavableAgent)

    def to_bytes(self) -> bytes:
        """Return everything that determines the agent's next actions."""
        if not isinstance(self.agent, SavableAgent):
            raise InvalidModelError(f"a {type(self.agent).__name__} has no to_bytes: it cannot be saved")
        return msgspec.msgpack.encode((self.action, self.agent.to_bytes()))

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Raise an error: the cells are not saved. Use `restored` of an agent with the same cells."""
        raise InvalidModelError("an agent for cells of readings is restored from one with the same cells")

    @as_saved_agent("agent")
    def restored(self, data: bytes) -> CellAgent:
        """Return the saved agent, with the cells of this one."""
        action, inner = msgspec.msgpack.decode(data, type=tuple[int | None, bytes])
        other = CellAgent.__new__(CellAgent)
        other.cells, other.action = self.cells, action
        if isinstance(self.agent, RestoresAgents):
            other.agent = self.agent.restored(inner)
        else:
            assert isinstance(self.agent, SavableAgent)
            other.agent = type(self.agent).from_bytes(inner)
        return other
