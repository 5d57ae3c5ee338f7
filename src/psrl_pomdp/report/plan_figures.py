"""Figures of a plan, for a paper or a talk: `plan_figure(plan, model).savefig("tiger.pdf")`.

matplotlib is an extra, imported inside; figures are objects of their own, so that nobody's pyplot changes.
Names from model files are only text: no formula is read out of a dollar sign.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Sequence
from importlib.util import find_spec
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .._serialization.atomic_files import write_atomically
from .._utils.arrays import Array
from ..errors import PSRLError
from .policy_text import best_nodes, intervals, labels, triangle_cells

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ..models.model import POMDP
    from ..planning import Plan

ENDINGS = (".png", ".svg", ".pdf")

# Okabe and Ito's colours, which people with any kind of colour vision can tell apart.
_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#999999")
_HATCHES = ("", "///", "...", "xxx")  # the second time round the colours, and so on
_LOWER, _UPPER, _INK = "#0072B2", "#D55E00", "#222222"
_UNDER_AXES: dict[str, Any] = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.17)}
_LONGEST_NAME = 28
_LINE = 60  # letters that a line of a legend has room for
_MOST_IN_LEGEND = 12


class MissingExtraError(PSRLError, ImportError):
    """A part of the package that was not installed; the message says how to."""


def need_matplotlib() -> None:
    """Raise where figures cannot be drawn."""
    if find_spec("matplotlib") is None:
        raise MissingExtraError('figures need matplotlib: pip install "psrl-pomdp[report]"')


def plan_figure(plan: Plan, model: POMDP) -> Figure:
    """The bounds over work; beside them the policy for two and three states where beliefs tell it, else the
    gap."""
    need_matplotlib()
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    figure = Figure(figsize=(9.6, 4.2), layout=ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.08))
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    _draw_bounds(left, plan)
    if plan.controller.gains is not None:
        _draw_gap(right, plan)
    elif len(plan.states) == 2:
        _draw_intervals(right, plan, model)
    elif len(plan.states) == 3:
        _draw_triangle(right, plan, model)
    else:
        _draw_gap(right, plan)
    if model.name:
        figure.suptitle(_text(model.name), fontsize=13, fontweight="bold", color=_INK)
    return figure


def save_figure(figure: Figure, path: str | PathLike[str]) -> None:
    """Write a figure as .png, .svg or .pdf, whole or not at all, and without the time of day."""
    place = Path(path)
    ending = place.suffix.lower()
    if ending not in ENDINGS:
        raise PSRLError(f"{place.name}: a figure ends in {', '.join(ENDINGS)}")
    dates = {".png": {}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        # A name may use a script that the font has not: boxes are drawn, and nothing is to be done.
        warnings.filterwarnings("ignore", "Glyph .* missing", UserWarning)
        figure.savefig(buffer, format=ending[1:], dpi=200, metadata=dates[ending])
    write_atomically(place, buffer.getvalue())


# -- bounds -----------------------------------------------------------------------------------------


def _draw_bounds(axes: Axes, plan: Plan) -> None:
    """Both bounds, in the user's units; they hold from the end of a round to the end of the next."""
    work, costs = _history(plan)
    low, high = np.sort(plan.units.from_scaled(costs), axis=1).T
    attained = "lower" if plan.units.kind == "reward" else "upper"
    axes.fill_between(work, low, high, step="post", color="#BBBBBB", alpha=0.35, linewidth=0)
    for which, bound, colour, marker in (("upper", high, _UPPER, "v"), ("lower", low, _LOWER, "^")):
        label = f"{which} bound" + (", which the policy attains" if which == attained else "")
        axes.plot(work, bound, color=colour, marker=marker, markersize=4, drawstyle="steps-post", label=label)
    unit = f" [{_text(plan.units.average_name)}]" if plan.units.name else ""
    _dress(axes, f"Bounds on the optimal average {plan.units.kind}", f"average {plan.units.kind}{unit}")
    _over_work(axes, work)
    axes.ticklabel_format(axis="y", useOffset=False)
    # Bounds that met at once are to look so, whatever their last digits.
    least = 1e-4 * (plan.units.high - plan.units.low)
    if np.ptp([low, high]) < least:
        middle = 0.5 * (low.min() + high.max())
        axes.set_ylim(middle - least, middle + least)
    axes.legend(ncols=2, frameon=False, fontsize=9, **_UNDER_AXES)


def _history(plan: Plan) -> tuple[Array, Array]:
    """Work and [lower, upper] after each round; the end alone where not even one was finished."""
    if not plan.rounds:
        return np.ones(1), np.array([[plan.lower_cost, plan.upper_cost]])
    costs = np.array([[r.lower, r.upper] for r in plan.rounds])
    return np.array([r.work for r in plan.rounds]), costs


def _draw_gap(axes: Axes, plan: Plan) -> None:
    work, costs = _history(plan)
    gap = costs[:, 1] - costs[:, 0]
    shown = gap > 0
    axes.plot(work[shown], gap[shown], color=_LOWER, marker="o", markersize=4)
    _dress(axes, "What is left between them", "gap, on the scale of costs in [0, 1]")
    _over_work(axes, work)
    if shown.any():
        axes.set_yscale("log")


def _over_work(axes: Axes, work: Array) -> None:
    """A log axis, labelled 1M, 2M, 5M where it is short and in decades where it is long."""
    from matplotlib.ticker import EngFormatter, LogLocator, NullFormatter

    axes.set_xlabel("work [counted operations]", fontsize=10, color=_INK)
    low, high = max(1.0, float(work.min())), max(1.0, float(work.max()))
    axes.set_xscale("log")
    around = 1.3 if high > 3 * low else 3.0  # at least a decade
    axes.set_xlim(low / around, high * around)
    decades = np.log10(high / low)
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if decades < 2.5 else (1.0,)))
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.xaxis.set_minor_formatter(NullFormatter())


def _dress(axes: Axes, title: str, y_label: str) -> None:
    axes.set_title(title, fontsize=11, loc="left", color=_INK)
    axes.set_ylabel(y_label, fontsize=10, color=_INK)
    axes.tick_params(labelsize=9, colors=_INK)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="#DDDDDD", linewidth=0.6)
    axes.set_axisbelow(True)


# -- two states -------------------------------------------------------------------------------------


def _draw_intervals(axes: Axes, plan: Plan, model: POMDP) -> None:
    """V(b) = min α·b over the belief in the second state, on a ground coloured by what is played."""
    found = intervals(plan)
    paint = _paint([piece.action for piece in found])
    for piece in found:
        axes.axvspan(piece.start, piece.end, linewidth=0, **paint[piece.action])
    vectors = plan.controller.vectors
    belief = np.union1d(np.linspace(0.0, 1.0, 501), [piece.start for piece in found])
    value = (np.column_stack([1 - belief, belief]) @ vectors.T).min(axis=1)
    axes.plot(belief, plan.units.difference(value - value.min()), color=_INK, linewidth=1.8)
    unit = f" [{_text(plan.units.total_name)}]" if plan.units.name else ""
    kind = "cost" if plan.units.kind == "cost" else "loss of reward"
    _dress(axes, "The policy, and the value of a belief", f"relative {kind} V(b){unit}")
    axes.grid(visible=False)
    axes.set_xlim(0.0, 1.0)
    axes.margins(y=0.08)
    axes.set_xlabel(f"probability of {_text(labels(model).states[plan.states[1]])}", fontsize=10, color=_INK)
    _legend_of_actions(axes, labels(model).actions, paint)


# -- three states -----------------------------------------------------------------------------------

_CORNERS = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, np.sqrt(0.75)]])


def _draw_triangle(axes: Axes, plan: Plan, model: POMDP) -> None:
    """The simplex of beliefs coloured by what is played, and the points of the lower bound's grid."""
    from matplotlib.patches import Polygon

    vectors, actions = plan.controller.vectors, plan.controller.actions
    nodes = np.unique(best_nodes(vectors, triangle_cells()))
    paint = _paint(actions[nodes].tolist())
    for node in nodes:
        region = _region(vectors[node], vectors[nodes])
        if len(region) > 2:
            style = paint[int(actions[node])]
            # An edge of the same colour closes the hairlines between neighbours that play the same.
            edge = {"edgecolor": style["facecolor"]} if "hatch" not in style else {}
            axes.add_patch(Polygon(region @ _CORNERS, linewidth=0.4, **{**edge, **style}))
    axes.add_patch(Polygon(_CORNERS, fill=False, edgecolor=_INK, linewidth=1.2))
    points = plan.grid.points @ _CORNERS
    axes.plot(*points.T, "o", color=_INK, markersize=2.2, markeredgewidth=0, clip_on=False, label="grid")
    names = labels(model).states
    for corner, (x, y), dy in zip(range(3), _CORNERS, (-0.035, -0.035, 0.03), strict=True):
        name = _text(names[plan.states[corner]])
        axes.text(x, y + dy, name, ha="center", va="top" if dy < 0 else "bottom", fontsize=10, color=_INK)
    axes.set_aspect("equal", adjustable="datalim")
    axes.update_datalim([(-0.1, -0.09), (1.1, 0.94)])  # room for the names
    axes.margins(0.0)
    axes.set_axis_off()
    axes.set_title("The policy on the simplex of beliefs", fontsize=11, loc="left", color=_INK)
    _legend_of_actions(axes, labels(model).actions, paint, dots=True)


def _region(mine: Array, all_vectors: Array) -> Array:
    """[k, 3]: the corners of the beliefs where `mine` is the lowest, by cutting the triangle to them."""
    corners = np.eye(3)
    for other in all_vectors:
        side = corners @ (other - mine)  # where it is negative, the other is lower
        if (side >= 0.0).all():
            continue
        kept: list[Array] = []
        for i in range(len(corners)):
            here, there = i - 1, i
            if (side[here] < 0.0) != (side[there] < 0.0):
                share = side[here] / (side[here] - side[there])
                kept.append((1 - share) * corners[here] + share * corners[there])
            if side[there] >= 0.0:
                kept.append(corners[there])
        corners = np.array(kept).reshape(-1, 3)
    return corners


# -- names and colours ------------------------------------------------------------------------------


def _paint(actions: Sequence[int]) -> dict[int, dict[str, Any]]:
    """A light colour for each action that is played; hatched where the colours have run out."""
    styles: dict[int, dict[str, Any]] = {}
    for place, action in enumerate(sorted(set(actions))):
        colour, hatch = place % len(_COLOURS), place // len(_COLOURS) % len(_HATCHES)
        styles[action] = {"facecolor": _tint(_COLOURS[colour])}
        if hatch:
            styles[action] |= {"hatch": _HATCHES[hatch], "edgecolor": "white"}
    return styles


def _tint(colour: str, strength: float = 0.45) -> tuple[float, float, float]:
    """The colour on white paper; opaque, so that neighbours do not add up where they touch."""
    red, green, blue = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    return 1 - strength * (1 - red), 1 - strength * (1 - green), 1 - strength * (1 - blue)


def _legend_of_actions(
    axes: Axes, actions: Sequence[str], paint: dict[int, dict[str, Any]], dots: bool = False
) -> None:
    """Names under the panel. Set as texts, as matplotlib leaves out labels that begin with `_`."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles: list[Any] = [Patch(**{"linewidth": 0, **style}) for style in paint.values()]
    names = [_text(actions[action]) for action in paint]
    if len(names) > _MOST_IN_LEGEND:
        left = len(names) - _MOST_IN_LEGEND + 1
        handles, names = handles[:-left], names[:-left]
        handles.append(Line2D([], [], linestyle="none"))
        names.append(f"and {left} more")
    if dots:
        handles.append(Line2D([], [], color=_INK, marker="o", markersize=3, linestyle="none"))
        names.append("grid point")
    columns = max(1, min(len(names), _LINE // (max(map(len, names)) + 5)))
    place = _UNDER_AXES | ({"bbox_to_anchor": (0.5, -0.05)} if dots else {})
    blanks = ["name"] * len(names)
    legend = axes.legend(handles, blanks, ncols=columns, frameon=False, fontsize=9, **place)
    for text, name in zip(legend.get_texts(), names, strict=True):
        text.set_text(name)


def _text(name: str, most: int = _LONGEST_NAME) -> str:
    """A name from a model as plain text: printable, of bounded length, and no formula."""
    shown = "".join(c if c.isprintable() else "\ufffd" for c in name)
    if len(shown) > most:
        shown = shown[: most - 1] + "…"
    return shown.replace("$", r"\$")
