"""`psrl-pomdp demo`: a track is maintained by somebody who does not know how fast it wears."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .common import console, json_option, note, plain, print_json, print_rows
from .study_display import show_and_run

if TYPE_CHECKING:
    from ..experiment.store import Store

_PROBLEM = "railway"
_NAMES = {
    "oracle": "knows the wear",
    "family": "five candidates",
    "rows": "knows nothing",
    "random": "at random",
}


@click.command("demo")
@click.option(
    "--horizon", type=click.IntRange(min=10), default=10_000, show_default=True, help="Inspections."
)
@click.option("--seeds", type=click.IntRange(min=2), default=12, show_default=True, help="Runs of each.")
@click.option("--workers", type=click.IntRange(min=1), metavar="N", help="Processes.  [default: one a core]")
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("psrl-pomdp-demo"),
    show_default=True,
    help="The folder for results and figures.",
)
@json_option
def command(horizon: int, seeds: int, workers: int | None, out: Path, as_json: bool) -> None:
    """Learn when to repair a railway track whose condition is only measured with errors.

    Four maintainers look after the same track: one who knows how it wears, one who learns which of five
    candidates is true, one who learns every probability from nothing, and one who flips coins. Printed is
    what not knowing cost each, beside the bound that the theory proves; the rest is in the folder. The first
    run on a machine compiles, which takes about a minute, once.

    \b
    Examples:
      psrl-pomdp demo
      psrl-pomdp demo --horizon 100000 --seeds 64 --out long-demo
    """
    from ..experiment.store import Store
    from ..experiment.study import study_from

    study = study_from(
        {
            "title": f"What not knowing cost in {horizon} inspections of a track",
            "problem": _PROBLEM,
            "horizon": horizon,
            "seeds": seeds,
            "tolerance": 1e-6,
            "agents": [
                {"kind": "oracle"},
                {"kind": "psrl", "name": "family", "prior": "finite"},
                {"kind": "psrl", "name": "rows", "prior": "dirichlet"},
                {"kind": "random"},
            ],
        }
    )
    store = Store.create(out, study)
    if not as_json:
        note("Learning (the first run compiles for about a minute) ...")
    progress = show_and_run(store, workers, "local")
    document = results(store)
    if as_json:
        print_json(document)
    else:
        _print(document)
    if progress.failures:
        click.get_current_context().exit(1)


def results(store: Store) -> dict[str, Any]:
    """What the demo says, as plain data; tables and figures are written on the way."""
    import numpy as np

    from ..experiment.jobs import model_of
    from ..experiment.summary import curves, summarise
    from ..experiment.tables import write_tables
    from ..problems import Problem
    from ..regret import finite_bound

    written = [path.name for path in write_tables(store)]
    model = model_of(store.study)
    assert isinstance(model, Problem)
    assert model.family is not None
    found = curves(store)
    width = model.setting.units.difference(1.0)
    bound = np.asarray(finite_bound(model.family).corrected(found["family"].times) * width)
    document = summarise(store)
    document["bound"] = float(bound[-1]) if np.isfinite(bound[-1]) else None
    document["unit"] = model.setting.units.name
    document["files"] = written + _figures(store, found, model.setting.units.name)
    document["folder"] = str(store.folder)
    return document


def _figures(store: Store, found: dict[str, Any], unit: str) -> list[str]:
    """The regret as .svg and .pdf, where matplotlib is installed."""
    from ..report.plan_figures import MissingExtraError, save_figure
    from ..report.regret_figures import regret_figure

    named = {_NAMES[agent]: curve for agent, curve in found.items()}
    try:
        figure = regret_figure(named, store.study.title, unit)
    except MissingExtraError as error:
        note(str(error))
        return []
    for name in ("regret.svg", "regret.pdf"):
        save_figure(figure, store.folder / name)
    return ["regret.svg", "regret.pdf"]


def _print(document: dict[str, Any]) -> None:
    from rich.table import Table
    from rich.text import Text

    out = console()
    out.print(Text(plain(document["title"]), style="bold"))
    out.print()
    table = Table(box=None, pad_edge=False)
    for name in ("maintainer", "regret", "95 % of it", "grows", "posterior"):
        table.add_column(name)
    for row in document["agents"]:
        low, high = row["interval"]
        table.add_row(
            _NAMES[row["agent"]],
            f"{row['regret']:.4g}",
            f"{low:.4g} to {high:.4g}",
            row["growth"],
            _posterior(row),
        )
    out.print(table)
    out.print()
    bound = document["bound"]
    says = f"{bound:.4g}" if bound is not None else "nothing: some reading can have probability 0"
    print_rows(
        [
            ("regret is in", document["unit"] or "the problem's units"),
            ("bound of the theory, five candidates", says),
            ("results", f"{document['folder']}: {', '.join(document['files'])}"),
        ]
    )


def _posterior(row: dict[str, Any]) -> str:
    """What is believed of the truth in the end."""
    value = row["posterior"]
    if row["agent"] == "family":
        return f"{value:.4f} on the truth"
    return f"{value:.3f} from the truth, a row" if row["agent"] == "rows" else ""
