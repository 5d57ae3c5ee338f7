"""`psrl-pomdp certificate`: the proof of a saved plan in a file that strangers can check."""

from __future__ import annotations

from pathlib import Path

import click

from .common import find_model, model_argument, normalize_option, note, parameter_option

_EXAMPLES = """\b
Examples:
  psrl-pomdp solve tiger --save tiger.npz
  psrl-pomdp certificate tiger.npz tiger -o tiger-proof.json
"""


@click.command("certificate", epilog=_EXAMPLES, short_help="Write a proof that strangers can check.")
@click.argument("plan", metavar="PLAN.npz")
@model_argument("model")
@parameter_option
@normalize_option
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The file to write.  [default: the name of the plan with -proof.json]",
)
def command(plan: str, model: str, parameters: tuple[str, ...], normalize: bool, output: Path | None) -> None:
    """Write the proof of a plan's bounds to a JSON file that others can check without this program.

    The file has the model and the two sides of the proof, with all numbers exact. checker/check_proof.py in
    the repository checks it with plain Python and exact arithmetic, and checker/check_proof.html in a
    browser. The page on certificates in the manual describes the format and has the lemmas of the check.

    The exit code is 1 if the plan has no exact proof or belongs to another model; an error on stderr says
    why.
    """
    from .._serialization.atomic_files import write_atomically
    from ..planning import Plan, proof_document
    from ..planning.proofs.document import as_text

    found = find_model(model, parameters, normalize)
    path = output or Path(plan).with_name(f"{Path(plan).stem}-proof.json")
    document = proof_document(Plan.load(plan), found)
    write_atomically(path, as_text(document).encode())
    claim, units = document["claim"], found.setting.units
    unit = f" {units.average_name}" if units.average_name else ""
    what = "average"
    if document["discount"] is not None:
        what, unit = f"discounted ({document['discount']})", unit and f" {units.name}"
    click.echo(f"proves an optimal {what} {units.kind} from {claim['lower']} to {claim['upper']}{unit}")
    note(f"wrote the proof to {path}")
