"""`psrl-pomdp check`: which of the paper's assumptions hold for a problem and a prior, with margins."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import click

from ..inference.choosing import DIRICHLET, FINITE, PRIOR_KINDS
from .common import (
    console,
    find_model,
    json_option,
    known_prior,
    model_argument,
    normalize_option,
    parameter_option,
    plain,
    print_json,
    print_rows,
)

if TYPE_CHECKING:
    from ..analysis.assumptions import Assessment
    from ..analysis.bounds import Constant
    from ..models import POMDP, Setting
    from ..protocols import Prior

ASSUMPTION_FAILS = 3  # the exit code
_MOST_LISTED = 10
_HORIZONS = (10**3, 10**6, 10**9)  # at which bounds are shown
_EXAMPLES = """\b
Examples:
  psrl-pomdp check separated
  psrl-pomdp check mymodule:my_problem --prior mymodule:MyPrior
  psrl-pomdp check my-model.pomdp --json
"""


@click.command(
    "check", epilog=_EXAMPLES, short_help="Say which of the paper's assumptions hold, with margins."
)
@model_argument("model")
@parameter_option
@normalize_option
@click.option(
    "--prior",
    "kind",
    metavar="NAME",
    callback=known_prior,
    help=f"The prior of the agent: {', '.join(PRIOR_KINDS)}, that of a plug-in, or module:Class.  "
    "[default: finite if the problem has a finite prior, otherwise dirichlet]",
)
@click.option(
    "--horizon",
    type=click.IntRange(min=10, max=10**6),
    default=1000,
    show_default=True,
    help="Steps of each simulated run.",
)
@click.option(
    "--seeds",
    type=click.IntRange(min=1, max=1000),
    default=8,
    show_default=True,
    help="Number of simulated runs.",
)
@json_option
def command(
    model: str,
    parameters: tuple[str, ...],
    normalize: bool,
    kind: str | None,
    horizon: int,
    seeds: int,
    as_json: bool,
) -> None:
    """Say which of the paper's assumptions hold for a problem and a prior, and with what margins.

    The output has a verdict with the reason for each assumption, and the regret bounds that follow. The
    planner decides assumption 1, that the optimal average does not depend on the initial state. For a finite
    prior, a proved bound decides assumption 2, that observations distinguish the kernels; the output lists
    the pairs of kernels without such a bound, and the cost of confusing them. If names of states cannot be
    learned from observations, because a renaming leaves the prior unchanged, the output lists the renamings.
    Assumptions 3 and 4, on the errors of beliefs and kernels, are estimated from simulated runs and marked as
    estimates. The prior of a model file is Dirichlet(1) on the transitions that have positive probability in
    the file.

    \b
    Exit codes:
      0  nothing was found against the theorem for this prior
      1  an error, described on stderr
      2  a mistake in the command line
      3  an assumption of the theorem fails, or seems to
    """
    from ..analysis.assumptions import assess

    found = find_model(model, parameters, normalize)
    prior, words = choose_prior(found, kind)
    assessment = assess(found, prior, horizon=horizon, seeds=seeds)
    document = summarize(found, assessment, words)
    if as_json:
        print_json(document)
    else:
        print_assessment(document)
    if assessment.failing:
        click.get_current_context().exit(ASSUMPTION_FAILS)


def choose_prior(model: POMDP, kind: str | None) -> tuple[Prior, str]:
    """Return the prior of this kind, or the problem's default, and a description of it."""
    from ..inference.choosing import default_kind, finite_prior_of, prior_for

    finite = finite_prior_of(model)
    if kind == FINITE and finite is None:
        raise click.UsageError(f"this model has no finite prior: use --prior {DIRICHLET}")
    if kind and kind not in PRIOR_KINDS:
        from ..studies.priors import prior_of

        own: Prior = prior_of(model, kind)
        return own, f"{kind}: {own!r}"
    prior = prior_for(model, kind or "")
    if finite is not None and default_kind(model, kind or "") == FINITE:
        return prior, f"finite: {len(finite)} kernels, kernel 0 the truth"
    if hasattr(model, "prior"):
        return prior, "Dirichlet rows, the problem's own"
    return prior, "Dirichlet(1) on the transitions that the file makes possible; its zeros are taken as known"


def summarize(model: POMDP, found: Assessment, prior: str) -> dict[str, Any]:
    """Return the results of `check` as plain data, with strings in place of infinite numbers."""
    document = {
        "model": model.name,
        "observations": observations_in_words(model.setting),
        "prior": prior,
        "assumptions": [
            {"name": each.name, "verdict": each.verdict, "words": each.message, **each.numbers}
            for each in found.aspects
        ],
        "confusions": [
            {
                "kernels": list(each.kernels),
                "actions": [model.setting.names.action(a) for a in each.actions],
                "never_told_apart": each.indistinguishable,
                "excess": list(each.excess),
                "harmless": each.harmless,
                "words": each.text(model.setting),
            }
            for each in found.confusions
        ],
        "labels": [
            {
                "states": list(each.states),
                "evidence": each.evidence,
                "costs_agree": each.costs_agree,
                "start_agrees": each.start_agrees,
                "words": each.text(model.setting),
            }
            for each in found.labels
        ],
        "bounds": _bounds(found),
        "conclusions": list(found.conclusions),
    }
    finite: dict[str, Any] = _finite_numbers(document)
    return finite


def observations_in_words(setting: Setting) -> str:
    """Return what is assessed in place of observations that are not numbered, or the empty string."""
    if setting.is_finite:
        return ""
    from ..models.stand_in import finite_stand_in

    count = finite_stand_in(setting).n_observations
    return f"{setting.sensor.described()}, assessed by {count} classes, which say a little less"


def _bounds(found: Assessment) -> dict[str, Any]:
    """Return the constants and values of the theorems, for costs in [0, 1].

    The theorems do not hold if an assumption fails; the caller reports that.
    """
    bounds: dict[str, Any] = {"horizons": list(_HORIZONS)}
    if found.finite is not None:
        own = found.finite
        bounds["finite"] = {
            name: _constant(constant)
            for name, constant in (
                ("H", own.span), ("epsilon", own.epsilon), ("d", own.spread), ("alpha", own.alpha),
                ("beta", own.beta),
            )
        } | {
            "stated": own.stated(_HORIZONS).tolist(),
            "proved": own.proved(_HORIZONS).tolist(),
            "corrected": own.corrected(_HORIZONS).tolist(),
        }  # fmt: skip
    if found.general is not None:
        wide = found.general
        bounds["general"] = {
            "H": _constant(wide.span),
            "K_1": _constant(wide.belief),
            "K_2": _constant(wide.kernel),
            "value": wide.at(_HORIZONS).tolist(),
        }
    return bounds


def _constant(constant: Constant) -> dict[str, Any]:
    return {"value": constant.value, "basis": constant.basis, "how": constant.how}


def _finite_numbers(value: Any) -> Any:
    """Return the value with strings in place of NaN and infinities, which JSON lacks."""
    if isinstance(value, dict):
        return {name: _finite_numbers(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite_numbers(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def print_assessment(document: dict[str, Any]) -> None:
    """Print the assessment of a problem and a prior."""
    from rich.text import Text

    out = console()
    out.print(Text(plain(document["model"] or "a model"), style="bold"))
    out.print()
    rows = [("prior", document["prior"])]
    if document["observations"]:
        rows.append(("observations", document["observations"]))
    rows += [
        (_label(each["name"]), f"{each['verdict']}: {each['words']}") for each in document["assumptions"]
    ]
    span = document["assumptions"][0].get("span")
    if span is not None:
        rows.append(("span H", "{:.4g} to {:.4g}, scaled (as seen, not proved)".format(*span)))
    print_rows(rows)
    _print_list("Kernels without a margin", [each["words"] for each in document["confusions"]])
    _print_list(
        "Names of states that observations cannot tell", [each["words"] for each in document["labels"]]
    )
    _print_list("What follows", document["conclusions"])


def _label(name: str) -> str:
    return f"assumption {name}" if name[0].isdigit() else name


def _print_list(title: str, lines: list[str]) -> None:
    from rich.text import Text

    if not lines:
        return
    out = console()
    out.print()
    out.print(Text(title, style="bold"))
    for line in lines[:_MOST_LISTED]:
        out.print(Text(f"  {plain(line)}"))
    if len(lines) > _MOST_LISTED:
        out.print(Text(f"  and {len(lines) - _MOST_LISTED} more (--json lists all)"))
