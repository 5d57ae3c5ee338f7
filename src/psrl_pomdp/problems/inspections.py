"""Inspection problems: a structure deteriorates, inspections err, and maintenance costs money."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri

from .._utils.arrays import Array
from ..models import Setting
from .catalogue import Assumptions, Parts, bounded, count, register
from .maintenance import binned_normal

_BEST = 9  # the best condition rating of the scale


@register(
    "bridge-ratings",
    title="Choose maintenance and inspections for a bridge from its condition ratings",
    source="the condition ratings 9 (excellent) to 0 (failed) of the National Bridge Inventory: Federal "
    "Highway Administration (1995), Recording and coding guide for the structure inventory and appraisal of "
    "the nation's bridges; their error: Moore, Phares, Graybeal, Rolander and Washer (2001), Reliability of "
    "visual inspection for highway bridges, FHWA-RD-01-020, where 68 % of the ratings are within one point "
    "of the average and 95 % within two; decay by one rating at a time as in Jiang, Saito and Sinha (1988), "
    "Bridge performance prediction model using the Markov chain, Transportation Research Record 1180; the "
    "rates and the costs are chosen for this package",
    assumptions=Assumptions(
        bellman="open: a replacement leads to the best rating from everywhere, but repairs may postpone it "
        "for ever",
        separation="fails: the kernels of the finite prior agree under a replacement",
        belief="open: every rating has a positive probability in every state, and the influence of the past "
        "decays",
        kernel="open: the observation model has full rank, so that the distribution of the readings "
        "identifies the rows of the actions that are used",
    ),
)
def bridge_ratings(
    ratings: int = 6,
    decay: float = 0.15,
    error: float = 1.0,
    in_depth_error: float = 0.4,
    risk: float = 80.0,
) -> Parts:
    """A bridge deteriorates from one condition rating to the next, and inspectors report ratings with errors.

    State: the true rating, from 9 (excellent) down; with more than ten `ratings`, from `ratings` − 1 down to
    0. A step is the two years between routine inspections. Actions: do nothing; inspect in depth; repair,
    which improves the bridge by one rating with probability .7; rehabilitate, which improves it by three
    ratings with probability .8 and by two otherwise; replace, which leads to the best rating. Under the first
    two actions the rating falls by one with probability `decay`, and by two with a tenth of this probability;
    under the others it does not fall. Observations: the reported rating, which is the true rating plus a
    normal error with standard deviation `error`, or `in_depth_error` in depth, rounded to the ratings. Costs
    of a step, in percent of the cost of a replacement: `risk` times the cube of the share of the ratings that
    is lost, plus 1 for an inspection in depth, 6 for a repair, 35 for a rehabilitation or 100 for a
    replacement. The Dirichlet prior knows what the last three actions do, knows that a rating falls by two at
    most, and that an inspection does not change the bridge.
    """
    n = count("ratings", ratings, 3, 100)
    decay = bounded("decay", decay, 0.0, 0.9)
    errors = [bounded("error", error, 0.01, 100.0)] * 5
    errors[1] = bounded("in_depth_error", in_depth_error, 0.01, 100.0)
    cuts: Array = np.arange(0.5, n - 1.0)
    lost = bounded("risk", risk, 0.0) * (np.arange(n) / (n - 1)) ** 3
    best = max(_BEST, n - 1)
    setting = Setting(
        observation=[[binned_normal(cuts, s, spread) for s in range(n)] for spread in errors],
        cost=lost + np.array([0.0, 1.0, 6.0, 35.0, 100.0])[:, None],
        initial=np.eye(n)[0],
        units="percent of a replacement",
        states=[f"rating-{best - s}" for s in range(n)],
        actions=("do-nothing", "inspect-in-depth", "repair", "rehabilitate", "replace"),
        observations=[f"reported-{best - s}" for s in range(n)],
    )
    others = (_ratings_kernel(n, rate) for rate in (0.05, 0.15, 0.3, 0.6) if abs(rate - decay) > 1e-3)
    known = np.repeat([[False], [False], [True], [True], [True]], n, axis=1)
    return Parts(
        setting,
        _ratings_kernel(n, decay),
        others=tuple(others),
        concentration=(_ratings_kernel(n, 0.5) > 0).astype(np.float64),
        known=known,
        ties=[[(0, s), (1, s)] for s in range(n)],
    )


def _ratings_kernel(n: int, decay: float) -> Array:
    """Return the kernel [A, S, S′] of a bridge; state 0 is the best rating."""

    def moved(steps: int) -> Array:
        rows = np.zeros((n, n))
        rows[np.arange(n), np.clip(np.arange(n) + steps, 0, n - 1)] = 1.0
        return rows

    falling = (1.0 - 1.1 * decay) * moved(0) + decay * moved(1) + 0.1 * decay * moved(2)
    repaired = 0.7 * moved(-1) + 0.3 * moved(0)
    rehabilitated = 0.8 * moved(-3) + 0.2 * moved(-2)
    return np.stack([falling, falling, repaired, rehabilitated, moved(-n)])


# Crack growth and detection in steel under waves, as published (see the source), in mm, MPa and years.
_CRITICAL, _FIRST_EDGE = 20.0, 0.5  # the depth of failure; the edge between the two smallest classes
_NEW_MEAN, _DETECTED_MEAN = 1.0, 8.0  # means of the exponential laws of new cracks and of detection
_LOG_C, _STRESS, _EXPONENT, _CYCLES = (-35.2, 0.5), (70.0, 10.0), 3.5, 1e6
_RATE_POINTS = 48  # of the quadrature, for the material and for the stress


@register(
    "fatigue-crack",
    title="Inspect and repair a welded joint of an offshore structure whose cracks grow by fatigue",
    source="Morato, Papakonstantinou, Andriotis, Nielsen and Rigo (2022), Optimal inspection and maintenance "
    "planning for deteriorating structural components through dynamic Bayesian networks and Markov decision "
    "processes, Structural Safety 94, with the numbers of the published generator of Leroy, Morato, Pisane, "
    "Kolios and Ernst (2023), IMP-MARL: a suite of environments for large-scale infrastructure management "
    "planning via MARL (github.com/moratodpg/imp_marl): the growth law of Paris and Erdogan (1963), its "
    "parameters, new cracks and the curve of detection. Coarse classes in which depths are uniform, the "
    "hidden classes of the growth rate, the renewal after a failure and the costs are those of this package",
    assumptions=Assumptions(
        bellman="holds: every policy starts anew, with the same known belief, at a repair or a failure, and "
        "one of them comes within a bounded expected time",
        separation="fails: the kernels of the finite prior agree under a repair",
        belief="open: the information about the crack depends on how often the joint is inspected",
        kernel="open: for the same reason",
    ),
)
def fatigue_crack(
    levels: int = 6,
    rates: int = 1,
    severity: float = 1.0,
    inspection: float = 1.0,
    repair: float = 20.0,
    failure: float = 500.0,
) -> Parts:
    """A crack in a welded joint grows a little every year, and is found the more easily the deeper it is.

    State: the class of the crack's depth, one of `levels` − 1 classes with edges from .5 to 20 mm in equal
    ratios, or failure at 20 mm; together with the class of the growth rate, one of `rates` equally likely
    classes, which stays the same until a repair. Actions: do nothing; inspect; repair. In a year, a crack
    grows by the law of Paris and Erdogan with a million cycles; the material's constant is log-normal and the
    stress range normal, within the class of the rate, and `severity` multiplies the growth. The joint is new
    after a repair, and in the year after a failure: the depth of a new crack is exponential with mean 1 mm.
    Observations: failure, which is always seen; and after an inspection, whether a crack is found, with
    probability 1 − exp(−depth / 8 mm). Costs of a year: `inspection` or `repair`, or `failure` in the state
    failed. The Dirichlet prior knows what a repair does, that cracks do not shrink, that a growth rate does
    not change, and that an inspection does not change the crack.
    """
    n_classes = count("levels", levels, 3, 100) - 1
    rates = count("rates", rates, 1, 20)
    severity = bounded("severity", severity, 0.0, 1000.0)
    n, failed = rates * n_classes + 1, rates * n_classes
    edges = np.append(0.0, np.geomspace(_FIRST_EDGE, _CRITICAL, n_classes))
    found = np.append(np.tile(_detected(edges), rates), 0.0)
    fees = np.array([[0.0], [bounded("inspection", inspection, 0.0)], [bounded("repair", repair, 0.0)]])
    cost = np.repeat(fees, n, axis=1)
    cost[:, failed] = bounded("failure", failure, 0.0)
    table = np.zeros((3, n, 3))
    table[:, :, 0] = 1.0
    table[1, :, :2] = np.stack([1.0 - found, found], axis=1)
    table[:, failed] = [0.0, 0.0, 1.0]
    new = np.append(np.tile(_new_cracks(edges) / rates, rates), 0.0)
    kernel = _crack_kernel(edges, rates, severity, new)
    depths = [f"below-{1000 * edge:.0f}-um" for edge in edges[1:]]
    speeds = [f"rate-{g + 1}-" for g in range(rates)] if rates > 1 else [""]
    setting = Setting(
        observation=table,
        cost=cost,
        initial=new,
        units="cost units",
        states=[*(f"{speed}{depth}" for speed in speeds for depth in depths), "failed"],
        actions=("do-nothing", "inspect", "repair"),
        observations=("nothing-found", "crack-found", "failure"),
    )
    others = (_crack_kernel(edges, rates, other, new) for other in (0.2, 1.0, 5.0) if other != severity)
    grows = np.zeros((n, n))
    for g in range(rates):
        own = slice(g * n_classes, (g + 1) * n_classes)
        grows[own, own] = np.triu(np.ones((n_classes, n_classes)))
    grows[:failed, failed] = 1.0
    grows[failed] = new > 0.0
    known = np.zeros((3, n), bool)
    known[2], known[:, failed] = True, True
    return Parts(
        setting,
        kernel,
        others=tuple(other for other in others if np.abs(other - kernel).max() > 1e-3),
        concentration=np.stack([grows, grows, np.tile(new > 0.0, (n, 1))]),
        known=known,
        ties=[[(0, s), (1, s)] for s in range(failed)],
    )


def _detected(edges: Array) -> Array:
    """Return the mean probability of detection in each class, with depths uniform in a class."""
    missed = -_DETECTED_MEAN * np.diff(np.exp(-edges / _DETECTED_MEAN)) / np.diff(edges)
    return np.asarray(1.0 - missed)


def _new_cracks(edges: Array) -> Array:
    """Return the probabilities of the classes of a new crack, which is not failed."""
    chances = -np.diff(np.exp(-edges / _NEW_MEAN))
    return np.asarray(chances / chances.sum())


def _crack_kernel(edges: Array, rates: int, severity: float, new: Array) -> Array:
    """Return the kernel [A, S, S′]: exact over the depth in a class, by quadrature over the growth."""
    scores = ndtri((np.arange(_RATE_POINTS) + 0.5) / _RATE_POINTS)
    material = np.exp(_LOG_C[0] + _LOG_C[1] * scores)
    stress = _STRESS[0] + _STRESS[1] * scores
    growth = severity * _CYCLES * np.outer(material, (np.sqrt(np.pi) * stress) ** _EXPONENT)
    power = 1.0 - 0.5 * _EXPONENT  # depth ** power falls at a constant rate, to 0 at an infinite depth
    n_classes, n = len(edges) - 1, len(new)
    kernel = np.tile(new, (3, n, 1))
    for g, points in enumerate(np.array_split(np.sort(growth, axis=None), rates)):
        # The depths that grow to the edges, for each growth in a year.
        before = (edges[1:] ** power - power * points[:, None]) ** (1.0 / power)
        for i in range(n_classes):
            share = np.clip((before - edges[i]) / (edges[i + 1] - edges[i]), 0.0, 1.0)
            below = np.concatenate([[0.0], share.mean(axis=0), [1.0]])
            row = np.zeros(n)
            row[g * n_classes : (g + 1) * n_classes], row[-1] = np.diff(below)[:-1], 1.0 - below[-2]
            kernel[:2, g * n_classes + i] = row
    return kernel
