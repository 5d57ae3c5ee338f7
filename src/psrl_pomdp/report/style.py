"""How figures for papers look: colours, strokes, axes, legends, and names as plain text.

matplotlib is an extra, imported inside.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's colours, which people with any kind of colour vision can tell apart.
COLORS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#999999")
STROKES = ("-", "--", "-.", ":")
INK = "#222222"
UNDER_AXES: dict[str, Any] = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.17)}
_HATCHES = ("", "///", "...", "xxx")  # the second time round the colours, and so on
_LONGEST_NAME = 28
_LINE = 60  # letters that a line of a legend has room for
_MOST_IN_LEGEND = 12


def line_style(place: int) -> dict[str, Any]:
    """Return the colour and the stroke of the curve with this number."""
    return {
        "color": COLORS[place % len(COLORS)],
        "linestyle": STROKES[place // len(COLORS) % len(STROKES)],
    }


def dress_axes(axes: Axes, title: str, y_label: str) -> None:
    """Give a panel its title, the label of its height, and quiet lines."""
    axes.set_title(title, fontsize=11, loc="left", color=INK)
    axes.set_ylabel(y_label, fontsize=10, color=INK)
    axes.tick_params(labelsize=9, colors=INK)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="#DDDDDD", linewidth=0.6)
    axes.set_axisbelow(True)


def paint_of(actions: Sequence[int]) -> dict[int, dict[str, Any]]:
    """Return a light colour for each action that is played, hatched where the colours have run out."""
    styles: dict[int, dict[str, Any]] = {}
    for place, action in enumerate(sorted(set(actions))):
        colour, hatch = place % len(COLORS), place // len(COLORS) % len(_HATCHES)
        styles[action] = {"facecolor": _tint(COLORS[colour])}
        if hatch:
            styles[action] |= {"hatch": _HATCHES[hatch], "edgecolor": "white"}
    return styles


def _tint(colour: str, strength: float = 0.45) -> tuple[float, float, float]:
    """Return the colour on white paper; opaque, so that neighbours do not add up where they touch."""
    red, green, blue = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    return 1 - strength * (1 - red), 1 - strength * (1 - green), 1 - strength * (1 - blue)


def legend_of_actions(
    axes: Axes, actions: Sequence[str], paint: dict[int, dict[str, Any]], dots: bool = False
) -> None:
    """Write the names of actions under a panel.

    They are set as texts, because matplotlib leaves out labels that begin with `_`.
    """
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles: list[Any] = [Patch(**{"linewidth": 0, **style}) for style in paint.values()]
    names = [plain_text(actions[action]) for action in paint]
    if len(names) > _MOST_IN_LEGEND:
        left = len(names) - _MOST_IN_LEGEND + 1
        handles, names = handles[:-left], names[:-left]
        handles.append(Line2D([], [], linestyle="none"))
        names.append(f"and {left} more")
    if dots:
        handles.append(Line2D([], [], color=INK, marker="o", markersize=3, linestyle="none"))
        names.append("grid point")
    columns = max(1, min(len(names), _LINE // (max(map(len, names)) + 5)))
    place = UNDER_AXES | ({"bbox_to_anchor": (0.5, -0.05)} if dots else {})
    blanks = ["name"] * len(names)
    legend = axes.legend(handles, blanks, ncols=columns, frameon=False, fontsize=9, **place)
    for text, name in zip(legend.get_texts(), names, strict=True):
        text.set_text(name)


def plain_text(name: str, most: int = _LONGEST_NAME) -> str:
    """Return a name from a model as plain text: printable, of bounded length, and no formula."""
    shown = "".join(c if c.isprintable() else "\ufffd" for c in name)
    if len(shown) > most:
        shown = shown[: most - 1] + "…"
    return shown.replace("$", r"\$")
