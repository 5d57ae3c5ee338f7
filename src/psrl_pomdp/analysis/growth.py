"""Growth of the regret: fits of a + b log T and c T^p, and a comparison of the two.

Theorem 1 proves O(log T), the general theorem O(T^{2/3}) up to logarithms. Both curves are fitted by least
squares to the mean regret at log-spaced checkpoints. The points of a regret curve are cumulative sums and so
far from independent; an information criterion such as AIC assumes independence and would be overconfident.
The runs are independent. So the fits are repeated on bootstrap samples of the runs (with a fixed seed), which
gives intervals for b and p. For the comparison, both curves are fitted to the first part of each bootstrap
mean and predict the rest; `share` is the fraction of bootstrap means for which the logarithm predicts better.
A verdict requires a fraction of 95 %, and the same verdict for both bounds on J; otherwise it is `undecided`.

A better prediction over the simulated horizon is evidence, not a proof: T^p with a small p looks like a
logarithm over a few decades.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from .._utils.arrays import Array, Index
from .._utils.deprecation import warn_renamed
from ..errors import InvalidModelError
from .estimators import RegretCurve

Verdict = Literal["logarithmic", "power", "no growth", "undecided"]

_VERDICT_LEVEL = 0.95  # share of the bootstrap means that a verdict requires
_EXPONENTS = np.linspace(0.0, 1.5, 301)
_MIN_RUNS, _MIN_CHECKPOINTS = 5, 6
_EARLY = 0.6  # share of the checkpoints that is fitted in order to predict the others


class Fit(NamedTuple):
    """A parameter with a bootstrap percentile interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Growth:
    """Both fits, and the one that the data support.

    Attributes
    ----------
    intercept, slope
        a and b of a + b log T, with the natural logarithm.
    factor, exponent
        c and p of c T^p.
    share
        The share of the bootstrap means for which the logarithm predicts better.
    flatter
        The share of the bootstrap means that end below the prediction of the logarithm.
    verdict
        "logarithmic", "power", "no growth" or "undecided".
    text
        The verdict as a sentence.
    level
        The confidence level of the intervals.
    """

    intercept: Fit
    slope: Fit
    factor: Fit
    exponent: Fit
    share: float
    flatter: float
    verdict: Verdict
    text: str
    level: float

    @property
    def words(self) -> str:
        """The verdict as a sentence, under the name of version 0.1. Deprecated: use `text`."""
        warn_renamed("Growth.words", "Growth.text")
        return self.text

    def __repr__(self) -> str:
        return (
            f"Growth({self.verdict}: {self.intercept.value:.3g} + {self.slope.value:.3g} log T, or "
            f"{self.factor.value:.3g} T^{self.exponent.value:.2f} [{self.exponent.low:.2f}, "
            f"{self.exponent.high:.2f}])"
        )


def fit_growth(
    curve: RegretCurve, *, start: int = 10, level: float = 0.95, draws: int = 1000, seed: int = 0
) -> Growth:
    """Fit both curves to the mean regret, and compare them.

    Parameters
    ----------
    curve
        The regret of several runs.
    start
        The first step T that the fits use.
    level
        The confidence level of the intervals.
    draws
        The number of bootstrap samples.
    seed
        The seed of the bootstrap.

    Returns
    -------
    Growth
        Both fits, and the one that the data support.

    Raises
    ------
    InvalidModelError
        If fewer than 6 checkpoints are left.
    """
    late = curve.times >= start
    ends = [
        fit_arrays(curve.times[late], runs[:, late], level, draws, seed)
        for runs in (curve.lower, curve.upper)
    ]
    middle = fit_arrays(curve.times[late], 0.5 * (curve.lower + curve.upper)[:, late], level, draws, seed)
    if len({end.verdict for end in (middle, *ends)}) == 1:
        return middle
    text = (
        "undecided: the verdict depends on the value of J between its two bounds "
        f"({ends[1].verdict} for the lower one, {ends[0].verdict} for the upper one); use a smaller tolerance"
    )
    return replace(middle, verdict="undecided", text=text)


def fit_arrays(
    times: npt.ArrayLike, runs: npt.ArrayLike, level: float = 0.95, draws: int = 1000, seed: int = 0
) -> Growth:
    """Do the same for plain arrays: the regret of R runs, `[R, K]`, at `times[K]`."""
    at, values = np.asarray(times, np.int64), np.atleast_2d(np.asarray(runs, np.float64))
    if values.shape[1] != len(at) or len(at) < _MIN_CHECKPOINTS:
        raise InvalidModelError(
            f"runs have shape {values.shape} for {len(at)} times: at least {_MIN_CHECKPOINTS} are needed"
        )
    rng = np.random.default_rng(seed)
    resampled = rng.integers(len(values), size=(draws, len(values)))
    means = np.concatenate([values.mean(axis=0)[None], values[resampled].mean(axis=1)])  # [1 + B, K]
    intercept, slope, factor, exponent = (
        Fit(float(found[0]), *np.quantile(found[1:], [0.5 - 0.5 * level, 0.5 + 0.5 * level]).tolist())
        for found in (*logarithm(at, means), *power(at, means))
    )
    share, flatter = _predicted(at, means[1:])
    verdict, text = _verdict(slope, exponent, share, len(values), means[1:])
    if verdict == "logarithmic" and flatter >= _VERDICT_LEVEL:
        text += "; the regret at the horizon is below the logarithm that fits the earlier regret"
    return Growth(intercept, slope, factor, exponent, share, flatter, verdict, text, level)


def logarithm(times: Index, means: Array) -> tuple[Array, Array]:
    """Return a and b of a + b log T, `[B]` each, for curves `[B, K]`."""
    x = np.log(times)
    b = (means * (x - x.mean())).sum(axis=1) / ((x - x.mean()) ** 2).sum()
    return np.asarray(means.mean(axis=1) - b * x.mean()), np.asarray(b)


def power(times: Index, means: Array) -> tuple[Array, Array]:
    """Return c and p of c T^p, `[B]` each, for curves `[B, K]`.

    The best p of a grid, each with its optimal c, is refined by a parabola through three grid points.
    """
    basis = np.exp(np.outer(_EXPONENTS, np.log(times / times[-1])))  # [P, K], with 1 at the horizon
    explained = (means @ basis.T) ** 2 / (basis**2).sum(axis=1)  # [B, P]: reduction of the sum of squares
    best = explained.argmax(axis=1)
    inner = np.clip(best, 1, len(_EXPONENTS) - 2)
    before, at, after = (np.take_along_axis(explained, (inner + i)[:, None], 1)[:, 0] for i in (-1, 0, 1))
    curvature = before - 2.0 * at + after
    concave = curvature < 0.0
    shift = np.where(
        (best == inner) & concave, 0.5 * (before - after) / np.where(concave, curvature, -1.0), 0.0
    )
    p = _EXPONENTS[best] + np.clip(shift, -1.0, 1.0) * (_EXPONENTS[1] - _EXPONENTS[0])
    powers = np.exp(p[:, None] * np.log(times / times[-1]))
    c = (means * powers).sum(axis=1) / (powers**2).sum(axis=1)
    return np.asarray(c * float(times[-1]) ** -p), np.asarray(p)


def _predicted(times: Index, means: Array) -> tuple[float, float]:
    """Return how often a logarithm fitted to the first part predicts the rest better, and is too high."""
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
    if n_runs < _MIN_RUNS:
        return "undecided", f"undecided: {n_runs} runs are too few; at least {_MIN_RUNS} are needed"
    if slope.low <= 0.0 <= slope.high or (means[:, -1] > 0.0).mean() < _VERDICT_LEVEL:
        return "no growth", "no growth beyond the noise of these runs"
    if share >= _VERDICT_LEVEL:
        return "logarithmic", (
            f"logarithmic: a + b log T with slope b = {slope.value:.3g} [{slope.low:.3g}, {slope.high:.3g}] "
            f"predicts the later regret better than a power in {share:.0%} of the bootstrap means"
        )
    fitted = f"exponent {exponent.value:.2f} [{exponent.low:.2f}, {exponent.high:.2f}]"
    if share <= 1.0 - _VERDICT_LEVEL:
        kind = "linear growth is not excluded" if exponent.high >= 1.0 else "sublinear"
        return "power", (
            f"power: T^p with {fitted} predicts the later regret better than a logarithm in "
            f"{1 - share:.0%} of the bootstrap means; {kind}"
        )
    return "undecided", (
        f"undecided: a logarithm predicts the later regret better in {share:.0%} of the bootstrap means, and "
        f"the power T^p with {fitted} in the others; use a longer horizon or more seeds"
    )
