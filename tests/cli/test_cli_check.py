"""`check`, run as people run it: the assumptions of problems whose truth is known."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from commands import run
from psrl_pomdp import plan, problem, save
from psrl_pomdp.analysis.aspects import bellman_of

SHORT = ("--horizon", "200", "--seeds", "4")


def checked(*words: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, Any], dict[str, Any]]:
    """The exit code, the document, and its assumptions by number."""
    code, out, err = run("check", *words, *SHORT, "--json", capsys=capsys)
    assert err == ""
    document = json.loads(out, parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))
    return code, document, {each["name"].split()[0]: each for each in document["assumptions"]}


def test_the_separated_family_has_the_theorem(capsys: pytest.CaptureFixture[str]) -> None:
    code, document, found = checked("separated", capsys=capsys)
    assert code == 0
    assert [found[n]["verdict"] for n in "1234"] == ["holds"] * 4
    assert found["2"]["epsilon"] == pytest.approx(0.66704, abs=1e-4)
    finite = document["bounds"]["finite"]
    assert {finite[name]["basis"] for name in ("epsilon", "d", "alpha", "beta")} == {"computed"}
    assert finite["H"]["basis"] == document["bounds"]["general"]["K_1"]["basis"] == "estimated"
    assert document["conclusions"][0].startswith("the O(log T) theorem applies")
    code, out, _ = run("check", "separated", *SHORT, capsys=capsys)
    assert code == 0
    assert "assumption 2 separation" in out
    assert "holds: ε ≥ 0.667 nats" in out
    assert "What follows" in out
    assert "span H" in out


def test_two_rooms(capsys: pytest.CaptureFixture[str]) -> None:
    code, document, found = checked("two-rooms", capsys=capsys)
    assert code == 3
    assert found["1"]["verdict"] == "fails"
    assert "0.2 from good-room, 0.8 from bad-room" in found["1"]["words"]
    assert found["1"]["weakly_communicating_from_start"] is False
    assert "no theorem of the paper applies" in document["conclusions"][0]
    assert "general" not in document["bounds"]


def test_blind_cycle(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, found = checked("blind-cycle", capsys=capsys)
    assert code == 3
    assert found["1"]["verdict"] == "fails"
    assert "0.2 from phase-one, 0.35 from the start" in found["1"]["words"]
    assert "not sufficient if states are hidden" in found["1"]["words"]
    assert found["3"]["verdict"] == found["4"]["verdict"] == "seems to fail"
    assert found["sensor"]["verdict"] == "fails"


def test_lookalikes(capsys: pytest.CaptureFixture[str]) -> None:
    code, document, found = checked("lookalikes", capsys=capsys)
    assert code == 3
    assert found["2"]["verdict"] == "fails"
    (pair,) = document["confusions"]
    assert pair["kernels"] == [0, 1]
    assert pair["never_told_apart"] is True
    assert pair["harmless"] is False
    assert document["bounds"]["finite"]["d"]["value"] < 10.0
    assert document["bounds"]["finite"]["stated"] == ["inf"] * 3
    assert any("regret is linear" in line for line in document["conclusions"])
    code, out, _ = run("check", "lookalikes", *SHORT, capsys=capsys)
    assert code == 3
    assert "Kernels without a margin" in out
    assert "no policy distinguishes kernels 0 and 1" in out.replace("\n", " ").replace("  ", " ")


def test_no_sensor(capsys: pytest.CaptureFixture[str]) -> None:
    for prior in ("finite", "dirichlet"):
        code, document, found = checked("no-sensor", "--prior", prior, capsys=capsys)
        assert code == 3
        assert found["1"]["verdict"] == "holds"
        assert found["4"]["verdict"] in (
            ("open", "seems to fail") if prior == "finite" else ("seems to fail",)
        )
        assert found["2"]["verdict"] == ("fails" if prior == "finite" else "open")
        assert "estimated" in found["3"]["words"]
    assert "the O(T^2/3) theorem may not apply" in document["conclusions"][0]


def test_pairs_and_actions_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    code, document, found = checked("river-swim-observed", capsys=capsys)
    assert code == 3
    words = [each["words"] for each in document["confusions"]]
    assert any("left alone cannot distinguish kernels 0 and 1" in text for text in words)
    assert any("harmless" in text for text in words)
    assert found["3"]["words"] == "the belief is the state, whatever the kernel"


def test_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mine.pomdp"
    save(problem("railway"), path)
    code, document, found = checked(str(path), capsys=capsys)
    assert code in (0, 3)
    assert "Dirichlet(1) on the transitions that the file makes possible" in document["prior"]
    assert found["1"]["verdict"] == "seems to hold"
    code, _, err = run("check", str(path), "--prior", "finite", capsys=capsys)
    assert code == 2
    assert "no finite prior" in err


def test_an_open_gap_is_open() -> None:
    model = problem("railway")
    found = bellman_of(model, plan(model, 1e-4, max_work=1.0))
    assert found.verdict == "open"
    assert "plans from single states do not refute one J" in found.message
    assert set(found.numbers["bounds"]) == {"from the start", *(f"from {s}" for s in model.setting.states)}


def test_mistakes(capsys: pytest.CaptureFixture[str]) -> None:
    for words, code, message in (
        (("check", "separatd"), 1, "did you mean 'separated'?"),
        (("check", "tiger", "--prior", "normal"), 2, "'normal' is not among the priors"),
        (("check", "tiger", "--horizon", "0"), 2, "0 is not in the range"),
        (("check", "two-rooms", "--prior", "finite"), 2, "no finite prior"),
    ):
        found, _, err = run(*words, capsys=capsys)
        assert found == code
        assert message in err


def test_a_prior_of_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A class, and a function that returns a mixture; a mistake is one line that names the method."""
    (tmp_path / "own_wear_check.py").write_text(
        "import numpy as np\n"
        "from own_priors import PUMP, WearPrior\n"
        "from psrl_pomdp import POMDP, DirichletPrior, MixturePrior\n"
        "def pump():\n"
        "    return POMDP(PUMP, WearPrior().kernels(np.array([[0.04, 0.1]]))[0], name='pump')\n"
        "def mixed(model):\n"
        "    rows = DirichletPrior(model.setting, np.ones(model.transition.shape))\n"
        "    return MixturePrior([(0.5, WearPrior(model.setting)), (0.5, rows)])\n"
        "class Broken(WearPrior):\n"
        "    def kernels(self, parameters):\n"
        "        return parameters.missing\n"
    )
    monkeypatch.chdir(tmp_path)
    for path, shown in (("own_priors:WearPrior", "WearPrior("), ("own_wear_check:mixed", "MixturePrior(0.5")):
        code, document, found = checked("own_wear_check:pump", "--prior", path, capsys=capsys)
        assert code in (0, 3)
        assert document["prior"].startswith(f"{path}: {shown}")
        assert {"1", "3", "4"} <= set(found)
    code, _, err = run("check", "own_wear_check:pump", "--prior", "own_wear_check:Broken", capsys=capsys)
    assert code == 1
    assert err.strip().endswith(
        "Broken.kernels raised AttributeError: 'numpy.ndarray' object has no attribute 'missing'"
    )
    assert "Traceback" not in err


def test_help_imports_nothing_heavy() -> None:
    script = (
        "import sys\n"
        "from psrl_pomdp.cli import main\n"
        "try: main(['check', '--help'])\n"
        "except SystemExit as stop: assert not stop.code\n"
        "heavy = {'numpy', 'scipy', 'numba', 'rich'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Exit codes" in done.stdout


def test_actions_that_give_no_reading_leave_the_general_theorem_open(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """On machine-repair only one action is read after, and short runs seem well: the verdict must not be."""
    code, out, _ = run("check", "machine-repair", "--prior", "dirichlet", "--json", capsys=capsys)
    document = json.loads(out)
    verdicts = {aspect["name"]: aspect for aspect in document["assumptions"]}
    found = {verdicts[name]["verdict"] for name in ("3 belief", "4 kernel")}
    assert found <= {"open", "seems to fail"}
    assert code == (3 if "seems to fail" in found else 0)
    follows = document["conclusions"][0]
    assert "which is open" in follows or "may not apply" in follows
