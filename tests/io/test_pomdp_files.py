"""The `.pomdp` reader: everything that it accepts, and every refusal with its line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from model_strategies import PUBLIC_FILES
from psrl_pomdp import POMDP, ParseError, Units, load
from psrl_pomdp.io import MAX_ENTRIES
from psrl_pomdp.io.pomdp.reader import read_pomdp

PREAMBLE = """\
discount: 0.95
values: reward
states: left right
actions: listen open
observations: hear-left hear-right
"""
BODY = """\
T: listen identity
T: open uniform
O: listen
0.85 0.15
0.15 0.85
O: open uniform
R: listen : * : * : * -1
R: open : left : * : * -100
R: open : right : * : * 10
"""


def read(text: str | bytes, max_entries: int = MAX_ENTRIES) -> POMDP:
    data = text.encode() if isinstance(text, str) else text
    return read_pomdp(data, "x.pomdp", max_entries=max_entries)


def refusal(text: str | bytes, max_entries: int = MAX_ENTRIES) -> tuple[int | None, str]:
    with pytest.raises(ParseError) as caught:
        read(text, max_entries)
    assert str(caught.value).startswith("x.pomdp")
    return caught.value.line, caught.value.reason


def replaced(old: str, new: str) -> str:
    text = PREAMBLE + BODY
    assert old in text
    return text.replace(old, new)


TIGER = read(PREAMBLE + BODY)


def test_arrays_are_where_they_belong() -> None:
    assert TIGER.transition.tolist() == [np.eye(2).tolist(), [[0.5, 0.5]] * 2]
    assert TIGER.setting.observation.tolist() == [[[0.85, 0.15], [0.15, 0.85]], [[0.5, 0.5]] * 2]
    assert TIGER.setting.own_cost == pytest.approx(np.array([[-1.0, -1.0], [-100.0, 10.0]]))
    assert TIGER.setting.units == Units(-100.0, 10.0, "reward")
    assert TIGER.setting.initial.tolist() == [0.5, 0.5]
    assert TIGER.setting.first_observation is None
    assert TIGER.name == "x"
    assert TIGER.remarks == (
        "discount 0.95 was read; the average over time is optimized unless a discount is asked for",
    )


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("".join(reversed(PREAMBLE.splitlines(keepends=True))) + BODY, id="any order"),
        pytest.param(BODY + PREAMBLE, id="preamble last"),
        pytest.param((PREAMBLE + BODY).replace("\n", "\r\n"), id="windows line ends"),
        pytest.param((PREAMBLE + BODY).replace(" : ", ":").replace(": ", ":"), id="no spaces"),
        pytest.param(replaced("T: listen identity", "T: listen\n\n\nidentity"), id="values on later lines"),
        pytest.param(replaced("T: listen identity", "T: listen : left 1 0\nT: 0 : 1\n0. 1.0"), id="rows"),
        pytest.param(
            replaced("T: listen identity", "T: listen : left : left 1.0\nT: listen : right : right\n1"),
            id="entries",
        ),
        pytest.param(replaced("T: open uniform", "T: open\n.5 5e-1\n+0.5 0.05E1"), id="number forms"),
        pytest.param(replaced("T: open uniform", "T: open : *\nuniform"), id="uniform row"),
        pytest.param(replaced("T: open uniform", "T: open : left reset\nT: open : right reset"), id="reset"),
        pytest.param(
            replaced("T: listen identity\nT: open", "T: * uniform\nT: listen identity\nT: open"),
            id="later rules win",
        ),
        pytest.param(
            replaced("R: listen : * : * : * -1", "R: * : * : * : * -1"),
            id="later rewards win over a wildcard",
        ),
        pytest.param(
            replaced("R: open : left : * : * -100", "R: open : left\n-100 -100\n-100 -100"),
            id="reward matrix",
        ),
        pytest.param(
            replaced("R: open : left : * : * -100", "R: open : left : *\n-100 -100"), id="reward row"
        ),
        pytest.param(
            replaced("R: open : left : * : * -100", "R: open : 0 : * : 0 -100\nR: open : 0 : * : 1 -100"),
            id="reward by reading",
        ),
        pytest.param(replaced("R: listen", "# T: nothing 7\nR: listen"), id="comments"),
        pytest.param(replaced("states: left right", "states: left\n# one\n\nright"), id="names on lines"),
        pytest.param(replaced("T: open", "start: uniform\nT: open"), id="uniform start"),
        pytest.param(replaced("T: open", "start:\n0.5\n0.5\nT: open"), id="start vector"),
        pytest.param(replaced("T: open", "start include: left right\nT: open"), id="start include"),
    ],
)
def test_ways_to_say_the_same(text: str) -> None:
    same = read(text)
    assert same.transition.tolist() == TIGER.transition.tolist()
    assert same.setting.cost == pytest.approx(TIGER.setting.cost, abs=1e-15)
    assert same.setting.observation.tolist() == TIGER.setting.observation.tolist()
    assert same.setting.initial.tolist() == TIGER.setting.initial.tolist()
    assert same.setting.names == TIGER.setting.names


@pytest.mark.parametrize("mark", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "\t", "#", "##"])
def test_comments_end_only_at_line_ends(mark: str) -> None:
    comment = f"# note{mark} R: open : left : * : * 99 T: open identity"
    assert read(PREAMBLE + BODY + comment) == TIGER
    assert read(PREAMBLE + comment + "\r" + BODY) == TIGER
    assert read(PREAMBLE.replace("\n", f" {comment}\r\n") + BODY) == TIGER


def test_comments_may_hold_any_bytes() -> None:
    latin = "# caf\xe9 \xff\n".encode("latin-1")
    assert read(latin + (PREAMBLE + BODY).encode()) == TIGER
    assert read("\ufeff# Übergänge\n" + PREAMBLE + BODY) == TIGER


def test_counts_instead_of_names() -> None:
    m = read(
        "values: reward states: 3 actions: 1 observations: 1 T: 0 uniform O: 0 uniform R: 0 : 2 : * : * 1"
    )
    assert (m.n_states, m.n_actions, m.n_observations) == (3, 1, 1)
    assert m.setting.names.states is None
    assert m.setting.own_cost.tolist() == [[0.0, 0.0, 1.0]]


@pytest.mark.parametrize(
    ("start", "initial"),
    [
        ("start: right", [0.0, 1.0, 0.0]),
        ("start: 2", [0.0, 0.0, 1.0]),
        ("start: 0.2 0.3 0.5", [0.2, 0.3, 0.5]),
        ("start: 0.333333 0.333333 0.333334", [0.333333, 0.333333, 0.333334]),
        ("start include: left 2", [0.5, 0.0, 0.5]),
        ("start exclude: left", [0.0, 0.5, 0.5]),
        ("", [1 / 3, 1 / 3, 1 / 3]),
    ],
)
def test_starts(start: str, initial: list[float]) -> None:
    text = (
        f"states: left right goal actions: 1 observations: 1 {start} T: * uniform O: * uniform R: 0:0:*:* 1"
    )
    assert read(text).setting.initial == pytest.approx(np.array(initial), abs=1e-12)


@pytest.mark.parametrize("start", ["0", "1", "1.0", "only"])
def test_start_of_a_single_state(start: str) -> None:
    if start == "0":
        text = "states: 1 actions: 1 observations: 1"
    else:
        text = "states: only actions: 1 observations: 1"
    text += f" start: {start} T: 0 1 O: 0 1 R: 0 : 0 : * : * 1"
    assert read(text).setting.initial.tolist() == [1.0]


def test_reset_goes_to_the_start_even_before_it_is_said() -> None:
    text = replaced(
        "T: open uniform", "T: open reset\nT: open : right : right 0.25\nT: open : right : left .75"
    )
    m = read(text + "start: 0.9 0.1\n")
    assert m.transition[1].tolist() == [[0.9, 0.1], [0.75, 0.25]]


def test_names_may_be_keywords() -> None:
    text = (
        "states: start T actions: R O observations: states T: R : start : T 1 T: R : T : T 1.0 T: O identity "
    )
    text += "O: * uniform R: R : T : start : * 3 start: start"
    m = read(text)
    assert m.setting.states == ("start", "T")
    assert m.transition[0].tolist() == [[0.0, 1.0], [0.0, 1.0]]
    assert m.setting.initial.tolist() == [1.0, 0.0]


def test_costs_are_minimised_and_rewards_maximised() -> None:
    """The same numbers as costs and as rewards are opposite problems."""
    reward, cost = read(PREAMBLE + BODY), read(replaced("values: reward", "values: cost"))
    assert reward.setting.own_cost == pytest.approx(cost.setting.own_cost)
    assert reward.setting.cost == pytest.approx(1.0 - cost.setting.cost)
    assert cost.setting.units.kind == "cost"
    assert cost.setting.cost[1].tolist() == [0.0, 1.0]  # -100 is the best cost


def test_silence_about_values_and_discount() -> None:
    m = read(replaced("discount: 0.95\nvalues: reward\n", ""))
    assert m == TIGER
    assert m.remarks == ("the file does not say 'values:'; they were taken as rewards",)
    assert "discount 1 was" in read(replaced("0.95", "1.0")).remarks[0]


def test_rewards_of_next_state_and_reading_become_expectations() -> None:
    """Against the sum written out with loops."""
    rng = np.random.default_rng(2)
    n_states, n_actions, n_readings = 3, 2, 2
    transition = rng.dirichlet(np.ones(n_states), size=(n_actions, n_states))
    sensor = rng.dirichlet(np.ones(n_readings), size=(n_actions, n_states))
    rewards = rng.integers(-9, 9, size=(n_actions, n_states, n_states, n_readings)).astype(float)
    text = ["values: reward", "states: 3", "actions: 2", "observations: 2"]
    expected = np.zeros((n_actions, n_states))
    for a in range(n_actions):
        text += [f"T: {a}", *(" ".join(map(repr, row.tolist())) for row in transition[a])]
        text += [f"O: {a}", *(" ".join(map(repr, row.tolist())) for row in sensor[a])]
        for s in range(n_states):
            for t in range(n_states):
                for o in range(n_readings):
                    text.append(f"R: {a} : {s} : {t} : {o} {rewards[a, s, t, o]}")
                    expected[a, s] += transition[a, s, t] * sensor[a, t, o] * rewards[a, s, t, o]
    m = read("\n".join(text))
    assert m.setting.own_cost == pytest.approx(expected, abs=1e-12)
    assert any("expectation" in remark for remark in m.remarks)
    # Depending on the reading only, and on the next state only.
    by_reading = [line for line in text if not line.startswith("R")] + ["R: * : * : * : 1 5"]
    assert read("\n".join(by_reading)).setting.own_cost == pytest.approx(
        5 * np.einsum("ast,at->as", transition, sensor[:, :, 1]), abs=1e-12
    )
    by_state = [line for line in text if not line.startswith("R")] + ["R: * : * : 2 : * 5"]
    assert read("\n".join(by_state)).setting.own_cost == pytest.approx(5 * transition[:, :, 2], abs=1e-12)


def test_rows_rounded_to_six_digits_are_renormalized() -> None:
    m = read(replaced("T: open uniform", "T: open\n0.333333 0.666666\n0.5 0.5"))
    assert m.transition[1, 0] == pytest.approx([1 / 3, 2 / 3], abs=1e-15)
    assert any("renormalized" in remark for remark in m.remarks)


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        (
            replaced("values: reward", "values: rewards"),
            2,
            "values: 'rewards' is neither 'reward' nor 'cost' (did you mean 'reward'?)",
        ),
        (replaced("T: open uniform", "T: open\n0.5 0.5\n0.5 0.4"), 9, "T: open : right sums to 0.9"),
        (
            replaced("T: open uniform", "T: open : left 0.5 0.4\nT: open : right 0.5 0.5"),
            7,
            "T: open : left sums to 0.9",
        ),
        (replaced("T: open uniform", "T: open\n0.5 0.5\n1.5 -.5"), 9, "T: open : right has the negative"),
        (replaced("T: open uniform", ""), 14, "T: open : left is never given"),
        (replaced("O: open uniform", ""), 14, "O: open : left is never given"),
        (replaced("0.15 0.85", "0.15 0.95"), 10, "O: listen : right sums to 1.1"),
        (replaced("R: open : left", "R: open : lft"), 13, "unknown state 'lft' (did you mean 'left'?)"),
        (replaced("R: open : left", "R: pen : left"), 13, "unknown action 'pen' (did you mean 'open'?)"),
        (replaced("R: open : left : *", "R: open : 2 : *"), 13, "state 2 of 2 (they count from 0)"),
        (replaced("O: open", "OO: open"), 11, "unknown keyword 'OO' (did you mean 'O'?)"),
        (replaced("discount", "discout"), 1, "unknown keyword 'discout' (did you mean 'discount'?)"),
        (replaced("0.95", "1.5"), 1, "discount 1.5 is not between 0 and 1"),
        (replaced("0.95", "nan"), 1, "discount: expected a number, found 'nan'"),
        (replaced("0.95", "0.9 0.5"), 1, "discount: 2 numbers, expected 1"),
        (replaced("0.85 0.15", "0.85 1_5"), 9, "O: expected a number, found '1_5'"),
        (replaced("0.85 0.15", "0.85 \u0661"), 9, "O: expected a number"),
        (replaced("0.85 0.15", "0.85 inf"), 9, "O: expected a number, found 'inf'"),
        (replaced("* -100", "* -1e999"), 13, "R: a number is too large"),
        (replaced("0.85 0.15\n", "0.85\n"), 8, "O: 3 numbers, expected 4 (2 x 2)"),
        (replaced("-100", "-100 4"), 13, "R: 2 numbers, expected 1"),
        (replaced("R: open : left : * : * -100", "R: open -100"), 13, "R: 1 fields; expected 2 to 4"),
        (replaced("R: open : left", "R: open : left : *"), 13, "R: 5 fields; expected 2 to 4"),
        (replaced("states: left right", "states: left left"), 3, "two states are called 'left'"),
        (replaced("states: left right", "states: left\n2"), 4, "'2' cannot be the name of a state"),
        (replaced("states: left right", "states: uniform x"), 3, "'uniform' cannot be the name"),
        (replaced("states: left right", "states:"), 3, "states: nothing follows"),
        (replaced("states: left right", "states: 0"), 3, "states: 0 is not a count"),
        (replaced("states: left right", "states: 2.5"), 3, "states: 2.5 is not a count"),
        (replaced("states: left right", "states: 1 states: 2"), 3, "states is given twice"),
        (replaced("states: left right\n", ""), 13, "no 'states:' in the file"),
        (
            replaced("T: listen identity", "T: listen : left identity"),
            6,
            "T: expected a number, found 'identity'",
        ),
        (replaced("O: open uniform", "O: open reset"), 11, "O: reset is for T"),
        (PREAMBLE + "T: listen :\n" + BODY, 7, "unknown state 'T'"),
        (PREAMBLE + BODY + "T:", 15, "T: ends too early"),
        (PREAMBLE + BODY + "T: listen", 15, "T: nothing follows"),
        (":" + PREAMBLE + BODY, 1, "a colon without a keyword or a field before it"),
        (replaced("T: open", "T:: open"), 7, "a colon without a keyword or a field before it"),
        ("tiger\n" + PREAMBLE + BODY, 1, "expected a keyword such as 'states:', found 'tiger'"),
        ("# only a comment", 1, "nothing in the file"),
        (replaced("T: open", "start: nowhere\nT: open"), 7, "unknown state 'nowhere'"),
        (replaced("T: open", "start: 0.5 0.4\nT: open"), 7, "start sums to 0.9"),
        (replaced("T: open", "start: 0.5 0.4 .1\nT: open"), 7, "start: 3 numbers, expected 2"),
        (
            replaced("T: open", "start include: left lef\nT: open"),
            7,
            "unknown state 'lef' (did you mean 'left'?)",
        ),
        (replaced("T: open", "start exclude: *\nT: open"), 7, "leaves no state to start in"),
        (replaced("T: open", "start: *\nT: open"), 7, "start: expected a number, found '*'"),
    ],
)
def test_refusals_have_their_line_and_reason(text: str, line: int, reason: str) -> None:
    found_line, found_reason = refusal(text)
    assert reason in found_reason
    assert found_line == line


def test_sizes_are_refused_before_they_are_allocated() -> None:
    assert (
        "T is too large: 2 x 99999999 x 99999999"
        in refusal(replaced("states: left right", "states: 99999999"))[1]
    )
    rest = "actions: 1 observations: 9999 T: * uniform O: * uniform "
    assert "R is too large" in refusal("states: 100 " + rest + "R: 0 : 0 : 0 : 0 1")[1]
    assert "O is too large" in refusal("states: 1000 " + rest)[1]
    assert read("states: 100 " + rest + "R: 0 : 0 : * : * 1").n_observations == 9999
    assert "too large" in refusal(PREAMBLE + BODY, max_entries=7)[1]


def test_rules_that_write_over_and_over_are_stopped() -> None:
    text = "states: 1000 actions: 4 observations: 1 " + "T: * uniform " * 100
    line, reason = refusal(text)
    assert "over and over" in reason
    assert line == 1


def test_identity_needs_a_square() -> None:
    text = "states: 2 actions: 1 observations: 3 T: 0 identity O: 0 identity"
    assert refusal(text) == (1, "identity does not fit 2 x 3")


def test_cost_range_beyond_floats() -> None:
    _, reason = refusal(replaced("* -100", "* -1.7e308").replace("* 10\n", "* 1.7e308\n"))
    assert "must be positive and finite" in reason


def test_unknown_endings_and_sizes_of_files(tmp_path: Path) -> None:
    (tmp_path / "tiger.txt").write_text(PREAMBLE + BODY)
    with pytest.raises(ParseError, match=r"unknown ending '.txt'; known are .pomdp"):
        load(tmp_path / "tiger.txt")
    (tmp_path / "tiger.POMDP").write_text(PREAMBLE + BODY)
    assert load(tmp_path / "tiger.POMDP") == TIGER
    with pytest.raises(ParseError, match=r"more than 10 bytes"):
        load(tmp_path / "tiger.POMDP", max_bytes=10)
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "absent.pomdp")


PUBLIC = {  # sizes (S, A, O) and start of public files, as their authors state them
    "tiger.95": (2, 3, 2, [0.5, 0.5]),
    "1d": (4, 2, 2, [0.25] * 4),
    "cheese.95": (11, 4, 7, [0.1] * 10 + [0.0]),
    "shuttle.95": (8, 3, 5, [0.0] * 7 + [1.0]),
    "4x3.95": (11, 4, 6, [1 / 9, 1 / 9, 1 / 9, 0, 1 / 9, 1 / 9, 0, 1 / 9, 1 / 9, 1 / 9, 1 / 9]),
    "ejs1": (3, 4, 2, [1 / 3] * 3),
    "bridge-repair": (5, 12, 5, [0.2] * 5),
    "concert": (2, 3, 2, [0.5, 0.5]),
    "aloha-10max": (30, 9, 3, [1.0] + [0.0] * 29),
}
with_public_files = pytest.mark.skipif(not PUBLIC_FILES.is_dir(), reason="no folder of public model files")


@with_public_files
@pytest.mark.parametrize("stem", PUBLIC)
def test_public_files_load_with_their_sizes_and_start(stem: str) -> None:
    m = load(PUBLIC_FILES / f"{stem}.POMDP")
    *sizes, start = PUBLIC[stem]
    assert [m.n_states, m.n_actions, m.n_observations] == sizes
    assert m.setting.initial == pytest.approx(np.array(start), abs=1e-5)


@with_public_files
def test_the_malformed_public_file_is_refused() -> None:
    with pytest.raises(ParseError, match=r"ejs7.POMDP:3: values: 'rewards'"):
        load(PUBLIC_FILES / "ejs7.POMDP")
