"""Maintenance problems whose observations are measurements: real numbers with a density."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .._utils.arrays import Array, numbers
from ..errors import InvalidModelError
from ..models import Setting
from ..sensors import GaussianSensor, LogNormalSensor
from .catalogue import Assumptions, Parts, bounded, register
from .maintenance import railway_kernel


@register(
    "railway-gaussian",
    title="Decide from a Gaussian indicator of its condition when to repair a railway track",
    source="as for the problem railway: Arcieri, Tutorial on POMDP inference and robust planning "
    "(github.com/giarcieri/Tutorial-on-POMDP-inference-and-robust-planning), with its indicator as published",
    assumptions=Assumptions(
        bellman="holds: under do-nothing every state reaches every other, and repairing in every period is "
        "not optimal, so that every good policy plays do-nothing again within a bounded time",
        separation="fails: the kernels of the finite prior differ under one action only",
        belief="open: the observations distinguish all three states, and the influence of the past decays",
        kernel="open: the densities of the three states are linearly independent, so that the distribution "
        "of the observations identifies the kernel",
    ),
)
def railway_gaussian(repair: float = 200.0, speed: float = 1.0) -> Parts:
    """A section of railway track degrades from good to fair to poor, and its indicator is a real number.

    This is the problem railway without its bins. State: the condition of the track. Actions: do nothing, or
    repair. Observations: an indicator that has a normal distribution with mean 1, 0 or -1 and standard
    deviation 1, .5 or .2 in the conditions good, fair and poor. Costs from one inspection to the next, in
    euro: 10, 100 or 800 by condition, and `repair` in addition for a repair. `speed` multiplies the
    probabilities of degradation while nothing is done.
    """
    condition = np.array([10.0, 100.0, 800.0])
    setting = Setting(
        observation=GaussianSensor(means=[1.0, 0.0, -1.0], sds=[1.0, 0.5, 0.2]),
        cost=[condition, condition + bounded("repair", repair, 0.0)],
        initial=[1.0, 0.0, 0.0],
        units="euro",
        states=("good", "fair", "poor"),
        actions=("do-nothing", "repair"),
    )
    speed = bounded("speed", speed, 0.0, 5.0)
    others = tuple(railway_kernel(other) for other in (0.3, 1.0, 2.0, 4.0) if abs(other - speed) > 1e-9)
    return Parts(setting, railway_kernel(speed), others=others)


@register(
    "pump",
    title="Decide from its vibrations when to service or overhaul a pump",
    source="made for this package; the four conditions are illustrative, in the spirit of the zones of "
    "ISO 20816 with boundaries at 2.8, 4.5 and 7.1 mm/s, and not for use on a real machine",
    assumptions=Assumptions(
        bellman="holds: an overhaul leads to the best state from every state, and without it the worst state "
        "is reached",
        separation="fails: the kernels of the finite prior agree under an overhaul",
        belief="open: every observation is possible in every state, and the influence of the past decays",
        kernel="open: the densities of the four states are linearly independent, so that the distribution of "
        "the observations identifies the kernel of the actions that are used",
    ),
)
def pump(
    wear: float = 0.06,
    velocity: Sequence[float] = (2.0, 3.6, 5.6, 9.0),
    spread: float = 0.2,
    service: float = 800.0,
    overhaul: float = 6000.0,
) -> Parts:
    """A pump wears from good to fair to worn to damaged, and a meter measures its vibrations once a week.

    State: the condition of the pump. Actions: run for a week; service, which usually improves a fair or worn
    pump by one condition, and does not help a damaged one; overhaul, which leads to the condition good. While
    the pump runs, it gets to the next condition with probability `wear`, and it is damaged suddenly with a
    tenth of this probability, also in the week of a service. Observations: the velocity of the vibrations
    (root mean square) in mm/s. It is log-normal: its median in the four conditions is `velocity`, and the
    standard deviation of its logarithm is `spread`. Costs of a week, in euro: 0, 100, 400 or 2500 by
    condition for energy and lost production, `service` in addition for a service, and `overhaul` for an
    overhaul.
    """
    medians = numbers("parameter velocity", velocity, "s")
    if (
        len(medians) != 4
        or not (np.isfinite(medians) & (medians > 0)).all()
        or not (np.diff(medians) > 0).all()
    ):
        raise InvalidModelError(
            f"parameter velocity: wanted four positive increasing numbers, not {velocity}"
        )
    condition = np.array([0.0, 100.0, 400.0, 2500.0])
    setting = Setting(
        observation=LogNormalSensor(np.log(medians), np.full(4, bounded("spread", spread, 0.01, 2.0))),
        cost=[
            condition,
            condition + bounded("service", service, 0.0),
            np.full(4, bounded("overhaul", overhaul, 0.0)),
        ],
        initial=[1.0, 0.0, 0.0, 0.0],
        units="euro",
        states=("good", "fair", "worn", "damaged"),
        actions=("run", "service", "overhaul"),
    )
    wear = bounded("wear", wear, 0.0, 0.9)
    others = tuple(_pump(other) for other in (0.02, 0.06, 0.15, 0.3) if abs(other - wear) > 1e-9)
    possible = (_pump(0.5) > 0).astype(np.float64)  # a pump does not mend itself
    return Parts(setting, _pump(wear), others=others, concentration=possible)


def _pump(wear: float) -> Array:
    """Return the kernel [A, S, S′]."""
    sudden = wear / 10
    running = np.array(
        [
            [1 - wear - sudden, wear, 0.0, sudden],
            [0.0, 1 - wear - sudden, wear, sudden],
            [0.0, 0.0, 1 - wear - sudden, wear + sudden],
            [0.0, 0.0, 0.0, 1.0],
        ]
    )
    improved = 0.8 * (1 - sudden)
    serviced = np.array(
        [
            [1 - sudden, 0.0, 0.0, sudden],
            [improved, 1 - improved - sudden, 0.0, sudden],
            [0.0, improved, 1 - improved - sudden, sudden],
            [0.0, 0.0, 0.0, 1.0],
        ]
    )
    overhauled = np.tile([1.0, 0.0, 0.0, 0.0], (4, 1))
    return np.stack([running, serviced, overhauled])
