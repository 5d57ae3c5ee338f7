"""The first steps of one run of a study, played again from its seed, and drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..agents.episode_records import Info
from ..models import Units
from ..studies.experiment import Experiment
from ..studies.results import RunResult
from .page_style import PageFigure, Table, Trace, axis_of, label
from .policy_text import Labels

STEPS = 300
_MOST_NUMBERS = 60_000  # of beliefs on a page
_WINDOW = 60  # steps that are seen at once


@dataclass(frozen=True)
class Replay:
    """Steps 1 to n: what was read before each action, what was done, and where the world was."""

    agent: str
    run: int
    readings: list[int | None]  # before the action; None where nothing is read at first
    actions: list[int]
    states: list[int]  # hidden from the agent
    costs: list[float]  # of the step, in the user's numbers
    beliefs: list[list[float]]  # of somebody who knows the true model
    own_beliefs: list[list[float]] | None  # under the kernel that the agent plays for
    episodes: list[int] | None
    same: bool  # the costs are those that the study has kept


def replay(experiment: Experiment, result: RunResult, steps: int = STEPS) -> Replay:
    """The first steps of the run that has this result.

    Drivers and checkpoints change no run, so stopping at each step does not.
    """
    study = experiment.study
    spec = next(agent for agent in study.agents if agent.label == result.agent)
    run = experiment.simulation(spec, result.run, every_step=True)
    world, agent = run.model, run.agent
    n_steps = max(1, min(steps, study.horizon, _MOST_NUMBERS // world.n_states))
    beliefs, own_beliefs, episodes = [], [], []
    for step in range(1, n_steps + 1):
        beliefs.append(_rounded(run.environment.belief))
        trace = run.until(step)
        info = getattr(agent, "info", None)
        if isinstance(info, Info):
            own_beliefs.append(_rounded(info.belief))
            episodes.append(info.episode)
    assert trace.states is not None
    states, actions = trace.states[:-1].tolist(), trace.actions.tolist()
    return Replay(
        agent=result.agent,
        run=result.run,
        readings=[trace.first_observation, *trace.observations[:-1].tolist()],
        actions=actions,
        states=states,
        costs=world.setting.own_cost[actions, states].tolist(),
        beliefs=beliefs,
        own_beliefs=own_beliefs or None,
        episodes=episodes or None,
        same=_same(result, np.cumsum(world.setting.cost[actions, states])),
    )


def _rounded(belief: np.ndarray[tuple[int], np.dtype[np.float64]]) -> list[float]:
    return [round(float(value), 4) for value in belief]


def _same(result: RunResult, paid: np.ndarray[tuple[int], np.dtype[np.float64]]) -> bool:
    """Whether the sums of costs are those of the result, at its checkpoints."""
    kept = [(t, cost) for t, cost in zip(result.times, result.cost, strict=True) if t <= len(paid)]
    return all(abs(paid[t - 1] - cost) < 1e-6 for t, cost in kept)


# -- its figure -------------------------------------------------------------------------------------


def replay_figure(found: Replay, names: Labels, units: Units) -> PageFigure:
    """Beliefs as shades over time, with readings and actions below; the hidden path waits to be revealed."""
    steps = list(range(1, len(found.actions) + 1))
    shown = found.own_beliefs or found.beliefs
    traces: list[Trace] = [
        {
            "type": "heatmap",
            "x": steps,
            "y": list(range(len(names.states))),
            "z": np.array(shown).T.tolist(),
            "zmin": 0.0,
            "zmax": 1.0,
            "colorscale": [[0.0, "@ground"], [1.0, "@0"]],
            "showscale": False,
            "hovertemplate": "step %{x}: believed with %{z:.0%}<extra></extra>",
            "meta": {"label": ""},
        },
        _lane("hidden state", steps, found.states, "y", "@1", names.states)
        | {"visible": False, "mode": "lines+markers", "line": {"color": "@1", "width": 1.5, "shape": "hv"},
           "meta": {"label": "", "hidden": True}},
        _lane("read", steps, found.readings, "y2", "@2", names.observations),
        _lane("done", steps, found.actions, "y3", "@3", names.actions),
    ]  # fmt: skip
    rows = [
        (
            t,
            "" if reading is None else names.observations[reading],
            names.actions[action],
            names.states[state],
            cost,
            *belief,
        )
        for t, reading, action, state, cost, belief in zip(
            steps, found.readings, found.actions, found.states, found.costs, shown, strict=True
        )
    ]
    columns = (
        "step",
        "reading",
        "action",
        "hidden state",
        f"{units.kind} [{units.name}]" if units.name else units.kind,
        *(f"b({s})" for s in names.states),
    )
    lanes = {"yaxis": names.states, "yaxis2": names.observations, "yaxis3": names.actions}
    tops = _lanes(*map(len, lanes.values()))
    return PageFigure(
        key="replay",
        title="One run, step by step",
        alt="Three lanes over time: the believed probability of each state, the readings, and the actions.",
        traces=traces,
        layout={
            "xaxis": axis_of(
                "step", range=[0.5, min(len(steps), _WINDOW) + 0.5], anchor="y3", showgrid=False
            ),
            **{axis: _named(own, top) for (axis, own), top in zip(lanes.items(), tops, strict=True)},
            "hovermode": "closest",
            "showlegend": False,
            "dragmode": False,
        },
        table=Table(columns, rows),
        height=170 + 20 * min(40, sum(map(len, (names.states, names.observations, names.actions)))),
        more={
            "window": _WINDOW,
            "short": {axis: _short(own) for axis, own in lanes.items()},
            "readings": [None if o is None else names.observations[o] for o in found.readings],
            "actions": [names.actions[a] for a in found.actions],
            "states": [names.states[s] for s in found.states],
            "names": list(names.states),
            "kind": units.kind,
            "costs": found.costs,
            "beliefs": shown,
            "episodes": found.episodes,
        },
    )


def _lane(
    name: str, x: list[int], y: Sequence[int | None], axis: str, colour: str, names: Sequence[str]
) -> Trace:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "x": x,
        "y": y,
        "yaxis": axis,
        "customdata": ["" if value is None else label(names[value]) for value in y],
        "marker": {"color": colour, "size": 6, "symbol": "square"},
        "hovertemplate": "step %{x}: %{fullData.name} %{customdata}<extra></extra>",
        "meta": {"label": ""},
    }


def _named(names: Sequence[str], domain: list[float]) -> dict[str, Any]:
    """An axis of names, the first on top; with room for a mark at both ends."""
    spots = _spots(names)
    return {
        "tickvals": spots,
        "ticktext": [label(names[spot]) for spot in spots],
        "range": [len(names) - 0.5, -0.5],
        "domain": domain,
        "zeroline": False,
    }


def _short(names: Sequence[str]) -> list[str]:
    """The ticks of the same axis on a phone."""
    return [label(names[spot], 12) for spot in _spots(names)]


def _spots(names: Sequence[str]) -> list[int]:
    """Which names there is room for."""
    return list(range(0, len(names), 1 + len(names) // 30))


def _lanes(*sizes: int) -> list[list[float]]:
    """Domains from the top down, as high as they have names."""
    room = 1.0 - 0.05 * (len(sizes) - 1)
    found, top = [], 1.0
    for size in sizes:
        height = room * size / sum(sizes)
        found.append([max(0.0, top - height), top])
        top -= height + 0.05
    return found
