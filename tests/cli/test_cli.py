"""The command line, run as people run it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import pytest

from commands import run
from psrl_pomdp import problem, save
from psrl_pomdp.cli.common import find_model


def test_help_imports_neither_scipy_nor_numba() -> None:
    script = (
        "import sys\n"
        "from psrl_pomdp.cli import main\n"
        "try: main(sys.argv[1:])\n"
        "except SystemExit as stop: assert not stop.code\n"
        "heavy = {'numpy', 'scipy', 'numba', 'rich'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    for words in (["--help"], ["show", "--help"], ["problems", "-h"], ["demo", "--help"], ["--version"]):
        done = subprocess.run(
            [sys.executable, "-c", script, *words], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert "psrl-pomdp" in done.stdout


def test_problems(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run("problems", capsys=capsys)
    assert code == 0
    assert "machine-repair" in out
    code, out, _ = run("problems", "--json", capsys=capsys)
    rows = {row["name"]: row for row in json.loads(out)}
    assert rows["tiger"]["states"] == 2
    assert rows["tiger"]["parameters"]["accuracy"] == 0.85


def test_show_a_problem(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run("show", "tiger", "-p", "accuracy=0.9", capsys=capsys)
    assert code == 0
    assert "accuracy=0.9" in out
    code, out, _ = run("show", "two-rooms", "--json", capsys=capsys)
    shown = json.loads(out)
    assert shown["structure"]["weakly_communicating"] is False
    assert shown["findings"][0]["level"] == "doubtful"


@pytest.mark.parametrize("ending", [".pomdp", ".json", ".npz"])
def test_show_a_file(ending: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / f"mine{ending}"
    save(problem("railway"), path)
    code, out, _ = run("show", str(path), capsys=capsys)
    assert code == 0
    assert "do-nothing" in out
    assert "10 to 1000 euro" in out


def test_hostile_names_are_only_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "hostile.pomdp"
    path.write_text(
        "states: [bold]x[/bold] [/nope] actions: 1 observations: 1 T: 0 uniform O: 0 uniform R: 0:0:*:* 1"
    )
    code, out, _ = run("show", str(path), capsys=capsys)
    assert code == 0
    assert "[bold]x[/bold], [/nope]" in out


def test_control_characters_are_not_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "escape.pomdp"
    path.write_text("states: a\x1b[2Jb c actions: 1 observations: 1 T: 0 uniform O: 0 uniform R: 0:0:*:* 1")
    code, out, _ = run("show", str(path), capsys=capsys)
    assert code == 0
    assert "\x1b" not in out
    assert "a\ufffd[2Jb" in out


@pytest.mark.parametrize("columns", ["20", "40", "79", "200"])
def test_narrow_terminals(columns: str, capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert "machine-repair" in run("problems", capsys=capsys)[1]
    _, out, _ = run("show", "tiger", capsys=capsys)
    assert "tiger-left" in out.replace("\n", "")


def test_output_that_cannot_say_epsilon() -> None:
    script = "from psrl_pomdp.cli import main; main(['show', 'lookalikes'])"
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        check=False,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )
    assert done.returncode == 0, done.stderr


def test_a_folder_does_not_hide_a_problem(tmp_path: Path, monkeypatch: Any) -> None:
    (tmp_path / "tiger").mkdir()
    monkeypatch.chdir(tmp_path)
    assert find_model("tiger").name == "tiger"


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("show", "tigre"), 1, "did you mean 'tiger'?"),
        (("show", "absent.pomdp"), 1, "absent.pomdp: no such file"),
        (("show", "tiger", "-p", "accuracy"), 2, "wanted NAME=VALUE"),
        (("show", "tiger", "-p", "accuracy=high"), 2, "'high' is neither number"),
        (("show", "tiger", "-p", "accuracy=7"), 1, "parameter accuracy is 7"),
        (("shwo", "tiger"), 2, "did you mean 'show'?"),
        (("show",), 2, "Missing argument"),
        (("show", "tiger", "--jsn"), 2, "No such option"),
    ],
)
def test_mistakes(
    arguments: tuple[str, ...], code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found, _, err = run(*arguments, capsys=capsys)
    assert found == code
    assert message in err
    assert "Traceback" not in err


def test_debug_shows_where(capsys: pytest.CaptureFixture[str]) -> None:
    _, _, err = run("--debug", "show", "tigre", capsys=capsys)
    assert "Traceback" in err


def test_a_malformed_file_is_refused_with_its_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "bad.pomdp"
    path.write_text("values: rewards\nstates: 1 actions: 1 observations: 1")
    code, _, err = run("show", str(path), capsys=capsys)
    assert code == 1
    assert err.startswith("psrl-pomdp: bad.pomdp:1: values: 'rewards'")


def test_demo_learns(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    small = ["demo", "--horizon", "300", "--seeds", "2", "--workers", "1", "--out", str(tmp_path / "demo")]
    code, out, _ = run(*small, "--json", capsys=capsys)
    result = json.loads(out)
    assert code == 0
    rows = {row["agent"]: row for row in result["agents"]}
    assert list(rows) == ["calendar", "knows-the-wear", "4-candidates", "from-nothing"]
    regrets = {name: row["regret"] for name, row in rows.items()}
    assert regrets["knows-the-wear"] < regrets["4-candidates"] < regrets["from-nothing"]
    assert rows["calendar"]["saved"] is None
    for name, row in rows.items():
        assert row["paid"] == pytest.approx(300 * row["average"])
        if name != "calendar":  # J cancels: what is saved is the difference of the regrets
            assert row["saved"]["mean"] == pytest.approx(regrets["calendar"] - regrets[name], abs=1e-6)
            assert row["saved_share"] == pytest.approx(row["saved"]["mean"] / rows["calendar"]["paid"])
    assert result["unit"] == "euro"
    assert result["best_average"] == pytest.approx([71.81, 71.81], abs=0.01)
    assert result["bound"] is None  # some reading is impossible under a candidate, so that beta is 0
    assert "gives no bound here" in result["no_bound"]
    assert set(result["files"]) >= {"runs.csv", "episodes.csv", "regret.svg", "regret.pdf"}
    assert all((tmp_path / "demo" / name).stat().st_size > 0 for name in result["files"])
    code, out, _ = run(*small, capsys=capsys)  # once more: nothing is left to run
    assert code == 0
    assert_demo_reads_well(out, result)


def assert_demo_reads_well(out: str, result: dict[str, Any]) -> None:
    """The same numbers as with --json, in 80 columns, with a line for each maintainer."""
    lines = out.splitlines()
    assert all(len(line) <= 80 for line in lines if result["folder"] not in line)
    assert not re.search(r"\de[+-]\d|inf|nan|bound", out)
    assert "repairs at every 4th inspection" in out
    assert "which of 4 ways to wear" in out
    assert " in 300 inspections, euro " in out
    for row in result["agents"]:
        [line] = [text for text in lines if text.startswith(f"  {row['agent']} ") and "±" in text]
        average, *_ = line.split()[1:]
        assert average == f"{row['average']:.1f}"
        low, high = row["interval"]
        assert (low <= 0.0 <= high) == ("about 0" in line)
        assert line.endswith(f"± {0.5 * (high - low):>6,.0f}")
        if row["saved"]:
            assert f"{row['saved']['mean']:,.0f} ±" in line
            assert f"{100 * row['saved_share']:.0f} %" in line
    below = any(row["interval"][1] < 0.0 for row in result["agents"])
    assert below == ("the track starts in good condition" in out)


def test_demo_shows_every_row_as_soon_as_its_runs_are_finished(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen from inside of the runner: what had been printed when a job was begun."""
    from concurrent.futures import Future, ProcessPoolExecutor

    from psrl_pomdp.studies import runner

    printed: list[tuple[str, str]] = []
    text = ""

    class Here(ProcessPoolExecutor):
        def submit(self, fn: Any, /, *args: Any, **more: Any) -> Future[Any]:
            nonlocal text
            text += capsys.readouterr().out
            printed.append((args[1].agent, text))
            done: Future[Any] = Future()
            done.set_result(fn(*args, **more))
            return done

    @contextmanager
    def engine(name: str, workers: int | None) -> Iterator[Here]:
        yield Here(1)

    monkeypatch.setattr(runner, "engine", engine)
    monkeypatch.setattr(runner, "_AT_ONCE", 1)
    words = ("demo", "--horizon", "50", "--seeds", "2", "--workers", "1", "--out", str(tmp_path / "demo"))
    assert run(*words, capsys=capsys)[0] == 0
    names = ["calendar", "knows-the-wear", "4-candidates", "from-nothing"]
    assert [agent for agent, _ in printed] == [name for name in names for _ in range(2)]
    assert "repairs at every 4th inspection" in printed[0][1]  # before anything was run
    for i, (_, shown) in enumerate(printed):
        rows = [line.split()[0] for line in shown.splitlines() if "±" in line]
        assert rows == names[: i // 2]


def test_progress_is_told_now_and_then_where_nobody_watches(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from psrl_pomdp.cli import study_display

    words = ("run", "tiger", "--horizon", "20", "--seeds", "3", "--workers", "1", "--agents", "random")
    monkeypatch.setattr(study_display, "_EVERY", 0.0)
    code, out, err = run(*words, "--out", str(tmp_path / "told"), capsys=capsys)
    assert code == 0
    assert "of 3 runs" in err
    assert "of 3 runs" not in out
    monkeypatch.setattr(study_display, "_EVERY", 1e9)
    assert run(*words, "--out", str(tmp_path / "untold"), capsys=capsys)[2] == ""
    monkeypatch.setattr(study_display, "_EVERY", 0.0)
    assert run(*words, "--quiet", "--out", str(tmp_path / "quiet"), capsys=capsys)[2] == ""


def test_quiet_prints_errors_and_json_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("problems", "--quiet", capsys=capsys) == (0, "", "")
    code, out, _ = run("--quiet", "problems", "--json", capsys=capsys)
    assert code == 0
    assert json.loads(out)
    code, out, err = run("show", "--quiet", "tigr", capsys=capsys)
    assert (code, out) == (1, "")
    assert "did you mean 'tiger'" in err
    code, out, _ = run("problems", capsys=capsys)
    assert "tiger" in out  # one quiet command does not silence the next


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_complete_commands_and_problems(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run("completion", shell, capsys=capsys)
    assert code == 0
    assert "_PSRL_POMDP_COMPLETE" in out


def test_what_a_shell_is_told() -> None:
    def completed(words: str, number: int) -> str:
        asked = {"_PSRL_POMDP_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(number)}
        done = subprocess.run(
            [sys.executable, "-c", "from psrl_pomdp.cli import main; main([])"],
            env=os.environ | asked, capture_output=True, text=True, check=False,
        )  # fmt: skip
        return done.stdout

    assert "plain,compare" in completed("psrl-pomdp co", 1)
    assert "plain,river-swim-observed" in completed("psrl-pomdp solve riv", 2)
    assert "--horizon" in completed("psrl-pomdp run --hor", 2)


@pytest.mark.parametrize(
    "words", [("show", "nowhere.pomdp"), ("verify", "nowhere.npz", "tiger"), ("run", "nowhere.toml")]
)
def test_a_missing_file_is_told_without_a_number(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(*words, capsys=capsys)
    assert (code, out) == (1, "")
    assert "nowhere" in err
    assert "no such file or directory" in err.lower()
    assert "Errno" not in err


def help_pages() -> dict[str, str]:
    """The help of the program, under an empty name, and of each command."""
    from click import Context

    from psrl_pomdp.cli import cli

    top = Context(cli, info_name="psrl-pomdp")
    pages = {"": cli.get_help(top)}
    for name in cli.list_commands(top):
        found = cli.get_command(top, name)
        assert found is not None
        pages[name] = found.get_help(Context(found, parent=top, info_name=name, terminal_width=80))
    return pages


def test_every_help_fits_into_eighty_columns() -> None:
    long = [line for page in help_pages().values() for line in page.splitlines() if len(line) > 80]
    assert not long


def test_every_help_ends_with_examples_whose_options_exist() -> None:
    from psrl_pomdp.cli import cli

    pages = help_pages()
    assert len(pages) > 12
    for name, page in pages.items():
        if not name:
            continue
        _, heading, block = page.rpartition("\n  Examples:\n")
        assert heading, name
        examples = [line.split() for line in block.splitlines()]
        assert any(words[:2] == ["psrl-pomdp", name] for words in examples)
        for program, command, *words in examples:
            assert program == "psrl-pomdp"
            found = cli.get_command(None, command)  # type: ignore[arg-type]
            assert found is not None
            if isinstance(found, click.Group):
                found = found.commands[words[0]]
            known = {option for parameter in found.params for option in parameter.opts}
            assert {word for word in words if word.startswith("-")} <= known


def test_every_help_says_the_default_of_each_option() -> None:
    """Flags are off; `--help` and `--version` have none, and what is required says so."""
    import re

    checked = 0
    for name, page in help_pages().items():
        options = page.partition("\nOptions:\n")[2].partition("\n\n")[0]
        for option in re.split(r"\n  (?=-)", "\n" + options)[1:]:
            takes_a_value = re.match(r"(-\w, )?--[\w-]+ [A-Z\[]", option)
            checked += takes_a_value is not None
            assert not takes_a_value or re.search(r"\[(default:|required\])", option), (
                name,
                option,
            )
    assert checked > 40


def test_no_help_uses_words_of_the_source_code() -> None:
    import re

    private = (
        r"\b(told|kept|doubt(ful)?|words|jobs?|bare|effort|readings?|worlds?|learners?|families|family)\b"
    )
    for name, page in help_pages().items():
        text = re.sub(r"psrl-family|--reading|\[default: reading\]", "", page)  # names that users write
        assert not re.search(private, text, re.IGNORECASE), name
