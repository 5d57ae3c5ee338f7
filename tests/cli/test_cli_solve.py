"""`solve` and `verify`, run as people run them; policies in words against brute force; figures."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from commands import run
from proof_oracle import load_checker
from psrl_pomdp import POMDP, Plan, Setting, plan, problem, save
from psrl_pomdp._numba import jit as compiled
from psrl_pomdp._serialization.archives import pack, unpack
from psrl_pomdp.cli import plan_text, solve, solve_progress
from psrl_pomdp.planning import Round
from psrl_pomdp.report import describe, plan_figure, plan_figures, save_figure, style
from psrl_pomdp.report import policy_text as policy_words

COARSE = ("--tolerance", "1e-3")
HOSTILE = ("$x_$", "<b>", r"\$y^{$", "_hidden", "[bold]", "a\x1b[2J", "漢字", "--", "&amp;")


def hostile(n_states: int) -> POMDP:
    """A guessing game of which every name tries something: each state has its own best action."""
    rng = np.random.default_rng(n_states)
    actions = ("_hidden", "$x_$", "<b>", r"\$y^{$")[: max(2, n_states)]
    cost = [[0.1 * a if a == s else 1.0 - 0.1 * s for s in range(n_states)] for a in range(len(actions))]
    setting = Setting(
        rng.dirichlet(np.ones(2), n_states),
        cost,
        np.full(n_states, 1 / n_states),
        units="$/day_$",
        states=HOSTILE[-n_states:],
        actions=actions,
        observations=HOSTILE[:2],
    )
    kernel = rng.dirichlet(np.ones(n_states), n_states)
    return POMDP(setting, np.stack([kernel] * len(actions)), "$\\alpha$ <i>")


# -- the command --------------------------------------------------------------------------------


def test_help_imports_nothing_heavy() -> None:
    script = (
        "import sys\n"
        "from psrl_pomdp.cli import main\n"
        "try: main(sys.argv[1:])\n"
        "except SystemExit as stop: assert not stop.code\n"
        "heavy = {'numpy', 'scipy', 'numba', 'rich', 'matplotlib'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    for words in (["solve", "--help"], ["verify", "-h"], ["--help"]):
        done = subprocess.run(
            [sys.executable, "-c", script, *words], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert "psrl-pomdp solve" in done.stdout
        if words[0] == "solve":
            assert "Exit codes" in done.stdout


def test_solve_says_bounds_status_and_policy(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run("solve", "tiger", *COARSE, capsys=capsys)
    assert code == 0
    assert err == ""
    assert "average reward" in out
    assert "closed: the gap is within the tolerance" in out
    assert "tiger-right up to 0.0392: open-right" in out
    assert "tiger-right 0.0392 to 0.9608: listen" in out
    _, out, _ = run("solve", "railway", *COARSE, capsys=capsys)
    assert "average cost" in out
    assert "euro a step" in out
    assert "sure of good: do-nothing" in out
    _, out, _ = run("solve", "spectrum-access", *COARSE, capsys=capsys)
    assert "(start): use-" in out
    assert "sensed-busy → " in out


def test_an_open_gap_is_exit_code_3(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run("solve", "spectrum-access", "--max-points", "6", "--json", capsys=capsys)
    found = json.loads(out)
    assert code == 3
    assert found["status"] == "memory limit"
    assert found["gap"] > found["tolerance"]
    assert run("solve", "noisy-grid", "--time-limit", "1e-6", capsys=capsys)[0] == 3


def test_averages_that_depend_on_the_start_are_called_so(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run("solve", "blind-cycle", *COARSE, capsys=capsys)
    assert code == 0
    assert "the initial distribution of the model" in out
    assert "always cautious: the controller has only one node" in out
    code, out, _ = run("solve", "two-rooms", "--json", capsys=capsys)
    found = json.loads(out)
    assert code == 0
    assert (found["depends_on_start"], found["span"]) == (True, None)


def test_json_is_one_document_with_everything(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run("solve", "railway", *COARSE, "--json", capsys=capsys)
    found = json.loads(out)
    model = problem("railway")
    assert code == 0
    assert err == ""
    assert set(found) == set(
        "model kind unit scale status status_in_words lower upper lower_cost upper_cost gap relative_gap "
        "tolerance span cells discount "
        "depends_on_start points nodes seconds states states_left_out policy controller rounds".split()
    )
    assert found["kind"] == "cost"
    assert found["lower"] == pytest.approx(float(model.setting.units.from_scaled(found["lower_cost"])))
    assert found["gap"] == pytest.approx(found["upper_cost"] - found["lower_cost"])
    nodes = found["controller"]["nodes"]
    assert len(nodes) == found["nodes"]
    assert found["controller"]["start"] in range(len(nodes))
    for node in nodes:
        assert node["action"] in model.setting.actions
        assert tuple(node["successors"]) == model.setting.observations
        assert all(onward is None or onward in range(len(nodes)) for onward in node["successors"].values())
        assert len(node["vector"]) == 3
    last = found["rounds"][-1]
    assert set(last) == {*Round.__dataclass_fields__, "lower_cost", "upper_cost"}
    assert last["upper"] == pytest.approx(found["upper"])
    assert set(found["policy"]) == {"kind", "shares", "grid", "sure", "uniform", "words"}


def test_the_json_controller_proves_the_upper_bound(capsys: pytest.CaptureFixture[str]) -> None:
    """The document alone is a certificate: max C(s, a_n) + Σ M[a_n, o] α_σ(n, o) − α_n."""
    _, out, _ = run("solve", "spectrum-access", *COARSE, "--json", capsys=capsys)
    found, model = json.loads(out), problem("spectrum-access")
    setting, nodes = model.setting, found["controller"]["nodes"]
    worst = -np.inf
    for node in nodes:
        a = setting.actions.index(node["action"])
        value = setting.cost[a] - node["vector"]
        for o, onward in enumerate(node["successors"].values()):
            if onward is not None:
                joint = model.transition[a] * setting.observation[a][:, o]
                value = value + joint @ np.array(nodes[onward]["vector"])
        worst = max(worst, float(value.max()))
    assert worst <= found["upper_cost"] + 1e-10


def test_a_reading_that_cannot_come_has_no_successor() -> None:
    model = problem("bridge-repair")
    found = plan(model, 1e-3)
    comes = policy_words.possible_observations(found, model)
    for node, row in enumerate(policy_words.successors(found, model)):
        a = int(found.controller.actions[node])
        chance = np.einsum("st,to->o", model.transition[a], model.setting.observation[a])
        assert [onward is not None for onward in row] == (chance > 0).tolist() == comes[a].tolist()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--figure", "plan.gif"), "'plan.gif' does not end in .png or .svg or .pdf"),
        (("--figure", "absent/plan.png"), "cannot write into 'absent'"),
        (("--save", "absent/plan.npz"), "cannot write into 'absent'"),
        (("--save", "plan.pomdp"), "does not end in .npz"),
        (("--save", "folder.npz"), "is a folder"),
        (("--tolerance", "0"), "0.0 is not above 0"),
        (("--tolerance", "2"), "2.0 is not in the range"),
        (("--time-limit", "nan"), "nan is not above 0"),
        (("--max-points", "0"), "0 is not in the range"),
    ],
)
def test_mistakes_are_refused_before_planning(
    arguments: tuple[str, ...],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder.npz").mkdir()
    monkeypatch.setattr(solve, "solve_and_show_progress", lambda *_: pytest.fail("planned all the same"))
    code, out, err = run("solve", "tiger", *arguments, capsys=capsys)
    assert code == 2
    assert out == ""
    assert message in err


def test_a_plan_does_not_replace_its_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "mine.npz")
    save(problem("tiger"), path)
    before = Path(path).read_bytes()
    code, _, err = run("solve", path, "--save", path, capsys=capsys)
    assert code == 2
    assert "would replace the model" in err
    assert Path(path).read_bytes() == before


def test_a_full_disk_does_not_lose_what_was_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Plan, "save", full)
    code, out, err = run("solve", "tiger", *COARSE, "--save", str(tmp_path / "p.npz"), capsys=capsys)
    assert code == 1
    assert "No space left on device" in err
    assert "average reward" in out


@pytest.mark.parametrize("columns", ["20", "40", "200"])
def test_narrow_terminals(
    columns: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    _, out, _ = run("solve", "tiger", *COARSE, capsys=capsys)
    assert "average reward" in out
    assert "listen" in out


@pytest.mark.parametrize("n_states", [2, 3, 4])
def test_hostile_names_are_only_text(
    n_states: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / "hostile.json")
    save(hostile(n_states), path)
    code, out, _ = run("solve", path, *COARSE, capsys=capsys)
    assert code == 0
    assert "\x1b" not in out
    assert "$/day_$" in out


@pytest.mark.parametrize(
    ("lower", "upper", "scale"),
    [
        (1.083789061, 1.083789062, 110.0),
        (-1e-9, 3.0, 4.0),
        (0.1, 0.1, 1.0),
        (0.0, 0.0, 1.0),
        (5e20, 6e20, 1e21),
    ],
)
def test_printed_bounds_are_bounds(lower: float, upper: float, scale: float) -> None:
    low, high = plan_text.outward(lower, upper, scale)
    assert float(low) <= lower <= upper <= float(high)
    assert float(high) - float(low) <= 1.3 * (upper - lower) + 1e-5 * scale


# -- while it runs ------------------------------------------------------------------------------


def test_the_progress_line(monkeypatch: pytest.MonkeyPatch) -> None:
    line = solve_progress.ProgressLine(problem("tiger").setting.units)
    assert line.text(0.1).startswith("first round")
    monkeypatch.setattr(compiled.Group, "busy", True)
    assert line.text(9.0) == "first round, another process compiles the planner ... 9 s"
    monkeypatch.undo()
    line(Round(lower=0.0, upper=0.1, points=7, nodes=5, work=1e6, seconds=1.0))
    assert line.text(2.4) == "reward -1 to 10, gap 1.0e-01, 7 points, 5 nodes, 2 s"
    line.stopping = True
    assert line.text(2.4).startswith("stopping after this round")
    assert line.last is not None
    with pytest.raises(KeyboardInterrupt):
        line(line.last)


def test_the_second_ctrl_c_does_not_wait() -> None:
    line = solve_progress.ProgressLine(problem("tiger").setting.units)
    before = signal.getsignal(signal.SIGINT)
    with solve_progress.interrupts_between_rounds(line):
        signal.raise_signal(signal.SIGINT)
        assert line.stopping
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


def test_a_memory_limit_leaves_certified_bounds(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run("solve", "tiger", "--memory-limit", "1e-9", "--json", capsys=capsys)
    found = json.loads(out)
    assert code == solve.GAP_LEFT_OPEN
    assert found["status"] == "memory limit"
    assert found["lower"] <= 1.0838 <= found["upper"]


def test_solve_from_a_thread() -> None:
    """Which may not set handlers."""
    with ThreadPoolExecutor(1) as pool:
        assert (
            pool.submit(solve.solve_and_show_progress, problem("tiger"), tolerance=1e-2).result().status
            == "closed"
        )


@pytest.mark.skipif(sys.platform == "win32", reason="no pseudo-terminals")
def test_ctrl_c_leaves_what_was_found() -> None:
    """A real interrupt once the line on a real terminal shows bounds."""
    import pty

    terminal, child_end = pty.openpty()
    script = "from psrl_pomdp.cli import main; main()"
    words = ["solve", "noisy-grid", "--tolerance", "1e-9", "--max-points", "100000", "--json"]
    child = subprocess.Popen(
        [sys.executable, "-c", script, *words],
        stdout=subprocess.PIPE,
        stderr=child_end,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "120"},
    )
    os.close(child_end)
    shown, interrupted, deadline = b"", False, time.monotonic() + 120
    try:
        while time.monotonic() < deadline:
            if not select.select([terminal], [], [], 1.0)[0]:
                if interrupted:
                    break
                continue
            shown += os.read(terminal, 4096)
            if not interrupted and b" nodes, " in shown:
                child.send_signal(signal.SIGINT)
                interrupted = True
        out, _ = child.communicate(timeout=60)
    except OSError:  # how Linux says that the other end of a terminal was closed
        out, _ = child.communicate(timeout=60)
    finally:
        child.kill()
        os.close(terminal)
    found = json.loads(out)
    assert child.returncode == 3
    assert found["status"] == "interrupted"
    assert 0 < found["lower"] <= found["upper"] < 1
    assert b"cost 0." in shown


# -- verify -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tiger_plan() -> Plan:
    return plan(problem("tiger"), 1e-3)


def test_save_and_verify(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "railway.npz")
    _, out, err = run("solve", "railway", *COARSE, "--json", "--save", path, capsys=capsys)
    found = json.loads(out)
    assert path in err
    code, out, _ = run("verify", path, "railway", "--json", capsys=capsys)
    proved = json.loads(out)
    assert code == 0
    assert proved["verified"] is True
    assert proved["claimed"] == [found["lower"], found["upper"]]
    assert proved["lower"] == pytest.approx(found["lower"], abs=1e-6)
    assert proved["upper"] == pytest.approx(found["upper"], abs=1e-6)
    code, out, _ = run("verify", path, "railway", capsys=capsys)
    assert code == 0
    assert "average cost" in out
    assert "euro a step" in out


def test_proofs_are_exact_and_strangers_accept_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, proof = str(tmp_path / "tiger.npz"), tmp_path / "tiger.json"
    words = ["--save", path, "--proof", str(proof)]
    code, _, err = run("solve", "tiger", *COARSE, *words, capsys=capsys)
    assert code == 0
    assert str(proof) in err
    code, out, _ = run("verify", "--exact", path, "tiger", "--json", capsys=capsys)
    assert code == 0
    exact = json.loads(out)
    checker = load_checker()
    document = json.loads(proof.read_text("utf-8"))
    low, high = checker.check(document)
    assert (low, high) == (Fraction(exact["lower_fraction"]), Fraction(exact["upper_fraction"]))
    assert Fraction(exact["lower"]) <= low <= high <= Fraction(exact["upper"])
    code, out, _ = run("verify", "--exact", path, "tiger", capsys=capsys)
    assert code == 0
    assert f"{exact['lower']} to {exact['upper']}" in out
    assert "in exact arithmetic" in out
    code, out, err = run("certificate", path, "tiger", capsys=capsys)
    assert code == 0
    assert f"from {document['claim']['lower']} to {document['claim']['upper']}" in out
    again = tmp_path / "tiger-proof.json"
    assert str(again) in err
    assert again.read_bytes() == proof.read_bytes()
    code, _, err = run("certificate", path, "railway", "-o", str(tmp_path / "no.json"), capsys=capsys)
    assert code == 1
    assert "another model" in err
    assert not (tmp_path / "no.json").exists()
    code, _, err = run("solve", "tiger", "--proof", "proof.txt", capsys=capsys)
    assert code == 2
    assert ".json" in err


def test_a_plan_for_another_model_is_refused(
    tiger_plan: Plan, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / "tiger.npz")
    tiger_plan.save(path)
    for words in (("tiger", "-p", "accuracy=0.9"), ("railway",)):
        code, out, err = run("verify", path, *words, capsys=capsys)
        assert (code, out) == (1, "")
        assert err == "psrl-pomdp: the plan was made for another model\n"


def rewritten(path: Path, words: dict[str, Any] | None = None, **arrays: Any) -> None:
    """The plan in a file with some of its words and arrays replaced, and the seal made right again."""
    members = unpack(path.read_bytes(), path.name)
    told = json.loads(members["words"].tobytes()) | (words or {})
    path.write_bytes(pack(members | arrays | {"words": np.frombuffer(json.dumps(told).encode(), np.uint8)}))


@pytest.mark.parametrize(
    ("words", "arrays", "message"),
    [
        ({"bounds": [0.0809, 0.0811]}, {}, None),
        ({"bounds": [0.05, 0.06]}, {}, "from above and proves"),
        ({"bounds": [0.5, 0.6]}, {}, "from below and proves"),
        ({}, {"values": np.zeros(7)}, "from below and proves"),
        ({}, {"values": np.zeros(3)}, "points is float64 of shape (7, 2), not (3, 2)"),
        ({}, {"values": np.full(7, np.nan)}, "values contains a number that is not finite"),
        ({}, {"values": np.array(1.0)}, "values is float64 of shape (), not (any)"),
        ({}, {"points": np.array(1.0)}, "points is float64 of shape ()"),
        ({}, {"basis": np.zeros(3, complex)}, "basis is complex128"),
        ({"actions": ["open-left", "listen", "open-right"]}, {}, "the plan's actions are not those"),
        ({"states": [1, 0]}, {}, "states are no ascending list of numbers below 2"),
        ({"states": [0, 2], "n_states": 3}, {}, "the plan's n_states are not those"),
        ({"n_states": 5}, {}, "the plan's n_states are not those"),
        ({"units": [0, 1, "cost", ""]}, {}, "the plan's units are not those"),
        ({"start": 99}, {}, "start is 99: it is none of 7 nodes"),
        ({"rounds": [["a"]]}, {}, "not a plan: "),
        ({"bounds": [0.6, 0.5]}, {}, "expected from 0 to 1"),
        ({"version": 99}, {}, "a plan of version 99"),
    ],
)
def test_tampered_plans(
    words: dict[str, Any],
    arrays: dict[str, Any],
    message: str | None,
    tiger_plan: Plan,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "tiger.npz"
    tiger_plan.save(path)
    rewritten(path, words, **arrays)
    code, out, err = run("verify", str(path), "tiger", capsys=capsys)
    if message is None:  # one that claims less than it proves is true
        assert code == 0
        return
    assert (code, out) == (1, "")
    assert message in err
    assert err.count("\n") == 1


def test_files_that_are_no_plan(tiger_plan: Plan, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "tiger.npz"
    tiger_plan.save(path)
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    wrong = [b"", b"no plan", whole[:100], whole[: len(whole) // 2]]
    for _ in range(60):
        damaged = bytearray(whole)
        damaged[rng.integers(len(whole))] ^= int(rng.integers(1, 256))
        wrong.append(bytes(damaged))
    for i, data in enumerate(wrong):
        path.write_bytes(data)
        code, out, err = run("verify", str(path), "tiger", capsys=capsys)
        assert "Traceback" not in err
        assert code == 1 or i >= 4  # a byte that nobody reads may be anything
        assert (code, bool(out), err.count("\n")) in {(0, True, 0), (1, False, 1)}
    save(problem("tiger"), path)
    assert run("verify", str(path), "tiger", capsys=capsys)[0] == 1
    code, _, err = run("verify", str(tmp_path / "absent.npz"), "tiger", capsys=capsys)
    assert code == 1
    assert "no such file" in err


# -- policies in words --------------------------------------------------------------------------


def two_states(seed: int) -> POMDP:
    rng = np.random.default_rng(seed)
    setting = Setting(rng.dirichlet(np.ones(3), (4, 2)), rng.random((4, 2)), [0.5, 0.5])
    return POMDP(setting, rng.dirichlet(np.ones(2), (4, 2)))


@pytest.mark.parametrize(
    "model", [problem("tiger"), problem("no-sensor"), *map(two_states, range(6))], ids=lambda m: m.name
)
def test_intervals_agree_with_a_scan(model: POMDP) -> None:
    found = plan(model, 1e-3)
    pieces = policy_words.intervals(found)
    assert [pieces[0].start, pieces[-1].end] == [0.0, 1.0]
    for one, next_one in pairwise(pieces):
        assert one.start < one.end == next_one.start
        assert one.action != next_one.action
    edges = np.array([piece.end for piece in pieces[:-1]])
    for p in np.linspace(0.0, 1.0, 2001)[1:-1]:
        if len(edges) and np.abs(edges - p).min() < 1e-9:
            continue
        (piece,) = (piece for piece in pieces if piece.start <= p < piece.end)
        assert found.action([1 - p, p]) == piece.action


def test_the_envelope_of_random_lines() -> None:
    """Against the minimum itself, lines that tie and meet in one point among them."""
    rng = np.random.default_rng(0)
    p = np.linspace(0.0, 1.0, 1001)
    for trial in range(200):
        vectors = rng.integers(0, 6, (7, 2)).astype(np.float64) if trial % 2 else rng.normal(size=(30, 2))
        pieces = policy_words.lower_envelope(vectors)
        starts = np.array([start for start, _ in pieces])
        assert (np.diff(starts) > 0).all()
        nodes = np.array([node for _, node in pieces])[np.searchsorted(starts, p, side="right") - 1]
        lines = np.column_stack([1 - p, p]) @ vectors.T
        assert lines[np.arange(len(p)), nodes] == pytest.approx(lines.min(axis=1), abs=1e-12)


@pytest.mark.parametrize("name", ["railway", "machine-repair", "random-readout"])
def test_shares_agree_with_brute_force(name: str) -> None:
    """On a lattice of another fineness: they differ by what a boundary of length 2 can hide, 3/80."""
    model = problem(name)
    found = plan(model, 1e-5)
    n = 80
    beliefs = [((i + 0.4) / n, (j + 0.3) / n) for i in range(n) for j in range(n - i - 1)]
    played = [found.action([p, q, 1 - p - q]) for p, q in beliefs]
    shares = policy_words.action_shares(found)
    assert sum(shares.values()) == pytest.approx(1.0)
    for action in range(model.n_actions):
        assert shares.get(action, 0.0) == pytest.approx(played.count(action) / len(played), abs=3 / n)
    told = describe(found, model)
    for s, state in enumerate(model.setting.states):
        assert told["sure"][state] == model.setting.actions[found.action(np.eye(3)[s])]
    assert told["uniform"] == model.setting.actions[found.action(np.full(3, 1 / 3))]


def test_triangle_cells_are_equal_and_all() -> None:
    cells = policy_words.triangle_cells(30)
    assert len(cells) == len(np.unique(cells.round(9), axis=0)) == 900
    assert cells.min() > 0
    assert cells.sum(axis=1) == pytest.approx(1.0)
    assert cells.mean(axis=0) == pytest.approx(np.full(3, 1 / 3))
    # Half of the simplex has its first coordinate above 1 − √½.
    assert (cells[:, 0] > 1 - np.sqrt(0.5)).mean() == pytest.approx(0.5, abs=0.03)


def test_readings_with_the_same_successor_go_together() -> None:
    readings = ("a", "b", "c", "d", "e", "f")
    assert policy_words.edges_text(readings, [1, 2, 1, None, 7, 2], 7) == "a, c → 1; b, f → 2; e → stays"
    assert policy_words.edges_text(readings, [3, 1, 3, 3, 3, 3], 0) == "b → 1; else → 3"
    assert policy_words.edges_text(readings, [3, None, 3, 3, 3, 3], 3) == "any observation → stays"


def test_large_controllers_are_cut_short() -> None:
    model = problem("noisy-grid")
    found = plan(model, 1e-2)
    lines = describe(found, model)["words"]["lines"]
    assert len(found.controller) > policy_words.MOST_LISTED
    assert len(lines) == policy_words.MOST_LISTED + 1
    assert lines[0].startswith(f"{found.controller.start} (start): ")
    assert lines[-1] == f"and {len(found.controller) - policy_words.MOST_LISTED} more nodes"


def test_where_there_is_nothing_to_choose() -> None:
    one_action = POMDP(Setting([[[1.0], [1.0]]], [[0.2, 0.4]], [1.0, 0.0]), [[[0.5, 0.5], [0.5, 0.5]]])
    one_state = POMDP(
        Setting(np.ones((2, 1, 1)), [[0.2], [0.1]], [1.0], actions=["dear", "cheap"]), np.ones((2, 1, 1))
    )
    for model, words in (
        (one_action, "always action 0: there is no other action"),
        (one_state, "always cheap"),
    ):
        told = describe(plan(model, 1e-3), model)
        assert told["kind"] == "always"
        assert told["words"]["lines"][0].startswith(words)


# -- figures ------------------------------------------------------------------------------------

_SIGNATURES = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}


@pytest.mark.parametrize(
    ("name", "ending"), [("tiger", ".png"), ("railway", ".svg"), ("spectrum-access", ".pdf")]
)
def test_figures_are_written(
    name: str, ending: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / f"plan{ending}"
    code, out, _ = run("solve", name, *COARSE, "--json", "--figure", str(path), capsys=capsys)
    assert code == 0
    assert json.loads(out)["model"] == name
    assert path.read_bytes().startswith(_SIGNATURES[ending])
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("n_states", [1, 2, 3, 4])
def test_figures_with_hostile_names(n_states: int, tmp_path: Path) -> None:
    """No name is read as a formula, and none is left out of a legend."""
    model = hostile(n_states)
    found = plan(model, 1e-3)
    figure = plan_figure(found, model)
    for ending in _SIGNATURES:
        save_figure(figure, tmp_path / f"plan{ending}")
    left, right = figure.axes
    assert left.get_ylabel() == r"average cost [\$/day_\$ a step]"
    legend = right.get_legend()
    if n_states in (2, 3):
        assert legend is not None
        named = {text.get_text() for text in legend.get_texts()} - {"grid point"}
        assert named == set(map(style.plain_text, found.actions))
        assert "_hidden" in named


def test_names_in_figures() -> None:
    from matplotlib.text import Text

    for name in HOSTILE:
        shown = Text(0, 0, style.plain_text(name))._preprocess_math(style.plain_text(name))  # type: ignore[attr-defined]
        assert shown == (name.replace("\x1b", "\ufffd"), False)
    assert len(style.plain_text("x" * 1000)) < 40


def test_the_figure_says_what_the_plan_says() -> None:
    model = problem("tiger")
    found = plan(model, 1e-3)
    left, right = plan_figure(found, model).axes
    upper, lower = (np.asarray(line.get_ydata(), float) for line in left.get_lines())
    assert [lower[-1], upper[-1]] == pytest.approx([found.lower, found.upper])
    (curve,) = right.get_lines()
    for p, value in zip(*(np.asarray(data, float)[::50] for data in curve.get_data()), strict=True):
        assert value == pytest.approx(found.value([1 - p, p]), abs=1e-9)


def test_regions_of_the_triangle_have_the_shares() -> None:
    """Polygons cut exactly against counting on the grid."""
    found = plan(problem("machine-repair"), 1e-3)
    vectors = found.controller.vectors
    area = dict.fromkeys(range(4), 0.0)
    for node in np.unique(policy_words.best_nodes(vectors, policy_words.triangle_cells())):
        x, y = plan_figures.region(vectors[node], vectors).T[:2]
        area[int(found.controller.actions[node])] += abs(x @ np.roll(y, 1) - y @ np.roll(x, 1))
    for action, share in policy_words.action_shares(found).items():
        assert area[action] == pytest.approx(share, abs=0.01)


def test_a_plan_without_a_round_can_be_drawn(tiger_plan: Plan) -> None:
    from dataclasses import replace

    bare = replace(tiger_plan, rounds=())
    assert plan_figure(bare, problem("tiger")).axes
    assert plan_text.plan_document(bare, problem("tiger"), 1e-3)["seconds"] == 0.0


def test_more_actions_than_colours() -> None:
    styles = style.action_styles(range(20))
    assert len({(style["facecolor"], style.get("hatch")) for style in styles.values()}) == 20


def test_figures_leave_pyplot_alone() -> None:
    script = (
        "import sys\n"
        "from psrl_pomdp import plan, problem\n"
        "from psrl_pomdp.report import plan_figure\n"
        "model = problem('tiger')\n"
        "plan_figure(plan(model, 1e-2), model)\n"
        "assert 'matplotlib.figure' in sys.modules and 'matplotlib.pyplot' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_without_matplotlib(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(plan_figures, "find_spec", lambda _: None)
    monkeypatch.setattr(solve, "solve_and_show_progress", lambda *_: pytest.fail("planned all the same"))
    code, _, err = run("solve", "tiger", "--figure", "tiger.png", capsys=capsys)
    assert code == 1
    assert 'pip install "psrl-pomdp[report]"' in err


def test_the_endings_are_the_same_everywhere() -> None:
    assert solve.FIGURE_ENDINGS == plan_figures.ENDINGS


def test_discounted_totals_are_solved_saved_and_verified(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    saved = str(tmp_path / "tiger.npz")
    code, out, _ = run("solve", "tiger", "--discount", "0.95", "--save", saved, capsys=capsys)
    assert code == 0
    assert "reward, discount 0.95" in out
    assert "average" not in out
    code, out, _ = run("verify", saved, "tiger", "--json", capsys=capsys)
    found = json.loads(out)
    assert code == 0
    assert found["discount"] == 0.95
    assert found["lower"] <= 19.3713683559 <= found["upper"]
    text = "discount: 0.8\nvalues: cost\nstates: 2\nactions: 1\nobservations: 1\nstart: 1 0\n"
    text += "T: 0\n0 1\n0 1\nO: 0\n1\n1\nR: 0 : 1 : * : * 1\n"
    file = tmp_path / "one.pomdp"
    file.write_text(text)
    code, out, _ = run("solve", str(file), "--discount", "file", "--json", capsys=capsys)
    found = json.loads(out)
    assert code == 0
    assert found["discount"] == 0.8
    assert found["lower"] == pytest.approx(4.0, abs=1e-6)  # .8 + .8² + ...
    assert found["rounds"][-1]["upper"] == pytest.approx(4.0, abs=1e-6)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["tiger", "--discount", "file"], "states no discount"),
        (["tiger", "--discount", "1"], "not above 0 and below 1"),
        (["tiger", "--discount", "nan"], "not above 0 and below 1"),
        (["tiger", "--discount", "much"], "no number"),
    ],
)
def test_other_discounts_are_mistakes(
    words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = run("solve", *words, capsys=capsys)
    assert code == 2
    assert says in err
