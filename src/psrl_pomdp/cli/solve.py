"""`psrl-pomdp solve`: certified bounds on the optimal long-run average of a known model, and a policy."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .common import (
    find_model,
    json_option,
    model_argument,
    normalize_option,
    note,
    parameter_option,
    print_json,
)
from .plan_text import plan_document, print_plan
from .solve_progress import interrupts_between_rounds, show_progress

if TYPE_CHECKING:
    from ..models import POMDP
    from ..planning import Plan

GAP_LEFT_OPEN = 3  # the exit code
FIGURE_ENDINGS = (".png", ".svg", ".pdf")


def _writable(context: click.Context, option: click.Parameter, value: str | None) -> Path | None:
    """Return the path of a file that can be written. This is checked before the computation starts."""
    if value is None:
        return None
    path = Path(value)
    endings = {"save": (".npz",), "proof": (".json",)}.get(option.name or "", FIGURE_ENDINGS)
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
    if value is not None and not value > 0.0:  # also refuses NaN
        raise click.BadParameter(f"{value} is not above 0")
    return value


def _share(context: click.Context, option: click.Parameter, value: str | None) -> float | None:
    """Return a share such as 0.05 or 5%."""
    if value is None:
        return None
    text = value.strip()
    try:
        share = float(text[:-1]) / 100 if text.endswith("%") else float(text)
    except ValueError:
        raise click.BadParameter(f"{value!r} is no share, such as 0.05 or 5%") from None
    _above_zero(context, option, share)
    return share


def _discount(context: click.Context, option: click.Parameter, value: str | None) -> float | str | None:
    """Return a discount, or "file" for that of the file."""
    if value is None or value.strip() == "file":
        return None if value is None else "file"
    try:
        discount = float(value)
    except ValueError:
        raise click.BadParameter(f"{value!r} is no number, and not the word file") from None
    if not 0.0 < discount < 1.0:
        raise click.BadParameter(f"{value} is not above 0 and below 1")
    return discount


def _discount_for(model: POMDP, discount: float | str | None) -> float | None:
    """Return the discount to plan with, which may be that of the model's file."""
    if not isinstance(discount, str):
        return discount
    if model.discount is None:
        raise click.UsageError("--discount file: the model states no discount")
    if not 0.0 < model.discount < 1.0:
        raise click.UsageError(
            f"--discount file: the file's discount is {model.discount:g}, not above 0 and below 1; leave out "
            "--discount for the long-run average"
        )
    return model.discount


_EXAMPLES = """\b
Examples:
  psrl-pomdp solve tiger -p accuracy=0.9
  psrl-pomdp solve my-model.pomdp --rtol 5% --time-limit 60
  psrl-pomdp solve my-model.pomdp --discount file
  psrl-pomdp solve railway --save railway.npz --figure railway.pdf
"""


@click.command(
    "solve", epilog=_EXAMPLES, short_help="Compute bounds on the optimal long-run average of a model."
)
@model_argument("model")
@parameter_option
@normalize_option
@click.option(
    "--tolerance",
    type=click.FloatRange(max=1.0),
    default=1e-4,
    callback=_above_zero,
    show_default=True,
    help="Stop when the gap between the bounds is at most this, with costs scaled to [0, 1].",
)
@click.option(
    "--rtol",
    callback=_share,
    metavar="SHARE",
    help="Also require a gap of at most this share of the reference value, such as 1%. The reference value "
    "is the distance of the optimal average cost from the smallest or the largest cost, whichever is "
    "nearer.  [default: not required]",
)
@click.option(
    "--atol",
    type=float,
    callback=_above_zero,
    help="Also require a gap of at most this, in the units of the model.  [default: not required]",
)
@click.option(
    "--discount",
    callback=_discount,
    metavar="NUMBER|file",
    help="Bound the optimal discounted total from the initial distribution, in which each step has this "
    "weight on the one before it; `file` takes the discount of the file.  [default: the long-run average]",
)
@click.option(
    "--time-limit",
    type=float,
    callback=_above_zero,
    metavar="SECONDS",
    help="Stop after this time.  [default: no limit]",
)
@click.option(
    "--memory-limit",
    type=float,
    callback=_above_zero,
    metavar="GB",
    help="Memory that the planner may use in addition to the model.  [default: 4]",
)
@click.option(
    "--max-points",
    type=click.IntRange(min=1),
    metavar="N",
    help="Stop at this number of beliefs in the grid of the lower bound.  [default: 40000]",
)
@json_option
@click.option(
    "--save",
    callback=_writable,
    metavar="PLAN.npz",
    help="Save the plan to this file, for `psrl-pomdp verify` and Plan.load.  [default: not saved]",
)
@click.option(
    "--proof",
    callback=_writable,
    metavar="PROOF.json",
    help="Write the proof of the bounds to this file, which others can check without this program (see "
    "`psrl-pomdp certificate`).  [default: not written]",
)
@click.option(
    "--figure",
    callback=_writable,
    metavar="FILE",
    help="Draw the bounds and the policy to this .png, .svg or .pdf file.  [default: no figure]",
)
def command(
    model: str,
    parameters: tuple[str, ...],
    normalize: bool,
    tolerance: float,
    rtol: float | None,
    atol: float | None,
    discount: float | str | None,
    time_limit: float | None,
    memory_limit: float | None,
    max_points: int | None,
    as_json: bool,
    save: Path | None,
    proof: Path | None,
    figure: Path | None,
) -> None:
    """Compute bounds on the optimal long-run average of a known model, and a policy that attains one of them.

    With --discount, the bounds are on the optimal discounted total from the initial distribution.

    For costs, no policy has an average below the lower bound, and the policy that is printed has an average
    of at most the upper bound; for rewards it is the other way round. Both bounds are proved. The planner
    stops when the gap between them is within --tolerance and, if given, within --rtol and --atol. Ctrl-C
    stops it at the end of the present round; the bounds found so far are valid and are printed. In the first
    run after an installation, a second process may compile the planner in the background.

    The output describes the policy as intervals or rules where it is simple. --json adds the finite-state
    controller and the bounds of every round.

    \b
    Exit codes:
      0  the gap is within all tolerances
      1  an error, described on stderr; there is no plan
      2  a mistake in the command line
      3  stopped with a larger gap; bounds and policy are printed and saved
    """
    if figure is not None:
        from ..report.plan_figures import need_matplotlib

        need_matplotlib()
    if save is not None and save.exists() and Path(model).exists() and save.samefile(model):
        raise click.UsageError(f"--save {save} would replace the model")
    found = find_model(model, parameters, normalize)
    limits: dict[str, Any] = {"rtol": rtol, "atol": atol, "time_limit": time_limit}
    if discount is not None:
        limits["discount"] = _discount_for(found, discount)
    if memory_limit is not None:
        limits["memory_limit"] = 1e9 * memory_limit
    if max_points is not None:
        limits["max_points"] = max_points
    result = solve_and_show_progress(found, tolerance, **limits)
    try:
        _write(result, found, save, proof, figure)
    finally:  # also if the disk is full
        document = plan_document(result, found, tolerance)
        if as_json:
            print_json(document)
        else:
            print_plan(document)
    if result.status not in ("closed", "coarse"):
        click.get_current_context().exit(GAP_LEFT_OPEN)


def solve_and_show_progress(model: POMDP, tolerance: float, **limits: Any) -> Plan:
    """Return the plan for a model, and show the progress of the planner on stderr."""
    from ..planning import plan
    from ..planning.discounted import total_units

    units = total_units(model.setting.units, limits.get("discount") or 1.0)
    try:
        with show_progress(units) as line, interrupts_between_rounds(line):
            return plan(model, tolerance, progress=line, **limits)
    except SystemError as error:  # numba turns a Ctrl-C inside compiled code into this
        if isinstance(error.__cause__, KeyboardInterrupt):
            raise KeyboardInterrupt from None
        raise


def _write(result: Plan, model: POMDP, save: Path | None, proof: Path | None, figure: Path | None) -> None:
    if save is not None:
        result.save(save)
        note(f"saved the plan to {save}")
    if proof is not None:
        from ..planning import save_proof

        save_proof(result, model, proof)
        note(f"wrote the proof to {proof}")
    if figure is not None:
        from ..report.plan_figures import plan_figure, save_figure

        save_figure(plan_figure(result, model), figure)
        note(f"drew {figure}")
