"""Mutated model files: whatever the bytes, a model or a `ParseError`, quickly and in bounded memory."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from psrl_pomdp import POMDP, InvalidModelError, ParseError, problem
from psrl_pomdp.io import MAX_ENTRIES
from psrl_pomdp.io.array_files import read_json, read_npz, write_json, write_npz
from psrl_pomdp.io.pomdp.reader import read_pomdp
from psrl_pomdp.io.pomdp.writer import write_pomdp

Reader = Callable[..., POMDP]

BY_HAND = """\
# a maze, with every kind of statement
discount : 0.95
values: cost
states: left middle right goal
actions: w e
observations: nothing goal
start include: left 2
T: w
1.0 0 0 0
1.0 0.0 0.0 0.0
0 0 0 1
0.333333 0.333333 0.333333 0.0
T: e : left : middle 1.0
T: e : * : goal 0
T: e : middle
0 0 0 1
T: e : 2 uniform
T: e : goal
reset
O: *
1.0 0.0
1.0 0.0
1.0 0.0
0.0 1.0
O: e : goal uniform
R: * : * : goal : goal 1.0
R: w : left : middle
-1 2e1
R: e : right
1 2 3 4 5 6 7 8
"""
SEEDS = [BY_HAND, *(write_pomdp(problem(name)) for name in ("tiger", "machine-repair", "separated"))]

NASTY = [
    *": * # T: O: R: start: states: actions: observations: discount: values: include exclude".split(),
    *"uniform identity reset reward cost nan inf -inf 1e999 -1e308 1e308 1e-320 0 1 -1 2 .5 1_0 0x1".split(),
    *"5000 99999 999999999 99999999999999999999 é \ufffd \x00 \u0661 '' -- + T O R T:*:*:*".split(),
    "states: 4000",
    "T: * uniform",
    "R: * : * : * : * 1",
    "R: 0 : 0 : 0 : 0 1",
    "\n",
    "\r",
    "\u2028",
    "x" * 5000,
]


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """A good file with one to six words, lines or characters deleted, doubled, swapped or replaced."""
    pieces = draw(st.sampled_from(SPLIT))
    for _ in range(draw(st.integers(1, 6))):
        where = draw(st.integers(0, len(pieces) - 1))
        kind = draw(st.integers(0, 5))
        if kind == 0:
            pieces = pieces[:where] + pieces[where + 1 :] or [""]
        elif kind == 1:
            pieces = [*pieces[:where], draw(st.sampled_from(NASTY)), *pieces[where + 1 :]]
        elif kind == 2:
            pieces = [*pieces[:where], draw(st.sampled_from(NASTY)), *pieces[where:]]
        elif kind == 3:
            other = draw(st.integers(0, len(pieces) - 1))
            pieces = list(pieces)
            pieces[where], pieces[other] = pieces[other], pieces[where]
        elif kind == 4:
            end = draw(st.integers(where, len(pieces)))
            pieces = pieces[:end] + pieces[where:]
        else:
            pieces = pieces[: where + 1]
    return " ".join(pieces).encode("utf-8", errors="surrogatepass")


# Words with the line ends kept as words of their own, so that lines survive and can be mutated too.
SPLIT = [seed.replace("\n", " \n ").split(" ") for seed in SEEDS]


@contextmanager
def bounded_memory(more: int) -> Iterator[None]:
    """No more than this many bytes of new address space; only Linux can promise that."""
    if not sys.platform.startswith("linux"):
        yield
        return
    import resource

    with open("/proc/self/statm") as pages:  # noqa: PTH123
        now = int(pages.read().split()[0]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (now + more, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def survives(reader: Reader, data: bytes) -> POMDP | None:
    """A model, or None after a ParseError; anything else, and over a second of work, is a failure."""
    spent = []
    while True:
        begun = time.thread_time()
        try:
            model = reader(data, "fuzzed", max_entries=MAX_ENTRIES)
            assert isinstance(model, POMDP)
        except ParseError:
            model = None
        spent.append(time.thread_time() - begun)
        # A collection of everybody's garbage may fall into any call: only what is slow again is slow.
        if min(spent) < 1.0:
            return model
        assert len(spent) < 3, spent


def fuzz(examples: int) -> settings:
    return settings(
        max_examples=examples,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )


def test_pomdp_files() -> None:
    """20,000 mutated `.pomdp` files."""
    tried = {"models": 0, "refused": 0}

    @fuzz(20_000)
    @given(mutated())
    def run(data: bytes) -> None:
        model = survives(read_pomdp, data)
        tried["refused" if model is None else "models"] += 1
        if model is not None:  # what was read can be written and read again, unless its names are too odd
            with suppress(InvalidModelError):
                again = write_pomdp(model).encode()
                assert read_pomdp(again, max_entries=MAX_ENTRIES).n_states == model.n_states

    with bounded_memory(3 * 2**30):
        run()
    assert sum(tried.values()) >= 20_000
    assert min(tried.values()) > 500  # both ends of the parser were reached


def test_random_text() -> None:
    """Files made of nothing but the format's own words."""
    words = st.sampled_from([*NASTY, *sorted({word for pieces in SPLIT for word in pieces})])

    @fuzz(2_000)
    @given(st.lists(words, max_size=60))
    def run(pieces: list[str]) -> None:
        survives(read_pomdp, " ".join(pieces).encode())

    with bounded_memory(3 * 2**30):
        run()


@pytest.mark.parametrize(("reader", "writer"), [(read_json, write_json), (read_npz, write_npz)])
def test_array_files(reader: Reader, writer: Callable[[POMDP], bytes]) -> None:
    """Bytes of `.json` and `.npz` files overwritten, cut out, and doubled."""
    good = [writer(problem(name)) for name in ("tiger", "separated")]

    @fuzz(2_000)
    @given(st.data())
    def run(data: st.DataObject) -> None:
        changed = bytearray(data.draw(st.sampled_from(good)))
        for _ in range(data.draw(st.integers(1, 4))):
            start = data.draw(st.integers(0, len(changed) - 1))
            stop = data.draw(st.integers(start, min(len(changed), start + 30)))
            changed[start:stop] = data.draw(st.binary(max_size=8) | st.just(bytes(changed[start:stop]) * 2))
            if not changed:
                break
        survives(reader, bytes(changed))

    with bounded_memory(3 * 2**30):
        run()
