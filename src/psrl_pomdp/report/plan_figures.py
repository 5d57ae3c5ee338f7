"""Figures of a plan for papers and talks: `plan_figure(plan, model).savefig("tiger.pdf")`.

matplotlib is an optional dependency, so the functions import it. The figures do not change the state of
pyplot. Names from model files are plain text: a dollar sign does not start a formula.
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
from .style import (
    COLORS,
    INK,
    MAX_NAME,
    UNDER_AXES,
    action_styles,
    add_title,
    legend_of_actions,
    new_figure,
    plain_text,
    style_axes,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ..models import POMDP
    from ..planning import Plan

ENDINGS = (".png", ".svg", ".pdf")

_LOWER, _UPPER = COLORS[0], COLORS[5]


class MissingExtraError(PSRLError, ImportError):
    """An optional dependency is not installed; the message says how to install it."""


def need_matplotlib() -> None:
    """Raise `MissingExtraError` if matplotlib is not installed."""
    if find_spec("matplotlib") is None:
        raise MissingExtraError('figures need matplotlib: pip install "psrl-pomdp[report]"')


def plan_figure(plan: Plan, model: POMDP) -> Figure:
    """Return the figure of a plan: its bounds over the work of the planner, and its policy or its gap.

    The right panel shows the policy if two or three states are reachable and the plan does not depend on the
    initial belief, and the gap over the work otherwise.

    Parameters
    ----------
    plan
        The plan.
    model
        The model for which it was computed.

    Raises
    ------
    MissingExtraError
        If matplotlib is not installed.
    """
    need_matplotlib()
    figure = new_figure(9.6, 4.2)
    left, right = figure.subplots(1, 2)
    _draw_bounds(left, plan)
    if not draw_on_beliefs(right, plan, model):
        _draw_gap(right, plan)
    if model.name:
        add_title(figure, model.name, MAX_NAME)
    return figure


def draw_on_beliefs(axes: Axes, plan: Plan, model: POMDP) -> bool:
    """Draw the policy on the set of beliefs if it has two or three states; return False otherwise."""
    if plan.controller.gains is None and len(plan.states) == 2:
        _draw_intervals(axes, plan, model)
        return True
    if plan.controller.gains is None and len(plan.states) == 3:
        _draw_triangle(axes, plan, model)
        return True
    return False


def save_figure(figure: Figure, path: str | PathLike[str]) -> None:
    """Write a figure atomically, and without a date, so that the same figure gives the same bytes.

    Parameters
    ----------
    figure
        The figure.
    path
        A file that ends in .png, .svg or .pdf.

    Raises
    ------
    PSRLError
        If the file has another ending.
    """
    place = Path(path)
    ending = place.suffix.lower()
    if ending not in ENDINGS:
        raise PSRLError(f"{place.name}: the name of a figure must end in {', '.join(ENDINGS)}")
    dates = {".png": {}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        # Characters that are missing in the font are drawn as boxes; the warning would not help the user.
        warnings.filterwarnings("ignore", "Glyph .* missing", UserWarning)
        figure.savefig(buffer, format=ending[1:], dpi=200, metadata=dates[ending])
    write_atomically(place, buffer.getvalue())


# -- bounds -----------------------------------------------------------------------------------------


def _draw_bounds(axes: Axes, plan: Plan) -> None:
    """Draw both bounds in the user's units as steps: a bound holds until the end of the next iteration."""
    work, costs = _history(plan)
    low, high = np.sort(plan.value_units.from_scaled(costs), axis=1).T
    attained = "lower" if plan.units.kind == "reward" else "upper"
    axes.fill_between(work, low, high, step="post", color="#BBBBBB", alpha=0.35, linewidth=0)
    for which, bound, color, marker in (("upper", high, _UPPER, "v"), ("lower", low, _LOWER, "^")):
        label = f"{which} bound" + (", which the policy attains" if which == attained else "")
        axes.plot(work, bound, color=color, marker=marker, markersize=4, drawstyle="steps-post", label=label)
    of = "discounted" if plan.is_discounted else "average"
    name = plan.value_units.name if plan.is_discounted else plan.units.average_name
    unit = f" [{plain_text(name)}]" if plan.units.name else ""
    style_axes(axes, f"Bounds on the optimal {of} {plan.units.kind}", f"{of} {plan.units.kind}{unit}")
    _style_work_axis(axes, work)
    axes.ticklabel_format(axis="y", useOffset=False)
    # A minimum height of the panel, so that tiny gaps look tiny.
    min_range = 1e-4 * (plan.value_units.high - plan.value_units.low)
    if np.ptp([low, high]) < min_range:
        middle = 0.5 * (low.min() + high.max())
        axes.set_ylim(middle - min_range, middle + min_range)
    axes.legend(ncols=2, frameon=False, fontsize=9, **UNDER_AXES)


def _history(plan: Plan) -> tuple[Array, Array]:
    """Return the work and [lower, upper] after each iteration, or the final bounds if there was none."""
    if not plan.rounds:
        return np.ones(1), np.array([[plan.lower_cost, plan.upper_cost]])
    costs = np.array([[r.lower, r.upper] for r in plan.rounds])
    return np.array([r.work for r in plan.rounds]), costs


def _draw_gap(axes: Axes, plan: Plan) -> None:
    work, costs = _history(plan)
    gap = costs[:, 1] - costs[:, 0]
    positive = gap > 0
    axes.plot(work[positive], gap[positive], color=_LOWER, marker="o", markersize=4)
    style_axes(axes, "Gap between the bounds", "gap, costs scaled to [0, 1]")
    _style_work_axis(axes, work)
    if positive.any():
        axes.set_yscale("log")


def _style_work_axis(axes: Axes, work: Array) -> None:
    """Make a logarithmic axis with ticks at 1, 2 and 5 times powers of ten, or at powers of ten if long."""
    from matplotlib.ticker import EngFormatter, LogLocator, NullFormatter

    axes.set_xlabel("work [counted operations]", fontsize=10, color=INK)
    low, high = max(1.0, float(work.min())), max(1.0, float(work.max()))
    axes.set_xscale("log")
    margin = 1.3 if high > 3 * low else 3.0  # the axis has at least about a decade
    axes.set_xlim(low / margin, high * margin)
    decades = np.log10(high / low)
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if decades < 2.5 else (1.0,)))
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.xaxis.set_minor_formatter(NullFormatter())


# -- two states -------------------------------------------------------------------------------------


def _draw_intervals(axes: Axes, plan: Plan, model: POMDP) -> None:
    """Draw V(b) = min α·b over the probability of the second state; the background shows the actions."""
    found = intervals(plan)
    styles = action_styles([piece.action for piece in found])
    for piece in found:
        axes.axvspan(piece.start, piece.end, linewidth=0, **styles[piece.action])
    vectors = plan.controller.vectors
    belief = np.union1d(np.linspace(0.0, 1.0, 501), [piece.start for piece in found])
    value = (np.column_stack([1 - belief, belief]) @ vectors.T).min(axis=1)
    axes.plot(belief, plan.units.difference(value - value.min()), color=INK, linewidth=1.8)
    unit = f" [{plain_text(plan.units.total_name)}]" if plan.units.name else ""
    kind = "cost" if plan.units.kind == "cost" else "loss of reward"
    style_axes(axes, "Policy and relative value of a belief", f"relative {kind} V(b){unit}")
    axes.grid(visible=False)
    axes.set_xlim(0.0, 1.0)
    axes.margins(y=0.08)
    axes.set_xlabel(
        f"probability of {plain_text(labels(model).states[plan.states[1]])}", fontsize=10, color=INK
    )
    legend_of_actions(axes, labels(model).actions, styles)


# -- three states -----------------------------------------------------------------------------------

_CORNERS = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, np.sqrt(0.75)]])


def _draw_triangle(axes: Axes, plan: Plan, model: POMDP) -> None:
    """Draw the simplex of beliefs, colored by action, and the grid points of the lower bound."""
    from matplotlib.patches import Polygon

    vectors, actions = plan.controller.vectors, plan.controller.actions
    nodes = np.unique(best_nodes(vectors, triangle_cells()))
    styles = action_styles(actions[nodes].tolist())
    for node in nodes:
        polygon = region(vectors[node], vectors[nodes])
        if len(polygon) > 2:
            style = styles[int(actions[node])]
            # Edges of the same color hide the gaps between adjacent regions with the same action.
            edge = {"edgecolor": style["facecolor"]} if "hatch" not in style else {}
            axes.add_patch(Polygon(polygon @ _CORNERS, linewidth=0.4, **{**edge, **style}))
    axes.add_patch(Polygon(_CORNERS, fill=False, edgecolor=INK, linewidth=1.2))
    points = plan.grid.points @ _CORNERS
    axes.plot(*points.T, "o", color=INK, markersize=2.2, markeredgewidth=0, clip_on=False, label="grid")
    names = labels(model).states
    for corner, (x, y), dy in zip(range(3), _CORNERS, (-0.035, -0.035, 0.03), strict=True):
        name = plain_text(names[plan.states[corner]])
        axes.text(x, y + dy, name, ha="center", va="top" if dy < 0 else "bottom", fontsize=10, color=INK)
    axes.set_aspect("equal", adjustable="datalim")
    axes.update_datalim([(-0.1, -0.09), (1.1, 0.94)])  # space for the names
    axes.margins(0.0)
    axes.set_axis_off()
    axes.set_title("Policy on the simplex of beliefs", fontsize=11, loc="left", color=INK)
    legend_of_actions(axes, labels(model).actions, styles, grid_points=True)


def region(vector: Array, all_vectors: Array) -> Array:
    """[k, 3]: the corners of the polygon of beliefs at which `vector` is the lowest.

    The triangle is clipped by one half-plane per vector (Sutherland and Hodgman 1974).
    """
    corners = np.eye(3)
    for other in all_vectors:
        difference = corners @ (other - vector)  # negative where the other vector is lower
        if (difference >= 0.0).all():
            continue
        clipped: list[Array] = []
        for i in range(len(corners)):
            previous, current = i - 1, i
            if (difference[previous] < 0.0) != (difference[current] < 0.0):
                share = difference[previous] / (difference[previous] - difference[current])
                clipped.append((1 - share) * corners[previous] + share * corners[current])
            if difference[current] >= 0.0:
                clipped.append(corners[current])
        corners = np.array(clipped).reshape(-1, 3)
    return corners
