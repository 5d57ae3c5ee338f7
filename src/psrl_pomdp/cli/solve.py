"""`psrl-pomdp solve`: the best long-run average of a known model, between two numbers that are proved."""

from __future__ import annotations

import math
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from .common import (
    console,
    find_model,
    json_option,
    model_argument,
    normalize_option,
    note,
    parameter_option,
    plain,
    print_json,
    print_rows,
)

if TYPE_CHECKING:
    from rich.text import Text

    from ..models import POMDP, Units
    from ..planning import Plan, Round

GAP_LEFT_OPEN = 3  # the exit code
_FIGURES = (".png", ".svg", ".pdf")
_STATUS = {
    "closed": "closed: the gap is within the tolerance",
    "coarse": "coarse: the gap is within the tolerance, but more than a fifth of what is at stake",
    "time limit": "stopped at the time limit; more time may close the gap",
    "work limit": "stopped at the work limit; more work may close the gap",
    "memory limit": "stopped at the memory limit; more may close the gap (--memory-limit, --max-points)",
    "interrupted": "interrupted; these bounds hold all the same",
    "stalled": "stalled: neither bound can be moved any more; `psrl-pomdp show` may say why",
}


def _writable(context: click.Context, option: click.Parameter, value: str | None) -> Path | None:
    """A file that can be written, tried before anything is computed that could then not be kept."""
    if value is None:
        return None
    path = Path(value)
    endings = (".npz",) if option.name == "save" else _FIGURES
    if path.suffix.lower() not in endings:
        raise click.BadParameter(f"{value!r} does not end in {' or '.join(endings)}")
    if path.is_dir():
        raise click.BadParameter(f"{value!r} is a folder")
    try:
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise click.BadParameter(f"cannot write into {str(path.parent)!r}: {error.strerror}") from None
    return path


def _above_zero(context: click.Context, option: click.Parameter, value: float | None) -> float | None:
    if value is not None and not value > 0.0:  # also what is not a number
        raise click.BadParameter(f"{value} is not above 0")
    return value


def _share(context: click.Context, option: click.Parameter, value: str | None) -> float | None:
    """A share, such as 0.05 or 5%."""
    if value is None:
        return None
    text = value.strip()
    try:
        share = float(text[:-1]) / 100 if text.endswith("%") else float(text)
    except ValueError:
        raise click.BadParameter(f"{value!r} is no share, such as 0.05 or 5%") from None
    _above_zero(context, option, share)
    return share


@click.command("solve", short_help="Bound the best long-run average of a known model.")
@model_argument("model")
@parameter_option
@normalize_option
@click.option(
    "--tolerance",
    type=click.FloatRange(max=1.0),
    default=1e-4,
    callback=_above_zero,
    show_default=True,
    help="Stop when the gap is at most this, with costs scaled to [0, 1].",
)
@click.option(
    "--rtol",
    callback=_share,
    metavar="SHARE",
    help="And at most this share of what is at stake, such as 1%. At stake is the best average cost, counted "
    "from the smallest cost, or its distance from the largest cost if that is less.",
)
@click.option("--atol", type=float, callback=_above_zero, help="And at most this in the model's own units.")
@click.option(
    "--time-limit", type=float, callback=_above_zero, metavar="SECONDS", help="Stop after so many seconds."
)
@click.option(
    "--memory-limit",
    type=float,
    callback=_above_zero,
    metavar="GB",
    help="Memory for planning, the model not counted.  [default: 4]",
)
@click.option(
    "--max-points",
    type=click.IntRange(min=1),
    metavar="N",
    help="Stop at so many grid points.  [default: 40000]",
)
@json_option
@click.option("--save", callback=_writable, metavar="PLAN.npz", help="Keep the plan, with its proof.")
@click.option(
    "--figure", callback=_writable, metavar="FILE", help="Draw bounds and policy: .png, .svg or .pdf."
)
def command(
    model: str,
    parameters: tuple[str, ...],
    normalize: bool,
    tolerance: float,
    rtol: float | None,
    atol: float | None,
    time_limit: float | None,
    memory_limit: float | None,
    max_points: int | None,
    as_json: bool,
    save: Path | None,
    figure: Path | None,
) -> None:
    """Bound the best long-run average of a known model, and describe a policy that attains the bound.

    Both bounds hold whenever planning stops, also at Ctrl-C, which ends the present round and prints what was
    found so far. The gap between them has to be within all of --tolerance, --rtol and --atol that are given.
    In a long first run after an installation, a second process compiles the planner in the background.

    \b
    Examples:
      psrl-pomdp solve tiger -p accuracy=0.9
      psrl-pomdp solve my-model.pomdp --tolerance 1e-3 --time-limit 60
      psrl-pomdp solve my-machine.json --rtol 5% --atol 0.50
      psrl-pomdp solve railway --save railway.npz --figure railway.pdf

    \b
    Exit codes:
      0  the gap is as small as was asked for
      1  an error, described on stderr; there is no plan
      2  a mistake in the command line
      3  stopped before that; bounds and policy are printed and saved all the same
    """
    if figure is not None:
        from ..report.plan_figures import need_matplotlib

        need_matplotlib()
    if save is not None and save.exists() and Path(model).exists() and save.samefile(model):
        raise click.UsageError(f"--save {save} would replace the model")
    found = find_model(model, parameters, normalize)
    limits: dict[str, Any] = {"rtol": rtol, "atol": atol, "time_limit": time_limit}
    if memory_limit is not None:
        limits["memory_limit"] = 1e9 * memory_limit
    if max_points is not None:
        limits["max_points"] = max_points
    result = _solve(found, tolerance, **limits)
    try:
        _write(result, found, save, figure)
    finally:  # a full disk is no reason to lose what was found
        document = summarise(result, found, tolerance)
        if as_json:
            print_json(document)
        else:
            print_result(document)
    if result.status not in ("closed", "coarse"):
        click.get_current_context().exit(GAP_LEFT_OPEN)


def _solve(model: POMDP, tolerance: float, **limits: Any) -> Plan:
    from ..planning import plan

    try:
        with _progress(model.setting.units) as line, _interrupts_between_rounds(line):
            return plan(model, tolerance, progress=line, **limits)
    except SystemError as error:  # how numba passes on a Ctrl-C inside of compiled code
        if isinstance(error.__cause__, KeyboardInterrupt):
            raise KeyboardInterrupt from None
        raise


def _write(result: Plan, model: POMDP, save: Path | None, figure: Path | None) -> None:
    if save is not None:
        result.save(save)
        note(f"saved the plan to {save}")
    if figure is not None:
        from ..report.plan_figures import plan_figure, save_figure

        save_figure(plan_figure(result, model), figure)
        note(f"drew {figure}")


# -- while it runs ----------------------------------------------------------------------------------


@contextmanager
def _progress(units: Units) -> Iterator[_ProgressLine]:
    """A line on stderr that goes when the work is done; not shown where stderr is no terminal."""
    line = _ProgressLine(units)
    if not sys.stderr.isatty():
        yield line
        return
    from rich.console import Console
    from rich.live import Live

    with Live(line, console=Console(stderr=True), transient=True, refresh_per_second=4):
        yield line


@contextmanager
def _interrupts_between_rounds(line: _ProgressLine) -> Iterator[None]:
    """The first Ctrl-C waits for the round to end, as compiled code breaks on it; the second does not."""

    def heed(number: int, frame: FrameType | None) -> None:
        if line.stopping:
            signal.default_int_handler(number, frame)
        line.stopping = True

    if threading.current_thread() is not threading.main_thread():  # which alone may set handlers
        yield
        return
    before = signal.signal(signal.SIGINT, heed)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


class _ProgressLine:
    """Called after every round, drawn several times a second."""

    def __init__(self, units: Units) -> None:
        self.units = units
        self.last: Round | None = None
        self.stopping = False
        self._begun = time.monotonic()

    def __call__(self, last: Round) -> None:
        self.last = last
        if self.stopping:
            raise KeyboardInterrupt

    def __rich__(self) -> Text:
        from rich.text import Text

        return Text(self.words(time.monotonic() - self._begun), no_wrap=True, overflow="ellipsis")

    def words(self, seconds: float) -> str:
        clock = f"{seconds:.0f} s"
        if self.stopping:
            return f"stopping after this round (Ctrl-C again: at once) ... {clock}"
        if self.last is None:
            return f"first round{self._beside()} ... {clock}"
        low, high = sorted(self.units.from_scaled([self.last.lower, self.last.upper]).tolist())
        return (
            f"{self.units.kind} {low:.6g} to {high:.6g}, gap {self.last.upper - self.last.lower:.1e}, "
            f"{self.last.points} points, {self.last.nodes} nodes{self._beside()}, {clock}"
        )

    @staticmethod
    def _beside() -> str:
        """What another process does meanwhile."""
        from .._numba import jit as compiled

        return ", compiling beside it, once" if compiled.PLANNING.busy else ""


# -- what was found ---------------------------------------------------------------------------------


def summarise(plan: Plan, model: POMDP, tolerance: float) -> dict[str, Any]:
    """Everything that `solve` says, as plain data. Vectors and bounds called `cost` are scaled to [0, 1]."""
    from ..report.policy_text import describe

    setting = model.setting
    return {
        "model": model.name,
        "kind": plan.units.kind,
        "unit": plan.units.average_name,
        "scale": [plan.units.low, plan.units.high],
        "status": plan.status,
        "status_in_words": _STATUS.get(plan.status, plan.status),
        "lower": plan.lower,
        "upper": plan.upper,
        "lower_cost": plan.lower_cost,
        "upper_cost": plan.upper_cost,
        "gap": plan.gap,
        "relative_gap": plan.relative_gap,
        "tolerance": tolerance,
        "depends_on_start": plan.depends_on_start,
        "span": None if plan.depends_on_start else list(plan.span),
        "points": len(plan.grid),
        "nodes": len(plan.controller),
        "seconds": plan.rounds[-1].seconds if plan.rounds else 0.0,
        "states": [setting.states[s] for s in plan.states],
        "states_left_out": [name for s, name in enumerate(setting.states) if s not in plan.states],
        "policy": describe(plan, model),
        "controller": _controller(plan, model),
        "rounds": [_round(r, plan.units) for r in plan.rounds],
    }


def _controller(plan: Plan, model: POMDP) -> dict[str, Any]:
    """Nodes with names; `vector` is over `states`, and no successor is a reading that cannot come."""
    from ..report.policy_text import successors

    readings = model.setting.observations
    rows = zip(plan.controller.actions, successors(plan, model), plan.controller.vectors, strict=True)
    nodes = [
        {
            "action": plan.actions[int(action)],
            "successors": dict(zip(readings, onward, strict=True)),
            "vector": vector.tolist(),
        }
        for action, onward, vector in rows
    ]
    return {"start": plan.controller.start, "nodes": nodes}


def _round(each: Round, units: Units) -> dict[str, Any]:
    low, high = sorted(units.from_scaled([each.lower, each.upper]).tolist())
    return {
        "lower": low,
        "upper": high,
        "lower_cost": each.lower,
        "upper_cost": each.upper,
        "points": each.points,
        "nodes": each.nodes,
        "work": each.work,
        "seconds": each.seconds,
    }


def print_result(document: dict[str, Any]) -> None:
    from rich.text import Text

    out = console()
    out.print(Text(plain(document["model"] or "a model"), style="bold"))
    out.print()
    print_rows(_rows(document))
    words = document["policy"]["words"]
    out.print()
    out.print(Text(plain(words["title"]), style="bold"))
    for line in words["lines"]:
        out.print(Text(f"  {plain(line)}"))


def _rows(document: dict[str, Any]) -> list[tuple[str, str]]:
    kind, unit = document["kind"], f" {document['unit']}" if document["unit"] else ""
    low, high = outward(document["lower"], document["upper"], document["scale"][1] - document["scale"][0])
    attained = f"earns at least {low}" if kind == "reward" else f"costs at most {high}"
    rows = [
        (f"average {kind}", f"{low} to {high}{unit}"),
        ("its policy", f"{attained}{unit}"),
        (
            "gap",
            (
                f"{document['gap']:.2e}, scaled (tolerance {document['tolerance']:g}); "
                f"{100 * document['relative_gap']:.2g} % of what is at stake"
            ),
        ),
        ("status", document["status_in_words"]),
        ("grid points", str(document["points"])),
        ("controller nodes", str(document["nodes"])),
        ("rounds", str(len(document["rounds"]))),
        ("seconds", f"{document['seconds']:.2f}"),
    ]
    if document["depends_on_start"]:
        rows.append(
            ("holds for", "the model's own start: parts of it cannot be left, or the past is never learned")
        )
    else:
        rows.append(("span", "{:.4g} to {:.4g}, scaled (as seen, not proved)".format(*document["span"])))
    left_out = document["states_left_out"]
    if left_out:
        more = ", ..." if len(left_out) > 6 else ""
        rows.append(("never reached", f"{', '.join(left_out[:6])}{more}: left out"))
    return rows


def outward(lower: float, upper: float, scale: float) -> tuple[str, str]:
    """Both bounds with digits enough to see the gap, rounded so that what is printed is a bound too.

    `scale` is the width of the costs or rewards: next to it, some numbers are as good as 0.

    >>> outward(71.7417804, 71.8221666, 990.0)
    ('71.7417', '71.8222')
    >>> outward(0.0, 1e-12, 1.0)
    ('0.000000000000', '0.000000000001')
    """
    first = math.floor(math.log10(max(abs(lower), abs(upper), 1e-3 * scale)))
    place = first - 5
    if upper > lower:
        place = min(place, math.floor(math.log10(upper - lower)) - 1)
    place = max(place, first - 9)
    if not -25 < place < 5:  # of the size of atoms or of stars: no room for zeros
        return repr(lower), repr(upper)
    unit = Decimal(1).scaleb(min(0, place))
    low = Decimal(lower).quantize(unit, ROUND_FLOOR)
    high = Decimal(upper).quantize(unit, ROUND_CEILING)
    return f"{low:f}", f"{high:f}"
