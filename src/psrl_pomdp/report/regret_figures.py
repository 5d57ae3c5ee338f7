"""Figures of regret for papers and talks: `regret_figure(curves).savefig("regret.pdf")`.

In the left panel, the time axis is logarithmic, so O(log T) is a straight line. In the right panel, both axes
are logarithmic, so T^p is a straight line; it also shows agents with much larger regret. The vertical axis of
the right panel is linear near zero, so that it can show values of 0 and below. Bands are 95 % intervals that
include the uncertainty about J.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from .._utils.arrays import Array
from .plan_figures import need_matplotlib
from .style import INK, add_title, draw_band, line_style, new_figure, plain_text, style_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ..analysis.estimators import RegretCurve

_LARGE_RATIO = 8.0  # curves that end this many times above the reference are in the right panel only


def regret_figure(
    curves: Mapping[str, RegretCurve],
    title: str = "",
    unit: str = "",
    bound: Mapping[str, Array] | None = None,
) -> Figure:
    """Return the figure of regret curves.

    Parameters
    ----------
    curves
        The curves by the names of their agents.
    title
        The title; by default there is none.
    unit
        The unit of regret.
    bound
        Further curves at the same times, by label, such as a theoretical bound.

    Raises
    ------
    MissingExtraError
        If matplotlib is not installed.
    """
    need_matplotlib()
    figure = new_figure(9.6, 4.2)
    left, right = figure.subplots(1, 2)
    comparable = _comparable(curves)
    for i, (agent, curve) in enumerate(curves.items()):
        if agent in comparable:
            _draw(left, agent, curve, line_style(i))
        _draw(right, agent, curve, line_style(i))
    times = next(iter(curves.values())).times
    for label, values in (bound or {}).items():
        right.plot(times, values, color=INK, linestyle=":", linewidth=1.2, label=plain_text(label))
    y_label = f"regret [{plain_text(unit)}]" if unit else "regret"
    for axes, meaning in ((left, "A straight line is a logarithm"), (right, "A straight line is a power")):
        style_axes(axes, meaning, y_label)
        axes.set_xscale("log")
        axes.set_xlabel("step T")
    right.set_yscale("symlog", linthresh=knee(curve.middle[-1] for curve in curves.values()), linscale=0.4)
    handles, names = right.get_legend_handles_labels()
    figure.legend(handles, names, frameon=False, fontsize=9, loc="outside lower center", ncols=4)
    if title:
        add_title(figure, title)
    return figure


def knee(ends: Iterable[float]) -> float:
    """Return the value below which a logarithmic vertical axis is linear.

    It is the largest power of ten that is at most a tenth of the smallest positive final value in `ends`.

    >>> knee([117_000.0, 1_779.0, -60.0]), knee([]), knee([0.2])
    (100.0, 0.1, 0.01)
    """
    least = min((end for end in ends if end > 0.0), default=1.0)
    return float(10.0 ** (np.floor(np.log10(least)) - 1))


def _comparable(curves: Mapping[str, RegretCurve]) -> set[str]:
    """Return the agents whose curves fit on one linear axis without making the lowest curve flat."""
    ends = {agent: float(curve.middle[-1]) for agent, curve in curves.items()}
    growing = sorted(end for end in ends.values() if end > 0) or [1.0]
    reference = growing[len(growing) // 2] if len(growing) > 2 else growing[-1]
    return {agent for agent, end in ends.items() if end <= _LARGE_RATIO * reference or len(ends) == 1}


def _draw(axes: Axes, agent: str, curve: RegretCurve, style: dict[str, Any]) -> None:
    low, high = curve.interval
    axes.plot(curve.times, curve.middle, label=plain_text(agent), **style)
    draw_band(axes, curve.times, low, high, style["color"])
