"""Problems made for the theory: one where its assumptions hold with a margin, and one against each."""

from __future__ import annotations

import numpy as np

from .._utils.arrays import Array
from ..models import Setting
from .catalogue import Assumptions, Parts, bounded, count, fraction, register, uniform


@register(
    "separated",
    title="A finite family whose kernels every reading tells apart",
    source="ours, for Theorem 1",
    assumptions=Assumptions(
        bellman="holds: every transition has positive probability (Platzman 1980)",
        separation="holds: the margin is what `separation(problem.family).epsilon` certifies",
        belief="holds: for the finite family, with episodes that no reading moves, such as m̃_t = t (the "
        "paper's lemma on the finite-parameter case, in its third appendix)",
        kernel="holds: for the finite family, with such episodes (the same lemma)",
    ),
)
def separated(n_kernels: int = 4, focus: float = 0.88, memory: float = 0.12, accuracy: float = 0.85) -> Parts:
    """A plant with four conditions and a dial that was wired in one of `n_kernels` ways.

    Hidden: the condition. Actions: two positions of the dial. In position a, wiring m sends the plant to
    condition m + a (counted around) with probability near `focus`, whatever it was before, except that with
    probability `memory` it stays where it is. Readings: the condition, right with probability
    `accuracy`. Costs differ by condition and position, so that each wiring wants its own policy.
    Because the next reading hardly depends on the present condition, it tells the wirings apart at once.
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
    """Rows that put `right` on the diagonal and share the rest equally."""
    return np.full((n, n), (1 - right) / (n - 1)) + (right - (1 - right) / (n - 1)) * np.eye(n)


_TRIVIAL = "open: the problem comes without a finite family"


@register(
    "two-rooms",
    title="Violates Assumption 1: two closed rooms, and what is paid depends on where one started",
    source="ours, against Assumption 1",
    assumptions=Assumptions(
        bellman="fails: two closed classes; the best average is .2 in one room, .8 in the other",
        separation=_TRIVIAL,
        belief="open: the rooms are told apart in time",
        kernel="fails: with m̃_t = t the pseudo-counts of the other room grow, and its rows are never seen",
    ),
)
def two_rooms(accuracy: float = 0.7) -> Parts:
    """Two rooms without doors; one is better than the other.

    Hidden: the room. Actions: work, or rest at a price. Neither leads out. Readings: a hint of the room,
    right with probability `accuracy`. From an even start the best average cost is .5.
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
    title="Violates Assumption 1 although its MDP is communicating: a cycle that cannot be seen",
    source="ours, against Assumption 1",
    assumptions=Assumptions(
        bellman="fails: from a known phase the best average is .2, from an even belief .35, and nothing is "
        "ever learned of the phase; so a communicating MDP is not enough where states are hidden",
        separation=_TRIVIAL,
        belief="fails: nothing is read",
        kernel="fails: nothing is read",
    ),
)
def blind_cycle() -> Parts:
    """A machine alternates between two phases, and its readings are noise.

    Hidden: the phase. Actions: two settings, the first right for phase one, the second a compromise.
    Neither changes the cycle. Readings: a coin flip. Costs: 0 and .3 in phase one, 1 and .4 in phase two.
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
    title="Violates Assumption 2: two kernels that no reading will ever tell apart",
    source="ours, against Assumption 2",
    assumptions=Assumptions(
        bellman="holds: each kernel visits its own storm and calm for ever, whatever is done",
        separation="fails: both kernels give every reading the same probability, so ε = 0, and each wants "
        "another policy: regret is linear for one of them",
        belief="fails: the kernel is never learned, and the beliefs under the two stay apart",
        kernel="fails: the kernel is never learned",
    ),
)
def lookalikes(calm: float = 0.7) -> Parts:
    """Storms from the east or from the west, and a barometer that knows only that there is one.

    Hidden: calm weather, a storm from the east or one from the west. In one world all storms come from
    the east, in the other all from the west. Actions: shelter to the east or to the west, which changes
    nothing of the weather. Readings: calm or storm. Costs: 1 in a storm from the other side, else 0.
    `calm` is the chance that calm weather, or the end of a storm, follows.
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
    title="Violates Assumptions 3 and 4: drift that is never read, so that nothing can be learned",
    source="ours, against Assumptions 3 and 4",
    assumptions=Assumptions(
        bellman="holds: every transition has positive probability (Platzman 1980)",
        separation="fails: there is one reading only",
        belief="fails: the belief is a function of the kernel alone, and the posterior is the prior for ever",
        kernel="fails: the pseudo-counts grow and the kernel stays as unknown as it was",
    ),
)
def no_sensor(drift: float = 0.2) -> Parts:
    """A valve drifts between open and shut, and its gauge is broken.

    Hidden: the position. Actions: leave it, or turn it to open at a price, which works nine times in ten.
    Readings: one, always the same. Costs: .7 while shut, and .3 for turning. `drift` is the chance of
    changing when left alone.
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
