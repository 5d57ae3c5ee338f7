"""Reading .pomdpx: the XML of the APPL toolkit ("PomdpX file format", version 1.0).

A .pomdpx file is a dynamic Bayesian network. Each variable has a table, given the values of its
parents, and the model is their product: with x the state variables, y the observation variables,

    initial(s)         = Π_i P(x_i | parents of x_i)        parents: x of the same moment
    transition(s′|s,a) = Π_i P(x_i′ | parents of x_i′)      parents: a, x, and x′ without a circle
    observation(o|s′,a)= Π_j P(y_j | parents of y_j)        parents: a, x′
                       · Π_i [o shows x_i′]                 where x_i is `fullyObs`
    reward(a, s)       = Σ_k E[r_k | a, s]                  parents: a, x, x′, y

Everything is multiplied out, the first variable outermost; the names of a product are joined by
commas. A reading is the observation variables in the order of the file, then the fully observed state
variables. Two spellings of a table are read: `TBL`, a list of entries of which later ones override
earlier ones, and `DD`, a decision diagram. A cell that neither mentions is 0.

A file is not to be trusted: what it multiplies out to is known before anything is allocated, what
filling its tables costs is counted, and whatever is wrong is a `ParseError` with a line.
"""

from __future__ import annotations

from .reader import read_pomdpx

__all__ = ["read_pomdpx"]
