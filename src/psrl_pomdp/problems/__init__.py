"""Named problems, a file per family: `problem("tiger")`, `problem("railway", speed=2.0)`."""

# Importing a family registers its problems; the order here is the catalogue's.
from . import tiger, maintenance, inspections, measurements, spectrum, navigation, fishery  # noqa: F401, I001
from . import searches, random_families, theory  # noqa: F401
from .catalogue import Assumptions, Entry, Parts, Problem, as_problem, catalogue, is_problem, problem

__all__ = ["Assumptions", "Entry", "Parts", "Problem", "as_problem", "catalogue", "is_problem", "problem"]
