"""Figures of regret, for a paper or a talk: `regret_figure(curves).savefig("regret.pdf")`.

Left: regret over the logarithm of time, where O(log T) is a straight line. Right: both on logarithms, where
T^p is one, with whoever learns nothing beside. Bands are 95 % intervals, widened by what is not known of J.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from ..arrays import Array
from .plan_figures import _COLOURS, _INK, _dress, _text, need_matplotlib

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ..regret.estimators import RegretCurve

_FAR = 8.0  # curves that end this many times above the lowest learner are left to the right panel
_STYLES = ("-", "--", "-.", ":")


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
        look = {"color": _COLOURS[i % len(_COLOURS)], "linestyle": _STYLES[i // len(_COLOURS) % 4]}
        if agent in near:
            _draw(left, agent, curve, look, logarithmic=False)
        _draw(right, agent, curve, look, logarithmic=True)
    times = next(iter(curves.values())).times
    for label, values in (bound or {}).items():
        right.plot(times, values, color=_INK, linestyle=":", linewidth=1.2, label=_text(label))
    named = f"regret [{_text(unit)}]" if unit else "regret"
    for axes, words in ((left, "A straight line is a logarithm"), (right, "A straight line is a power")):
        _dress(axes, words, named)
        axes.set_xscale("log")
        axes.set_xlabel("step T")
    right.set_yscale("log")
    right.set_ylim(bottom=_least(curves))
    handles, names = right.get_legend_handles_labels()
    figure.legend(handles, names, frameon=False, fontsize=9, loc="outside lower center", ncols=4)
    if title:
        figure.suptitle(_text(title, 90), fontsize=13, fontweight="bold", color=_INK)
    return figure


def _least(curves: Mapping[str, RegretCurve]) -> float:
    """Where the logarithmic panel begins: below this is noise around zero."""
    ends = [float(curve.middle[-1]) for curve in curves.values() if curve.middle[-1] > 0]
    return 1e-2 * min(ends, default=1.0)


def _near(curves: Mapping[str, RegretCurve]) -> set[str]:
    """Those that can share a panel without making the lowest learner a flat line."""
    ends = {agent: float(curve.middle[-1]) for agent, curve in curves.items()}
    growing = sorted(end for end in ends.values() if end > 0) or [1.0]
    reference = growing[len(growing) // 2] if len(growing) > 2 else growing[-1]
    return {agent for agent, end in ends.items() if end <= _FAR * reference or len(ends) == 1}


def _draw(axes: Axes, agent: str, curve: RegretCurve, look: dict[str, str], *, logarithmic: bool) -> None:
    low, high = curve.interval
    middle = curve.middle
    if logarithmic:
        shown = np.where(middle > 0, middle, np.nan)
        axes.plot(curve.times, shown, label=_text(agent), **look)  # type: ignore[arg-type]
        sure = low > 0
        axes.fill_between(
            curve.times, np.where(sure, low, np.nan), np.where(sure, high, np.nan), color=look["color"],
            alpha=0.15, lw=0,
        )  # fmt: skip
    else:
        axes.plot(curve.times, middle, label=_text(agent), **look)  # type: ignore[arg-type]
        axes.fill_between(curve.times, low, high, color=look["color"], alpha=0.15, lw=0)
