"""Spectrum access: find an idle channel by listening to one at a time."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np

from .._utils.arrays import Array, numbers
from ..errors import InvalidModelError
from ..models import Setting
from .catalogue import Assumptions, Parts, bounded, fraction, register, uniform


@register(
    "spectrum-access",
    title="Pick the radio channel that is most likely idle, from noisy sensing of the last one used",
    source="Zhao, Tong, Swami and Chen (2007), Decentralized cognitive MAC for opportunistic spectrum "
    "access in ad hoc networks: a POMDP framework, IEEE JSAC 25; channels of Gilbert (1960) and Elliott "
    "(1963); figures of its own",
    assumptions=Assumptions(
        bellman="holds: every joint state follows every other with positive probability (Platzman 1980)",
        separation="fails: beliefs about a channel can hide how fast it changes for a step",
        belief="open: the channels forget their past quickly, whatever is done",
        kernel="open: every channel that is never used is never sensed",
    ),
)
def spectrum_access(
    stay_idle: Sequence[float] = (0.9, 0.7),
    stay_busy: Sequence[float] = (0.7, 0.9),
    false_alarm: float = 0.1,
    missed: float = 0.15,
    collision: float = 0.0,
) -> Parts:
    """Primary users come and go on several channels; a guest may use one that is idle.

    Hidden: which channels are idle. Each is a two-state chain of its own that stays idle with
    probability `stay_idle[i]` and busy with `stay_busy[i]`, whatever the guest does. Actions: which
    channel to use in this slot; the radio then senses that channel at the start of the next slot.
    Readings: idle or busy; an idle channel looks busy with probability `false_alarm`, a busy one idle
    with `missed`. Rewards: 1 for a slot used while idle, minus `collision` for one used while busy.
    """
    idle = [fraction("stay_idle", value) for value in numbers("stay_idle", stay_idle, "c").tolist()]
    busy = [fraction("stay_busy", value) for value in numbers("stay_busy", stay_busy, "c").tolist()]
    if len(idle) != len(busy) or len(idle) > 6:
        raise InvalidModelError("parameters stay_idle and stay_busy: as many numbers in each, 1 to 6")
    channels = range(len(idle))
    joint = list(product((0, 1), repeat=len(idle)))  # 1 is idle
    looks_idle = np.array([fraction("missed", missed), 1 - fraction("false_alarm", false_alarm)])
    sensed = np.array([[looks_idle[state[i]] for state in joint] for i in channels])  # [A, S]
    earned = np.array([[1.0 if state[i] else -bounded("collision", collision, 0.0) for state in joint]
                       for i in channels])  # fmt: skip
    setting = Setting.from_rewards(
        observation=np.stack([sensed, 1 - sensed], axis=-1),
        reward=earned,
        initial=uniform(len(joint)),
        units="slots",
        states=["-".join("idle" if up else "busy" for up in state) for state in joint],
        actions=[f"use-{i + 1}" for i in channels],
        observations=("sensed-idle", "sensed-busy"),
    )
    truth = _kernel(idle, busy)
    others = (
        _kernel(busy, idle),
        _kernel([0.5] * len(idle), [0.5] * len(idle)),
        _kernel(idle[::-1], busy),
    )
    distinct = [other for other in others if np.abs(other - truth).max() > 1e-3]
    return Parts(setting, truth, others=tuple(distinct))


def _kernel(stay_idle: Sequence[float], stay_busy: Sequence[float]) -> Array:
    """Independent channels, the first the slowest digit of the joint state; no action moves them."""
    joint: Array = np.ones((1, 1))
    for idle, busy in zip(stay_idle, stay_busy, strict=True):
        joint = np.asarray(np.kron(joint, [[busy, 1 - busy], [1 - idle, idle]]), dtype=np.float64)
    return np.repeat(joint[None], len(stay_idle), axis=0)
