"""Problems for the theory: one that satisfies the assumptions, and one that violates each of them."""

from __future__ import annotations

import numpy as np

from .._utils.arrays import Array
from ..models import Setting
from .catalogue import Assumptions, Parts, bounded, count, fraction, register, uniform


@register(
    "separated",
    title="A finite prior whose kernels are distinguished by every observation",
    source="this package, for Theorem 1",
    assumptions=Assumptions(
        bellman="holds: every transition has positive probability (Platzman 1980)",
        separation="holds: `separation(problem.family).epsilon` is a proved lower bound on the divergence",
        belief="holds: for the finite prior, if the ends of the episodes do not depend on the observations, "
        "as with m̃_t = t (the paper's lemma on the finite-parameter case, in its third appendix)",
        kernel="holds: for the finite prior, with such episodes (the same lemma)",
    ),
)
def separated(n_kernels: int = 4, focus: float = 0.88, memory: float = 0.12, accuracy: float = 0.85) -> Parts:
    """A machine with four conditions, whose dial is connected in one of `n_kernels` unknown ways.

    State: the condition. Actions: two positions of the dial. Under kernel m and position a, the machine stays
    in its condition with probability `memory`. Otherwise its next condition is m + a (modulo 4) with
    probability `focus`, and each of the other conditions with equal probability. Observations: the condition,
    correct with probability `accuracy`. The costs depend on the condition and the position, so that each
    kernel has another optimal policy. The next observation hardly depends on the present condition; therefore
    every observation distinguishes the kernels.
    """
    n, kernels = 4, count("n_kernels", n_kernels, 2, 4)
    focus, memory = bounded("focus", focus, 0.25, 0.97), bounded("memory", memory, 0.0, 0.9)
    accuracy = bounded("accuracy", accuracy, 0.25, 1.0)
    setting = Setting(
        observation=_mostly(n, accuracy),
        cost=[[0.0, 0.35, 0.7, 1.0], [0.55, 0.3, 0.45, 0.6]],
        initial=uniform(n),
        states=[f"condition-{s + 1}" for s in range(n)],
        actions=("dial-left", "dial-right"),
        observations=[f"gauge-{s + 1}" for s in range(n)],
    )
    sent = _mostly(n, focus)
    wirings = [
        np.stack([(1 - memory) * np.tile(sent[(m + a) % n], (n, 1)) + memory * np.eye(n) for a in (0, 1)])
        for m in range(kernels)
    ]
    return Parts(setting, wirings[0], others=tuple(wirings[1:]))


def _mostly(n: int, right: float) -> Array:
    """Return rows with `right` on the diagonal and equal other entries."""
    return np.full((n, n), (1 - right) / (n - 1)) + (right - (1 - right) / (n - 1)) * np.eye(n)


_TRIVIAL = "open: there is no finite prior"


@register(
    "two-rooms",
    title="Violates Assumption 1: two rooms without doors; the average cost depends on the start",
    source="this package, as a counterexample to Assumption 1",
    assumptions=Assumptions(
        bellman="fails: there are two recurrent classes; the optimal average cost is .2 in one room and .8 "
        "in the other",
        separation=_TRIVIAL,
        belief="open: the observations identify the room in the course of time",
        kernel="fails: with m̃_t = t the pseudo-counts of the other room grow, but this room is never visited",
    ),
)
def two_rooms(accuracy: float = 0.7) -> Parts:
    """Two rooms without doors; one room is better than the other.

    State: the room. Actions: work, or rest at a higher cost; the room never changes. Observations: the room,
    correct with probability `accuracy`. The initial distribution is uniform, and the optimal average cost is
    then .5.
    """
    right = fraction("accuracy", accuracy)
    setting = Setting(
        observation=[[right, 1 - right], [1 - right, right]],
        cost=[[0.2, 0.8], [0.9, 0.9]],
        initial=uniform(2),
        states=("good-room", "bad-room"),
        actions=("work", "rest"),
        observations=("hint-good", "hint-bad"),
    )
    return Parts(setting, np.stack([np.eye(2), np.eye(2)]))


@register(
    "blind-cycle",
    title="Violates Assumption 1 although its MDP is communicating: an unobservable cycle",
    source="this package, as a counterexample to Assumption 1",
    assumptions=Assumptions(
        bellman="fails: the optimal average cost is .2 from a known phase and .35 from the uniform belief, "
        "because the observations carry no information; a communicating MDP is not sufficient if states are "
        "hidden",
        separation=_TRIVIAL,
        belief="fails: the observations carry no information",
        kernel="fails: the observations carry no information",
    ),
)
def blind_cycle() -> Parts:
    """A machine alternates between two phases, and the observations are noise.

    State: the phase. Actions: bold, which suits phase one, and cautious, a compromise; the actions do not
    change the phase. Observations: uniformly random, independent of the phase. Costs of bold and cautious: 0
    and .3 in phase one, 1 and .4 in phase two.
    """
    setting = Setting(
        observation=np.full((2, 2), 0.5),
        cost=[[0.0, 1.0], [0.3, 0.4]],
        initial=uniform(2),
        states=("phase-one", "phase-two"),
        actions=("bold", "cautious"),
        observations=("heads", "tails"),
    )
    turn = np.array([[0.0, 1.0], [1.0, 0.0]])
    return Parts(setting, np.stack([turn, turn]))


@register(
    "lookalikes",
    title="Violates Assumption 2: two kernels that no observation distinguishes",
    source="this package, as a counterexample to Assumption 2",
    assumptions=Assumptions(
        bellman="holds: under each kernel, one storm state and calm form the only recurrent class of every "
        "policy",
        separation="fails: under both kernels every observation has the same probability, so ε = 0, and "
        "their optimal policies differ: the regret is linear for one of them",
        belief="fails: the kernel is never learned, and the beliefs under the two kernels stay different",
        kernel="fails: the kernel is never learned",
    ),
)
def lookalikes(calm: float = 0.7) -> Parts:
    """Storms come from the east or from the west, and a barometer shows only that there is a storm.

    State: calm, a storm from the east, or a storm from the west. Under one kernel all storms come from the
    east, under the other kernel all storms come from the west. Actions: shelter on the east side or on the
    west side; the actions do not change the weather. Observations: calm or storm. Costs: 1 in a storm from
    the side without the shelter, otherwise 0. In every state, the next state is calm with probability `calm`.
    """
    calm = bounded("calm", calm, 0.05, 0.95)
    setting = Setting(
        observation=[[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]],
        cost=[[0.0, 0.0, 1.0], [0.0, 1.0, 0.0]],
        initial=[1.0, 0.0, 0.0],
        states=("calm", "storm-east", "storm-west"),
        actions=("shelter-east", "shelter-west"),
        observations=("calm-reading", "storm-reading"),
    )
    east = np.tile([calm, 1 - calm, 0.0], (2, 3, 1))
    west = np.tile([calm, 0.0, 1 - calm], (2, 3, 1))
    return Parts(setting, east, others=(west,))


@register(
    "no-sensor",
    title="Violates Assumptions 3 and 4: the observations carry no information about the drift",
    source="this package, as a counterexample to Assumptions 3 and 4",
    assumptions=Assumptions(
        bellman="holds: every transition has positive probability (Platzman 1980)",
        separation="fails: there is only one observation",
        belief="fails: the belief depends only on the kernel and the actions, and the posterior equals the "
        "prior",
        kernel="fails: the pseudo-counts grow, but nothing is learned about the kernel",
    ),
)
def no_sensor(drift: float = 0.2) -> Parts:
    """A valve drifts between open and shut, and its position is not observed.

    State: the position of the valve. Actions: leave the valve, or turn it, after which it is open with
    probability .9. Observations: always the same. Costs: .7 if the valve is shut, and .3 for turning it. If
    the valve is left, its position changes with probability `drift`.
    """
    drift = bounded("drift", drift, 0.01, 0.99)
    setting = Setting(
        observation=np.ones((2, 1)),
        cost=[[0.0, 0.7], [0.3, 1.0]],
        initial=uniform(2),
        states=("open", "shut"),
        actions=("leave", "turn"),
        observations=("nothing",),
    )
    return Parts(setting, _valve(drift), others=(_valve(0.05 if drift > 0.1 else 0.5),))


def _valve(drift: float) -> Array:
    return np.array([[[1 - drift, drift], [drift, 1 - drift]], [[0.9, 0.1], [0.9, 0.1]]])
