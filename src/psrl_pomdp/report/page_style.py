"""What the figures of the page have in common: their parts as plotly takes them, and how they look.

Colours are written as words (`@3` for the fourth hue, `@3/0.2` for a tint of it, `@ink`, `@grid`), which the
page turns into those of its light or its dark palette. plotly reads a little HTML in its labels, so every
text that came from outside goes through `label`. What the page itself shows beside a figure, such as its
legend, is set as text and kept as it is (`meta`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any, TypeAlias

HUES = 7  # that the palettes of the page have
ON_TOP = 1000  # the first agent is drawn over the others
_DASHES = ("solid", "dash", "dot")
_LONGEST = 28
_FEW = 5  # bands that can lie over each other and be seen

Trace: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class Table:
    """The numbers behind a figure."""

    columns: tuple[str, ...]
    rows: Sequence[Sequence[Any]]


@dataclass(frozen=True)
class PageFigure:
    """One figure: what plotly draws, and what the page puts around it."""

    key: str
    title: str
    alt: str  # for those who do not see it
    traces: list[Trace]
    layout: dict[str, Any]
    table: Table
    switches: tuple[str, ...] = ()  # the axes that can be linear or logarithmic
    choices: tuple[str, ...] = ()  # agents, where one is shown at a time
    floor: float = 0.0  # what a logarithmic axis shows of values that are not positive
    knee: float = 0.0  # or: a logarithmic height is linear below this, so that 0 and less are shown too
    height: int = 380
    more: dict[str, Any] = field(default_factory=dict)


def label(text: str, most: int = _LONGEST) -> str:
    """A text from outside as nothing but text: printable, of bounded length, and without tags.

    >>> label("</script><b>")
    '&lt;/script&gt;&lt;b&gt;'
    """
    shown = "".join(c if c.isprintable() else "\ufffd" for c in text)
    return escape(shown if len(shown) <= most else shown[: most - 1] + "…", quote=False)


def hue_of(place: int) -> str:
    return f"@{place % HUES}"


def dash_of(place: int) -> str:
    return _DASHES[place // HUES % len(_DASHES)]


def axis_of(title: str, **more: Any) -> dict[str, Any]:
    return {"title": {"text": title}, "zeroline": False, **more}


def layout_of(x: dict[str, Any], y: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"xaxis": x, "yaxis": y, "hovermode": "closest", "showlegend": False, **more}


def line_trace(
    name: str, place: int, x: Sequence[Any], y: Sequence[Any], unit: str = "", **more: Any
) -> Trace:
    """A curve; a single point is seen by its mark."""
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
        "zorder": ON_TOP - place,
        "meta": {"label": name, "colour": hue_of(place), "dash": dash_of(place)},
        **more,
    }


def band_trace(
    name: str, place: int, x: Sequence[Any], low: Sequence[Any], high: Sequence[Any], among: int
) -> Trace:
    """The ground between two curves, as one closed line; fainter among many."""
    return {
        "type": "scatter",
        "mode": "lines",
        "name": label(name),
        "legendgroup": label(name),
        "x": [*x, *reversed(x)],
        "y": [*high, *reversed(low)],
        "fill": "toself",
        "fillcolor": f"{hue_of(place)}/{0.16 if among <= _FEW else 0.07}",
        "line": {"width": 0, "color": hue_of(place)},
        "hoverinfo": "skip",
        "meta": {"band": True, "group": name},
    }


def unit_suffix(name: str) -> str:
    return f" [{label(name)}]" if name else ""


def time_scale(times: Sequence[int]) -> str:
    """Logarithmic time, but for studies of a few steps."""
    return "log" if times[-1] > 10 else "linear"
