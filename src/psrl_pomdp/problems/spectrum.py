"""Spectrum access: find an idle radio channel by using and sensing one channel at a time."""

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
    title="Choose an idle radio channel from noisy sensing of the channel used last",
    source="Zhao, Tong, Swami and Chen (2007), Decentralized cognitive MAC for opportunistic spectrum "
    "access in ad hoc networks: a POMDP framework, IEEE JSAC 25; channels of Gilbert (1960) and Elliott "
    "(1963); the numbers are chosen for this package",
    assumptions=Assumptions(
        bellman="holds: every joint state follows every other with positive probability (Platzman 1980)",
        separation="fails: at some beliefs about a channel, two kernels give the next observation the same "
        "distribution",
        belief="open: the influence of the past on the state of a channel decays quickly under every policy",
        kernel="open: a channel that is never used is never sensed",
    ),
)
def spectrum_access(
    stay_idle: Sequence[float] = (0.9, 0.7),
    stay_busy: Sequence[float] = (0.7, 0.9),
    false_alarm: float = 0.1,
    missed: float = 0.15,
    collision: float = 0.0,
) -> Parts:
    """Primary users occupy several radio channels at times; a secondary user may use an idle channel.

    State: which channels are idle. The channels are independent Markov chains with two states; channel i
    stays idle with probability `stay_idle[i]` and busy with probability `stay_busy[i]`, under every action.
    Actions: the channel to use in this time slot; the radio senses the same channel at the start of the next
    slot. Observations: idle or busy; an idle channel is observed as busy with probability `false_alarm`, and
    a busy channel as idle with probability `missed`. Rewards: 1 for the use of an idle channel, minus
    `collision` for the use of a busy channel.
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


@register(
    "spectrum-access-acks",
    title="Choose an idle radio channel from acknowledgments and from noisy sensing",
    source="the problem spectrum-access, with acknowledgments as in Zhao, Tong, Swami and Chen (2007); "
    "the numbers are chosen for this package",
    assumptions=Assumptions(
        bellman="holds: every joint state follows every other with positive probability (Platzman 1980)",
        separation="fails: at some beliefs about a channel, two kernels give the next observation the same "
        "distribution",
        belief="open: the influence of the past on the state of a channel decays quickly under every policy",
        kernel="open: a channel that is never used is never observed",
    ),
)
def spectrum_access_acks(
    stay_idle: Sequence[float] = (0.9, 0.7),
    stay_busy: Sequence[float] = (0.7, 0.9),
    false_alarm: float = 0.1,
    missed: float = 0.15,
    collision: float = 0.0,
    delivered: float = 0.95,
    captured: float = 0.02,
) -> Parts:
    """A secondary user of several radio channels is told whether its transmissions arrived.

    States, actions and rewards are those of the problem spectrum-access. A transmission on a channel that is
    idle is acknowledged with probability `delivered`, and one that collides with a primary user with
    probability `captured`. Observations: whether the transmission of the last time slot was acknowledged, and
    whether its channel is observed as idle or busy at the start of the next slot. The acknowledgment depends
    on the state before the transition, and the sensing on the state after it.
    """
    parts = spectrum_access(stay_idle, stay_busy, false_alarm, missed, collision)
    setting = parts.setting
    chances = np.array([fraction("captured", captured), fraction("delivered", delivered)])
    arrived = np.array([[chances[int(label.split("-")[i] == "idle")] for label in setting.states]
                        for i in range(setting.n_actions)])  # fmt: skip
    acknowledged = np.stack([arrived, 1 - arrived], axis=-1)  # [A, S, 2]
    table = acknowledged[:, :, None, :, None] * setting.observation[:, None, :, None, :]
    names = [f"{ack}-{sensed}" for ack in ("ack", "no-ack") for sensed in setting.observations]
    both = setting.replace(observation=table.reshape(*table.shape[:3], 4), observations=names)
    return Parts(both, parts.transition, others=parts.others)


def _kernel(stay_idle: Sequence[float], stay_busy: Sequence[float]) -> Array:
    """Independent channels, the first the slowest digit of the joint state; no action moves them."""
    joint: Array = np.ones((1, 1))
    for idle, busy in zip(stay_idle, stay_busy, strict=True):
        joint = np.asarray(np.kron(joint, [[busy, 1 - busy], [1 - idle, idle]]), dtype=np.float64)
    return np.repeat(joint[None], len(stay_idle), axis=0)
