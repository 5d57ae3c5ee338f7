"""`psrl-pomdp compare`: learners side by side, in the same worlds."""

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
)
from .run import asked_study, given_flags, names, refuse_misfits
from .study_display import engine_options, show_and_run

if TYPE_CHECKING:
    from ..studies import Study
    from ..studies.study_results import StudyResults


@click.command("compare", short_help="Compare learners in the same worlds, and say who is ahead.")
@model_argument("what", "NAME|FILE|STUDY.toml|DIR")
@parameter_option
@click.option("--agents", metavar="NAMES", help="Comma-separated.  [default: all that fit the problem]")
@click.option("--horizon", type=click.IntRange(min=1), metavar="N", help="Steps of a run.  [default: 10000]")
@click.option("--seeds", type=click.IntRange(min=2), metavar="N", help="Runs of every agent.  [default: 16]")
@prior_option
@click.option("--bayesian", is_flag=True, help="A new world for every seed, drawn from the prior.")
@click.option("--seed", type=int, help="Of all randomness.  [default: 0]")
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), help="The folder for results.")
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
    """Run learners in the same worlds with the same random numbers, and say who is ahead.

    One table shows the regret of each learner with its 95 % interval, what it knows beforehand, and its time
    and memory. Another says for every pair whether one is ahead of the other; all these verdicts hold
    together with 99% confidence. A learner that does not fit the problem is listed with the reason. DIR is
    the folder of a study that was run.

    \b
    Examples:
      psrl-pomdp compare railway
      psrl-pomdp compare random-readout --agents psrl,oas-ucrl,seeu-known
      psrl-pomdp compare railway --agents psrl,mymodule:MyAgent,random
      psrl-pomdp compare study.toml --json
      psrl-pomdp compare railway-comparison
    """
    from ..studies.comparison import compare
    from ..studies.store import Store
    from ..studies.study_results import StudyResults

    failures: list[str] = []
    refused: dict[str, str] = {}
    if _is_study_folder(what):
        if given := given_flags(parameters, flags | {"out": out}):
            raise click.UsageError(f"--{given[0]}: a study that was run says everything")
        store = Store.open(Path(what))
        if not StudyResults(store).runs:
            raise click.ClickException(f"{what} holds no result to compare")
    else:
        study, refused = _study(what, parameters, flags)
        store = Store.create(out or folder_for(what, "comparison"), study)
        failures = show_and_run(store, workers, engine).failures
    results = StudyResults(store)
    document = compare(results, refused) | {"failures": failures, "folder": str(store.folder)}
    document["files"] = _written(results)
    if as_json:
        print_json(document)
    else:
        _print(document)
    if failures:
        click.get_current_context().exit(1)


def _is_study_folder(what: str) -> bool:
    """Whether a folder is meant; a problem of that name comes first, as everywhere."""
    from ..problems import is_problem

    return Path(what).is_dir() and not is_problem(what)


def _study(what: str, parameters: tuple[str, ...], flags: dict[str, Any]) -> tuple[Study, dict[str, str]]:
    """From a file, or all contestants that fit the problem; and why others do not."""
    import msgspec

    from ..studies.comparison import contestants
    from ..studies.experiment import Experiment
    from ..studies.study import AgentSpec

    if Path(what).suffix.lower() == ".toml":
        study = asked_study(what, parameters, flags)
        refuse_misfits(study)
        return study, {}
    study = asked_study(what, parameters, flags | {"agents": None})
    known = contestants(
        find_model(what, parameters), flags["prior"] or (DIRICHLET if flags["bayesian"] else "")
    )
    listed = flags["agents"]
    chosen = list(known) if listed is None else list(dict.fromkeys(names(listed)))
    if not chosen:
        raise click.UsageError("--agents: nobody is named")
    for name in chosen:
        if name not in known:
            known[name] = _invited(name, known, flags["prior"] or "")
    agents = tuple(msgspec.convert(known[name], AgentSpec) for name in chosen)
    study = msgspec.structs.replace(study, agents=agents)
    refused = Experiment(study).refusals()
    agents = tuple(agent for agent in agents if agent.label not in refused)
    if not agents:
        raise InvalidModelError("; ".join(f"{label}: {why}" for label, why in refused.items()))
    return msgspec.structs.replace(study, agents=agents), refused


def _invited(name: str, known: dict[str, dict[str, Any]], prior: str) -> dict[str, Any]:
    """A kind that is no contestant by itself: one of another package, or an importable path."""
    from ..registry import names as names_of
    from ..studies.comparison import invited

    try:
        return invited(name, prior)
    except UnknownNameError:
        all_known = dict.fromkeys([*known, *names_of("agents")])
        hint = did_you_mean(name, all_known)
        raise UnknownNameError(
            f"no contestant is called {name!r}{hint}; known are {', '.join(all_known)}, "
            "and importable paths such as mymodule:MyAgent"
        ) from None


def _written(results: StudyResults) -> list[str]:
    """Tables, and the figure where matplotlib is installed."""
    from ..report.plan_figures import MissingExtraError, save_figure
    from ..report.regret_figures import regret_figure
    from ..studies.summary import curves
    from ..studies.tables import write_tables

    written = [path.name for path in write_tables(results)]
    study, found = results.study, curves(results)
    if not found:
        return written
    title = study.title or f"{study.problem}: {study.seeds} runs of every learner"
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
    truth = "worlds drawn from the prior" if document["truth"] == "prior" else "the world of the problem"
    out.print(Text(plain(f"{document['problem']}, {truth}, {document['seeds']} runs"), style="bold"))
    table = Table(box=None, pad_edge=False)
    table.add_column("told, regret at", no_wrap=True)
    room = 2 if out.width < 100 else 5
    for t in document["times"][-room:]:
        table.add_column(f"{t}", justify="right", no_wrap=True)
    for name in ("µs/step", "planning", "KiB"):
        table.add_column(name, justify="right", no_wrap=True)
    told = ""
    for row in sorted(document["agents"], key=lambda row: _order(document, row)):
        if row["told"] != told:
            told = row["told"]
            table.add_row(Text(f"{told}:", style="dim"))
        table.add_row(Text(plain(f"  {row['agent']}")), *_regrets(row)[-room:], *_took(row))
    out.print(table)
    for label, why in document["refused"].items():
        out.print(Text(plain(f"{label} does not fit: {why}"), style="dim"))
    _print_verdicts(document)
    click.echo(f"results: {document['folder']} ({', '.join(document['files'])})")


def _order(document: dict[str, Any], row: dict[str, Any]) -> int:
    """Learners that were told the same stand together, where the first of them stands."""
    return min(i for i, other in enumerate(document["agents"]) if other["told"] == row["told"])


def _regrets(row: dict[str, Any]) -> list[str]:
    if row["interval"] is None:
        return [_short(value) for value in row["regret"]]
    return [
        f"{_short(value)} ± {_short(0.5 * (high - low))}"
        for value, (low, high) in zip(row["regret"], row["interval"], strict=True)
    ]


def _short(value: float) -> str:
    """
    >>> [_short(x) for x in (12345.6, 12.345, 0.12345)]
    ['12346', '12.3', '0.12']
    """
    if abs(value) >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if abs(value) >= 1 else f"{value:.2f}"


def _took(row: dict[str, Any]) -> list[str]:
    if row["microseconds_a_step"] is None:
        return ["", "", ""]
    keeps = "" if row["memory"] is None else f"{row['memory'] / 1024:.0f}"
    return [f"{row['microseconds_a_step']:.3g}", f"{row['planning_seconds']:.2g} s", keeps]


def _print_verdicts(document: dict[str, Any]) -> None:
    """Who is ahead of whom; what the runs do not say is only counted."""
    from rich.text import Text

    ahead: dict[str, list[str]] = {row["agent"]: [] for row in document["agents"]}
    sure = [pair for pair in document["pairs"] if pair["sure"]]
    for pair in sure:
        mark = "" if pair["same_information"] else "*"
        ahead[pair["better"]].append(pair["worse"] + mark)
    out = console()
    lines = [f"  {agent}: of {', '.join(worse)}" for agent, worse in ahead.items() if worse]
    if lines:
        words = f"\nAhead (with {document['level']:.0%} confidence in all of this at once):"
        out.print(Text(words, style="bold"))
        for line in lines:
            out.print(Text(plain(line)))
    if any(not pair["same_information"] for pair in sure):
        out.print(Text("  * told other things", style="dim"))
    if left := len(document["pairs"]) - len(sure):
        out.print(Text(f"{left} pairs are not told apart by these runs; --json has them all", style="dim"))
