"""Proofs as JSON, for `checker/check_proof.py`, the page beside it, and everybody who writes a checker.

The manual describes the format (docs/certificates.md). All numbers but indices are text: decimals, exact as
they are written, or fractions.
"""

from __future__ import annotations

import json
from fractions import Fraction
from os import PathLike
from pathlib import Path
from typing import Any

from ..._serialization.atomic_files import write_atomically
from ...models import POMDP
from ..plan_record import PlanRecord
from .exact_check import exact_interval
from .making import proof_of
from .parts import LowerProof, Proof, UpperProof
from .rational_model import RationalModel, Row

FORMAT, VERSION = "pomdp-bounds", 1
_PLAIN_DIGITS = 20  # after the decimal point, before an exponent is written
_CLAIM_DIGITS = 12  # of an interval, relative to its units

Pairs = list[list[Any]]


def number_text(value: Fraction) -> str:
    """Return a fraction exactly: as a decimal number where it is one, and with a slash otherwise.

    >>> [number_text(Fraction(text)) for text in ("0.85", "-3", "1/3", "1.5e-30")]
    ['0.85', '-3', '1/3', '15e-31']
    """
    rest, places = value.denominator, [0, 0]
    for k, prime in enumerate((2, 5)):
        while rest % prime == 0:
            rest //= prime
            places[k] += 1
    if rest != 1:
        return f"{value.numerator}/{value.denominator}"
    digits = max(places)
    scaled = abs(value.numerator) * 10**digits // value.denominator
    sign = "-" if value < 0 else ""
    if digits > _PLAIN_DIGITS:
        return f"{sign}{scaled}e-{digits}"
    text = f"{scaled:0{digits + 1}d}"
    return sign + (f"{text[:-digits]}.{text[-digits:]}" if digits else text)


def rounded_outward(lower: Fraction, upper: Fraction, digits: int) -> tuple[str, str]:
    """Return an interval as decimal numbers, the lower end rounded down and the upper one up.

    >>> rounded_outward(Fraction(1, 3), Fraction(2, 3), 4)
    ('0.3333', '0.6667')
    """
    unit = Fraction(10) ** -digits
    low, high = lower // unit * unit, -(-upper // unit) * unit
    return _fixed(low, digits), _fixed(high, digits)


def _fixed(value: Fraction, digits: int) -> str:
    text = f"{abs(value) * 10**digits // 1:0{max(digits, 0) + 1}d}"
    return ("-" if value < 0 else "") + (f"{text[:-digits]}.{text[-digits:]}" if digits > 0 else text)


def proof_document(plan: PlanRecord, model: POMDP) -> dict[str, Any]:
    """Return the proof of a plan's bounds, as plain data for JSON.

    Parameters
    ----------
    plan
        A plan, from `plan` or from a file.
    model
        The model of the plan.

    Returns
    -------
    dict
        The model, the two sides of the proof, and the interval that they prove.

    Raises
    ------
    CertificateError
        If the plan is for another model or has no exact proof.
    """
    return document_of(proof_of(plan, model))


def document_of(proof: Proof) -> dict[str, Any]:
    """Return a proof as plain data for JSON, with the interval that it proves."""
    lower, upper = rounded_outward(*exact_interval(proof), _CLAIM_DIGITS)
    return {
        "format": FORMAT,
        "version": VERSION,
        "about": "Bounds on the optimal cost of a POMDP; check_proof.py or check_proof.html checks them.",
        "discount": None if proof.discount is None else number_text(proof.discount),
        "model": _model(proof.model),
        "upper": _upper(proof.upper),
        "lower": _lower(proof.lower),
        "claim": {"lower": lower, "upper": upper},
    }


def save_proof(plan: PlanRecord, model: POMDP, path: str | PathLike[str]) -> None:
    """Write the proof of a plan's bounds to a JSON file that strangers can check without this package.

    Parameters
    ----------
    plan
        A plan, from `plan` or from a file.
    model
        The model of the plan.
    path
        The path of the file. An existing file is replaced atomically.

    Raises
    ------
    CertificateError
        If the plan is for another model or has no exact proof.
    """
    write_atomically(Path(path), as_text(proof_document(plan, model)).encode())


def as_text(document: dict[str, Any]) -> str:
    """Return a document as JSON, with a line for each part."""
    lines = []
    for name, part in document.items():
        if name in ("model", "upper", "lower"):
            inner = ",\n".join(f'  "{key}": {_compact(value)}' for key, value in part.items())
            lines.append(f'"{name}": {{\n{inner}\n}}')
        else:
            lines.append(f'"{name}": {_compact(part)}')
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _pairs(row: Row) -> Pairs:
    return [[k, number_text(row[k])] for k in sorted(row)]


def _texts(values: list[Fraction]) -> list[str]:
    return [number_text(value) for value in values]


def _model(model: RationalModel) -> dict[str, Any]:
    setting = model.setting
    names = list(setting.observations)
    n_costs = model.n_observations // len(names)
    if n_costs > 1:  # an observation is a pair of a reading and a seen cost
        names = [f"{name}, cost {k}" for name in names for k in range(n_costs)]
    previous = model.observation_from is not None
    units = setting.units
    return {
        "states": list(setting.states),
        "actions": list(setting.actions),
        "observations": names,
        "initial": _pairs(model.initial),
        "first": None if model.first is None else [_pairs(row) for row in model.first],
        "transition": [[_pairs(row) for row in kernel] for kernel in model.transition],
        "previous": previous,
        "observation": [[[_pairs(row) for row in rows] for rows in table] for table in model.observation_from]
        if model.observation_from is not None
        else [[_pairs(row) for row in table] for table in model.observation or []],
        "cost": [_texts(row) for row in model.cost],
        "units": {"kind": units.kind, "low": repr(units.low), "high": repr(units.high), "name": units.name},
    }


def _upper(proof: UpperProof) -> dict[str, Any]:
    return {
        "actions": proof.actions,
        "successors": proof.successors,
        "vectors": [_texts(row) for row in proof.vectors],
        "gains": None if proof.gains is None else [_texts(row) for row in proof.gains],
        "start": proof.start,
    }


def _lower(proof: LowerProof) -> dict[str, Any]:
    return {
        "points": [_pairs(row) for row in proof.points],
        "values": [_texts(row) for row in proof.values],
        "gains": None if proof.gains is None else _texts(proof.gains),
        "weights": [
            [[[o, _pairs(uses[o])] for o in sorted(uses)] for uses in of_place] for of_place in proof.weights
        ],
        "start": [_pairs(row) for row in proof.start],
    }
