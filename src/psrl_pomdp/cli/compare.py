"""`psrl-pomdp compare`: agents on the same true models, and which of them has less regret."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import InvalidModelError, UnknownNameError, did_you_mean
from ..inference.choosing import DIRICHLET
from .common import (
    console,
    find_model,
    folder_for,
    json_option,
    model_argument,
    note,
    parameter_option,
    plain,
    print_json,
    prior_option,
    seen_costs_option,
)
from .run import asked_study, given_flags, kind_in_cells, names, refuse_misfits
from .study_display import engine_options, exit_if_failed, show_and_run

if TYPE_CHECKING:
    from ..studies import Study
    from ..studies.runner import Progress
    from ..studies.store import Store
    from ..studies.study_results import StudyResults
_EXAMPLES = """\b
Examples:
  psrl-pomdp compare railway --agents psrl,calendar,random --seeds 4
  psrl-pomdp compare railway --agents psrl,mymodule:MyAgent --out mine
  psrl-pomdp compare railway-comparison
"""


@click.command(
    "compare",
    epilog=_EXAMPLES,
    short_help="Compare agents on the same true models, and test which has less regret.",
)
@model_argument("what", "NAME|FILE|STUDY.toml|DIR")
@parameter_option
@click.option(
    "--agents", metavar="NAMES", help="The agents, separated by commas.  [default: all that fit the problem]"
)
@click.option(
    "--horizon", type=click.IntRange(min=1), metavar="N", help="Steps of each run.  [default: 10000]"
)
@click.option(
    "--seeds", type=click.IntRange(min=2), metavar="N", help="Number of runs of each agent.  [default: 16]"
)
@prior_option("dirichlet, and finite for psrl-family")
@click.option(
    "--bayesian",
    is_flag=True,
    help="Draw a new true model from the prior for each run.  [default: the model of the problem]",
)
@seen_costs_option
@click.option("--seed", type=int, help="Seed of all random numbers.  [default: 0]")
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder for the results.  [default: NAME-comparison]",
)
@engine_options
@json_option
def command(
    what: str,
    parameters: tuple[str, ...],
    out: Path | None,
    workers: int | None,
    engine: str,
    as_json: bool,
    **flags: Any,
) -> None:
    """Run agents on the same true models with the same random numbers, and test which have less regret.

    The table lists the agents by their prior information, with the regret at several times, half the width of
    its 95 % interval, the processor time of a step, the planning time of a run, and the memory. Below the
    table, lines such as "psrl has less regret than random" list the significant differences; all of these
    statements hold together with 99 % confidence. An agent that does not fit the problem is listed with the
    reason. The folder --out holds the results, the tables runs.csv, episodes.csv and fits.csv, and the figure
    comparison.svg. With DIR, the folder of a study, nothing is run: the results that it has are compared.

    --agents takes names that `psrl-pomdp plugins agents` lists, variants such as psrl-fixed-100, names with
    the ending -cells-K for agents that are given K cells in place of the numbers of a density, and
    importable paths of classes, such as mymodule:MyAgent for a class in mymodule.py of the current directory.
    The class is called with (setting, seed=0), and its method act(observation) returns an action. The
    observation is None before the first one.

    \b
    Exit codes:
      0  every run has a result
      1  a run failed, or there was an error, described on stderr
      2  a mistake in the command line
      130  interrupted by Ctrl-C; psrl-pomdp resume DIR computes the missing runs
    """
    from ..studies.comparison import compare
    from ..studies.store import Store
    from ..studies.study_results import StudyResults

    progress: Progress | None = None
    refused: dict[str, str] = {}
    if _is_study_folder(what):
        if given := given_flags(parameters, flags | {"out": out}):
            raise click.UsageError(f"--{given[0]} cannot change a study that was run")
        store = Store.open(Path(what))
        if not StudyResults(store).runs:
            raise click.ClickException(f"{what} holds no result to compare")
        _note_missing(store)
    else:
        study, refused = _study(what, parameters, flags)
        store = Store.create(out or folder_for(what, "comparison"), study)
        progress = show_and_run(store, workers, engine)
    results = StudyResults(store)
    document = compare(results, refused) | {"folder": str(store.folder)}
    document["failures"] = progress.failures if progress else []
    document["files"] = _written(results)
    if as_json:
        print_json(document)
    else:
        _print(document)
    if progress:
        exit_if_failed(store, progress)


def _is_study_folder(what: str) -> bool:
    """Whether the folder of a study is meant. A problem of the same name takes precedence."""
    from ..problems import is_problem

    return Path(what).is_dir() and not is_problem(what)


def _note_missing(store: Store) -> None:
    """Say on stderr that a study has runs without a result, and how to compute them."""
    missing = len(store.missing()[0])
    if missing:
        total = store.study.seeds * len(store.study.agents)
        note(f"{missing} of {total} runs have no result; to compute them: psrl-pomdp resume {store.folder}")


def _study(what: str, parameters: tuple[str, ...], flags: dict[str, Any]) -> tuple[Study, dict[str, str]]:
    """Return the study, and the agents that do not fit its problem with the reasons."""
    import msgspec

    from ..studies.comparison import default_agents
    from ..studies.experiment import Experiment
    from ..studies.study import AgentSpec

    if Path(what).suffix.lower() == ".toml":
        study = asked_study(what, parameters, flags)
        refuse_misfits(study)
        return study, {}
    study = asked_study(what, parameters, flags | {"agents": None})
    known = default_agents(
        find_model(what, parameters), flags["prior"] or (DIRICHLET if flags["bayesian"] else "")
    )
    listed = flags["agents"]
    chosen = list(known) if listed is None else list(dict.fromkeys(names(listed)))
    if not chosen:
        raise click.UsageError("--agents names no agent")
    for name in chosen:
        if name not in known:
            known[name] = _in_cells(name, known) or _plugin_agent(name, known, flags["prior"] or "")
    agents = tuple(msgspec.convert(known[name], AgentSpec) for name in chosen)
    study = msgspec.structs.replace(study, agents=agents)
    refused = Experiment(study).refusals()
    agents = tuple(agent for agent in agents if agent.label not in refused)
    if not agents:
        raise InvalidModelError("; ".join(f"{label}: {why}" for label, why in refused.items()))
    return msgspec.structs.replace(study, agents=agents), refused


def _in_cells(name: str, known: dict[str, dict[str, Any]]) -> dict[str, Any] | None:
    """Return the table of a study for a name with the ending -cells-K, or None for other names."""
    found = kind_in_cells(name)
    return known[found["kind"]] | {"name": name, "cells": found["cells"]} if found["kind"] in known else None


def _plugin_agent(name: str, known: dict[str, dict[str, Any]], prior: str) -> dict[str, Any]:
    """Return the table of a study for a kind of another package, or an importable path."""
    from ..registry import names as names_of
    from ..studies.comparison import plugin_agent

    try:
        return plugin_agent(name, prior)
    except UnknownNameError:
        all_known = dict.fromkeys([*known, *names_of("agents")])
        hint = did_you_mean(name, all_known)
        raise UnknownNameError(
            f"no agent of the group psrl_pomdp.agents is called {name!r}{hint}; known are "
            f"{', '.join(all_known)}, and importable paths such as mymodule:MyAgent"
        ) from None


def _written(results: StudyResults) -> list[str]:
    """Write the tables, and the figures if matplotlib is installed; return the names of the files."""
    from ..report.plan_figures import MissingExtraError, save_figure
    from ..report.regret_figures import regret_figure
    from ..studies.summary import curves
    from ..studies.tables import write_tables

    written = [path.name for path in write_tables(results)]
    study, found = results.study, curves(results)
    if not found:
        return written
    title = study.title or f"{study.problem}: {study.seeds} runs of every agent"
    try:
        figure = regret_figure(found, title, results.units.total_name)
    except MissingExtraError as error:
        note(str(error))
        return written
    for name in ("comparison.svg", "comparison.pdf"):
        save_figure(figure, results.folder / name)
        written.append(name)
    return written


def _print(document: dict[str, Any]) -> None:
    from rich.table import Table
    from rich.text import Text

    out = console()
    truth = "true models drawn from the prior" if document["truth"] == "prior" else "the model of the problem"
    out.print(Text(plain(f"{document['problem']}, {truth}, {document['seeds']} runs"), style="bold"))
    table = Table(box=None, pad_edge=False)
    table.add_column("information, regret at", no_wrap=True)
    n_times = 2 if out.width < 100 else 5
    for t in document["times"][-n_times:]:
        table.add_column(f"{t}", justify="right", no_wrap=True)
    for name in ("µs/step", "planning", "KiB"):
        table.add_column(name, justify="right", no_wrap=True)
    information = ""
    for row in sorted(document["agents"], key=lambda row: _order(document, row)):
        if row["information"] != information:
            information = row["information"]
            table.add_row(Text(f"{information}:", style="dim"))
        table.add_row(Text(plain(f"  {row['agent']}")), *_regrets(row)[-n_times:], *_costs(row))
    out.print(table)
    for label, why in document["refused"].items():
        out.print(Text(plain(f"{label} does not fit: {why}"), style="dim"))
    _print_verdicts(document)
    click.echo(f"results: {document['folder']} ({', '.join(document['files'])})")


def _order(document: dict[str, Any], row: dict[str, Any]) -> int:
    """Return the place of the first agent with the same information: such agents are printed together."""
    return min(i for i, other in enumerate(document["agents"]) if other["information"] == row["information"])


def _regrets(row: dict[str, Any]) -> list[str]:
    if row["interval"] is None:
        return [_short(value) for value in row["regret"]]
    return [
        f"{_short(value)} ± {_short(0.5 * (high - low))}"
        for value, (low, high) in zip(row["regret"], row["interval"], strict=True)
    ]


def _short(value: float) -> str:
    """Return a number with at least three significant digits.

    >>> [_short(x) for x in (12345.6, 12.345, 0.12345)]
    ['12346', '12.3', '0.12']
    """
    if abs(value) >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if abs(value) >= 1 else f"{value:.2f}"


def _costs(row: dict[str, Any]) -> list[str]:
    if row["microseconds_a_step"] is None:
        return ["", "", ""]
    memory = "" if row["memory"] is None else f"{row['memory'] / 1024:.0f}"
    return [f"{row['microseconds_a_step']:.3g}", f"{row['planning_seconds']:.2g} s", memory]


def _print_verdicts(document: dict[str, Any]) -> None:
    """Print the significant differences, and the number of the others."""
    from rich.text import Text

    better_than: dict[str, list[str]] = {row["agent"]: [] for row in document["agents"]}
    sure = [pair for pair in document["pairs"] if pair["sure"]]
    for pair in sure:
        mark = "" if pair["same_information"] else "*"
        better_than[pair["better"]].append(pair["worse"] + mark)
    out = console()
    lines = [
        f"  {agent} has less regret than {', '.join(worse)}" for agent, worse in better_than.items() if worse
    ]
    if lines:
        title = f"\nSignificant differences (all together with {document['level']:.0%} confidence):"
        out.print(Text(title, style="bold"))
        for line in lines:
            out.print(Text(plain(line)))
    if any(not pair["same_information"] for pair in sure):
        out.print(Text("  * has other prior information", style="dim"))
    if left := len(document["pairs"]) - len(sure):
        pairs = "1 pair of agents differs" if left == 1 else f"{left} pairs of agents differ"
        out.print(Text(f"{pairs} by no significant amount; --json lists every pair", style="dim"))
