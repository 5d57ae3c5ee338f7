"""The figures of a study for papers: `write_figures(data, folder)` writes each as SVG and PDF.

They show the same numbers as the page. The page also contains `policy_figure`.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .._utils.arrays import Array
from .observation_text import by_successor
from .page_data import PageData
from .plan_figures import draw_on_beliefs, need_matplotlib, save_figure
from .policy_text import labels, nodes_in_visit_order, successors
from .regret_figures import regret_figure
from .style import (
    COLORS,
    INK,
    action_styles,
    add_title,
    draw_band,
    legend_of_actions,
    line_style,
    new_figure,
    plain_text,
    style_axes,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ..models import POMDP
    from ..planning import Plan

ENDINGS = (".svg", ".pdf")
_MAX_NODES = 18  # nodes of a controller that its graph shows
_MAX_EDGE_LABELS = 2  # observations that are listed at an edge


def paper_figures(data: PageData) -> Iterator[tuple[str, Figure]]:
    """Yield the name and the figure of everything that the study has data for."""
    title = data.study.title or f"{data.name}: {data.study.seeds} runs of every agent"
    bound = {} if data.bound is None else {"Theorem 1’s bound": data.bound.values}
    yield "regret", regret_figure(data.curves, title=title, unit=data.units.total_name, bound=bound)
    if data.posterior_curves:
        yield "posterior", posterior_figure(data)
    if data.episodes:
        yield "episodes", episodes_figure(data)
        yield "planning", planning_figure(data)
    if data.decompositions:
        yield "decomposition", decomposition_figure(data)
    if data.truth is not None:
        yield "policy", policy_figure(data.truth.plan, data.truth.world)


def write_figures(data: PageData, folder: Path) -> list[Path]:
    """Write every figure as SVG and as PDF, and return the paths.

    Parameters
    ----------
    data
        The content of the page.
    folder
        The folder for the figures; it is created if it does not exist.

    Raises
    ------
    MissingExtraError
        If matplotlib is not installed.
    """
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
    """Return a figure as an SVG element, with all text as shapes, so that no name becomes markup."""
    import matplotlib

    buffer = io.StringIO()
    with (
        matplotlib.rc_context({"svg.fonttype": "path", "svg.hashsalt": "psrl-pomdp"}),
        warnings.catch_warnings(),
    ):
        warnings.filterwarnings("ignore", "Glyph .* missing", UserWarning)
        no_metadata = dict.fromkeys(("Date", "Creator", "Type", "Format"))
        figure.savefig(buffer, format="svg", transparent=True, metadata=no_metadata)
    text = re.sub(r"<!--.*?-->", "", buffer.getvalue(), flags=re.DOTALL)
    return text[text.index("<svg") :]


# -- figures ----------------------------------------------------------------------------------------


def posterior_figure(data: PageData) -> Figure:
    """Return the concentration of the posterior at the true kernel, with a panel for each measure."""
    y_labels = {"weight": "posterior probability of the true kernel", "distance": "mean L1 distance of a row"}
    figure, panels = _panels(len(data.posterior_curves), data)
    for axes, (measure, agents) in zip(panels, sorted(data.posterior_curves.items()), strict=True):
        for agent, found in agents.items():
            style = _agent_style(data, agent)
            axes.plot(found.times, found.mean, **style)
            draw_band(axes, found.times, found.low, found.high, style["color"])
        _style_time_axes(axes, "Mean and range of all runs", y_labels[measure])
    _legend(figure, data, [agent for agents in data.posterior_curves.values() for agent in agents])
    return figure


def episodes_figure(data: PageData) -> Figure:
    """Return the lengths of episodes, and the number of episodes of one run over time."""
    figure, (left, right) = _panels(2, data)
    for agent, some in data.episodes.items():
        style = _agent_style(data, agent)
        _points(left, [e.start for e in some], [e.length for e in some], style)
        first = [e for e in some if e.run == some[0].run]
        right.plot([e.start for e in first], [e.number for e in first], drawstyle="steps-post", **style)
    _style_time_axes(left, "Lengths of the episodes", "length in steps", y_scale="log")
    _style_time_axes(right, "Number of episodes in one run", "episodes", y_scale="log")
    _legend(figure, data, list(data.episodes))
    return figure


def planning_figure(data: PageData) -> Figure:
    """Return the work of the planner for each episode, and the gap of each plan with its tolerance."""
    figure, (left, right) = _panels(2, data)
    for agent, some in data.episodes.items():
        style = _agent_style(data, agent)
        _points(left, [e.start for e in some], [e.work or np.nan for e in some], style)
        _points(right, [e.start for e in some], [max(1e-16, e.gap) for e in some], style)
        tolerances = sorted({(e.start, e.tolerance) for e in some})
        right.plot(*zip(*tolerances, strict=True), color=style["color"], linewidth=0.8, alpha=0.7)
    for axes, title, y_label in (
        (left, "Planning work", "counted operations"),
        (right, "Gap (points) and tolerance (lines)", "gap, costs scaled to [0, 1]"),
    ):
        _style_time_axes(axes, title, y_label, x_label="first step of the episode", y_scale="log")
    _legend(figure, data, list(data.episodes))
    return figure


def decomposition_figure(data: PageData) -> Figure:
    """Return the decomposition of the regret, with a panel for each agent that has one."""
    figure, panels = _panels(len(data.decompositions), data)
    for axes, (agent, terms) in zip(panels, data.decompositions.items(), strict=True):
        parts = (
            ("$H K_T$", terms.episodes),
            ("$R_1$", terms.averages),
            ("$R_2$", terms.gaps),
            ("$R_3$", terms.costs),
        )
        for (name, values), color in zip(parts, COLORS, strict=False):
            axes.plot(terms.times, values.mean(axis=0), color=color, label=name)
        axes.plot(terms.times, terms.bound.mean(axis=0), color=INK, linestyle="--", label="sum")
        axes.plot(terms.times, terms.regret.mean(axis=0), color=INK, linewidth=2, label="regret")
        _style_time_axes(axes, plain_text(agent), f"mean over {len(terms.regret)} runs")
    handles, names = panels[0].get_legend_handles_labels()
    figure.legend(handles, names, frameon=False, fontsize=9, loc="outside lower center", ncols=6)
    return figure


def _panels(count: int, data: PageData) -> tuple[Figure, list[Axes]]:
    """Return a figure and its panels, at most three in a row."""
    need_matplotlib()
    columns, rows = min(count, 3), -(-count // 3)
    figure = new_figure(4.8 * max(columns, 1.4), 4.0 * rows)
    grid = figure.subplots(rows, columns, squeeze=False)
    for unused in grid.flat[count:]:
        unused.set_axis_off()
    add_title(figure, data.study.title or data.name)
    return figure, list(grid.flat[:count])


def _style_time_axes(
    axes: Axes, title: str, y_label: str, *, x_label: str = "step", y_scale: str = "linear"
) -> None:
    """Set the title and the labels of a panel with a logarithmic time axis."""
    style_axes(axes, title, y_label)
    axes.set_xscale("log")
    axes.set_yscale(y_scale)
    axes.set_xlabel(x_label)


def _agent_style(data: PageData, agent: str) -> dict[str, Any]:
    """Return the color and the line style of an agent, as in the figure of regret."""
    return line_style(list(data.curves).index(agent))


def _points(axes: Axes, x: Sequence[float], y: Sequence[float], style: dict[str, Any]) -> None:
    axes.plot(x, y, "o", color=style["color"], markersize=3.5, alpha=0.6, markeredgewidth=0)


def _legend(figure: Figure, data: PageData, agents: Sequence[str]) -> None:
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], marker="o", markersize=4, **_agent_style(data, agent)) for agent in agents]
    names = [plain_text(agent) for agent in agents]
    figure.legend(handles, names, frameon=False, fontsize=9, loc="outside lower center", ncols=4)


# -- the policy -------------------------------------------------------------------------------------


def policy_figure(plan: Plan, model: POMDP) -> Figure:
    """Return the policy on the set of beliefs for two or three states, else the graph of the controller."""
    need_matplotlib()
    figure = new_figure(7.2, 4.6)
    axes = figure.subplots()
    if not draw_on_beliefs(axes, plan, model):
        figure.set_size_inches(7.2, 5.6)
        _draw_graph(axes, plan, model)
    return figure


def _draw_graph(axes: Axes, plan: Plan, model: POMDP) -> None:
    """Draw the first nodes of the controller on a circle, in breadth-first order, colored by action."""
    next_nodes, controller = successors(plan, model), plan.controller
    order = list(nodes_in_visit_order(next_nodes, controller.start))
    shown = order[:_MAX_NODES]
    angle = np.pi / 2 - 2 * np.pi * np.arange(len(shown)) / len(shown)
    positions = dict(zip(shown, np.column_stack([np.cos(angle), np.sin(angle)]), strict=True))
    styles = action_styles([int(controller.actions[node]) for node in shown])
    names = labels(model)
    edges = {node: by_successor(plan, model, node, next_nodes[node]) for node in shown}
    for node in shown:
        for successor, observations in edges[node].items():
            if successor in positions and successor != node:
                text = _edge_label(observations) if len(shown) <= 8 else ""
                _draw_arrow(axes, positions[node], positions[successor], text)
    for node in shown:
        x, y = positions[node]
        axes.plot(
            x, y, "o", markersize=23, markerfacecolor=styles[int(controller.actions[node])]["facecolor"],
            markeredgecolor=INK, markeredgewidth=2.2 if node == controller.start else 0.8, zorder=3,
            clip_on=False,
        )  # fmt: skip
        text = f"{node}{'↺' if node in edges[node] else ''}"
        axes.text(x, y, text, ha="center", va="center", fontsize=9, color=INK, zorder=4)
    part = f" (the first {len(shown)} of {len(order)})" if len(order) > len(shown) else ""
    title = f"Nodes of the controller{part}; bold: start, ↺: may stay"
    axes.set_title(title, fontsize=11, loc="left", color=INK)
    axes.set_aspect("equal", adjustable="datalim")
    axes.update_datalim([(-1.2, -1.2), (1.2, 1.2)])
    axes.margins(0.0)
    axes.set_axis_off()
    legend_of_actions(axes, names.actions, styles)


def _edge_label(observations: Sequence[str]) -> str:
    if len(observations) > _MAX_EDGE_LABELS:
        return f"{len(observations)} observations"
    return ", ".join(plain_text(name, 14) for name in observations)


def _draw_arrow(axes: Axes, start: Array, end: Array, text: str) -> None:
    """Draw a curved arrow with a text; edges in both directions between two nodes do not overlap."""
    style = {"arrowstyle": "-|>", "color": "#777777", "lw": 1.0, "shrinkA": 13, "shrinkB": 13}
    axes.annotate("", tuple(end), tuple(start), arrowprops={**style, "connectionstyle": "arc3,rad=0.16"})
    if text:
        along = end - start
        x, y = (0.5 * (start + end) + 0.08 * np.array([along[1], -along[0]])).tolist()
        box = {"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none", "alpha": 0.8}
        axes.text(x, y, text, ha="center", va="center", fontsize=8, color=INK, bbox=box)
