"""Figures of regret, for a paper or a talk: `regret_figure(curves).savefig("regret.pdf")`.

Left: regret over the logarithm of time, where O(log T) is a straight line. Right: both on logarithms, where
T^p is one, with whoever learns nothing beside; near zero its height is linear, so that regret of 0 and less
is shown too. Bands are 95 % intervals, widened by what is not known of J.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from .._utils.arrays import Array
from .plan_figures import need_matplotlib
from .style import INK, dress_axes, line_style, plain_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ..analysis.estimators import RegretCurve

_FAR = 8.0  # curves that end this many times above the lowest learner are left to the right panel


def regret_figure(
    curves: Mapping[str, RegretCurve],
    title: str = "",
    unit: str = "",
    bound: Mapping[str, Array] | None = None,
) -> Figure:
    """Curves by the names of their agents; `bound` holds others to draw at the same times, by label."""
    need_matplotlib()
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    figure = Figure(figsize=(9.6, 4.2), layout=ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.08))
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    near = _near(curves)
    for i, (agent, curve) in enumerate(curves.items()):
        if agent in near:
            _draw(left, agent, curve, line_style(i))
        _draw(right, agent, curve, line_style(i))
    times = next(iter(curves.values())).times
    for label, values in (bound or {}).items():
        right.plot(times, values, color=INK, linestyle=":", linewidth=1.2, label=plain_text(label))
    named = f"regret [{plain_text(unit)}]" if unit else "regret"
    for axes, words in ((left, "A straight line is a logarithm"), (right, "A straight line is a power")):
        dress_axes(axes, words, named)
        axes.set_xscale("log")
        axes.set_xlabel("step T")
    right.set_yscale("symlog", linthresh=knee(curve.middle[-1] for curve in curves.values()), linscale=0.4)
    handles, names = right.get_legend_handles_labels()
    figure.legend(handles, names, frameon=False, fontsize=9, loc="outside lower center", ncols=4)
    if title:
        figure.suptitle(plain_text(title, 90), fontsize=13, fontweight="bold", color=INK)
    return figure


def knee(ends: Iterable[float]) -> float:
    """Return up to where a logarithmic height is linear: a power of ten, at most a tenth of the least end.

    Only ends above 0 count.

    >>> knee([117_000.0, 1_779.0, -60.0]), knee([]), knee([0.2])
    (100.0, 0.1, 0.01)
    """
    least = min((end for end in ends if end > 0.0), default=1.0)
    return float(10.0 ** (np.floor(np.log10(least)) - 1))


def _near(curves: Mapping[str, RegretCurve]) -> set[str]:
    """Those that can share a panel without making the lowest learner a flat line."""
    ends = {agent: float(curve.middle[-1]) for agent, curve in curves.items()}
    growing = sorted(end for end in ends.values() if end > 0) or [1.0]
    reference = growing[len(growing) // 2] if len(growing) > 2 else growing[-1]
    return {agent for agent, end in ends.items() if end <= _FAR * reference or len(ends) == 1}


def _draw(axes: Axes, agent: str, curve: RegretCurve, style: dict[str, Any]) -> None:
    low, high = curve.interval
    axes.plot(curve.times, curve.middle, label=plain_text(agent), **style)
    axes.fill_between(curve.times, low, high, color=style["color"], alpha=0.15, lw=0)
