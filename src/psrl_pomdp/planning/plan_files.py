"""Plans as parts of other files."""

from __future__ import annotations

from typing import TypeGuard

from .._serialization.archives import SizeLimit
from .plan_codec import decoded
from .solution import Plan


def has_file(solution: object) -> TypeGuard[Plan]:
    """Return whether the file of an agent contains a solution.

    A file contains a `Plan`, because `plan_from_bytes` reads nothing else: a solution of another planner is
    code. An estimate is planned again.
    """
    return isinstance(solution, Plan) and solution.estimate is None


def plan_from_bytes(data: bytes, name: str, limit: SizeLimit | None = None) -> Plan:
    """Return the plan in these bytes.

    Parameters
    ----------
    data
        What `Plan.to_bytes` returned.
    name
        Name of the file, for error messages.
    limit
        Bytes that the file around the plan leaves to unpack it to, or None for the usual limit.

    Raises
    ------
    ParseError
        The bytes are no plan.
    """
    return decoded(Plan, data, name, limit)
