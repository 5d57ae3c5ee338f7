"""The figure of a posterior: mean and interval of each unknown number, beside those of the prior."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from .plan_figures import need_matplotlib
from .style import COLORS, INK, add_title, new_figure, plain_text, style_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ..inference.posterior_summary import PosteriorSummary, SummaryRow

MOST_ROWS = 40  # of a figure
_LONGEST = 44  # characters of a label


def posterior_figure(summary: PosteriorSummary) -> Figure:
    """Return the figure of a summary: posterior and prior of each unknown number, by part of the model.

    Parameters
    ----------
    summary
        What `posterior.summary()` returns. Only its first 40 rows are drawn.

    Returns
    -------
    matplotlib.figure.Figure
        A figure that does not belong to pyplot; `save_figure` or `savefig` writes it to a file.

    Raises
    ------
    MissingExtraError
        If matplotlib is not installed.
    """
    need_matplotlib()
    rows = summary.rows[:MOST_ROWS]
    parts = [(part, list(group)) for part, group in groupby(rows, key=lambda row: row.part)]
    sizes = [len(group) for _, group in parts] or [1]
    figure = new_figure(7.2, 1.6 + 0.8 * len(sizes) + 0.26 * sum(sizes))
    panels = figure.subplots(len(sizes), 1, squeeze=False, height_ratios=[n + 2 for n in sizes])[:, 0]
    for axes, (part, group) in zip(panels, parts, strict=False):
        _draw(axes, part, group, summary.level)
    if not parts:
        panels[0].set_axis_off()
    elif len(panels):
        panels[0].legend(
            loc="upper center", bbox_to_anchor=(0.5, 1.0 + 2.4 / (sizes[0] + 2)), ncols=2, frameon=False
        )
    cut = f" (first {len(rows)} of {len(summary.rows)} rows)" if len(rows) < len(summary.rows) else ""
    add_title(figure, f"What is known after {summary.readings:,} readings{cut}")
    return figure


def _draw(axes: Axes, part: str, rows: Sequence[SummaryRow], level: float) -> None:
    """Draw the rows of one part of the model, from top to bottom."""
    for shift, color, name in ((-0.16, COLORS[0], "posterior"), (0.16, COLORS[7], "prior")):
        before = name == "prior"
        for i, row in enumerate(rows):
            mean, low, high = (
                (row.prior_mean, row.prior_lower, row.prior_upper)
                if before
                else (row.mean, row.lower, row.upper)
            )
            label = f"{name}, mean and {level:.0%} interval" if i == 0 else None
            axes.plot([low, high], [i + shift] * 2, color=color, linewidth=2.4, label=label)
            axes.plot([mean], [i + shift], color=color, marker="|" if before else "o", markersize=5)
    style_axes(axes, part, "")
    axes.set_yticks(range(len(rows)), [plain_text(row.name, _LONGEST) for row in rows])
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.grid(axis="y", visible=False)
    axes.grid(axis="x", color="#DDDDDD", linewidth=0.6)
    axes.tick_params(axis="y", length=0, colors=INK)
    if part in ("dynamics", "observation model"):
        axes.set_xlim(-0.02, 1.02)
        axes.set_xlabel("probability", fontsize=9, color=INK)
