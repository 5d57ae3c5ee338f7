"""Maintenance problems: a hidden condition deteriorates, and inspection, repair and failure have costs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import ndtr

from .._utils.arrays import Array, numbers
from ..errors import InvalidModelError
from ..models import Setting
from .catalogue import Assumptions, Parts, bounded, fraction, register, uniform

_RENEWAL = "replacing leads to the best state from every state, and without it the worst state is reached"


@register(
    "machine-repair",
    title="Run, examine, inspect or replace a machine with two hidden parts",
    source="Smallwood and Sondik (1973), The optimal control of partially observable Markov processes "
    "over a finite horizon, Operations Research 21, section 5; numbers of the public file ejs1",
    assumptions=Assumptions(
        bellman=f"holds: {_RENEWAL}",
        separation="fails: the observation carries no information unless the product is examined",
        belief="open: the information about the wear depends on how often the product is examined",
        kernel="open: for the same reason",
    ),
)
def machine_repair(wear: float = 0.1) -> Parts:
    """A machine manufactures one product in each period and has two internal parts, each of which may break.

    State: the number of broken parts. In each period, every intact part breaks with probability `wear`; the
    published value is 0.1. Actions: manufacture; manufacture and examine the product, which is defective with
    probability 0, .5 or .75 if 0, 1 or 2 parts are broken; inspect the parts and exchange the broken ones;
    replace both parts. Observations: the product is good or defective; without an examination the observation
    is always good. Rewards: the expected profit of the period for the true wear, as published. The reward is
    part of the known setting, also for an agent that does not know the wear.
    """
    wear = fraction("wear", wear)
    blind = np.array([[1.0, 0.0]] * 3)
    examined = np.array([[1.0, 0.0], [0.5, 0.5], [0.25, 0.75]])
    renewed = np.array([[1.0, 0.0, 0.0]] * 3)
    running = _wearing(wear)
    made = running @ [1.0, 0.5, 0.25]  # the product of the period is made by the parts as they end it
    setting = Setting.from_rewards(
        observation=[blind, examined, blind, blind],
        reward=np.stack([made, made - 0.25, [-0.5, -1.5, -2.5], [-2.0, -2.0, -2.0]]),
        initial=uniform(3),
        states=("none-bad", "one-bad", "two-bad"),
        actions=("manufacture", "examine", "inspect", "replace"),
        observations=("good", "defective"),
    )
    others = [_wearing(rate) for rate in (0.02, 0.3, 0.6) if abs(rate - wear) > 1e-3]
    # What every engineer knows: parts do not mend themselves, and new parts are new.
    worn = np.triu(np.ones((3, 3)))
    return Parts(
        setting,
        [running, running, renewed, renewed],
        others=tuple(np.stack([other, other, renewed, renewed]) for other in others),
        concentration=[worn, worn, renewed, renewed],
    )


def _wearing(rate: float) -> Array:
    """Two parts that break independently with this probability; the published rows are .81 .18 .01, ..."""
    keep = 1 - rate
    return np.array([[keep**2, 2 * rate * keep, rate**2], [0, keep, rate], [0, 0, 1]]).round(15)


@register(
    "railway",
    title="Decide from a noisy indicator of its condition when to repair a railway track",
    source="Arcieri, Tutorial on POMDP inference and robust planning "
    "(github.com/giarcieri/Tutorial-on-POMDP-inference-and-robust-planning), the source of the transition "
    "probabilities, the indicator and the costs; it accompanies Arcieri et al. (2023), Bridging POMDPs and "
    "Bayesian decision making for robust maintenance planning under model uncertainty: an application to "
    "railway systems, Reliability Engineering and System Safety 239. Added here: the bins of the indicator, "
    "the initial state good, the parameter speed, and the unit euro for the tutorial's costs",
    assumptions=Assumptions(
        bellman="holds: under do-nothing every state reaches every other, and repairing in every period is "
        "not optimal, so that every good policy plays do-nothing again within a bounded time",
        separation="fails: the kernels of the finite prior differ under one action only",
        belief="open: the observations distinguish all three states, and the influence of the past decays",
        kernel="open: the observation model has full rank, so the moments of the observations identify the "
        "kernel",
    ),
)
def railway(
    edges: Sequence[float] = (-1.0, -0.75, -0.5, -0.25, 0.25), repair: float = 200.0, speed: float = 1.0
) -> Parts:
    """A section of railway track degrades from good to fair to poor.

    State: the condition of the track. Actions: do nothing, or repair, which improves the condition with high
    probability. Observations: an indicator that has a normal distribution with mean 1, 0 or -1 and standard
    deviation 1, .5 or .2 in the conditions good, fair and poor; the number is divided into bins at `edges`.
    Costs from one inspection to the next, in euro: 10, 100 or 800 by condition, and `repair` in addition for
    a repair. `speed` multiplies the probabilities of degradation while nothing is done. The probabilities,
    the indicator and the costs are those of a public tutorial (see the source).
    """
    cuts = numbers("parameter edges", edges, "b")
    if not (np.diff(cuts) > 0).all() or not np.isfinite(cuts).all():
        raise InvalidModelError(f"parameter edges: wanted increasing numbers, not {edges}")
    sensor = np.stack([binned_normal(cuts, *law) for law in ((1.0, 1.0), (0.0, 0.5), (-1.0, 0.2))])
    condition = np.array([10.0, 100.0, 800.0])
    setting = Setting(
        observation=sensor,
        cost=[condition, condition + bounded("repair", repair, 0.0)],
        initial=[1.0, 0.0, 0.0],
        units="euro",
        states=("good", "fair", "poor"),
        actions=("do-nothing", "repair"),
        observations=_bins(cuts),
    )
    speed = bounded("speed", speed, 0.0, 5.0)
    others = tuple(railway_kernel(other) for other in (0.3, 1.0, 2.0, 4.0) if abs(other - speed) > 1e-9)
    return Parts(setting, railway_kernel(speed), others=others)


def binned_normal(cuts: Array, mean: float, deviation: float) -> Array:
    """Return the probabilities of a normal reading in bins, from the nearer tail: 1 - 1e-20 is 1."""
    below = np.diff(ndtr((cuts - mean) / deviation), prepend=0.0, append=1.0)
    above = -np.diff(ndtr((mean - cuts) / deviation), prepend=1.0, append=0.0)
    right_of_the_mean = np.concatenate([[False], cuts > mean])
    chances = np.where(right_of_the_mean, above, below)
    return np.asarray(chances / chances.sum())


def _bins(cuts: Array) -> tuple[str, ...]:
    """Names for the bins that hold in files too: letters, digits and hyphens."""
    return ("lowest", *(f"bin-{i}" for i in range(1, len(cuts))), "highest")


def railway_kernel(speed: float) -> Array:
    """Return the kernel [A, S, S′] of a track that degrades at this speed."""
    idle = np.array([[0.90, 0.09, 0.01], [0.01, 0.90, 0.09], [0.01, 0.05, 0.94]])
    worse = np.triu(idle, 1) * speed
    better = np.tril(idle, -1)
    idle = worse + better + np.diag(1.0 - (worse + better).sum(axis=1))
    repaired = np.array([[1.0, 0.0, 0.0], [0.9, 0.1, 0.0], [0.49, 0.5, 0.01]])
    return np.stack([idle, repaired])


# Ellis, Jiang and Corotis (1995), as in the public file bridge-repair: four repairs and three inspections.
_BRIDGE_REPAIRS = {
    "no-repair": [
        [0.80, 0.13, 0.02, 0.00, 0.05],
        [0.00, 0.70, 0.17, 0.05, 0.08],
        [0.00, 0.00, 0.75, 0.15, 0.10],
        [0.00, 0.00, 0.00, 0.60, 0.40],
        [0.00, 0.00, 0.00, 0.00, 1.00],
    ],
    "clean-paint": [
        [0.80, 0.13, 0.02, 0.00, 0.05],
        [0.00, 0.80, 0.10, 0.02, 0.08],
        [0.00, 0.00, 0.80, 0.10, 0.10],
        [0.00, 0.00, 0.00, 0.60, 0.40],
        [0.00, 0.00, 0.00, 0.00, 1.00],
    ],
    "paint-strengthen": [
        [0.80, 0.13, 0.02, 0.00, 0.05],
        [0.19, 0.65, 0.08, 0.02, 0.06],
        [0.10, 0.20, 0.56, 0.08, 0.06],
        [0.00, 0.10, 0.25, 0.55, 0.10],
        [0.00, 0.00, 0.00, 0.00, 1.00],
    ],
    "structural-repair": [[0.80, 0.13, 0.02, 0.00, 0.05]] * 5,
}
_BRIDGE_INSPECTIONS = {
    "no-inspect": [[1.0, 0.0, 0.0, 0.0, 0.0]] * 5,
    "visual-inspect": [
        [0.80, 0.20, 0.00, 0.0, 0.0],
        [0.20, 0.60, 0.20, 0.0, 0.0],
        [0.05, 0.70, 0.25, 0.0, 0.0],
        [0.00, 0.30, 0.70, 0.0, 0.0],
        [0.00, 0.00, 1.00, 0.0, 0.0],
    ],
    "ut-inspect": [
        [0.90, 0.10, 0.00, 0.00, 0.00],
        [0.05, 0.90, 0.05, 0.00, 0.00],
        [0.00, 0.05, 0.90, 0.05, 0.00],
        [0.00, 0.00, 0.05, 0.90, 0.05],
        [0.00, 0.00, 0.00, 0.00, 1.00],
    ],
}
_BRIDGE_COSTS = {
    "no-repair": [0, 0, 0, 300, 2000],
    "clean-paint": [5, 8, 15, 320, 2050],
    "paint-strengthen": [25, 80, 100, 450, 2500],
    "structural-repair": [40, 120, 550, 800, 4000],
}
_BRIDGE_FEES = {"no-inspect": 0, "visual-inspect": 4, "ut-inspect": 18}


@register(
    "bridge-repair",
    title="Choose repairs and inspections for a corroding bridge",
    source="Ellis, Jiang and Corotis (1995), Inspection, maintenance, and repair with partial "
    "observability, Journal of Infrastructure Systems 1; numbers of the public file bridge-repair",
    assumptions=Assumptions(
        bellman="holds: after a structural repair the next state has the same distribution from every "
        "state, and without this repair the bridge fails permanently",
        separation="open: there is no finite prior; without an inspection the observation carries no "
        "information",
        belief="open: the information about the corrosion depends on how often the bridge is inspected",
        kernel="open: for the same reason",
    ),
)
def bridge_repair() -> Parts:
    """The cross-section of a steel bridge shrinks by corrosion, and the bridge may fail.

    State: the fraction of the cross-section that is lost (under 5, 5 to 15, 15 to 25, over 25 percent), or
    failure. Actions: one of four repairs together with one of three inspections. Observations: five classes;
    without an inspection always the first class, after a visual inspection one of three classes, after an
    ultrasonic inspection all five classes with small errors. Costs: the cost of the repair and of failure in
    each state, plus the cost of the inspection. A repair takes effect in the same period, before the
    inspection.
    """
    pairs = [(repair, inspection) for repair in _BRIDGE_REPAIRS for inspection in _BRIDGE_INSPECTIONS]
    setting = Setting(
        observation=[_BRIDGE_INSPECTIONS[inspection] for _, inspection in pairs],
        cost=[np.add(_BRIDGE_COSTS[repair], _BRIDGE_FEES[inspection]) for repair, inspection in pairs],
        initial=uniform(5),
        units="cost units",
        states=("less-5", "between-5-15", "between-15-25", "more-25", "failed"),
        actions=[f"{repair}-and-{inspection}" for repair, inspection in pairs],
        observations=("sound", "slight", "moderate", "severe", "failure"),
    )
    kernel = np.array([_BRIDGE_REPAIRS[repair] for repair, _ in pairs])
    return Parts(setting, kernel, concentration=(kernel > 0).astype(np.float64))
