"""The style of figures for papers: figures, colors, line styles, axes, legends, and names as plain text.

matplotlib is an optional dependency, so the functions import it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .._utils.arrays import Array, Index

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# The palette of Okabe and Ito, which is distinguishable with every form of color vision.
COLORS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#999999")
LINE_STYLES = ("-", "--", "-.", ":")
INK = "#222222"
UNDER_AXES: dict[str, Any] = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.17)}
_HATCHES = ("", "///", "...", "xxx")  # one for each cycle through the colors
MAX_NAME = 28  # characters
_LEGEND_WIDTH = 60  # characters per line of a legend
_MAX_LEGEND_ENTRIES = 12


def line_style(place: int) -> dict[str, Any]:
    """Return the color and the line style of the curve with this number."""
    return {
        "color": COLORS[place % len(COLORS)],
        "linestyle": LINE_STYLES[place // len(COLORS) % len(LINE_STYLES)],
    }


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure of this size in inches. It does not depend on pyplot."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    figure = Figure(figsize=(width, height), layout=ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.08))
    FigureCanvasAgg(figure)
    return figure


def add_title(figure: Figure, title: str, max_length: int = 90) -> None:
    """Write a title above all panels."""
    figure.suptitle(plain_text(title, max_length), fontsize=13, fontweight="bold", color=INK)


def draw_band(axes: Axes, x: Index, low: Array, high: Array, color: str) -> None:
    """Fill the area between two curves."""
    axes.fill_between(x, low, high, color=color, alpha=0.15, lw=0)


def style_axes(axes: Axes, title: str, y_label: str) -> None:
    """Set the title and the vertical label of a panel, and the style of its lines."""
    axes.set_title(title, fontsize=11, loc="left", color=INK)
    axes.set_ylabel(y_label, fontsize=10, color=INK)
    axes.tick_params(labelsize=9, colors=INK)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="#DDDDDD", linewidth=0.6)
    axes.set_axisbelow(True)


def action_styles(actions: Sequence[int]) -> dict[int, dict[str, Any]]:
    """Return a light color for each of the actions; with more actions than colors, some are hatched."""
    styles: dict[int, dict[str, Any]] = {}
    for place, action in enumerate(sorted(set(actions))):
        color, hatch = place % len(COLORS), place // len(COLORS) % len(_HATCHES)
        styles[action] = {"facecolor": _tint(COLORS[color])}
        if hatch:
            styles[action] |= {"hatch": _HATCHES[hatch], "edgecolor": "white"}
    return styles


def _tint(color: str, strength: float = 0.45) -> tuple[float, float, float]:
    """Return a lighter, opaque color; transparent areas would be darker where adjacent ones overlap."""
    red, green, blue = (int(color[i : i + 2], 16) / 255 for i in (1, 3, 5))
    return 1 - strength * (1 - red), 1 - strength * (1 - green), 1 - strength * (1 - blue)


def legend_of_actions(
    axes: Axes, actions: Sequence[str], styles: dict[int, dict[str, Any]], grid_points: bool = False
) -> None:
    """Write a legend of actions, and of the grid points, under a panel.

    The names are set after the legend is made, because matplotlib omits labels that begin with `_`.
    """
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles: list[Any] = [Patch(**{"linewidth": 0, **style}) for style in styles.values()]
    names = [plain_text(actions[action]) for action in styles]
    if len(names) > _MAX_LEGEND_ENTRIES:
        omitted = len(names) - _MAX_LEGEND_ENTRIES + 1
        handles, names = handles[:-omitted], names[:-omitted]
        handles.append(Line2D([], [], linestyle="none"))
        names.append(f"and {omitted} more")
    if grid_points:
        handles.append(Line2D([], [], color=INK, marker="o", markersize=3, linestyle="none"))
        names.append("grid point")
    columns = max(1, min(len(names), _LEGEND_WIDTH // (max(map(len, names)) + 5)))
    place = UNDER_AXES | ({"bbox_to_anchor": (0.5, -0.05)} if grid_points else {})
    placeholders = ["name"] * len(names)
    legend = axes.legend(handles, placeholders, ncols=columns, frameon=False, fontsize=9, **place)
    for text, name in zip(legend.get_texts(), names, strict=True):
        text.set_text(name)


def plain_text(name: str, max_length: int = MAX_NAME) -> str:
    """Return a name from a model as plain text: printable, of bounded length, and not read as a formula."""
    return printable(name, max_length).replace("$", r"\$")


def printable(text: str, max_length: int) -> str:
    r"""Return a text without control characters and with at most `max_length` characters.

    >>> printable("a\x00b", 9) == "a\ufffdb", printable("abcdef", 4)
    (True, 'abc…')
    """
    shown = "".join(c if c.isprintable() else "\ufffd" for c in text)
    return shown if len(shown) <= max_length else shown[: max_length - 1] + "…"
