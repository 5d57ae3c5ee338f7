"""What is known of each unknown number: posterior and prior side by side, as a table and for ArviZ."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from inspect import signature
from typing import Any, NamedTuple

import numpy as np

from .._utils.arrays import Array, Names
from ..errors import InvalidModelError
from ..models import POMDP
from ..protocols import FiniteSupport, LearnsTables, Prior
from ..sensors.gaussian import GaussianSensor
from .encoding import model_of
from .learned_tables import interval

LEVEL = 0.9
PRIOR_DRAWS = 1000
_FEW_DRAWS = 300  # if a complete setting is drawn each time
_SEED = 20260101  # of the draws from the prior, so that two summaries agree
_SAME = 1e-12
_MOST_LINES = 60


@dataclass(frozen=True)
class SummaryRow:
    """An unknown number: mean and interval under the posterior, and under the prior."""

    part: str  # "dynamics", "observation model", "mean of readings", "spread of readings", or "cost"
    name: str  # such as "run: new → worn"
    mean: float
    lower: float
    upper: float
    prior_mean: float
    prior_lower: float
    prior_upper: float

    @property
    def learned(self) -> float:
        """How much narrower the interval is than under the prior: 0 if it is as wide, 1 if it is a point."""
        return 1.0 - (self.upper - self.lower) / max(self.prior_upper - self.prior_lower, _SAME)


@dataclass(frozen=True)
class PosteriorSummary:
    """A table of all unknown numbers. `str()` shows it, `rows` and `to_dict()` are the data."""

    rows: tuple[SummaryRow, ...]
    level: float  # of the intervals
    units: int  # units with at least one observation
    readings: int  # of all units
    effective_size: float  # the effective number of kernels

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, for JSON."""
        return {
            "level": self.level,
            "units": self.units,
            "readings": self.readings,
            "effective_size": self.effective_size,
            "rows": [asdict(row) for row in self.rows],
        }

    def __str__(self) -> str:
        """Return the table as text."""
        readings = f"{self.readings:,} reading{'s' * (self.readings != 1)}"
        units = f" of {self.units} units" if self.units > 1 else ""
        head = f"Posterior after {readings}{units}: mean ({self.level:.0%} interval)"
        if not self.rows:
            return head + "\nNothing is unknown."
        shown = self.rows[:_MOST_LINES]
        texts = [(f"  {row.name}", *_texts(row)) for row in shown]
        names = max(len("  dynamics"), *(len(text[0]) for text in texts))
        values = max(len("posterior"), *(len(text[1]) for text in texts))
        lines, part = [head], ""
        for row, (name, now, before) in zip(shown, texts, strict=True):
            if row.part != part:
                part = row.part
                lines.append(f"{part:<{names}}  {'posterior':<{values}}  prior")
            lines.append(f"{name:<{names}}  {now:<{values}}  {before}")
        if len(self.rows) > len(shown):
            lines.append(f"and {len(self.rows) - len(shown)} more rows (see .rows)")
        return "\n".join(lines)


class _Table(NamedTuple):
    """An array of unknown numbers under each kernel: values [.., N] with the weights [N] of the kernels."""

    part: str
    variable: str  # its name in ArviZ
    axes: str  # one letter an axis: a, s, t (next state), o
    values: Array
    weights: Array


def summary_of(posterior: Any, level: float = LEVEL) -> PosteriorSummary:
    """Return the summary of a posterior of weighted kernels; see `FilteredKernels.summary`."""
    if not 0.0 < level < 1.0:
        raise InvalidModelError(f"level is {level!r}: a probability between 0 and 1 is wanted")
    names = posterior.setting.names
    rows = [
        SummaryRow(
            now.part,
            _entry(now, place, names),
            *(float(table[place]) for table in (*_stated(now, level), *prior)),
        )
        for now, before in _tables(posterior)
        for prior, unknown in [(_stated(before, level), np.ptp(before.values, axis=-1) > _SAME)]
        for place in map(tuple, np.argwhere(unknown).tolist())
    ]
    units = [unit.time for unit in posterior.units if unit.time]
    return PosteriorSummary(tuple(rows), level, len(units), sum(units), posterior.effective_size)


def to_arviz(posterior: Any, draws: int = 1000) -> Any:
    """Return the posterior and the prior as ArviZ's data; see `FilteredKernels.to_arviz`."""
    try:
        import arviz
    except ImportError:
        raise ImportError('to_arviz needs ArviZ: pip install "psrl-pomdp[arviz]"') from None
    if draws < 1:
        raise InvalidModelError(f"draws is {draws}: at least 1")
    setting, rng = posterior.setting, np.random.default_rng(_SEED)
    letters = {"a": "action", "s": "state", "t": "next_state", "o": "observation"}
    groups: dict[str, dict[str, Array]] = {"posterior": {}, "prior": {}}
    dims: dict[str, list[str]] = {}
    chosen: dict[int, Array] = {}  # the same kernels for all variables
    for pair in _tables(posterior):
        for group, table in zip(groups.values(), pair, strict=True):
            n = len(table.weights)
            if id(group) not in chosen:
                chosen[id(group)] = _systematic(table.weights, draws, rng)
            values = table.values[..., chosen[id(group)] % n]
            group[table.variable] = np.moveaxis(values, -1, 0)[None]  # one chain
        dims[pair[0].variable] = [letters[axis] for axis in pair[0].axes]
    states = [setting.names.state(s) for s in range(setting.n_states)]
    coords = {
        "action": [setting.names.action(a) for a in range(setting.n_actions)],
        "state": states,
        "next_state": states,
    }
    if setting.is_finite:
        coords["observation"] = [setting.names.observation(o) for o in range(setting.n_observations)]
    if "posterior" in signature(arviz.from_dict).parameters:  # before version 1
        return arviz.from_dict(**groups, coords=coords, dims=dims)
    return arviz.from_dict(groups, coords=coords, dims=dims)


def _tables(posterior: Any) -> Iterator[tuple[_Table, _Table]]:
    """Yield each array of unknown numbers under the posterior and under the prior."""
    now, before = posterior.weights, _PriorDraws(posterior.prior)
    kernels = np.moveaxis(posterior.kernels, 0, -1)

    def pair(part: str, variable: str, axes: str, values: Array, own: Array) -> tuple[_Table, _Table]:
        return _Table(part, variable, axes, values, now), _Table(part, variable, axes, own, before.weights)

    yield pair("dynamics", "transition", "ast", kernels, before.of(lambda model: model.transition))
    setting = posterior.setting
    if hasattr(posterior, "sensor_means"):
        for part, name, given in (
            ("mean of readings", "means", posterior.sensor_means),
            ("spread of readings", "sds", posterior.sensor_sds),
        ):
            axes = "s" if given.ndim == 2 else "as"
            yield pair(part, name, axes, np.moveaxis(given, 0, -1), before.of(_parameter(name)))
    elif posterior.learned_sensor() is not None:
        values = posterior.unknown_tables()[0]
        by_state = values.ndim == 3
        axes = "so" if by_state else ("aso" if values.ndim == 4 else "asto")
        own = before.of(lambda model: model.setting.observation[0] if by_state else model.setting.observation)
        yield pair("observation model", "observation", axes, values, own)
    if posterior.learned_costs() is not None:
        own = before.of(lambda model: model.setting.own_cost)
        yield pair(setting.units.kind, "cost", "as", posterior.unknown_tables()[1], own)


def _parameter(name: str) -> Callable[[POMDP], Array]:
    """Return the function that returns means or standard deviations of a Gaussian sensor, [S] or [A, S]."""

    def read(model: POMDP) -> Array:
        sensor = model.setting.sensor
        assert isinstance(sensor, GaussianSensor)
        found: Array = getattr(sensor, name)
        return found

    return read


class _PriorDraws:
    """Models from the prior: all of a finite set, else draws with equal weights."""

    def __init__(self, prior: Prior) -> None:
        if isinstance(prior, FiniteSupport):
            self.weights = np.asarray(prior.weights)
            self._models: Sequence[POMDP] = [prior.model(m) for m in range(len(prior))]
            return
        learns = isinstance(prior, LearnsTables) and (prior.learns_sensor or prior.learns_costs)
        rng, n = np.random.default_rng(_SEED), _FEW_DRAWS if learns else PRIOR_DRAWS
        if getattr(prior, "density", None) is not None:
            n = _FEW_DRAWS
        self.weights = np.full(n, 1.0 / n)
        self._models = [model_of(prior, rng) for _ in range(n)]

    def of(self, read: Callable[[POMDP], Array]) -> Array:
        """Return what `read` gives for each model, with the models along the last axis."""
        return np.stack([read(model) for model in self._models], axis=-1)


def _stated(table: _Table, level: float) -> tuple[Array, Array, Array]:
    """Return the mean of each entry, and both ends of its interval."""
    held = table.weights > 0.0
    values, weights = table.values[..., held], table.weights[held] / table.weights[held].sum()
    return values @ weights, *interval(values, weights, level)


def _systematic(weights: Array, draws: int, rng: np.random.Generator) -> Array:
    """Return numbers of kernels, each as often as its weight says, up to one."""
    cumulative = np.cumsum(weights) / weights.sum()
    places = (np.arange(draws) + rng.random()) / draws
    found = np.minimum(np.searchsorted(cumulative, places, side="right"), len(weights) - 1)
    return rng.permutation(found)


def _entry(table: _Table, place: tuple[int, ...], names: Names) -> str:
    """Return the name of an entry, such as "run: new → worn"."""
    index = dict(zip(table.axes, place, strict=True))
    action = f"{names.action(index['a'])}: " if "a" in index else ""
    if table.part == "dynamics":
        return f"{action}{names.state(index['s'])} → {names.state(index['t'])}"
    state = names.state(index["s"])
    if "o" not in index:
        return f"{action}{state}"
    if "t" in index:
        state = f"{state} → {names.state(index['t'])}"
    return f"{action}{names.observation(index['o'])} in {state}"


def _texts(row: SummaryRow) -> Iterable[str]:
    for mean, lower, upper in (
        (row.mean, row.lower, row.upper),
        (row.prior_mean, row.prior_lower, row.prior_upper),
    ):
        digits = ".3f" if row.part in ("dynamics", "observation model") else ".4g"
        yield f"{mean:{digits}} ({lower:{digits}} to {upper:{digits}})"
