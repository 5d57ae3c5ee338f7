"""The words of Cassandra's `.pomdp` format, and how they make statements.

A file is a stream of words in which line ends mean nothing and `#` starts a comment. A statement is a
keyword, a colon, and what belongs to it: `states: left right`, `T: listen : left : right 0.1`.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import NamedTuple

from ..errors import ParseError, did_you_mean

PREAMBLE = ("discount", "values", "states", "actions", "observations", "start")
RULES = ("T", "O", "R")
KEYWORDS = PREAMBLE + RULES

# Words that stand where a name or a number could, so that no state, action or reading may bear them.
SHORTHANDS = ("uniform", "identity", "reset")

NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")

# What a model has and the format has no words for stands in comments that other programs pass over:
# `#! psrl-pomdp first-reading: sensor` where the sensor is read once before the first action, and
# `#! psrl-pomdp units: euro a day` for what the values are counted in.
EXTENSION = re.compile(r"#! psrl-pomdp (first-reading|units): (.*\S)\s*")

_WORD = re.compile(r"[:*]|[^\s:*]+")


class Source:
    """The words of a file, and the line of each."""

    def __init__(self, data: bytes) -> None:
        # Comments may hold any bytes; a name that was not UTF-8 shows its replacement character.
        text = data.decode("utf-8-sig", errors="replace")
        self.words: list[str] = []
        self._starts: list[int] = []  # for each line, how many words came before it
        self.extensions: dict[str, str] = {}
        for line in text.splitlines():
            self._starts.append(len(self.words))
            content, hash_sign, comment = line.partition("#")
            self.words += _WORD.findall(content)
            if extension := EXTENSION.fullmatch(hash_sign + comment):
                self.extensions[extension[1]] = extension[2]

    def line(self, index: int) -> int:
        """The line, counted from 1, of word `index`; the last line for the end of the file."""
        return bisect_right(self._starts, index) if index < len(self.words) else len(self._starts)


class Statement(NamedTuple):
    """`T: listen : left 0.9 0.1`: keyword T, fields listen and left, values from word `start` on."""

    keyword: str
    line: int
    fields: list[str]
    values: list[str]
    start: int


def statements(source: Source) -> list[Statement]:
    """The statements of a file, in order.

    A colon belongs to a keyword, or stands between two fields. It stands between fields where the word
    before it follows another colon: so `start` and `T` may be names of states.
    """
    words = source.words
    heads: list[tuple[int, int]] = []  # where each statement's keyword and its colon are
    for colon in (i for i, word in enumerate(words) if word == ":"):
        before = words[colon - 1] if colon else ":"
        if before == ":":
            raise ParseError("a colon with no word before it", line=source.line(colon))
        if colon >= 2 and words[colon - 2] == ":":
            continue
        if before in KEYWORDS:
            heads.append((colon - 1, colon))
        elif before in ("include", "exclude") and colon >= 2 and words[colon - 2] == "start":
            heads.append((colon - 2, colon))
        else:
            raise ParseError(
                f"unknown keyword {before!r}{did_you_mean(before, KEYWORDS)}",
                line=source.line(colon - 1),
            )
    if not words:
        raise ParseError("nothing in the file", line=1)
    if not heads or heads[0][0] > 0:
        raise ParseError(f"expected a keyword such as 'states:', found {words[0]!r}", line=source.line(0))
    ends = [head for head, _ in heads[1:]] + [len(words)]
    return [_statement(source, head, colon, end) for (head, colon), end in zip(heads, ends, strict=True)]


def _statement(source: Source, head: int, colon: int, end: int) -> Statement:
    words, start = source.words, colon + 1
    keyword = " ".join(words[head:colon])
    fields: list[str] = []
    if keyword not in PREAMBLE and words[head] != "start":
        while True:
            if start >= end:
                raise ParseError(f"{keyword}: ends too early", line=source.line(start - 1))
            fields.append(words[start])
            start += 1
            if start >= end or words[start] != ":":
                break
            start += 1
    values = words[start:end]
    if not values or values[1:2] == [":"]:  # the second where the next statement's keyword was taken in
        raise ParseError(f"{keyword}: nothing follows", line=source.line(head))
    return Statement(keyword, source.line(head), fields, values, start)
