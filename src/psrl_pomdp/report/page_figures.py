"""The figures of the page, as plotly takes them: plain dictionaries, drawn by the page itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .page_data import AgentFacts, Concentration, Measure, PageData
from .page_style import (
    HUES,
    ON_TOP,
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

_MARKS = ("circle", "diamond", "square", "x")
_FAR = 30.0  # curves whose ends differ by this factor share a logarithmic axis only


def page_figures(data: PageData) -> list[PageFigure]:
    """All that this study has; the replay (`page_replay`) and the policy are made apart."""
    found = [regret_figure(data)]
    found += [
        posterior_figure(data, measure, agents) for measure, agents in sorted(data.concentrations.items())
    ]
    if data.episodes:
        found += [lengths_figure(data), reasons_figure(data), work_figure(data), promises_figure(data)]
    if data.decompositions:
        found.append(decomposition_figure(data))
    return found


# -- regret -----------------------------------------------------------------------------------------


def regret_figure(data: PageData) -> PageFigure:
    """Every agent's mean regret over time with its 95 % band, and the theory's bound where there is one."""
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
        layout=layout_of(
            axis_of("step", type=time_scale(times)),
            axis_of(f"regret{unit_suffix(data.units.total_name)}", type=_height_type(data.agents)),
        ),
        table=Table(("agent", "step", "regret", "low", "high"), rows),
        switches=("x", "y"),
        knee=knee(agent.regret for agent in data.agents),
        height=440,
    )


def _height_type(agents: Sequence[AgentFacts]) -> str:
    """Logarithmic where one agent would make a flat line of the others."""
    ends = sorted(agent.regret for agent in agents if agent.regret > 0)
    return "log" if ends and ends[-1] > _FAR * ends[len(ends) // 2 if len(ends) > 3 else 0] else "linear"


def _bound_trace(data: PageData, times: list[int]) -> Trace:
    """Left for the reader to switch on where it would flatten all else."""
    assert data.bound is not None
    values = data.bound.values.tolist()
    top = max(agent.regret for agent in data.agents)
    name = "Theorem 1’s bound"
    return line_trace(name, 0, times, values) | {
        "line": {"color": "@ink", "dash": "dot", "width": 2},
        "meta": {"label": name, "colour": "@ink", "dash": "dot", "off": values[-1] > 5 * top},
    }


# -- posterior --------------------------------------------------------------------------------------

_MEASURES = {
    "weight": ("Belief in the true dynamics", "posterior weight of the truth"),
    "distance": ("Distance to the true dynamics", "mean distance of a row"),
}


def posterior_figure(data: PageData, measure: Measure, agents: dict[str, Concentration]) -> PageFigure:
    """How the posterior closes in on the truth: the mean of the runs, and all between the extremes."""
    places = {agent.label: agent.place for agent in data.agents}
    traces: list[Trace] = []
    rows: list[Sequence[Any]] = []
    for name, found in agents.items():
        times, columns = found.times.tolist(), [c.tolist() for c in (found.mean, found.low, found.high)]
        if found.runs > 1:
            traces.append(band_trace(name, places[name], times, columns[1], columns[2], len(agents)))
        traces.append(line_trace(name, places[name], times, columns[0]))
        rows += [(name, *row) for row in zip(times, *columns, strict=True)]
    title, axis = _MEASURES[measure]
    span = {"range": [-0.03, 1.03]} if measure == "weight" else {"rangemode": "tozero"}
    lowest = min(float(found.low[found.low > 0].min(initial=1.0)) for found in agents.values())
    return PageFigure(
        key=f"posterior-{measure}",
        title=title,
        alt=f"Curves of the {axis} over time, for {len(agents)} agents.",
        traces=traces,
        layout=layout_of(axis_of("step", type=time_scale(times)), axis_of(axis, type="linear", **span)),
        table=Table(("agent", "step", "mean", "least", "most"), rows),
        switches=("x", "y"),
        floor=max(1e-12, 0.5 * lowest),
    )


# -- episodes ---------------------------------------------------------------------------------------


def _dots(name: str, place: int, x: Sequence[Any], y: Sequence[Any], what: str) -> Trace:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": label(name),
        "legendgroup": label(name),
        "x": x,
        "y": y,
        "marker": {
            "color": f"{hue_of(place)}/0.65",
            "size": 7,
            "symbol": _MARKS[place // HUES % len(_MARKS)],
        },
        "hovertemplate": f"%{{fullData.name}}<br>from step %{{x:,}}: {what}<extra></extra>",
        "zorder": ON_TOP - place,
        "meta": {"label": name, "colour": hue_of(place), "dash": dash_of(place)},
    }


def lengths_figure(data: PageData) -> PageFigure:
    """How long episodes were, over when they began."""
    places = {agent.label: agent.place for agent in data.agents}
    traces = [
        _dots(
            name, places[name], [e.start for e in some], [e.length for e in some],
            "an episode of %{y:,} steps",
        )
        for name, some in data.episodes.items()
    ]  # fmt: skip
    rows = [
        (e.agent, e.run, e.number, e.start, e.length, e.ended)
        for some in data.episodes.values()
        for e in some
    ]
    kind = time_scale([data.study.horizon])
    return PageFigure(
        key="lengths",
        title="How long episodes were",
        alt="Points: the length of each episode over the step at which it began.",
        traces=traces,
        layout=layout_of(
            axis_of("first step of the episode", type=kind), axis_of("length in steps", type=kind)
        ),
        table=Table(("agent", "run", "episode", "start", "length", "ended"), rows),
        switches=("x", "y"),
    )


def reasons_figure(data: PageData) -> PageFigure:
    """Why episodes ended, in shares of each agent's episodes."""
    reasons = [reason for reason in _REASONS if any(reason in count.reasons for count in data.counts)]
    names = [count.agent for count in data.counts]
    spots = list(range(len(names)))
    traces: list[Trace] = [
        {
            "type": "bar",
            "orientation": "h",
            "name": reason,
            "legendgroup": reason,
            "y": spots,
            "x": [100.0 * count.reasons.get(reason, 0) / count.episodes for count in data.counts],
            "customdata": [count.reasons.get(reason, 0) for count in data.counts],
            "marker": {"color": _REASONS[reason][1], "line": {"width": 1, "color": "@ground"}},
            "hovertemplate": "%{fullData.name}: %{customdata:,} episodes, %{x:.1f} %<extra></extra>",
            "meta": {"label": _REASONS[reason][0], "colour": _REASONS[reason][1], "dash": "solid"},
        }
        for reason in reasons
    ]
    rows = [(c.agent, reason, n, c.episodes) for c in data.counts for reason, n in c.reasons.items()]
    return PageFigure(
        key="reasons",
        title="Why they ended",
        alt="Bars: for each agent, the shares of its episodes by the reason for which they ended.",
        traces=traces,
        layout=layout_of(
            axis_of("% of the episodes", range=[0, 100]),
            {"tickvals": spots, "ticktext": [label(n, 18) for n in names], "autorange": "reversed",
             "zeroline": False, "showgrid": False},
            barmode="stack",
            bargap=0.35,
        ),
        table=Table(("agent", "reason", "episodes", "of"), rows),
        height=max(220, 110 + 38 * len(names)),
    )  # fmt: skip


# In words, and in tints of one hue: these are no agents.
_REASONS = {
    "schedule": ("its time was up", "@5"),
    "pseudo-counts": ("some visits had doubled", "@5/0.7"),
    "schedule and pseudo-counts": ("both at once", "@5/0.45"),
    "kernel ruled out": ("its model was ruled out", "@5/0.25"),
    "goes on": ("still going on at the end", "@soft/0.35"),
}


# -- planning ---------------------------------------------------------------------------------------


def work_figure(data: PageData) -> PageFigure:
    """Counted operations of planning, episode by episode."""
    places = {agent.label: agent.place for agent in data.agents}
    traces = [
        _dots(
            name, places[name], [e.start for e in some], [e.work or None for e in some],
            "%{y:.3s} operations",
        )
        for name, some in data.episodes.items()
    ]  # fmt: skip
    rows = [
        (e.agent, e.run, e.number, e.start, e.work, e.gap, e.tolerance, e.shortfall, e.status)
        for some in data.episodes.values()
        for e in some
    ]
    return PageFigure(
        key="work",
        title="Planning effort",
        alt="Points: the operations that each episode’s plan took, over the step at which it began.",
        traces=traces,
        layout=layout_of(
            axis_of("first step of the episode", type=time_scale([data.study.horizon])),
            axis_of("operations", type="log", exponentformat="SI"),
        ),
        table=Table(
            ("agent", "run", "episode", "start", "work", "gap", "wanted", "shortfall", "status"), rows
        ),
        switches=("x", "y"),
    )


def promises_figure(data: PageData) -> PageFigure:
    """J(θ_k) of the sampled models between its proved bounds, and J of the truth."""
    places = {agent.label: agent.place for agent in data.agents}
    low, high = data.average
    traces: list[Trace] = []
    for name, some in data.episodes.items():
        middle = [0.5 * (e.lower + e.upper) for e in some]
        traces.append(
            _dots(name, places[name], [e.start for e in some], middle, "between %{customdata}")
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
        key="promises",
        title="What the plans promised",
        alt=f"Points with bars: the best average {kind} of each sampled model; dotted: that of the true one.",
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
    """A dotted line across the figure."""
    return {
        "type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": height, "y1": height,
        "line": {"color": "@ink", "width": 1.5, "dash": "dot"},
    }  # fmt: skip


# -- decomposition ----------------------------------------------------------------------------------

_TERMS = (
    ("H K_T: episodes begun", "episodes", 0),
    ("R₁: sampled averages", "averages", 1),
    ("R₂: wrong dynamics", "gaps", 2),
    ("R₃: wrong beliefs", "costs", 3),
)


def decomposition_figure(data: PageData) -> PageFigure:
    """The paper's four terms, their sum and the regret below it, means over runs."""
    traces: list[Trace] = []
    rows: list[Sequence[Any]] = []
    for agent, terms in data.decompositions.items():
        times = terms.times.tolist()
        columns = [getattr(terms, name).mean(axis=0).tolist() for _, name, _ in _TERMS]
        total, regret = terms.bound.mean(axis=0).tolist(), terms.regret.mean(axis=0).tolist()
        for (words, _, place), values in zip(_TERMS, columns, strict=True):
            traces.append(_choice(line_trace(words, place, times, values), agent))
        for words, values, dash in (("their sum", total, "dash"), ("regret", regret, "solid")):
            look = {"line": {"color": "@ink", "dash": dash, "width": 2.5}}
            meta = {"meta": {"label": words, "colour": "@ink", "dash": dash}}
            traces.append(_choice(line_trace(words, 0, times, values) | look | meta, agent))
        rows += [(agent, *row) for row in zip(times, *columns, total, regret, strict=True)]
    ends = [float(terms.regret[:, -1].mean()) for terms in data.decompositions.values()]
    return PageFigure(
        key="decomposition",
        title="Where the regret may come from",
        alt="Curves over time: the four terms of the paper’s decomposition, their sum, and the regret.",
        traces=traces,
        layout=layout_of(
            axis_of("step", type=time_scale(times)), axis_of(f"regret{unit_suffix(data.units.total_name)}")
        ),
        table=Table(("agent", "step", "H K_T", "R_1", "R_2", "R_3", "sum", "regret"), rows),
        switches=("x", "y"),
        choices=tuple(data.decompositions),
        knee=knee(ends),
    )


def _choice(trace: Trace, agent: str) -> Trace:
    return trace | {"meta": trace["meta"] | {"choice": agent}}
