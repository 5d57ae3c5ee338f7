"""A fishery: how much to catch from a stock that is only known from a survey with errors."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from .._utils.arrays import Array
from ..errors import InvalidModelError
from ..models import Setting
from .catalogue import Assumptions, Parts, bounded, count, register

Growth = Literal["logistic", "beverton-holt"]
_LEAST = 1e-9  # probabilities below this are left out


@register(
    "fishery",
    title="Set the quota of a fishery from a survey of its stock, which has errors",
    source="made for this package from textbook dynamics: logistic growth (Schaefer 1954, Some aspects of "
    "the dynamics of populations important to the management of the commercial marine fisheries) or "
    "Beverton-Holt recruitment (Beverton and Holt 1957, On the dynamics of exploited fish populations), with "
    "log-normal noise on what is left after the catch, as in Reed (1979), Optimal escapement levels in "
    "stochastic and deterministic harvesting models",
    assumptions=Assumptions(
        bellman="fails: a stock that has died out stays so, and the optimal average depends on whether it "
        "has; with enough immigration it recovers",
        separation="open: there is no finite prior",
        belief="open: all levels give every reading with a positive probability, but far ones hardly do",
        kernel="open: the readings of different levels have different distributions",
    ),
)
def fishery(
    levels: int = 11,
    quotas: int = 0,
    readings: int = 0,
    growth: float = 1.0,
    model: Growth = "logistic",
    noise: float = 0.1,
    survey: float = 0.1,
    immigration: float = 0.0,
    largest: float = 1.5,
) -> Parts:
    """A stock of fish grows on a line of levels, and the quota of every year is set after a survey.

    State: the stock, in units of the capacity, on `levels` levels from 0 to `largest`. Actions: one of
    `quotas` catches, evenly spaced from 0 to the capacity. Rewards: the catch, which is the quota or, if that
    is less, the stock. What is left, y, grows to f(y) = y + `growth` y (1 − y), or to f(y) = (1 + `growth`) y
    / (1 + `growth` y) with `model` "beverton-holt"; then `immigration` is added, and the sum is multiplied by
    log-normal noise of standard deviation `noise`. Observations: a survey of the new stock with a log-normal
    error of standard deviation `survey`, in one of `readings` classes. With 0, there are as many quotas or
    readings as levels. The first stock is uniform over the levels above 0.
    """
    levels = count("levels", levels, 2, 200)
    quotas = count("quotas", quotas, 0, 200) or levels
    readings = count("readings", readings, 0, 200) or levels
    growth, noise = bounded("growth", growth, 0.0, 3.0), bounded("noise", noise, 1e-3, 2.0)
    survey, immigration = bounded("survey", survey, 1e-3, 2.0), bounded("immigration", immigration, 0.0, 1.0)
    largest = bounded("largest", largest, 0.1, 10.0)
    if model not in ("logistic", "beverton-holt"):
        raise InvalidModelError(f"parameter model is {model!r}: expected 'logistic' or 'beverton-holt'")
    if quotas < 2:
        raise InvalidModelError("parameter quotas is 1: expected at least 2, or 0 for as many as levels")
    stock = np.linspace(0.0, largest, levels)
    catch = np.linspace(0.0, 1.0, quotas)
    classes = np.linspace(0.0, largest, readings)
    left = np.maximum(stock - catch[:, None], 0.0)
    grown = left + growth * left * (1.0 - left)
    if model == "beverton-holt":
        grown = (1.0 + growth) * left / (1.0 + growth * left)
    kernel = _log_normal_cells(np.maximum(grown, 0.0) + immigration, noise, stock)
    setting = Setting.from_rewards(
        observation=_log_normal_cells(stock, survey, classes),
        reward=np.minimum(catch[:, None], stock),
        initial=np.append(0.0, np.full(levels - 1, 1.0 / (levels - 1))),
        states=[f"stock-{100 * x:.0f}" for x in stock] if levels <= 100 else None,
        actions=[f"quota-{100 * h:.4g}".replace(".", "_") for h in catch],
    )
    concentration = (kernel > 0.0).astype(np.float64)
    return Parts(setting, kernel, concentration=concentration)


def _log_normal_cells(medians: Array, spread: float, centers: Array) -> Array:
    """Return the probabilities of the cells around `centers` under log-normal distributions, [..., C].

    A median of 0 is certain to be in the first cell.
    """
    edges = 0.5 * (centers[1:] + centers[:-1])
    positive = np.maximum(medians, 1e-300)[..., None]
    scores = (np.log(edges) - np.log(positive)) / (spread * math.sqrt(2.0))
    below = 0.5 * np.vectorize(math.erfc)(-scores)
    ends = np.ones((*medians.shape, 1))
    cells = np.diff(np.concatenate([0.0 * ends, below, ends], axis=-1), axis=-1)
    cells = np.where(cells < _LEAST, 0.0, cells)
    return np.asarray(cells / cells.sum(axis=-1, keepdims=True))
