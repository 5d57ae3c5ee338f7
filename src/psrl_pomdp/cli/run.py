"""`psrl-pomdp run`: a study, or a quick one from flags."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import InvalidModelError
from ..studies.agent_kinds import KINDS
from .common import folder_for, json_option, model_argument, parameter_option, prior_option, seen_costs_option
from .study_display import engine_options, finish, show_and_run

if TYPE_CHECKING:
    from ..studies import Study

VERIFY_DIFFERS = 4  # the exit code
_IN_CELLS = re.compile(r"(.+)-cells-([1-9][0-9]{0,3})")
_EXAMPLES = """\b
Examples:
  psrl-pomdp run tiger --horizon 1000 --seeds 4
  psrl-pomdp run --verify tiger-results
"""


@click.command(
    "run", epilog=_EXAMPLES, short_help="Run agents on a problem many times and measure their regret."
)
@model_argument("what", "NAME|FILE|STUDY.toml|DIR")
@parameter_option
@click.option(
    "--horizon", type=click.IntRange(min=1), metavar="N", help="Steps of each run.  [default: 10000]"
)
@click.option(
    "--seeds", type=click.IntRange(min=1), metavar="N", help="Number of runs of each agent.  [default: 16]"
)
@click.option(
    "--agents",
    metavar="KINDS",
    help=f"The agents, separated by commas: {', '.join(KINDS)}, or plug-ins.  [default: psrl,oracle,random]",
)
@prior_option("finite if the problem has a finite prior, otherwise dirichlet")
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
    help="Folder for the results.  [default: NAME-results]",
)
@engine_options
@click.option("--parquet", is_flag=True, help="Write tables as Parquet instead of CSV; needs pyarrow.")
@click.option(
    "--verify",
    "sample",
    is_flag=True,
    help="Repeat up to 4 runs of the study in DIR, and compare the results byte by byte.",
)
@json_option
def command(
    what: str,
    parameters: tuple[str, ...],
    out: Path | None,
    workers: int | None,
    engine: str,
    parquet: bool,
    sample: bool,
    as_json: bool,
    **flags: Any,
) -> None:
    """Run agents on a problem many times, and measure their regret.

    Regret is the sum of costs beyond the optimal long-run average. The table has the mean regret of each
    agent at the end, its 95 % interval, and how the regret grows with time. The folder --out holds the study
    (study.toml), a result for each run, and the tables runs.csv, episodes.csv and fits.csv;
    `psrl-pomdp report` turns it into a page. Each finished run is saved at once: after Ctrl-C or a crash,
    `psrl-pomdp resume DIR` computes only the missing runs. Results do not depend on the number of processes.
    A STUDY.toml sets everything that the options set, and more, such as an observation model that an agent
    has to learn; the page "Studies" of the manual describes it.

    A name with the ending -cells-K, such as memoryless-cells-8, is an agent that is given K cells in place of
    the real numbers of a density. Agents that need finitely many observations can be used so.

    \b
    Exit codes:
      0  every run has a result
      1  a run failed, or there was an error, described on stderr
      2  a mistake in the command line
      4  --verify found a result that differs
      130  interrupted by Ctrl-C; finished runs are saved
    """
    from ..studies.store import Store

    if sample:
        _verify(Path(what))
        return
    study = asked_study(what, parameters, flags)
    refuse_misfits(study)
    folder = out or folder_for(what, "results")
    store = Store.create(folder, study)
    progress = show_and_run(store, workers, engine)
    finish(store, progress, parquet, as_json)


def asked_study(what: str, parameters: tuple[str, ...], flags: dict[str, Any]) -> Study:
    """From a file, or from flags around a problem."""
    from ..problems import is_problem, problem
    from ..registry import is_path
    from ..studies import read_study
    from ..studies.agent_kinds import kind_of
    from ..studies.study import study_from, with_file
    from .common import find_model, parameter

    if Path(what).suffix.lower() == ".toml":
        given = given_flags(parameters, flags)
        if given:
            raise click.UsageError(f"--{given[0]}: a study file says everything; change it there")
        study = read_study(what)
        if not study.file_sha256:
            problem(study.problem, **study.parameters)  # mistakes are told before anything is written
        return study
    find_model(what, parameters)
    prior, agents = flags["prior"], names(flags["agents"] or "psrl,oracle,random")
    words: dict[str, Any] = {
        "problem": what,
        "horizon": flags["horizon"] or 10_000,
        "seeds": flags["seeds"] or 16,
        "seed": flags["seed"] or 0,
        "truth": "prior" if flags["bayesian"] else "fixed",
        "agents": [
            in_cells | ({"prior": prior} if prior and kind_of(in_cells["kind"]).uses_prior else {})
            for in_cells in map(kind_in_cells, agents)
        ],
    }
    if flags.get("seen_costs"):
        words["seen_cost"] = "exact"
    if parameters:
        words["parameters"] = dict(map(parameter, parameters))
    study = study_from(words, "the command line")
    named = is_problem(what) or (is_path(what) and not Path(what).is_file())
    return study if named else with_file(study, Path(what))


def given_flags(parameters: tuple[str, ...], flags: dict[str, Any]) -> list[str]:
    """Return the names of the options that the user gave; `--seed 0` counts as given."""
    given = [name for name, value in flags.items() if value is not None and value is not False]
    return [*given, "parameter"] if parameters else given


def kind_in_cells(name: str) -> dict[str, Any]:
    """Return the table of a study for a kind of agent, whose name may have the ending -cells-K."""
    found = _IN_CELLS.fullmatch(name)
    return {"kind": name} if found is None else {"kind": found[1], "name": name, "cells": int(found[2])}


def names(listed: str) -> list[str]:
    """Return the names in a list that is separated by commas."""
    return [name.strip() for name in listed.split(",") if name.strip()]


def refuse_misfits(study: Study) -> None:
    """Raise an error if an agent does not fit the problem, before anything is written.

    If every agent fits every problem, no agent is made for this check. The folder of the study then exists
    within a second, and a process that is killed after that can be resumed.
    """
    from ..inference.choosing import DIRICHLET
    from ..studies.agent_kinds import kind_of
    from ..studies.experiment import Experiment

    usual = ("", DIRICHLET)  # any problem has these
    experiment = Experiment(study)
    own = experiment.problem.setting
    fits_all = own.is_finite and not own.sensor_depends_on_previous and own.seen_cost is None
    if fits_all and not any(
        a.options or a.cells or a.prior not in usual or kind_of(a.kind).may_reject_model for a in study.agents
    ):
        return
    for label, why in experiment.refusals().items():
        raise InvalidModelError(f"{label}: {why}")


def _verify(folder: Path) -> None:
    from ..studies.runner import verify
    from ..studies.store import Store

    store = Store.open(folder)
    done, different = verify(store, jobs=4)
    if not done:
        raise click.ClickException(f"{folder} holds no result to verify")
    if different:
        click.echo(f"these runs gave other results: {', '.join(different)}", err=True)
        click.get_current_context().exit(VERIFY_DIFFERS)
    click.echo(f"{done} runs were repeated: the same bytes")
