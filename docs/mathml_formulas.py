"""Formulas as MathML, which every current browser draws by itself: no script, no font, no image.

Docutils brings the converter; Sphinx only has to be told of it.
"""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from docutils.utils.math import latex2mathml
from sphinx.application import Sphinx

# The converter puts the index of an accented letter below it: these are letters of their own.
_STAND_IN = {"n": ("ñ", "ñ"), "m": ("ḿ", "m\u0303"), "O": ("Õ", "Õ"), "h": ("ĥ", "h\u0303"), "r": ("ŕ", "r\u0303")}


def converted(formula: str, block: bool) -> str:
    """LaTeX to MathML; a formula that the converter does not understand is an error of the build."""
    text = re.sub(r"\{?\\tilde\s*\{?(\w)\}?\}?", lambda found: _STAND_IN[found[1]][0], formula)
    made = str(latex2mathml.tex2mathml(_aligned(text) if block else text, as_block=block))
    for letter, accented in _STAND_IN.values():
        made = made.replace(letter, accented)
    return made


def _aligned(formula: str) -> str:
    """Formulas of several lines are aligned, as in Sphinx's other renderers."""
    several = re.search(r"\\\\", formula) and r"\begin" not in formula
    return rf"\begin{{aligned}}{formula}\end{{aligned}}" if several else formula


def inline(writer: Any, node: nodes.math) -> None:
    writer.body.append(converted(node.astext(), block=False))
    raise nodes.SkipNode


def block(writer: Any, node: nodes.math_block) -> None:
    writer.body.append(writer.starttag(node, "div", CLASS="math"))
    if node["number"]:
        writer.body.append(f'<span class="eqno">({node["number"]})</span>')
    writer.body.append(converted(node.astext(), block=True))
    writer.body.append("</div>\n")
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
