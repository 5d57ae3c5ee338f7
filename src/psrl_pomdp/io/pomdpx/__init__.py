"""Read `.pomdpx` files: the XML format of the APPL toolkit ("PomdpX file format", version 1.0).

A .pomdpx file is a dynamic Bayesian network. Each variable has a table, given the values of its
parents, and the model is their product: with x the state variables, y the observation variables,

    initial(s)         = Π_i P(x_i | parents of x_i)        parents: x of the same time
    transition(s′|s,a) = Π_i P(x_i′ | parents of x_i′)      parents: a, x, and x′ without a cycle
    observation(o|s′,a)= Π_j P(y_j | parents of y_j)        parents: a, x′
                       · Π_i [o shows x_i′]                 where x_i is `fullyObs`
    reward(a, s)       = Σ_k E[r_k | a, s]                  parents: a, x, x′, y

The products are stored as arrays, in which the first variable varies slowest. The names of states, actions
and observations are the values of their variables, joined by commas. An observation consists of the
observation variables in the order of the file and of the fully observed state variables. A table may have the
type `TBL`, a list of entries of which later ones override earlier ones, or `DD`, a decision diagram. Cells
without an entry are 0.

Files are not trusted: the sizes of the products are checked before arrays are allocated, the work of filling
tables is limited, and every error is a `ParseError` with a line.
"""

from __future__ import annotations

from .reader import read_pomdpx

__all__ = ["read_pomdpx"]
