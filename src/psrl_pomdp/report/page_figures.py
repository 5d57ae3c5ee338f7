"""The figures of the report page as plain dictionaries for plotly; the script of the page draws them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .page_data import PageData
from .page_records import AgentFacts, Episode, Measure, PosteriorCurve
from .page_style import (
    HUES,
    TOP_LAYER,
    PageFigure,
    Table,
    Trace,
    axis_of,
    band_trace,
    dash_of,
    hue_of,
    label,
    layout_of,
    line_trace,
    time_scale,
    unit_suffix,
)
from .regret_figures import knee

_SYMBOLS = ("circle", "diamond", "square", "x")
_LARGE_RATIO = 30.0  # if the final regrets differ by this factor, the vertical axis is logarithmic


def page_figures(data: PageData) -> list[PageFigure]:
    """Return the figures of this study, except the replay (`page_replay`) and the policy."""
    figures = [regret_figure(data)]
    figures += [
        posterior_figure(data, measure, agents) for measure, agents in sorted(data.posterior_curves.items())
    ]
    if data.episodes:
        figures += [lengths_figure(data), reasons_figure(data), work_figure(data), averages_figure(data)]
    if data.decompositions:
        figures.append(decomposition_figure(data))
    return figures


def _places(data: PageData) -> dict[str, int]:
    """Return the position of each agent in the study, which determines its color."""
    return {agent.label: agent.place for agent in data.agents}


def _time_layout(times: Sequence[int], y_title: str, **y_axis: Any) -> dict[str, Any]:
    """Return the layout of a figure whose horizontal axis is the step."""
    return layout_of(axis_of("step", type=time_scale(times)), axis_of(y_title, **y_axis))


# -- regret -----------------------------------------------------------------------------------------


def regret_figure(data: PageData) -> PageFigure:
    """Return the mean regret of every agent with its 95 % band, and the bound of Theorem 1, if any."""
    traces: list[Trace] = []
    rows: list[Sequence[Any]] = []
    for agent in data.agents:
        curve = data.curves[agent.label]
        times, middle = curve.times.tolist(), curve.middle.tolist()
        low, high = (end.tolist() for end in curve.interval)
        if curve.n_runs > 1:
            traces.append(band_trace(agent.label, agent.place, times, low, high, len(data.agents)))
        traces.append(line_trace(agent.label, agent.place, times, middle))
        ends = zip(low, high, strict=True) if curve.n_runs > 1 else [(None, None)] * len(times)
        rows += [
            (agent.label, t, m, *both) for t, m, both in zip(times, middle, ends, strict=True)
        ]  # fmt: skip
    times = next(iter(data.curves.values())).times.tolist()
    if data.bound is not None:
        traces.append(_bound_trace(data, times))
        rows += [
            ("bound", t, value, None, None)
            for t, value in zip(times, data.bound.values.tolist(), strict=True)
        ]
    return PageFigure(
        key="regret",
        title="Regret over time",
        alt=f"Curves of the mean regret over {times[-1]:,} steps, one for each of {len(data.agents)} agents.",
        traces=traces,
        layout=_time_layout(
            times, f"regret{unit_suffix(data.units.total_name)}", type=_regret_scale(data.agents)
        ),
        table=Table(("agent", "step", "regret", "low", "high"), rows),
        switches=("x", "y"),
        knee=knee(agent.regret for agent in data.agents),
        height=440,
    )


def _regret_scale(agents: Sequence[AgentFacts]) -> str:
    """Return the type of the regret axis: logarithmic if one agent would make the other curves flat."""
    ends = sorted(agent.regret for agent in agents if agent.regret > 0)
    reference = ends[len(ends) // 2 if len(ends) > 3 else 0] if ends else np.inf
    return "log" if ends and ends[-1] > _LARGE_RATIO * reference else "linear"


def _bound_trace(data: PageData, times: list[int]) -> Trace:
    """Return the curve of the bound; it is off at first if it would make the other curves flat."""
    assert data.bound is not None
    values = data.bound.values.tolist()
    top = max(agent.regret for agent in data.agents)
    name = "Theorem 1’s bound"
    return line_trace(name, 0, times, values) | {
        "line": {"color": "@ink", "dash": "dot", "width": 2},
        "meta": {"label": name, "color": "@ink", "dash": "dot", "off": values[-1] > 5 * top},
    }


# -- posterior --------------------------------------------------------------------------------------

_MEASURES = {
    "weight": ("Posterior probability of the true kernel", "posterior probability"),
    "distance": ("Distance to the true kernel", "mean L1 distance of a row"),
}


def posterior_figure(data: PageData, measure: Measure, agents: dict[str, PosteriorCurve]) -> PageFigure:
    """Return the concentration of the posterior at the true kernel: mean and range of the runs."""
    places = _places(data)
    traces: list[Trace] = []
    rows: list[Sequence[Any]] = []
    for name, found in agents.items():
        times, columns = found.times.tolist(), [c.tolist() for c in (found.mean, found.low, found.high)]
        if found.runs > 1:
            traces.append(band_trace(name, places[name], times, columns[1], columns[2], len(agents)))
        traces.append(line_trace(name, places[name], times, columns[0]))
        rows += [(name, *row) for row in zip(times, *columns, strict=True)]
    title, axis = _MEASURES[measure]
    limits = {"range": [-0.03, 1.03]} if measure == "weight" else {"rangemode": "tozero"}
    lowest = min(float(found.low[found.low > 0].min(initial=1.0)) for found in agents.values())
    return PageFigure(
        key=f"posterior-{measure}",
        title=title,
        alt=f"Curves of the {axis} over time, for {len(agents)} agents.",
        traces=traces,
        layout=_time_layout(times, axis, type="linear", **limits),
        table=Table(("agent", "step", "mean", "minimum", "maximum"), rows),
        switches=("x", "y"),
        floor=max(1e-12, 0.5 * lowest),
    )


# -- episodes ---------------------------------------------------------------------------------------


def _points(name: str, place: int, episodes: Sequence[Episode], y: Sequence[Any], hover: str) -> Trace:
    """Return one point per episode of an agent, over the step at which the episode starts."""
    return {
        "type": "scatter",
        "mode": "markers",
        "name": label(name),
        "legendgroup": label(name),
        "x": [episode.start for episode in episodes],
        "y": y,
        "marker": {
            "color": f"{hue_of(place)}/0.65",
            "size": 7,
            "symbol": _SYMBOLS[place // HUES % len(_SYMBOLS)],
        },
        "hovertemplate": f"%{{fullData.name}}<br>from step %{{x:,}}: {hover}<extra></extra>",
        "zorder": TOP_LAYER - place,
        "meta": {"label": name, "color": hue_of(place), "dash": dash_of(place)},
    }


def lengths_figure(data: PageData) -> PageFigure:
    """Return the lengths of the episodes."""
    places = _places(data)
    traces = [
        _points(name, places[name], some, [e.length for e in some], "an episode of %{y:,} steps")
        for name, some in data.episodes.items()
    ]
    rows = [
        (e.agent, e.run, e.number, e.start, e.length, e.ended)
        for some in data.episodes.values()
        for e in some
    ]
    kind = time_scale([data.study.horizon])
    return PageFigure(
        key="lengths",
        title="Lengths of the episodes",
        alt="Points: the length of each episode over the step at which it starts.",
        traces=traces,
        layout=layout_of(
            axis_of("first step of the episode", type=kind), axis_of("length in steps", type=kind)
        ),
        table=Table(("agent", "run", "episode", "start", "length", "ended"), rows),
        switches=("x", "y"),
    )


def reasons_figure(data: PageData) -> PageFigure:
    """Return the shares of each agent's episodes by the reason for which they ended."""
    reasons = [reason for reason in _REASONS if any(reason in count.reasons for count in data.counts)]
    names = [count.agent for count in data.counts]
    positions = list(range(len(names)))
    traces: list[Trace] = [
        {
            "type": "bar",
            "orientation": "h",
            "name": reason,
            "legendgroup": reason,
            "y": positions,
            "x": [100.0 * count.reasons.get(reason, 0) / count.episodes for count in data.counts],
            "customdata": [count.reasons.get(reason, 0) for count in data.counts],
            "marker": {"color": _REASONS[reason][1], "line": {"width": 1, "color": "@ground"}},
            "hovertemplate": "%{fullData.name}: %{customdata:,} episodes, %{x:.1f} %<extra></extra>",
            "meta": {"label": _REASONS[reason][0], "color": _REASONS[reason][1], "dash": "solid"},
        }
        for reason in reasons
    ]
    rows = [(c.agent, reason, n, c.episodes) for c in data.counts for reason, n in c.reasons.items()]
    return PageFigure(
        key="reasons",
        title="Reasons for which episodes ended",
        alt="Bars: for each agent, the shares of its episodes by the reason for which they ended.",
        traces=traces,
        layout=layout_of(
            axis_of("% of the episodes", range=[0, 100]),
            {"tickvals": positions, "ticktext": [label(n, 18) for n in names], "autorange": "reversed",
             "zeroline": False, "showgrid": False},
            barmode="stack",
            bargap=0.35,
        ),
        table=Table(("agent", "reason", "episodes", "of"), rows),
        height=max(220, 110 + 38 * len(names)),
    )  # fmt: skip


# The text of the legend and the color of each reason: opacities of one hue, because hues stand for agents.
_REASONS = {
    "schedule": ("schedule", "@5"),
    "pseudo-counts": ("a pseudo-count doubled", "@5/0.7"),
    "schedule and pseudo-counts": ("both", "@5/0.45"),
    "kernel ruled out": ("sampled kernel ruled out", "@5/0.25"),
    "goes on": ("horizon reached", "@soft/0.35"),
}


# -- planning ---------------------------------------------------------------------------------------


def work_figure(data: PageData) -> PageFigure:
    """Return the counted operations of planning for each episode."""
    places = _places(data)
    traces = [
        _points(name, places[name], some, [e.work or None for e in some], "%{y:.3s} operations")
        for name, some in data.episodes.items()
    ]
    rows = [
        (e.agent, e.run, e.number, e.start, e.work, e.gap, e.tolerance, e.shortfall, e.status)
        for some in data.episodes.values()
        for e in some
    ]
    return PageFigure(
        key="work",
        title="Planning work",
        alt="Points: the operations of the planner for each episode, over the step at which it starts.",
        traces=traces,
        layout=layout_of(
            axis_of("first step of the episode", type=time_scale([data.study.horizon])),
            axis_of("operations", type="log", exponentformat="SI"),
        ),
        table=Table(
            ("agent", "run", "episode", "start", "work", "gap", "tolerance", "shortfall", "status"), rows
        ),
        switches=("x", "y"),
    )


def averages_figure(data: PageData) -> PageFigure:
    """Return the bounds on J(θ_k) of the sampled models, and those on J(θ*)."""
    places = _places(data)
    low, high = data.average
    traces: list[Trace] = []
    for name, some in data.episodes.items():
        middle = [0.5 * (e.lower + e.upper) for e in some]
        traces.append(
            _points(name, places[name], some, middle, "between %{customdata}")
            | {
                "error_y": {
                    "type": "data",
                    "array": [0.5 * (e.upper - e.lower) for e in some],
                    "color": hue_of(places[name]),
                    "thickness": 1.2,
                    "width": 2,
                },
                "customdata": [f"{e.lower:.5g} and {e.upper:.5g}" for e in some],
                "meta": {"label": "", "choice": name},
            }
        )
    rows = [
        (e.agent, e.run, e.number, e.start, e.lower, e.upper) for some in data.episodes.values() for e in some
    ]
    kind = data.units.kind
    lines = [_level(value) for value in dict.fromkeys((low, high))]
    return PageFigure(
        key="averages",
        title=f"Optimal average {kind} of the sampled models",
        alt=f"Points with bars: the optimal average {kind} of each sampled model; dotted: of the true model.",
        traces=traces,
        layout=layout_of(
            axis_of("first step of the episode", type=time_scale([data.study.horizon])),
            axis_of(f"average {kind}{unit_suffix(data.units.average_name)}"),
            shapes=lines,
        ),
        table=Table(("agent", "run", "episode", "start", "lower", "upper"), rows),
        switches=("x",),
        choices=tuple(data.episodes),
    )


def _level(height: float) -> dict[str, Any]:
    """Return a dotted horizontal line across the figure."""
    return {
        "type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": height, "y1": height,
        "line": {"color": "@ink", "width": 1.5, "dash": "dot"},
    }  # fmt: skip


# -- decomposition ----------------------------------------------------------------------------------

_TERMS = (
    ("H K_T: number of episodes", "episodes", 0),
    ("R₁: optimal averages", "averages", 1),
    ("R₂: kernels and beliefs", "gaps", 2),
    ("R₃: expected costs", "costs", 3),
)


def decomposition_figure(data: PageData) -> PageFigure:
    """Return the four terms of the paper's decomposition, their sum and the regret, as means over runs."""
    traces: list[Trace] = []
    rows: list[Sequence[Any]] = []
    for agent, terms in data.decompositions.items():
        times = terms.times.tolist()
        columns = [getattr(terms, name).mean(axis=0).tolist() for _, name, _ in _TERMS]
        total, regret = terms.bound.mean(axis=0).tolist(), terms.regret.mean(axis=0).tolist()
        for (name, _, place), values in zip(_TERMS, columns, strict=True):
            traces.append(_for_agent(line_trace(name, place, times, values), agent))
        for name, values, dash in (("sum", total, "dash"), ("regret", regret, "solid")):
            style = {"line": {"color": "@ink", "dash": dash, "width": 2.5}}
            meta = {"meta": {"label": name, "color": "@ink", "dash": dash}}
            traces.append(_for_agent(line_trace(name, 0, times, values) | style | meta, agent))
        rows += [(agent, *row) for row in zip(times, *columns, total, regret, strict=True)]
    ends = [float(terms.regret[:, -1].mean()) for terms in data.decompositions.values()]
    return PageFigure(
        key="decomposition",
        title="Decomposition of the regret",
        alt="Curves over time: the four terms of the paper’s decomposition, their sum, and the regret.",
        traces=traces,
        layout=_time_layout(times, f"regret{unit_suffix(data.units.total_name)}"),
        table=Table(("agent", "step", "H K_T", "R_1", "R_2", "R_3", "sum", "regret"), rows),
        switches=("x", "y"),
        choices=tuple(data.decompositions),
        knee=knee(ends),
    )


def _for_agent(trace: Trace, agent: str) -> Trace:
    """Return the trace, shown only if the agent is the selected one."""
    return trace | {"meta": trace["meta"] | {"choice": agent}}
