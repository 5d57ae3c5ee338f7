"""The words of Cassandra's `.pomdp` format, and how they make statements.

A file is a stream of words in which line ends mean nothing and `#` starts a comment. A statement is a
keyword, a colon, and what belongs to it: `states: left right`, `T: listen : left : right 0.1`.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from ...errors import did_you_mean

PREAMBLE = ("discount", "values", "states", "actions", "observations", "start")
RULES = ("T", "O", "R")
KEYWORDS = PREAMBLE + RULES

# Words that stand where a name or a number could, so that no state, action or reading may bear them.
SHORTHANDS = ("uniform", "identity", "reset")

NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")

# What a model has and the format has no words for stands in comments that other programs pass over:
#   #! psrl-pomdp first-reading: sensor     the sensor is read once before the first action
#   #! psrl-pomdp units: euro a day         what the values are counted in
#   #! psrl-pomdp scale: 0 100              the values at cost 0 and 1, where they are not least and most
EXTENSION = re.compile(r"^[^#\r\n]*#! psrl-pomdp (first-reading|units|scale): (.*\S)[ \t]*\r?$", re.MULTILINE)

_WORD_OR_COMMENT = re.compile(r"#[^\r\n]*|[:*]|[^\s:*#]+")
_LINE_END = re.compile(r"\r\n|\r|\n")


class MalformedError(Exception):
    """Something wrong at a word of the file; the reader turns it into a ParseError with a line."""

    def __init__(self, reason: str, word: int) -> None:
        super().__init__(reason)
        self.reason = reason
        self.word = word


class Source:
    """The words of a file; lines are counted only when an error asks for one."""

    def __init__(self, data: bytes) -> None:
        # Comments may hold any bytes; a name that was not UTF-8 shows its replacement character.
        self._text = data.decode("utf-8-sig", errors="replace")
        found = _WORD_OR_COMMENT.findall(self._text)
        self.words: list[str] = [word for word in found if word[0] != "#"]
        self.extensions: dict[str, str] = dict(EXTENSION.findall(self._text))
        if not self.words:
            raise MalformedError("nothing in the file", 0)

    def line(self, word: int) -> int:
        """The line, counted from 1, of a word; that of the last word for the end of the file."""
        return line_of_word(self._text, min(word, len(self.words) - 1))


def line_of_word(text: str, word: int) -> int:
    """The line of the word with this number, comments not counted."""
    seen = -1
    for match in _WORD_OR_COMMENT.finditer(text):
        seen += match[0][0] != "#"
        if seen == word:
            return 1 + sum(1 for _ in _LINE_END.finditer(text, 0, match.start()))
    return 1


class Statement(NamedTuple):
    """`T: listen : left 0.9 0.1`: keyword T, fields listen and left, two values.

    `head`, `first_field` and `first_value` are the numbers of words, for messages.
    """

    keyword: str
    head: int
    fields: list[str]
    first_field: int
    values: list[str]
    first_value: int


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
            raise MalformedError("a colon with no word before it", colon)
        if colon >= 2 and words[colon - 2] == ":":
            continue
        if before in KEYWORDS:
            heads.append((colon - 1, colon))
        elif before in ("include", "exclude") and colon >= 2 and words[colon - 2] == "start":
            heads.append((colon - 2, colon))
        else:
            raise MalformedError(f"unknown keyword {before!r}{did_you_mean(before, KEYWORDS)}", colon - 1)
    if not heads or heads[0][0] > 0:
        raise MalformedError(f"expected a keyword such as 'states:', found {words[0]!r}", 0)
    ends = [head for head, _ in heads[1:]] + [len(words)]
    return [_statement(words, head, colon, end) for (head, colon), end in zip(heads, ends, strict=True)]


def _statement(words: list[str], head: int, colon: int, end: int) -> Statement:
    keyword = words[head] if colon == head + 1 else " ".join(words[head:colon])
    start = colon + 1
    fields: list[str] = []
    if keyword in RULES:
        while True:
            if start >= end:
                raise MalformedError(f"{keyword}: ends too early", start - 1)
            fields.append(words[start])
            start += 1
            if start >= end or words[start] != ":":
                break
            start += 1
    values = words[start:end]
    if not values or values[1:2] == [":"]:  # the second where the next statement's keyword was taken in
        raise MalformedError(f"{keyword}: nothing follows", head)
    return Statement(keyword, head, fields, colon + 1, values, start)
