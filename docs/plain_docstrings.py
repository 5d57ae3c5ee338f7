"""Convert docstrings to reStructuredText.

The docstrings of the package are plain text with `code`, hyphenated lists, indented formulas and tables, and
numpydoc sections. Everything else that reStructuredText would read as markup is escaped. The fields of a data
class are documented by the comment at the end of their line (`belief: Array  # [S]: h_t`); they become a list
below the class. Types of public names become links to their documentation.
"""

from __future__ import annotations

import inspect
import re
from typing import Any

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util.inspect import TypeAliasForwardRef

import psrl_pomdp

_SECTIONS = ("Parameters", "Attributes", "Returns", "Yields", "Raises", "Warns")
_CODE = re.compile(r"(`+)(.+?)\1")
_BOLD = re.compile(r"(?<![\w*])\*\*([^\s*][^*]*)\*\*(?![\w*])")
_SLANTED = re.compile(r"(?<![\w*])\*([^\s*][^*]*[^\s*,(])\*(?![\w*])")
_UNDERLINE = re.compile(r"-{3,}")
_FIELD = re.compile(r"^    (\w+): ([^=#\n]+?)(?: = [^#\n]+?)?  # (.+)$", re.MULTILINE)
_ARRAY = re.compile(
    r"(?:numpy\.)?ndarray\[tuple\[(?:typing\.)?Any, \.\.\.\], (?:numpy\.)?dtype\[(?:numpy\.)?(\w+)\]\]"
)


def rewritten(lines: list[str]) -> list[str]:
    """Return a docstring as reStructuredText."""
    out: list[str] = []
    i = 0
    while i < len(lines):
        end = i
        while end < len(lines) and (lines[end].strip() or end == i):
            end += 1
        out += _paragraph(lines[i:end], out)
        i = end
    return out


def without_sections(lines: list[str]) -> list[str]:
    """Return numpydoc sections as text: a bold title, and a list item for each name."""
    out: list[str] = []
    inside = False
    for i, line in enumerate(lines):
        following = lines[i + 1] if i + 1 < len(lines) else ""
        if line in _SECTIONS and following and not following.strip("-"):
            out += [f"**{line}**", ""]
            inside = True
        elif inside and line and not line.strip("-"):
            continue
        elif inside and line and not line.startswith(" ") and following.startswith("    "):
            out.append(f"- `{line}`:")
        elif inside and line.startswith("    "):
            out.append("  " + line.strip())
        else:
            inside = inside and not line.strip()
            out.append(line)
    return out


def _paragraph(lines: list[str], before: list[str]) -> list[str]:
    """Lines up to the next empty one."""
    if not lines[0].strip():
        return [""] + (_paragraph(lines[1:], before) if len(lines) > 1 else [])
    first = lines[0]
    if len(lines) > 1 and _UNDERLINE.fullmatch(lines[1]):  # a section of numpydoc
        return [f".. rubric:: {first}", "", *(_paragraph(lines[2:], before) if lines[2:] else [])]
    if first.lstrip().startswith(">>>"):
        return lines
    if first.startswith(("    ", "| ")):
        shift = "" if first.startswith("    ") else "    "
        return ["::", "", *(shift + line for line in lines), ""]
    return _escaped(lines)


def _escaped(lines: list[str]) -> list[str]:
    """Text and lists. An indented line inside of a paragraph belongs to the list item above it."""
    text = "\n".join(lines)
    kept: list[str] = []

    def keep(markup: str) -> str:
        kept.append(markup)
        return f"\0{len(kept) - 1}\0"

    text = _CODE.sub(lambda found: keep("``" + found[2].replace("\n", " ") + "``"), text)
    text = _BOLD.sub(lambda found: keep("**" + re.sub(r"([*_|`\\])", r"\\\1", found[1]) + "**"), text)
    text = _SLANTED.sub(lambda found: keep("*" + re.sub(r"([*_|`\\])", r"\\\1", found[1]) + "*"), text)
    text = re.sub(r"([*_|`\\])", r"\\\1", text)
    while "\0" in text:
        text = re.sub(r"\0(\d+)\0", lambda found: kept[int(found[1])], text)
    out: list[str] = []
    inside = ""  # what lines of the item are indented by
    for given in text.split("\n"):
        line = re.sub(r"^([A-Za-z][.)])", r"\\\1", given)  # no list whose first item is "k."
        starts_item = re.match(r"\s*(- |\d+\. )", line)
        if starts_item:
            out += [""] if out and out[-1].strip() else []
            inside = " " * starts_item.end()
        out.append(inside + line.lstrip() if inside and not starts_item else line)
    return out


def fields(cls: type[Any]) -> list[str]:
    """The comments beside the fields of a class and of those that it extends, as a list."""
    found: list[tuple[str, str]] = []
    for base in reversed(cls.__mro__):
        if not base.__module__.startswith("psrl_pomdp"):
            continue
        try:
            source = inspect.getsource(base)
        except (OSError, TypeError):
            continue
        body = source.split("\n    def ")[0]
        found += [(name, text) for name, _, text in _FIELD.findall(body) if not name.startswith("_")]
    return [f"- `{name}`: {text}" for name, text in found]


def _docstring(app: Sphinx, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    new = without_sections(list(lines))
    if what in ("class", "exception") and isinstance(thing, type):
        told = fields(thing)
        new += ["", *told] if told else []
    if new and new[-1].strip():
        new.append("")
    lines[:] = rewritten(new)


def _signature(
    app: Sphinx, what: str, name: str, thing: Any, options: Any, told: str | None, gives: str | None
) -> tuple[str | None, str | None]:
    """Types by their short names."""
    short = [text and _ARRAY.sub(r"ndarray[\1]", text) for text in (told, gives)]
    return short[0], short[1]


def _skipped(app: Sphinx, what: str, name: str, thing: Any, skip: bool, options: Any) -> bool | None:
    """Fields of named tuples, which the list below the class has with their meaning."""
    return True if str(getattr(thing, "__doc__", "")).startswith("Alias for field number") else None


def _public(app: Sphinx, env: BuildEnvironment, node: pending_xref, inner: nodes.Node) -> nodes.Node | None:
    """`psrl_pomdp.agents.psrl.PSRLAgent`, in a signature, is documented as `psrl_pomdp.PSRLAgent`."""
    target = str(node.get("reftarget", ""))
    last = target.rpartition(".")[2]
    if node.get("refdomain") != "py" or last not in psrl_pomdp.__all__ or target == f"psrl_pomdp.{last}":
        return None
    if "." in target and not target.startswith("psrl_pomdp."):
        return None
    domain = env.get_domain("py")
    found: nodes.Node | None = domain.resolve_xref(
        env, node["refdoc"], app.builder, "obj", f"psrl_pomdp.{last}", node, inner
    )
    return found


def setup(app: Sphinx) -> dict[str, Any]:
    TypeAliasForwardRef.__repr__ = lambda alias: alias.name  # type: ignore[method-assign]
    app.connect("autodoc-process-docstring", _docstring)
    app.connect("autodoc-process-signature", _signature)
    app.connect("autodoc-skip-member", _skipped)
    app.connect("missing-reference", _public)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
