"""The first steps of one run of a study, simulated again from the seed, and their figure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._utils.arrays import Array
from ..agents.episode_records import Info
from ..models import POMDP, Setting, Units
from ..sensors.gaussian import GaussianSensor
from ..simulation.trace import Trace as Run
from ..studies.experiment import Experiment
from ..studies.results import RunResult
from .page_style import PageFigure, Table, Trace, axis_of, label
from .policy_text import Labels, labels

STEPS = 300
_MAX_BELIEF_ENTRIES = 60_000  # in the beliefs on one page
_READING_LANES = 6  # the height of the panel of readings, in rows of names
_PARAMETERS = ("mean", "standard deviation")  # of Gaussian observations that are learned
_WINDOW = 60  # steps that the figure shows at once


@dataclass(frozen=True)
class Replay:
    """Steps 1 to n of one run.

    Attributes
    ----------
    agent, run
        The label of the agent and the number of the run.
    observations
        The observation before each action: its number, or for a density the reading, one number or a list;
        None if there is none, or if it was lost.
    seen_costs
        The cost that was seen before each action, in the user's units; None if costs are not seen.
    actions, states, costs
        The action, the hidden state and the cost of each step; costs are in the user's units.
    beliefs
        The belief at each step under the true kernel.
    own_beliefs
        The belief at each step under the sampled kernel θ_k; None if the agent samples no kernel.
    episodes
        The number of the episode at each step; None if the agent has no episodes.
    same
        True if the costs agree with the stored result of the run.
    learned_sensor
        What the agent has learned of an unknown observation model after these steps; None if it is known.
    """

    agent: str
    run: int
    observations: list[Any]
    seen_costs: list[float | None] | None
    actions: list[int]
    states: list[int]
    costs: list[float]
    beliefs: list[list[float]]
    own_beliefs: list[list[float]] | None
    episodes: list[int] | None
    same: bool
    learned_sensor: Table | None = None


def replay(experiment: Experiment, result: RunResult, steps: int = STEPS) -> Replay:
    """Simulate the first steps of the run that produced `result` again.

    The simulation stops at each step; this does not change the run.
    """
    study = experiment.study
    spec = next(agent for agent in study.agents if agent.label == result.agent)
    run = experiment.simulation(spec, result.run, every_step=True)
    world, agent = run.model, run.agent
    n_steps = max(1, min(steps, study.horizon, _MAX_BELIEF_ENTRIES // world.n_states))
    beliefs, own_beliefs, episodes, learned = [], [], [], None
    for step in range(1, n_steps + 1):
        beliefs.append(_rounded(run.environment.belief))
        trace = run.until(step)
        info = getattr(agent, "info", None)
        if isinstance(info, Info):
            own_beliefs.append(_rounded(info.belief))
            episodes.append(info.episode)
            learned = getattr(info, "sensor", None)
    assert trace.states is not None
    states, actions = trace.states[:-1].tolist(), trace.actions.tolist()
    return Replay(
        agent=result.agent,
        run=result.run,
        observations=_observations(world.setting, trace),
        seen_costs=_seen_costs(trace),
        actions=actions,
        states=states,
        costs=world.setting.own_cost[actions, states].tolist(),
        beliefs=beliefs,
        own_beliefs=own_beliefs or None,
        episodes=episodes or None,
        same=_agrees(result, np.cumsum(world.setting.cost[actions, states])),
        learned_sensor=None if learned is None else learned_table(world, learned),
    )


def learned_table(world: POMDP, learned: Any) -> Table:
    """Return the entries or parameters of an observation model: told, learned with an interval, and true."""
    if not world.setting.is_finite:
        return _learned_gaussian(world, learned)
    setting, mean = world.setting, np.asarray(learned.mean)
    parts = [np.broadcast_to(part, mean.shape) for part in (learned.told, mean, learned.lower, learned.upper)]
    true = setting.observation if mean.ndim == 3 else setting.observation[0]
    actions = ("action",) if mean.ndim == 3 else ()
    names = labels(world)
    rows = []
    for place in np.ndindex(mean.shape):
        *action, state, observation = place
        what = [*(names.actions[a] for a in action), names.states[state], names.observations[observation]]
        rows.append((*what, *(round(float(part[place]), 4) for part in (*parts, true))))
    return Table((*actions, "state", "observation", *_columns(learned.level)), tuple(rows))


def _learned_gaussian(world: POMDP, learned: Any) -> Table:
    """Return the means and standard deviations: told, learned with an interval, and true."""
    sensor, names, mean = world.setting.sensor, labels(world), np.asarray(learned.mean)
    assert isinstance(sensor, GaussianSensor)
    true = np.broadcast_to(np.stack([sensor.means, sensor.sds], axis=-1), mean.shape)
    parts = [learned.told, mean, learned.lower, learned.upper, true]
    rows = []
    for place in np.ndindex(mean.shape):
        *action, state, parameter = place
        what = [*(names.actions[a] for a in action), names.states[state], _PARAMETERS[parameter]]
        rows.append((*what, *(float(f"{part[place]:.4g}") for part in parts)))
    actions = ("action",) if mean.ndim == 3 else ()
    return Table((*actions, "state", "parameter", *_columns(learned.level)), tuple(rows))


def _columns(level: float) -> tuple[str, ...]:
    """Return the titles of the columns of numbers."""
    text = f"{level:.0%}".replace("%", " %")
    return "told", "learned", f"lower end ({text})", f"upper end ({text})", "true"


def _observations(setting: Setting, trace: Run) -> list[Any]:
    """Return the observation before each action: a number of an observation, a reading, or None."""
    first, later = trace.first_observation, trace.observations[:-1]
    if not setting.is_finite:
        readings = [None if first is None else np.asarray(first).tolist(), *later.tolist()]
        return [None if each is None or np.isnan(each).any() else _digits(each) for each in readings]
    if setting.seen_cost is not None:
        later = later // (setting.seen_cost.n_values + 1)
    return [first, *(o if o < setting.n_observations else None for o in later.tolist())]


def _digits(reading: Any) -> Any:
    """Return a reading, or a list of numbers, with six digits, which is enough to show."""
    return [_digits(each) for each in reading] if isinstance(reading, list) else float(f"{reading:.6g}")


def _seen_costs(trace: Run) -> list[float | None] | None:
    """Return the cost that was seen before each action."""
    seen = trace.seen_costs
    return None if seen is None else [None, *seen[:-1].tolist()]


def _rounded(belief: Array) -> list[float]:
    return [round(float(value), 4) for value in belief]


def _agrees(result: RunResult, total_cost: Array) -> bool:
    """Return True if the cumulative costs equal those of the result at all of its checkpoints."""
    stored = [(t, cost) for t, cost in zip(result.times, result.cost, strict=True) if t <= len(total_cost)]
    return all(abs(total_cost[t - 1] - cost) < 1e-6 for t, cost in stored)


# -- figure -----------------------------------------------------------------------------------------


def replay_figure(found: Replay, names: Labels, units: Units) -> PageFigure:
    """Return the figure of a replay.

    Three panels share the time axis: the belief as a heat map with the hidden states, which are invisible
    at first; the observations; and the actions.
    """
    lanes = {"yaxis": names.states, "yaxis2": names.observations, "yaxis3": names.actions}
    short = {axis: _short(own) for axis, own in lanes.items() if own}
    heights = [len(own) or _READING_LANES for own in lanes.values()]
    return PageFigure(
        key="replay",
        title="One run, step by step",
        alt="Three panels over time: the belief in each state, the observations, and the actions.",
        traces=_traces(found, names),
        layout=_layout(len(found.actions), lanes),
        table=_table(found, names, units),
        height=170 + 20 * min(40, sum(heights)),
        more=_player_data(found, names, units) | {"short": short},
    )


def _shown_beliefs(found: Replay) -> list[list[float]]:
    return found.own_beliefs or found.beliefs


def _traces(found: Replay, names: Labels) -> list[Trace]:
    """Return the heat map of the belief, and the points of states, observations and actions."""
    steps = list(range(1, len(found.actions) + 1))
    belief: Trace = {
        "type": "heatmap",
        "x": steps,
        "y": list(range(len(names.states))),
        "z": np.array(_shown_beliefs(found)).T.tolist(),
        "zmin": 0.0,
        "zmax": 1.0,
        "colorscale": [[0.0, "@ground"], [1.0, "@0"]],
        "showscale": False,
        "hovertemplate": "step %{x}: belief %{z:.0%}<extra></extra>",
        "meta": {"label": ""},
    }
    hidden = _points("hidden state", steps, found.states, "y", "@1", names.states) | {
        "visible": False,
        "mode": "lines+markers",
        "line": {"color": "@1", "width": 1.5, "shape": "hv"},
        "meta": {"label": "", "hidden": True},
    }
    return [
        belief,
        hidden,
        *_observation_points(steps, found.observations, names),
        _points("action", steps, found.actions, "y3", "@3", names.actions),
    ]


def _observation_points(steps: list[int], observations: list[Any], names: Labels) -> list[Trace]:
    """Return the points of the observations: in lanes by name, or of each number of a reading."""
    if names.observations:
        return [_points("observation", steps, observations, "y2", "@2", names.observations)]
    parts = [[None] if each is None else each if isinstance(each, list) else [each] for each in observations]
    found: list[Trace] = []
    for i in range(max(map(len, parts))):
        name = "observation" if max(map(len, parts)) == 1 else f"observation, number {i + 1}"
        values = [part[i] if i < len(part) else None for part in parts]
        points = _points(name, steps, values, "y2", ("@2", "@4", "@5", "@6")[i % 4], ())
        found.append(points | {"mode": "lines+markers", "line": {"width": 0.7}, "connectgaps": False})
    return found


def _points(name: str, x: list[int], y: Sequence[Any], axis: str, color: str, names: Sequence[str]) -> Trace:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "x": x,
        "y": y,
        "yaxis": axis,
        "customdata": ["" if value is None else label(_text(value, names)) for value in y],
        "marker": {"color": color, "size": 6, "symbol": "square"},
        "hovertemplate": "step %{x}: %{fullData.name} %{customdata}<extra></extra>",
        "meta": {"label": ""},
    }


def _text(value: Any, names: Sequence[str]) -> str:
    """Return the name with a number, or a reading without a name; "" for None."""
    if value is None:
        return ""
    if names:
        return names[int(value)]
    return ", ".join(f"{each:g}" for each in (value if isinstance(value, list) else [value]))


def _table(found: Replay, names: Labels, units: Units) -> Table:
    seen = found.seen_costs
    columns = (
        "step",
        "observation",
        *(() if seen is None else (f"seen {units.kind}",)),
        "action",
        "hidden state",
        f"{units.kind} [{units.name}]" if units.name else units.kind,
        *(f"b({s})" for s in names.states),
    )
    rows = [
        (
            t,
            _text(observation, names.observations),
            *cost_seen,
            names.actions[action],
            names.states[state],
            cost,
            *belief,
        )
        for t, (observation, cost_seen, action, state, cost, belief) in enumerate(
            zip(
                found.observations,
                [()] * len(found.actions) if seen is None else [("" if c is None else c,) for c in seen],
                found.actions,
                found.states,
                found.costs,
                _shown_beliefs(found),
                strict=True,
            ),
            start=1,
        )
    ]
    return Table(columns, rows)


def _layout(n_steps: int, lanes: dict[str, tuple[str, ...]]) -> dict[str, Any]:
    domains = _domains(*(len(own) or _READING_LANES for own in lanes.values()))
    return {
        "xaxis": axis_of("step", range=[0.5, min(n_steps, _WINDOW) + 0.5], anchor="y3", showgrid=False),
        **{axis: _name_axis(own, domain) for (axis, own), domain in zip(lanes.items(), domains, strict=True)},
        "hovermode": "closest",
        "showlegend": False,
        "dragmode": False,
    }


def _player_data(found: Replay, names: Labels, units: Units) -> dict[str, Any]:
    """Return what the script of the page shows as text while the replay is played."""
    return {
        "window": _WINDOW,
        "observations": [None if o is None else _text(o, names.observations) for o in found.observations],
        "actions": [names.actions[a] for a in found.actions],
        "states": [names.states[s] for s in found.states],
        "names": list(names.states),
        "kind": units.kind,
        "costs": found.costs,
        "beliefs": _shown_beliefs(found),
        "episodes": found.episodes,
    }


def _name_axis(names: Sequence[str], domain: list[float]) -> dict[str, Any]:
    """Return an axis with names as ticks, the first name on top; or an axis of numbers without names."""
    if not names:  # readings of a density
        return {"domain": domain, "zeroline": False, "nticks": 5}
    ticks = _tick_positions(names)
    return {
        "tickvals": ticks,
        "ticktext": [label(names[tick]) for tick in ticks],
        "range": [len(names) - 0.5, -0.5],
        "domain": domain,
        "zeroline": False,
    }


def _short(names: Sequence[str]) -> list[str]:
    """Return shorter tick labels for the same axis on a narrow screen."""
    return [label(names[tick], 12) for tick in _tick_positions(names)]


def _tick_positions(names: Sequence[str]) -> list[int]:
    """Return the indices of at most 30 names, evenly spaced."""
    return list(range(0, len(names), 1 + len(names) // 30))


def _domains(*sizes: int) -> list[list[float]]:
    """Return the vertical domain of each panel, from top to bottom, with heights proportional to `sizes`."""
    total_height = 1.0 - 0.05 * (len(sizes) - 1)
    found, top = [], 1.0
    for size in sizes:
        height = total_height * size / sum(sizes)
        found.append([max(0.0, top - height), top])
        top -= height + 0.05
    return found
