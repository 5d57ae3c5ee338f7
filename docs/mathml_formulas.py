"""A Sphinx renderer that writes formulas as MathML, which browsers display without a script, font or image.

The converter is part of docutils.
"""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from docutils.utils.math import latex2mathml
from sphinx.application import Sphinx

# The converter misplaces the subscript of an accented letter; a single character in its place avoids this.
_STAND_IN = {
    "n": ("ñ", "ñ"),
    "m": ("ḿ", "m\u0303"),
    "O": ("Õ", "Õ"),
    "h": ("ĥ", "h\u0303"),
    "q": ("ʠ", "q\u0303"),
    "r": ("ŕ", "r\u0303"),
}


def converted(formula: str, block: bool) -> str:
    """Convert LaTeX to MathML; a formula that the converter cannot read is an error of the build."""
    text = re.sub(r"\{?\\tilde\s*\{?(\w)\}?\}?", lambda found: _STAND_IN[found[1]][0], formula)
    made = str(latex2mathml.tex2mathml(_aligned(text) if block else text, as_block=block))
    for letter, accented in _STAND_IN.values():
        made = made.replace(letter, accented)
    return made


def _aligned(formula: str) -> str:
    """Align the lines of a formula with several lines, as Sphinx's other renderers do."""
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
