"""Common parts of the figures of the page: traces, axes and layouts for plotly, and their style.

Colors are written as names (`@3` for the fourth hue, `@3/0.2` for the same hue with opacity 0.2, `@ink`,
`@grid`); the page replaces them by the colors of its light or dark palette. plotly interprets some HTML in
its labels, so every text from a model or a study passes through `label`. Texts that the page shows outside of
plotly, such as the legend, are in `meta` and are set as plain text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any, TypeAlias

from .style import printable

HUES = 7  # number of hues in the palettes of the page
TOP_LAYER = 1000  # zorder of the first agent, which is drawn over the others
_DASHES = ("solid", "dash", "dot")
_MAX_LABEL = 28  # characters
_FEW_BANDS = 5  # with more overlapping bands than this, each is fainter

Trace: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class Table:
    """The numbers behind a figure, as columns and rows."""

    columns: tuple[str, ...]
    rows: Sequence[Sequence[Any]]


@dataclass(frozen=True)
class PageFigure:
    """One figure of the page.

    Attributes
    ----------
    key, title
        The identifier and the title of the figure.
    alt
        A description for screen readers.
    traces, layout
        The figure as plotly takes it.
    table
        The numbers behind the figure.
    switches
        The axes that can be switched between linear and logarithmic.
    choices
        The agents to choose from, if the figure shows one agent at a time.
    floor
        On a logarithmic axis, values that are not positive are drawn here.
    knee
        A logarithmic vertical axis is linear below this value, so that it can show 0 and negative values.
    height
        The height in pixels.
    more
        Further data for the script of the page.
    """

    key: str
    title: str
    alt: str
    traces: list[Trace]
    layout: dict[str, Any]
    table: Table
    switches: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    floor: float = 0.0
    knee: float = 0.0
    height: int = 380
    more: dict[str, Any] = field(default_factory=dict)


def label(text: str, max_length: int = _MAX_LABEL) -> str:
    """Return a name from a model or a study as a plotly label: printable, of bounded length, without tags.

    >>> label("</script><b>")
    '&lt;/script&gt;&lt;b&gt;'
    """
    return escape(printable(text, max_length), quote=False)


def hue_of(place: int) -> str:
    """Return the color name of the agent at this place in the study."""
    return f"@{place % HUES}"


def dash_of(place: int) -> str:
    """Return the line style of the agent at this place in the study."""
    return _DASHES[place // HUES % len(_DASHES)]


def axis_of(title: str, **more: Any) -> dict[str, Any]:
    """Return an axis with a title."""
    return {"title": {"text": title}, "zeroline": False, **more}


def layout_of(x: dict[str, Any], y: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return a layout with two axes and without plotly's own legend."""
    return {"xaxis": x, "yaxis": y, "hovermode": "closest", "showlegend": False, **more}


def line_trace(
    name: str, place: int, x: Sequence[Any], y: Sequence[Any], unit: str = "", **more: Any
) -> Trace:
    """Return a curve; a curve of a single point has a marker."""
    return {
        "type": "scatter",
        "mode": "lines" if len(x) > 1 else "markers",
        "name": label(name),
        "legendgroup": label(name),
        "x": x,
        "y": y,
        "line": {"color": hue_of(place), "dash": dash_of(place), "width": 2},
        "marker": {"color": hue_of(place), "size": 8},
        "hovertemplate": f"%{{fullData.name}}<br>step %{{x:,}}: %{{y:.5g}}{unit}<extra></extra>",
        "zorder": TOP_LAYER - place,
        "meta": {"label": name, "color": hue_of(place), "dash": dash_of(place)},
        **more,
    }


def band_trace(
    name: str, place: int, x: Sequence[Any], low: Sequence[Any], high: Sequence[Any], n_bands: int
) -> Trace:
    """Return the area between two curves as one closed line; it is fainter if the figure has many bands."""
    return {
        "type": "scatter",
        "mode": "lines",
        "name": label(name),
        "legendgroup": label(name),
        "x": [*x, *reversed(x)],
        "y": [*high, *reversed(low)],
        "fill": "toself",
        "fillcolor": f"{hue_of(place)}/{0.16 if n_bands <= _FEW_BANDS else 0.07}",
        "line": {"width": 0, "color": hue_of(place)},
        "hoverinfo": "skip",
        "meta": {"band": True, "group": name},
    }


def unit_suffix(name: str) -> str:
    """Return the unit in brackets, or nothing if it has no name."""
    return f" [{label(name)}]" if name else ""


def time_scale(times: Sequence[int]) -> str:
    """Return the type of the time axis: linear for studies of at most ten steps, else logarithmic."""
    return "log" if times[-1] > 10 else "linear"
