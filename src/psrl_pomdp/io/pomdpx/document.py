"""Parse the XML of a `.pomdpx` file to a tree of elements with their lines.

`parse` knows the elements of the format and refuses all others; the other modules interpret their texts with
`only` and `finite_number`, and report errors with `fail`.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import NamedTuple, NoReturn
from xml.parsers import expat

from ...errors import ParseError, did_you_mean

DEEPEST = 200  # nested elements, and nested templates
_MOST_NODES = 1_000_000
_LONGEST_NUMBER = 400
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_ENCODINGS = ("UTF-8", "UTF-16", "ISO-8859-1", "US-ASCII")  # those that expat decodes by itself


@dataclass(slots=True, eq=False)
class Node:
    """An element: `text` is the text between its tags, `line` the line on which it begins."""

    tag: str
    line: int
    attributes: dict[str, str]
    children: list[Node]
    text: str = ""


class _Element(NamedTuple):
    """What an element may contain: the tags of its children and its attributes, or text."""

    children: str = ""
    required: str = ""
    optional: str = ""
    text: bool = False


_TEXT = _Element(text=True)
_ELEMENTS = {
    "pomdpx": _Element(
        "Description Discount Variable InitialStateBelief StateTransitionFunction ObsFunction RewardFunction"
    ),
    "Variable": _Element("StateVar ObsVar ActionVar RewardVar"),
    "StateVar": _Element("ValueEnum NumValues", required="vnamePrev vnameCurr", optional="fullyObs"),
    "ObsVar": _Element("ValueEnum NumValues", required="vname"),
    "ActionVar": _Element("ValueEnum NumValues", required="vname"),
    "RewardVar": _Element(required="vname"),
    "InitialStateBelief": _Element("CondProb"),
    "StateTransitionFunction": _Element("CondProb"),
    "ObsFunction": _Element("CondProb"),
    "RewardFunction": _Element("Func"),
    "CondProb": _Element("Var Parent Parameter"),
    "Func": _Element("Var Parent Parameter"),
    "Parameter": _Element("Entry DAG SubDAGTemplate", optional="type"),
    "Entry": _Element("Instance ProbTable ValueTable"),
    "DAG": _Element("Node SubDAG Terminal"),
    "SubDAGTemplate": _Element("Node SubDAG Terminal", required="id"),
    "Node": _Element("Edge", required="var"),
    "Edge": _Element("Node SubDAG Terminal", required="val"),
    "SubDAG": _Element(required="type", optional="var val idref"),
    "Description": _TEXT,
    "Discount": _TEXT,
    "ValueEnum": _TEXT,
    "NumValues": _TEXT,
    "Var": _TEXT,
    "Parent": _TEXT,
    "Instance": _TEXT,
    "ProbTable": _TEXT,
    "ValueTable": _TEXT,
    "Terminal": _TEXT,
}


def fail(node: Node, reason: str) -> NoReturn:
    """Raise a `ParseError` with the line of an element."""
    raise ParseError(reason, line=node.line)


def quoted(word: str) -> str:
    """Return a word in quotes, shortened to sixty characters."""
    return repr(word if len(word) <= 60 else f"{word[:57]}...")


class _TreeBuilder:
    """Builds a tree of `Node` from the events of expat; elements that `_ELEMENTS` lacks raise an error."""

    def __init__(self, parser: expat.XMLParserType) -> None:
        self.parser = parser
        self.root: Node | None = None
        self.open: list[
            tuple[Node, list[str]]
        ] = []  # elements that have not ended, with the pieces of their texts
        self.n_nodes = 0

    def fail(self, reason: str) -> NoReturn:
        raise ParseError(reason, line=self.parser.CurrentLineNumber)

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        self.n_nodes += 1
        if len(self.open) >= DEEPEST:
            self.fail(f"elements are nested more than {DEEPEST} deep")
        if self.n_nodes > _MOST_NODES:
            self.fail(f"there are more than {_MOST_NODES} elements")
        parent = self.open[-1][0] if self.open else None
        known = _ELEMENTS[parent.tag].children.split() if parent else ["pomdpx"]
        if tag not in known:
            where = f"<{parent.tag}>" if parent else "the document"
            self.fail(f"unknown element {quoted(tag)} in {where}{did_you_mean(tag, known)}")
        if tag != "pomdpx":  # its other attributes concern XML schemas
            self.check_attributes(tag, attributes)
        node = Node(tag, self.parser.CurrentLineNumber, attributes, [])
        if parent:
            parent.children.append(node)
        else:
            self.root = node
        self.open.append((node, []))

    def check_attributes(self, tag: str, attributes: dict[str, str]) -> None:
        required = _ELEMENTS[tag].required.split()
        known = required + _ELEMENTS[tag].optional.split()
        for name in attributes:
            if name not in known:
                self.fail(f"unknown attribute {quoted(name)} of <{tag}>{did_you_mean(name, known)}")
        for name in required:
            if not attributes.get(name, "").strip():
                self.fail(f"<{tag}> has no {name}")

    def text(self, piece: str) -> None:
        node, pieces = self.open[-1]
        if _ELEMENTS[node.tag].text:
            pieces.append(piece)
        elif piece.strip():
            fail(node, f"the text {quoted(piece.strip())} has no place in <{node.tag}>")

    def end(self, tag: str) -> None:
        node, pieces = self.open.pop()
        node.text = "".join(pieces)

    def declaration(self, version: str, encoding: str | None, standalone: int) -> None:
        if encoding is not None and encoding.upper() not in _ENCODINGS:
            self.fail(f"encoding {quoted(encoding)} is not one of {', '.join(_ENCODINGS)}")

    def refuse(self, *_: object) -> None:
        self.fail("document types and entities are refused")


def parse(data: bytes) -> Node:
    """Return the root of the document."""
    parser = expat.ParserCreate()
    builder = _TreeBuilder(parser)
    parser.buffer_text = True
    parser.XmlDeclHandler = builder.declaration
    parser.StartElementHandler = builder.start
    parser.EndElementHandler = builder.end
    parser.CharacterDataHandler = builder.text
    parser.StartDoctypeDeclHandler = builder.refuse
    parser.EntityDeclHandler = builder.refuse
    try:
        parser.Parse(data, True)
    except expat.ExpatError as error:
        reason = expat.ErrorString(error.code)
        raise ParseError(f"malformed XML: {reason}", line=error.lineno) from None
    assert builder.root is not None  # a document without an element is malformed
    return builder.root


def only(node: Node, *tags: str) -> Node:
    """Return the only child of `node`, or the only one with one of `tags` if they are given."""
    found = [child for child in node.children if not tags or child.tag in tags]
    if len(found) != 1:
        expected = " or ".join(f"<{tag}>" for tag in tags or _ELEMENTS[node.tag].children.split())
        place = node if not found else found[1]
        fail(place, f"<{node.tag}> has {'a second' if found else 'no'} {expected}")
    return found[0]


def finite_number(word: str, node: Node) -> float:
    """Return a finite decimal number; float() would also accept 'nan', '1_0' and digits of other scripts."""
    number = float(word) if len(word) <= _LONGEST_NUMBER and _DECIMAL.fullmatch(word) else math.nan
    if not math.isfinite(number):
        fail(node, f"<{node.tag}>: {quoted(word)} is not a finite number")
    return number
