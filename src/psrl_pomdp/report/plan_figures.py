"""Figures of a plan, for a paper or a talk: `plan_figure(plan, model).savefig("tiger.pdf")`.

matplotlib is an extra, imported inside; figures are objects of their own, so that nobody's pyplot changes.
Names from model files are only text: no formula is read out of a dollar sign.
"""

from __future__ import annotations

import io
import warnings
from importlib.util import find_spec
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from .._serialization.atomic_files import write_atomically
from .._utils.arrays import Array
from ..errors import PSRLError
from .policy_text import best_nodes, intervals, labels, triangle_cells
from .style import COLORS, INK, UNDER_AXES, dress_axes, legend_of_actions, paint_of, plain_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ..models import POMDP
    from ..planning import Plan

ENDINGS = (".png", ".svg", ".pdf")

_LOWER, _UPPER = COLORS[0], COLORS[5]


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
        draw_intervals(right, plan, model)
    elif len(plan.states) == 3:
        draw_triangle(right, plan, model)
    else:
        _draw_gap(right, plan)
    if model.name:
        figure.suptitle(plain_text(model.name), fontsize=13, fontweight="bold", color=INK)
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
    unit = f" [{plain_text(plan.units.average_name)}]" if plan.units.name else ""
    dress_axes(axes, f"Bounds on the optimal average {plan.units.kind}", f"average {plan.units.kind}{unit}")
    _over_work(axes, work)
    axes.ticklabel_format(axis="y", useOffset=False)
    # Bounds that met at once are to look so, whatever their last digits.
    least = 1e-4 * (plan.units.high - plan.units.low)
    if np.ptp([low, high]) < least:
        middle = 0.5 * (low.min() + high.max())
        axes.set_ylim(middle - least, middle + least)
    axes.legend(ncols=2, frameon=False, fontsize=9, **UNDER_AXES)


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
    dress_axes(axes, "What is left between them", "gap, on the scale of costs in [0, 1]")
    _over_work(axes, work)
    if shown.any():
        axes.set_yscale("log")


def _over_work(axes: Axes, work: Array) -> None:
    """A log axis, labelled 1M, 2M, 5M where it is short and in decades where it is long."""
    from matplotlib.ticker import EngFormatter, LogLocator, NullFormatter

    axes.set_xlabel("work [counted operations]", fontsize=10, color=INK)
    low, high = max(1.0, float(work.min())), max(1.0, float(work.max()))
    axes.set_xscale("log")
    around = 1.3 if high > 3 * low else 3.0  # at least a decade
    axes.set_xlim(low / around, high * around)
    decades = np.log10(high / low)
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if decades < 2.5 else (1.0,)))
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.xaxis.set_minor_formatter(NullFormatter())


# -- two states -------------------------------------------------------------------------------------


def draw_intervals(axes: Axes, plan: Plan, model: POMDP) -> None:
    """V(b) = min α·b over the belief in the second state, on a ground coloured by what is played."""
    found = intervals(plan)
    paint = paint_of([piece.action for piece in found])
    for piece in found:
        axes.axvspan(piece.start, piece.end, linewidth=0, **paint[piece.action])
    vectors = plan.controller.vectors
    belief = np.union1d(np.linspace(0.0, 1.0, 501), [piece.start for piece in found])
    value = (np.column_stack([1 - belief, belief]) @ vectors.T).min(axis=1)
    axes.plot(belief, plan.units.difference(value - value.min()), color=INK, linewidth=1.8)
    unit = f" [{plain_text(plan.units.total_name)}]" if plan.units.name else ""
    kind = "cost" if plan.units.kind == "cost" else "loss of reward"
    dress_axes(axes, "The policy, and the value of a belief", f"relative {kind} V(b){unit}")
    axes.grid(visible=False)
    axes.set_xlim(0.0, 1.0)
    axes.margins(y=0.08)
    axes.set_xlabel(
        f"probability of {plain_text(labels(model).states[plan.states[1]])}", fontsize=10, color=INK
    )
    legend_of_actions(axes, labels(model).actions, paint)


# -- three states -----------------------------------------------------------------------------------

_CORNERS = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, np.sqrt(0.75)]])


def draw_triangle(axes: Axes, plan: Plan, model: POMDP) -> None:
    """The simplex of beliefs coloured by what is played, and the points of the lower bound's grid."""
    from matplotlib.patches import Polygon

    vectors, actions = plan.controller.vectors, plan.controller.actions
    nodes = np.unique(best_nodes(vectors, triangle_cells()))
    paint = paint_of(actions[nodes].tolist())
    for node in nodes:
        region = _region(vectors[node], vectors[nodes])
        if len(region) > 2:
            style = paint[int(actions[node])]
            # An edge of the same colour closes the hairlines between neighbours that play the same.
            edge = {"edgecolor": style["facecolor"]} if "hatch" not in style else {}
            axes.add_patch(Polygon(region @ _CORNERS, linewidth=0.4, **{**edge, **style}))
    axes.add_patch(Polygon(_CORNERS, fill=False, edgecolor=INK, linewidth=1.2))
    points = plan.grid.points @ _CORNERS
    axes.plot(*points.T, "o", color=INK, markersize=2.2, markeredgewidth=0, clip_on=False, label="grid")
    names = labels(model).states
    for corner, (x, y), dy in zip(range(3), _CORNERS, (-0.035, -0.035, 0.03), strict=True):
        name = plain_text(names[plan.states[corner]])
        axes.text(x, y + dy, name, ha="center", va="top" if dy < 0 else "bottom", fontsize=10, color=INK)
    axes.set_aspect("equal", adjustable="datalim")
    axes.update_datalim([(-0.1, -0.09), (1.1, 0.94)])  # room for the names
    axes.margins(0.0)
    axes.set_axis_off()
    axes.set_title("The policy on the simplex of beliefs", fontsize=11, loc="left", color=INK)
    legend_of_actions(axes, labels(model).actions, paint, dots=True)


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
