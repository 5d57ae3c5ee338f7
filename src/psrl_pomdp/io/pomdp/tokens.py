"""The tokens of Cassandra's `.pomdp` format, and the statements that they form.

A file is a sequence of tokens. Line ends have no meaning, and `#` starts a comment. A statement is a keyword,
a colon, fields and values: `states: left right`, `T: listen : left : right 0.1`.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from ...errors import did_you_mean

PREAMBLE = ("discount", "values", "states", "actions", "observations", "start")
RULES = ("T", "O", "R")
KEYWORDS = PREAMBLE + RULES

# Tokens that stand in place of numbers; no state, action or observation may have such a name.
SHORTHANDS = ("uniform", "identity", "reset")

NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")

# Fields of a model that the format lacks are written as comments, which other programs ignore:
#   #! psrl-pomdp first-reading: sensor     the sensor is observed once before the first action
#   #! psrl-pomdp units: euro a day         the unit of the values
#   #! psrl-pomdp scale: 0 100              the values at cost 0 and 1, if they are not the extreme values
EXTENSION = re.compile(r"^[^#\r\n]*#! psrl-pomdp (first-reading|units|scale): (.*\S)[ \t]*\r?$", re.MULTILINE)

_TOKEN_OR_COMMENT = re.compile(r"#[^\r\n]*|[:*]|[^\s:*#]+")
_LINE_END = re.compile(r"\r\n|\r|\n")


class MalformedError(Exception):
    """An error at a token of the file; the reader converts it to a `ParseError` with a line."""

    def __init__(self, reason: str, token: int) -> None:
        super().__init__(reason)
        self.reason = reason
        self.token = token


class Source:
    """The tokens of a file; lines are counted only for an error message."""

    def __init__(self, data: bytes) -> None:
        # Comments may contain any bytes; in a name, bytes that are not UTF-8 become U+FFFD.
        self._text = data.decode("utf-8-sig", errors="replace")
        found = _TOKEN_OR_COMMENT.findall(self._text)
        self.tokens: list[str] = [token for token in found if token[0] != "#"]
        self.extensions: dict[str, str] = dict(EXTENSION.findall(self._text))
        if not self.tokens:
            raise MalformedError("nothing in the file", 0)

    def line(self, token: int) -> int:
        """Return the line, counted from 1, of a token; for the end of the file, that of the last token."""
        return line_of_token(self._text, min(token, len(self.tokens) - 1))


def line_of_token(text: str, token: int) -> int:
    """Return the line of the token with this number; comments are not counted."""
    seen = -1
    for match in _TOKEN_OR_COMMENT.finditer(text):
        seen += match[0][0] != "#"
        if seen == token:
            return 1 + sum(1 for _ in _LINE_END.finditer(text, 0, match.start()))
    return 1


class Statement(NamedTuple):
    """A statement such as `T: listen : left 0.9 0.1`: keyword T, fields listen and left, two values.

    `head`, `first_field` and `first_value` are the numbers of tokens, for error messages.
    """

    keyword: str
    head: int
    fields: list[str]
    first_field: int
    values: list[str]
    first_value: int


def statements(source: Source) -> list[Statement]:
    """Return the statements of a file, in order.

    A colon follows a keyword or separates two fields. It separates fields if the token before it follows
    another colon. States may therefore have the names `start` and `T`.
    """
    tokens = source.tokens
    heads: list[tuple[int, int]] = []  # the positions of each statement's keyword and colon
    for colon in (i for i, token in enumerate(tokens) if token == ":"):
        before = tokens[colon - 1] if colon else ":"
        if before == ":":
            raise MalformedError("a colon without a keyword or a field before it", colon)
        if colon >= 2 and tokens[colon - 2] == ":":
            continue
        if before in KEYWORDS:
            heads.append((colon - 1, colon))
        elif before in ("include", "exclude") and colon >= 2 and tokens[colon - 2] == "start":
            heads.append((colon - 2, colon))
        else:
            raise MalformedError(f"unknown keyword {before!r}{did_you_mean(before, KEYWORDS)}", colon - 1)
    if not heads or heads[0][0] > 0:
        raise MalformedError(f"expected a keyword such as 'states:', found {tokens[0]!r}", 0)
    ends = [head for head, _ in heads[1:]] + [len(tokens)]
    return [_statement(tokens, head, colon, end) for (head, colon), end in zip(heads, ends, strict=True)]


def _statement(tokens: list[str], head: int, colon: int, end: int) -> Statement:
    """Return the statement from its keyword at `head` to the token before `end`."""
    keyword = tokens[head] if colon == head + 1 else " ".join(tokens[head:colon])
    start = colon + 1
    fields: list[str] = []
    if keyword in RULES:
        while True:
            if start >= end:
                raise MalformedError(f"{keyword}: ends too early", start - 1)
            fields.append(tokens[start])
            start += 1
            if start >= end or tokens[start] != ":":
                break
            start += 1
    values = tokens[start:end]
    if not values or values[1:2] == [":"]:  # in the second case the value is the next keyword
        raise MalformedError(f"{keyword}: nothing follows", head)
    return Statement(keyword, head, fields, colon + 1, values, start)
