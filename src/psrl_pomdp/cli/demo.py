"""`psrl-pomdp demo`: what learning how a railway track wears saves, against repairing it by the calendar."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..inference.choosing import DIRICHLET, FINITE
from .common import json_option, note, plain, print_json
from .study_display import show_and_run

if TYPE_CHECKING:
    from ..inference import FinitePrior
    from ..models import POMDP
    from ..studies.runner import Progress
    from ..studies.savings import Amount
    from ..studies.store import Store
    from ..studies.study import Study
    from ..studies.study_results import StudyResults

_PROBLEM = "railway"
_CALENDAR, _ORACLE, _ROWS = "calendar", "knows-the-wear", "from-nothing"
_WIDTH = 80
_EXAMPLES = """\b
Examples:
  psrl-pomdp demo
  psrl-pomdp demo --horizon 1000 --seeds 4 --out short-demo
"""


@click.command("demo", epilog=_EXAMPLES, short_help="A first look: what learning saves on a railway track.")
@click.option(
    "--horizon", type=click.IntRange(min=10), default=5_000, show_default=True, metavar="N",
    help="Number of inspections of each track.",
)  # fmt: skip
@click.option(
    "--seeds", type=click.IntRange(min=2), default=6, show_default=True, metavar="N",
    help="Simulated tracks for each maintainer.",
)  # fmt: skip
@click.option(
    "--workers", type=click.IntRange(min=1), metavar="N", help="Number of processes.  [default: one per core]"
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("psrl-pomdp-demo"),
    show_default=True,
    help="The folder for results and figures.",
)
@json_option
def command(horizon: int, seeds: int, workers: int | None, out: Path, as_json: bool) -> None:
    """Compare four ways to decide when a railway track is repaired, and print what each costs.

    The condition of a track wears from good to fair to poor, which costs 10, 100 or 800 euro from one
    inspection to the next. An inspection gives a noisy indicator of the condition; a repair costs 200 euro
    and mostly helps. How fast the track wears is not known.

    Four maintainers look after the same simulated tracks. The first repairs at fixed intervals, whatever the
    indicator says, with the interval that costs least: this is today's rule. The second knows how the track
    wears, and no policy costs less in the long run. The third learns which of a few candidate models is true.
    The fourth learns every probability from nothing.

    For each of them the table has the average cost of an inspection; the sum saved in all inspections
    against the first maintainer, whose name is `calendar`; and the regret, which is the sum paid beyond the
    best possible long-run average. The number after ± is half the width of a 95 % interval. The folder holds
    a table of every run, a figure of the regret, and the study, which `psrl-pomdp report` turns into a page.
    """
    from ..studies.store import Store
    from ..studies.study_results import StudyResults

    study, about = _study(horizon, seeds)
    store = Store.create(out, study)
    rows = _Rows(store, about)
    if as_json:
        progress = show_and_run(store, workers, "local", in_turn=True)
        print_json(results(StudyResults(store), about))
    else:
        click.echo(_opening(study, about))
        progress = show_and_run(store, workers, "local", in_turn=True, news=rows.ready)
        for line in rows.rest():
            click.echo(line)
        click.echo(_closing(results(StudyResults(store), about)))
    if progress.failures:
        click.get_current_context().exit(1)


def _study(horizon: int, seeds: int) -> tuple[Study, dict[str, str]]:
    """Return the study, and a description of each maintainer by its name."""
    from ..agents.baselines.calendar_rule import best_calendar
    from ..studies.study import study_from

    count = len(_candidates())
    family = f"{count}-candidates"
    every = best_calendar(_world()).every
    study = study_from(
        {
            "title": f"Four maintainers of a railway track, {horizon:,} inspections",
            "problem": _PROBLEM,
            "horizon": horizon,
            "seeds": seeds,
            "tolerance": 1e-5,
            "agents": [
                {"kind": "calendar", "name": _CALENDAR},
                {"kind": "oracle", "name": _ORACLE},
                {"kind": "psrl", "name": family, "prior": FINITE},
                {"kind": "psrl", "name": _ROWS, "prior": DIRICHLET},
            ],
        }
    )
    return study, {
        _CALENDAR: f"repairs at every {_ordinal(every)} inspection, the best rule of this kind",
        _ORACLE: "knows how the track wears: no policy costs less on average",
        family: f"learns which of {count} ways to wear is the true one",
        _ROWS: "learns every probability of the wear, starting from nothing",
    }


def _world() -> POMDP:
    from ..problems import problem

    return problem(_PROBLEM)


def _candidates() -> FinitePrior:
    """Return the candidate kernels; the first one is the true kernel."""
    from ..inference.choosing import finite_prior_of

    found = finite_prior_of(_world())
    assert found is not None
    return found


def _ordinal(number: int) -> str:
    """Return an ordinal number.

    >>> [_ordinal(n) for n in (2, 3, 4, 11, 21)]
    ['2nd', '3rd', '4th', '11th', '21st']
    """
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


# -- what came out ----------------------------------------------------------------------------------


def results(found: StudyResults, about: dict[str, str]) -> dict[str, Any]:
    """Write the tables and figures, and return the results of the demo as plain data."""
    from ..studies.savings import savings
    from ..studies.summary import curves, summarize
    from ..studies.tables import write_tables

    written = [path.name for path in write_tables(found)]
    unit = found.units.total_name
    saved, document = savings(found, _CALENDAR), summarize(found)
    for row in document["agents"]:
        own = saved[row["agent"]]
        row["about"] = about[row["agent"]]
        row["paid"], row["average"] = own.total.mean, own.average
        row["saved"] = None if own.saved is None else _document(own.saved)
        row["saved_share"] = own.share
    return document | {
        "baseline": _CALENDAR,
        "unit": unit,
        "best_average": _best_average(found),
        **_bound(found),
        "files": written + _figures(found, curves(found), unit),
        "folder": str(found.folder),
    }


def _document(amount: Amount) -> dict[str, Any]:
    half = amount.half_width
    ends = None if half is None else [amount.mean - half, amount.mean + half]
    return {"mean": amount.mean, "interval": ends}


def _best_average(found: StudyResults) -> list[float]:
    """Two bounds that hold the best possible long-run average."""
    truths = [result.truth for result in found.runs]
    low, high = max(each.lower for each in truths), min(each.upper for each in truths)
    return [float(end) for end in found.units.from_scaled([low, high])]


def _bound(found: StudyResults) -> dict[str, Any]:
    """Return the bound of Theorem 1 on the regret of the agent with candidates, or why there is none."""
    from ..analysis.bounds import finite_bound_at
    from ..errors import InvalidModelError

    try:
        _, values = finite_bound_at(_candidates(), [found.study.horizon])
    except InvalidModelError as error:
        return {"bound": None, "no_bound": f"Theorem 1 of the paper gives no bound here: {error}"}
    return {"bound": float(found.units.difference(values[-1])), "no_bound": ""}


def _figures(found: StudyResults, curves: dict[str, Any], unit: str) -> list[str]:
    """Write the figure of the regret as .svg and .pdf if matplotlib is installed; return the file names."""
    from ..report.plan_figures import MissingExtraError, save_figure
    from ..report.regret_figures import regret_figure

    try:
        figure = regret_figure(curves, found.study.title, unit)
    except MissingExtraError as error:
        note(str(error))
        return []
    for name in ("regret.svg", "regret.pdf"):
        save_figure(figure, found.folder / name)
    return ["regret.svg", "regret.pdf"]


# -- how it is printed ------------------------------------------------------------------------------


def _opening(study: Study, about: dict[str, str]) -> str:
    """Return the descriptions of the maintainers and the head of the table, which are printed first."""
    wide = max(map(len, about))
    lines = [study.title, "", *(f"  {name:{wide}}  {words}" for name, words in about.items()), ""]
    sums = f" in {study.horizon:,} inspections, euro "
    lines.append(f"{'':{wide + 2}}{'euro an':>12}  {sums:-^46}")
    lines.append(_line("maintainer", "inspection", "saved against the calendar", "regret", wide))
    return "\n".join(lines)


def _line(name: str, average: str, saved: str, regret: str, wide: int) -> str:
    return f"  {name:{wide}}{average:>12}  {saved:>26}  {regret:>18}".rstrip()


class _Rows:
    """The rows of the table, each as soon as all runs of its maintainer are finished."""

    def __init__(self, store: Store, about: dict[str, str]) -> None:
        self._store = store
        self._wide = max(map(len, about))
        self._left = list(about)

    def ready(self, progress: Progress) -> list[str]:
        """Return the rows that were finished since the last call, in the order of the table."""
        count = 0
        while count < len(self._left):
            if len(progress.regrets.get(self._left[count], [])) < self._store.study.seeds:
                break
            count += 1
        return self._taken(count)

    def rest(self) -> list[str]:
        """Return the rows of those of whom some run failed."""
        return self._taken(len(self._left))

    def _taken(self, count: int) -> list[str]:
        names, self._left = self._left[:count], self._left[count:]
        if not names:
            return []
        from ..studies.savings import savings
        from ..studies.study_results import StudyResults
        from ..studies.summary import curves

        results = StudyResults(self._store)
        found, regrets = savings(results, _CALENDAR), curves(results)
        return [self._row(name, found[name], regrets[name]) for name in names if name in found]

    def _row(self, name: str, own: Any, curve: Any) -> str:
        saved = "" if own.saved is None else f"{_euro(own.saved)}  {_share(own.share)}"
        low, high = curve.interval
        return _line(name, f"{own.average:.1f}", saved, _regret(float(low[-1]), float(high[-1])), self._wide)


def _euro(amount: Amount) -> str:
    """Return an amount with half the width of its interval, if it has one.

    >>> from psrl_pomdp.studies.savings import Amount
    >>> _euro(Amount(118370.4, 412.7)), _euro(Amount(-12.3, None))
    ('118,370 ±    413', '-12')
    """
    half = "" if amount.half_width is None else f" ± {amount.half_width:>6,.0f}"
    return f"{amount.mean:,.0f}{half}"


def _share(share: float | None) -> str:
    return "" if share is None else f"{100.0 * share:>3.0f} %"


def _regret(low: float, high: float) -> str:
    """Return a regret with half the width of its interval; one whose sign is not sure is about 0.

    >>> _regret(1000.0, 2000.0), _regret(-300.0, 250.0), _regret(-300.0, -100.0)
    ('1,500 ±    500', 'about 0 ±    275', '-200 ±    100')
    """
    half = 0.5 * (high - low)
    middle = "about 0" if low <= 0.0 <= high else f"{0.5 * (low + high):,.0f}"
    return f"{middle} ± {half:>6,.0f}"


def _closing(document: dict[str, Any]) -> str:
    """Return the text below the table, which explains the numbers and names the next commands."""
    rows = {row["agent"]: row for row in document["agents"]}
    best = f"{document['best_average'][1]:.2f}"
    sentences = [
        f"Means of {document['seeds']} tracks; the number after ± is half the width of a 95 % interval.",
        f"Regret: paid beyond the best possible long-run average, which is {best} euro an inspection.",
    ]
    if any(row["interval"] and row["interval"][0] <= 0.0 <= row["interval"][1] for row in rows.values()):
        sentences.append('"About 0": the interval contains 0.')
    if any(row["interval"] and row["interval"][1] < 0.0 for row in rows.values()):
        sentences.append("Below 0: the track starts in good condition, which saves something once.")
    told = [rows[name]["saved"] for name in (_ROWS, _ORACLE) if name in rows]
    if len(told) == 2 and all(told) and told[1]["mean"] > 0.0:
        part = 100.0 * told[0]["mean"] / told[1]["mean"]
        sentences.append(
            f"Learning from nothing saved {part:.0f}\N{NO-BREAK SPACE}% of what knowing the wear saved."
            if part > 0.0
            else "Learning from nothing has not paid for itself so far: it takes longer runs."
        )
    if document["bound"] is not None:
        sentences.append(f"The paper's bound on the regret with candidates: {document['bound']:,.0f} euro.")
    files = f"{document['folder']}: {', '.join(document['files'])}"
    lines = ["", *_wrapped(" ".join(sentences)), "", *_wrapped(f"Results are in {plain(files)}.")]
    lines.append(f"Next: psrl-pomdp report {plain(document['folder'])}")
    return "\n".join(lines)


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH - 1, break_long_words=False, break_on_hyphens=False)
