"""The tiger problem: a small problem in which information has a cost."""

from __future__ import annotations

import numpy as np

from ..models import Setting
from .catalogue import Assumptions, Parts, bounded, fraction, register, uniform


@register(
    "tiger",
    title="Listen for a tiger behind two doors, then open the other one",
    source="Kaelbling, Littman and Cassandra (1998), Planning and acting in partially observable "
    "stochastic domains, Artificial Intelligence 101, section 5",
    assumptions=Assumptions(
        bellman="holds: only opening a door has a positive reward, and the position of the tiger is then "
        "drawn again, so every good policy returns to the initial belief repeatedly",
        separation="fails: the observation after opening a door carries no information, so this action does "
        "not distinguish the kernels",
        belief="open: only later listening gives information about the new position of the tiger",
        kernel="open: for the same reason",
    ),
)
def tiger(
    accuracy: float = 0.85, listening: float = -1.0, tiger: float = -100.0, treasure: float = 10.0
) -> Parts:
    """A tiger waits behind the left or the right door, a treasure behind the other.

    State: the position of the tiger. Actions: listen, or open one of the doors; after a door was opened, the
    positions of tiger and treasure are drawn again. Observations: the side on which the tiger is heard; the
    side is correct with probability `accuracy` after listening, and uniformly random after opening. Rewards:
    `listening` for listening, `tiger` or `treasure` for opening the door with the tiger or the treasure.
    """
    accuracy = fraction("accuracy", accuracy)
    for name, value in (("listening", listening), ("tiger", tiger), ("treasure", treasure)):
        bounded(name, value, -np.inf)
    heard = np.array([[accuracy, 1 - accuracy], [1 - accuracy, accuracy]])
    nothing = np.full((2, 2), 0.5)
    setting = Setting.from_rewards(
        observation=[heard, nothing, nothing],
        reward=[[listening, listening], [tiger, treasure], [treasure, tiger]],
        initial=uniform(2),
        states=("tiger-left", "tiger-right"),
        actions=("listen", "open-left", "open-right"),
        observations=("hear-left", "hear-right"),
    )
    return Parts(setting, _kernel(0.5), others=(_kernel(0.2), _kernel(0.8)))


def _kernel(left: float) -> list[np.ndarray[tuple[int, ...], np.dtype[np.float64]]]:
    """Return the kernel; `left` is the probability of the left door after a door was opened."""
    anew = np.array([[left, 1 - left]] * 2)
    return [np.eye(2), anew, anew]
