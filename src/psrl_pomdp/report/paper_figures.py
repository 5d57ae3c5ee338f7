"""The figures of a study for papers: `write_figures(data, folder)` makes an SVG and a PDF of each.

The same numbers as on the page, drawn by matplotlib. `policy_figure` also goes into the page itself.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .page_data import PageData
from .plan_figures import draw_intervals, draw_triangle, need_matplotlib, save_figure
from .policy_text import labels, nodes_from_the_start, successors
from .regret_figures import regret_figure
from .style import COLORS, INK, dress_axes, legend_of_actions, line_style, paint_of, plain_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ..models import POMDP
    from ..planning import Plan

ENDINGS = (".svg", ".pdf")
MOST_NODES = 18  # of a controller that its graph shows
_READINGS_ON_AN_EDGE = 2


def paper_figures(data: PageData) -> Iterator[tuple[str, Figure]]:
    """Names and figures, one at a time; those that this study has nothing for are left out."""
    title = data.study.title or f"{data.name}: {data.study.seeds} runs of every learner"
    bound = {} if data.bound is None else {"Theorem 1’s bound": data.bound.values}
    yield "regret", regret_figure(data.curves, title=title, unit=data.units.total_name, bound=bound)
    if data.concentrations:
        yield "posterior", posterior_figure(data)
    if data.episodes:
        yield "episodes", episodes_figure(data)
        yield "planning", planning_figure(data)
    if data.decompositions:
        yield "decomposition", decomposition_figure(data)
    if data.truth is not None:
        yield "policy", policy_figure(data.truth.plan, data.truth.world)


def write_figures(data: PageData, folder: Path) -> list[Path]:
    """Every figure as SVG and as PDF; the paths."""
    need_matplotlib()
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, figure in paper_figures(data):
        data.say(f"the figure {name}")
        for ending in ENDINGS:
            written.append(folder / f"{name}{ending}")
            save_figure(figure, written[-1])
    return written


def inline_svg(figure: Figure) -> str:
    """A figure as an element of a page: letters as shapes, and nothing that came in as a name as text."""
    import matplotlib

    buffer = io.StringIO()
    with (
        matplotlib.rc_context({"svg.fonttype": "path", "svg.hashsalt": "psrl-pomdp"}),
        warnings.catch_warnings(),
    ):
        warnings.filterwarnings("ignore", "Glyph .* missing", UserWarning)
        nothing = dict.fromkeys(("Date", "Creator", "Type", "Format"))
        figure.savefig(buffer, format="svg", transparent=True, metadata=nothing)
    text = re.sub(r"<!--.*?-->", "", buffer.getvalue(), flags=re.DOTALL)
    return text[text.index("<svg") :]


# -- one figure each --------------------------------------------------------------------------------


def posterior_figure(data: PageData) -> Figure:
    """A panel for each way to measure how near the posterior is to the truth."""
    names = {"weight": "posterior weight of the truth", "distance": "mean distance of a row from the truth"}
    figure, panels = _panels(len(data.concentrations), data)
    for axes, (measure, agents) in zip(panels, sorted(data.concentrations.items()), strict=True):
        for agent, found in agents.items():
            look = _look(data, agent)
            axes.plot(found.times, found.mean, **look)
            axes.fill_between(found.times, found.low, found.high, color=look["color"], alpha=0.15, lw=0)
        dress_axes(axes, "Mean, and range of all runs", names[measure])
        axes.set_xscale("log")
        axes.set_xlabel("step")
    _legend(figure, data, [agent for agents in data.concentrations.values() for agent in agents])
    return figure


def episodes_figure(data: PageData) -> Figure:
    """Lengths over time, and how many have begun."""
    figure, (left, right) = _panels(2, data)
    for agent, some in data.episodes.items():
        look = _look(data, agent)
        _dots(left, [e.start for e in some], [e.length for e in some], look)
        first = [e for e in some if e.run == some[0].run]
        right.plot([e.start for e in first], [e.number for e in first], drawstyle="steps-post", **look)
    for axes, title, y in (
        (left, "How long episodes were", "length in steps"),
        (right, "How many had begun, in one run", "episodes"),
    ):
        dress_axes(axes, title, y)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel("step")
    _legend(figure, data, list(data.episodes))
    return figure


def planning_figure(data: PageData) -> Figure:
    """PlanningBudget, and the gap that it left beside the one that was wanted."""
    figure, (left, right) = _panels(2, data)
    for agent, some in data.episodes.items():
        look = _look(data, agent)
        _dots(left, [e.start for e in some], [e.work or np.nan for e in some], look)
        _dots(right, [e.start for e in some], [max(1e-16, e.gap) for e in some], look)
        wanted = sorted({(e.start, e.tolerance) for e in some})
        right.plot(*zip(*wanted, strict=True), color=look["color"], linewidth=0.8, alpha=0.7)
    for axes, title, y in (
        (left, "Planning effort", "counted operations"),
        (right, "Gap left (points) and wanted (lines)", "gap, costs scaled to [0, 1]"),
    ):
        dress_axes(axes, title, y)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel("first step of the episode")
    _legend(figure, data, list(data.episodes))
    return figure


def decomposition_figure(data: PageData) -> Figure:
    """A panel for each agent that samples kernels."""
    figure, panels = _panels(len(data.decompositions), data)
    for axes, (agent, terms) in zip(panels, data.decompositions.items(), strict=True):
        parts = (
            ("$H K_T$", terms.episodes),
            ("$R_1$", terms.averages),
            ("$R_2$", terms.gaps),
            ("$R_3$", terms.costs),
        )
        for (name, values), colour in zip(parts, COLORS, strict=False):
            axes.plot(terms.times, values.mean(axis=0), color=colour, label=name)
        axes.plot(terms.times, terms.bound.mean(axis=0), color=INK, linestyle="--", label="sum")
        axes.plot(terms.times, terms.regret.mean(axis=0), color=INK, linewidth=2, label="regret")
        dress_axes(axes, plain_text(agent), f"mean over {len(terms.regret)} runs")
        axes.set_xscale("log")
        axes.set_xlabel("step")
    handles, names = panels[0].get_legend_handles_labels()
    figure.legend(handles, names, frameon=False, fontsize=9, loc="outside lower center", ncols=6)
    return figure


def _panels(count: int, data: PageData) -> tuple[Figure, list[Axes]]:
    """Panels side by side, three in a row at most."""
    need_matplotlib()
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    columns, rows = min(count, 3), -(-count // 3)
    size = (4.8 * max(columns, 1.4), 4.0 * rows)
    figure = Figure(figsize=size, layout=ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.08))
    FigureCanvasAgg(figure)
    grid = figure.subplots(rows, columns, squeeze=False)
    for spare in grid.flat[count:]:
        spare.set_axis_off()
    figure.suptitle(plain_text(data.study.title or data.name, 90), fontsize=13, fontweight="bold", color=INK)
    return figure, list(grid.flat[:count])


def _look(data: PageData, agent: str) -> dict[str, Any]:
    """The colour and the stroke of an agent, as in the figure of regret."""
    return line_style(list(data.curves).index(agent))


def _dots(axes: Axes, x: Sequence[float], y: Sequence[float], look: dict[str, Any]) -> None:
    axes.plot(x, y, "o", color=look["color"], markersize=3.5, alpha=0.6, markeredgewidth=0)


def _legend(figure: Figure, data: PageData, agents: Sequence[str]) -> None:
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], marker="o", markersize=4, **_look(data, agent)) for agent in agents]
    names = [plain_text(agent) for agent in agents]
    figure.legend(handles, names, frameon=False, fontsize=9, loc="outside lower center", ncols=4)


# -- the policy -------------------------------------------------------------------------------------


def policy_figure(plan: Plan, model: POMDP) -> Figure:
    """A line for two states, the simplex for three, and the graph of the controller otherwise."""
    need_matplotlib()
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    figure = Figure(figsize=(7.2, 4.6), layout=ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.08))
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    by_beliefs = plan.controller.gains is None
    if by_beliefs and len(plan.states) == 2:
        draw_intervals(axes, plan, model)
    elif by_beliefs and len(plan.states) == 3:
        draw_triangle(axes, plan, model)
    else:
        figure.set_size_inches(7.2, 5.6)
        _draw_graph(axes, plan, model)
    return figure


def _draw_graph(axes: Axes, plan: Plan, model: POMDP) -> None:
    """Nodes on a circle in the order in which a run can meet them, coloured by what they do."""
    onward = successors(plan, model)
    met = list(nodes_from_the_start(onward, plan.controller.start))
    shown = met[:MOST_NODES]
    angle = np.pi / 2 - 2 * np.pi * np.arange(len(shown)) / len(shown)
    spots = dict(zip(shown, np.column_stack([np.cos(angle), np.sin(angle)]), strict=True))
    paint = paint_of([int(plan.controller.actions[node]) for node in shown])
    readings = labels(model).observations
    for node in shown:
        for successor, names in _edges(readings, onward[node]).items():
            if successor in spots and successor != node:
                _arrow(axes, spots[node], spots[successor], names if len(shown) <= 8 else "")
    for node in shown:
        style = paint[int(plan.controller.actions[node])]
        stays = node in _edges(readings, onward[node])
        start = node == plan.controller.start
        axes.plot(
            *spots[node], "o", markersize=23, markerfacecolor=style["facecolor"], markeredgecolor=INK,
            markeredgewidth=2.2 if start else 0.8, zorder=3, clip_on=False,
        )  # fmt: skip
        x, y = spots[node]
        words = f"{node}{'↺' if stays else ''}"
        axes.text(x, y, words, ha="center", va="center", fontsize=9, color=INK, zorder=4)
    left = f" (the first {len(shown)} of {len(met)})" if len(met) > len(shown) else ""
    title = f"The controller’s nodes{left}; bold: the start, ↺: may stay"
    axes.set_title(title, fontsize=11, loc="left", color=INK)
    axes.set_aspect("equal", adjustable="datalim")
    axes.update_datalim([(-1.2, -1.2), (1.2, 1.2)])
    axes.margins(0.0)
    axes.set_axis_off()
    legend_of_actions(axes, labels(model).actions, paint, dots=False)


def _edges(readings: Sequence[str], onward: Sequence[int | None]) -> dict[int, str]:
    """Successor -> the readings that lead there, as a short text."""
    groups: dict[int, list[str]] = {}
    for reading, successor in zip(readings, onward, strict=True):
        if successor is not None:
            groups.setdefault(successor, []).append(reading)
    return {
        node: ", ".join(plain_text(name, 14) for name in names)
        if len(names) <= _READINGS_ON_AN_EDGE
        else f"{len(names)} readings"
        for node, names in groups.items()
    }


def _arrow(axes: Axes, start: Any, end: Any, words: str) -> None:
    """Bent, so that there and back are two arrows, with its readings where it bends."""
    look = {"arrowstyle": "-|>", "color": "#777777", "lw": 1.0, "shrinkA": 13, "shrinkB": 13}
    axes.annotate("", end, start, arrowprops={**look, "connectionstyle": "arc3,rad=0.16"})
    if words:
        across = end - start
        middle = 0.5 * (start + end) + 0.08 * np.array([across[1], -across[0]])
        ground = {"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none", "alpha": 0.8}
        axes.text(
            float(middle[0]),
            float(middle[1]),
            words,
            ha="center",
            va="center",
            fontsize=8,
            color=INK,
            bbox=ground,
        )
