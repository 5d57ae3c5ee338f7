"""How regret grows: a + b log T or c T^p, and whether the data can tell.

Theorem 1 promises O(log T), the general theorem O(T^{2/3}) up to logarithms. Both curves are fitted by least
squares to the mean regret at log-spaced checkpoints. A regret curve adds up its own past, so its points are
far from independent, and an AIC that takes them for independent is sure of itself for no reason. What is
independent are the runs: everything here is repeated on runs drawn anew with replacement (the bootstrap, with
a fixed seed), which gives intervals for b and p. To compare, both curves are fitted to the first part of each
redrawn mean and asked to predict the rest; `share` counts how often the logarithm predicts better. The
verdict needs 95 of 100, and the same one at both ends of what planning error leaves open, or it is
`undecided`.

A better prediction over the horizon that was run is evidence, not proof: T^p with a small p looks like a
logarithm over a few decades.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from .._utils.arrays import Array, Index
from ..errors import InvalidModelError
from .estimators import RegretCurve

Verdict = Literal["logarithmic", "power", "no growth", "undecided"]

SURE = 0.95  # of the redrawn means, before a verdict is given
_EXPONENTS = np.linspace(0.0, 1.5, 301)
_FEWEST_RUNS, _FEWEST_TIMES = 5, 6
_EARLY = 0.6  # the share of the checkpoints that is fitted when the rest is predicted


class Fit(NamedTuple):
    """A number with a bootstrap interval (percentiles)."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Growth:
    """Both fits, and which of them the data support."""

    intercept: Fit  # a
    slope: Fit  # b, for each unit of log T (natural)
    factor: Fit  # c
    exponent: Fit  # p
    share: float  # of the redrawn means, those where the logarithm predicts better
    flatter: float  # of the redrawn means, those whose end is below what the logarithm predicts
    verdict: Verdict
    words: str
    level: float

    def __repr__(self) -> str:
        return (
            f"Growth({self.verdict}: {self.intercept.value:.3g} + {self.slope.value:.3g} log T, or "
            f"{self.factor.value:.3g} T^{self.exponent.value:.2f} [{self.exponent.low:.2f}, "
            f"{self.exponent.high:.2f}])"
        )


def fit_growth(
    curve: RegretCurve, *, start: int = 10, level: float = 0.95, draws: int = 1000, seed: int = 0
) -> Growth:
    """Fit both curves to the mean regret from T = `start` on, and say which one is supported."""
    kept = curve.times >= start
    ends = [
        fit_arrays(curve.times[kept], runs[:, kept], level, draws, seed)
        for runs in (curve.lower, curve.upper)
    ]
    middle = fit_arrays(curve.times[kept], 0.5 * (curve.lower + curve.upper)[:, kept], level, draws, seed)
    if len({end.verdict for end in (middle, *ends)}) == 1:
        return middle
    words = (
        "undecided: how it grows depends on where J lies between its two bounds "
        f"({ends[1].verdict} with the lower one, {ends[0].verdict} with the upper one); plan more closely"
    )
    return replace(middle, verdict="undecided", words=words)


def fit_arrays(
    times: npt.ArrayLike, runs: npt.ArrayLike, level: float = 0.95, draws: int = 1000, seed: int = 0
) -> Growth:
    """The same for plain arrays: the regret of R runs, `[R, K]`, at `times[K]`."""
    at, values = np.asarray(times, np.int64), np.atleast_2d(np.asarray(runs, np.float64))
    if values.shape[1] != len(at) or len(at) < _FEWEST_TIMES:
        raise InvalidModelError(
            f"runs have shape {values.shape} for {len(at)} times: at least {_FEWEST_TIMES} are needed"
        )
    rng = np.random.default_rng(seed)
    drawn = rng.integers(len(values), size=(draws, len(values)))
    means = np.concatenate([values.mean(axis=0)[None], values[drawn].mean(axis=1)])  # [1 + B, K]
    intercept, slope, factor, exponent = (
        Fit(float(found[0]), *np.quantile(found[1:], [0.5 - 0.5 * level, 0.5 + 0.5 * level]).tolist())
        for found in (*logarithm(at, means), *power(at, means))
    )
    share, flatter = _predicted(at, means[1:])
    verdict, words = _verdict(slope, exponent, share, len(values), means[1:])
    if verdict == "logarithmic" and flatter >= SURE:
        words += "; it is flatter still than a logarithm through its earlier part"
    return Growth(intercept, slope, factor, exponent, share, flatter, verdict, words, level)


def logarithm(times: Index, means: Array) -> tuple[Array, Array]:
    """a and b of a + b log T, `[B]` each, for curves `[B, K]`."""
    x = np.log(times)
    b = (means * (x - x.mean())).sum(axis=1) / ((x - x.mean()) ** 2).sum()
    return np.asarray(means.mean(axis=1) - b * x.mean()), np.asarray(b)


def power(times: Index, means: Array) -> tuple[Array, Array]:
    """c and p of c T^p, `[B]` each: the best c for each p of a grid, then a parabola through three."""
    basis = np.exp(np.outer(_EXPONENTS, np.log(times / times[-1])))  # [P, K], with 1 at the horizon
    explained = (means @ basis.T) ** 2 / (basis**2).sum(axis=1)  # [B, P]: what is taken off Σ y²
    best = explained.argmax(axis=1)
    inner = np.clip(best, 1, len(_EXPONENTS) - 2)
    before, at, after = (np.take_along_axis(explained, (inner + i)[:, None], 1)[:, 0] for i in (-1, 0, 1))
    bend = before - 2.0 * at + after
    shift = np.where(
        (best == inner) & (bend < 0.0), 0.5 * (before - after) / np.where(bend < 0, bend, -1.0), 0.0
    )
    p = _EXPONENTS[best] + np.clip(shift, -1.0, 1.0) * (_EXPONENTS[1] - _EXPONENTS[0])
    own = np.exp(p[:, None] * np.log(times / times[-1]))
    c = (means * own).sum(axis=1) / (own**2).sum(axis=1)
    return np.asarray(c * float(times[-1]) ** -p), np.asarray(p)


def _predicted(times: Index, means: Array) -> tuple[float, float]:
    """How often a logarithm through the first part predicts the rest better than a power; and is too high."""
    split = max(3, int(_EARLY * len(times)))
    early, late = times[:split], times[split:]
    a, b = logarithm(early, means[:, :split])
    c, p = power(early, means[:, :split])
    rest = means[:, split:]
    by_log = ((a[:, None] + b[:, None] * np.log(late) - rest) ** 2).sum(axis=1)
    too_high = a + b * np.log(late[-1]) > rest[:, -1]
    by_power = ((c[:, None] * late ** p[:, None] - rest) ** 2).sum(axis=1)
    return float((by_log < by_power).mean()), float(too_high.mean())


def _verdict(slope: Fit, exponent: Fit, share: float, n_runs: int, means: Array) -> tuple[Verdict, str]:
    if n_runs < _FEWEST_RUNS:
        return "undecided", f"undecided: {n_runs} runs are too few; {_FEWEST_RUNS} at least are needed"
    if slope.low <= 0.0 <= slope.high or (means[:, -1] > 0.0).mean() < SURE:
        return "no growth", "no growth beyond the noise of these runs"
    if share >= SURE:
        return "logarithmic", (
            f"logarithmic: {slope.value:.3g} [{slope.low:.3g}, {slope.high:.3g}] for each unit of log T "
            f"predicts the later regret better than a power in {share:.0%} of the redrawn means"
        )
    between = f"T^{exponent.value:.2f} [{exponent.low:.2f}, {exponent.high:.2f}]"
    if share <= 1.0 - SURE:
        kind = "linear growth is not excluded" if exponent.high >= 1.0 else "sublinear"
        return "power", (
            f"a power: {between} predicts the later regret better than a logarithm in {1 - share:.0%} of the "
            f"redrawn means; {kind}"
        )
    return "undecided", (
        f"undecided: a logarithm predicts the later regret better in {share:.0%} of the redrawn means, "
        f"{between} in the others; run longer, or with more seeds"
    )
