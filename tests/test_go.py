"""go.py, the bootstrap: what it decides, on a pretend machine; nothing is installed here."""

import ast
import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

GO = Path(__file__).parent.parent / "go.py"
THIS = "{}.{}.{}".format(*sys.version_info[:3])

NO_ENSUREPIP = r"-m venv --clear (?!--without-pip)|-m ensurepip"
NO_PIP_INSIDE = r"\.venv\S+ -m pip"
NO_UV_TO_FETCH = r"install --only-binary=:all: uv$"
UV_FAILS = r"uv\S* pip install"
UV_INSTALLS = "uv pip install --compile-bytecode --python python"
PYPROJECT = """\
[project]
optional-dependencies.report = ["plotly>=5"]

[dependency-groups]
manual = ["sphinx>=8", "plotly>=5"]
test = ["pytest>=8", { include-group = "manual" }, "sphinx>=8"]
"""


class Machine:
    """A pretend machine: commands that match `broken` fail, all others work; `ran` lists them all."""

    def __init__(self, go: ModuleType) -> None:
        self.go = go
        self.broken: list[str] = []
        self.says = "it broke"
        self.ran: list[str] = []

    def run(self, command: tuple[str, ...], **_: Any) -> subprocess.CompletedProcess[str]:
        line = " ".join(command)
        self.ran.append(line)
        if any(re.search(pattern, line) for pattern in self.broken):
            return subprocess.CompletedProcess(command, 1, stdout=self.says)
        if "-m venv" in line:
            make_venv(self.go)
        if " -e " in line:
            Path(self.go.program("psrl-pomdp")).touch()
        return subprocess.CompletedProcess(command, 0, stdout=THIS + "\n")

    def installs(self) -> list[str]:
        """Who installed what: the installing commands, with paths cut down to their last name."""
        return [re.sub(r"\S*/", "", line) for line in self.ran if " install " in line]


def make_venv(go: ModuleType) -> None:
    Path(go.program("python")).parent.mkdir(parents=True, exist_ok=True)
    (go.VENV / "pyvenv.cfg").touch()


@pytest.fixture
def go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """go.py, as if it lay in an otherwise almost empty folder."""
    spec = importlib.util.spec_from_file_location("go", GO)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(module, "VENV", tmp_path / ".venv")
    (tmp_path / "pyproject.toml").write_text(PYPROJECT)
    (tmp_path / "constraints.txt").write_text("numpy==2.0.0\n")
    return module


@pytest.fixture
def machine(go: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Machine:
    machine = Machine(go)
    monkeypatch.setattr(go.subprocess, "run", machine.run)
    monkeypatch.setattr(go.shutil, "which", lambda name: None)
    monkeypatch.setattr(go.sys, "executable", "/usr/bin/python3")
    return machine


# What go.py promises about itself


def test_an_old_python_can_parse_it() -> None:
    ast.parse(GO.read_text(encoding="utf-8"), feature_version=(3, 6))


def test_it_needs_only_the_standard_library_and_names_no_host() -> None:
    text = GO.read_text(encoding="utf-8")
    imported = re.findall(r"^(?:import|from) (\w+)", text, re.MULTILINE)
    assert set(imported) <= sys.stdlib_module_names
    assert "://" not in text


def test_an_old_python_is_told_what_to_do(go: ModuleType) -> None:
    assert go.too_old((3, 9, 2), "/usr/bin/python3", []) == (
        "psrl-pomdp needs Python 3.11 or later; this is 3.9.2 at /usr/bin/python3. "
        "Install a newer Python and run: python3.12 go.py demo"
    )
    assert go.too_old((3, 10, 9), "python3", ["test", "-x"]).endswith("python3.12 go.py test -x")


@pytest.mark.parametrize("version", [(3, 11, 0), (3, 14, 1), (4, 0, 0)])
def test_a_new_python_is_told_nothing(go: ModuleType, version: tuple[int, ...]) -> None:
    assert go.too_old(version, "python3", []) == ""


# The command line


@pytest.mark.parametrize("argv", [[], ["--help"], ["-h"], ["help"]])
def test_help_names_every_command(
    go: ModuleType, argv: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert go.main(argv) == 0
    output = capsys.readouterr().out
    assert all(f"go.py {command}" in output for command in go.COMMANDS)


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["tset"], "unknown command 'tset' (did you mean 'test'?); there are demo, test, setup"),
        (["--quick"], "unknown command '--quick'; there are demo, test, setup"),
        (["setup", "ray"], "setup takes no arguments, got 'ray'"),
    ],
)
def test_a_wrong_command_line_runs_nothing(
    go: ModuleType, machine: Machine, argv: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert go.main(argv) == 2
    assert capsys.readouterr().err == f"go.py: {message}\n"
    assert machine.ran == []


# The stamp


@pytest.mark.parametrize("name", ["pyproject.toml", "constraints.txt"])
def test_the_stamp_changes_with_the_files(go: ModuleType, name: str) -> None:
    before = go.stamp(THIS, "report")
    assert go.stamp(THIS, "report") == before
    (go.ROOT / name).write_text("another = true\n")
    changed = go.stamp(THIS, "report")
    (go.ROOT / name).unlink()
    assert len({before, changed, go.stamp(THIS, "report")}) == 3


def test_the_stamp_changes_with_requirements_python_and_folder(
    go: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    stamps = {go.stamp("3.11.2", "report"), go.stamp("3.11.3", "report"), go.stamp("3.11.2", "test")}
    moved = go.ROOT.rename(go.ROOT.with_name("moved"))
    monkeypatch.setattr(go, "ROOT", moved)
    assert len(stamps | {go.stamp("3.11.2", "report")}) == 4


@pytest.mark.parametrize(
    ("installed", "wanted", "enough"),
    [("report", "report", True), ("test", "test", True), ("test", "report", True), ("report", "test", False)],
)
def test_the_test_tools_serve_the_demo_but_not_the_reverse(
    go: ModuleType, machine: Machine, installed: str, wanted: str, enough: bool
) -> None:
    go.ready(installed)
    assert go.satisfied(THIS, wanted) is enough


def test_the_second_call_installs_nothing(go: ModuleType, machine: Machine) -> None:
    assert go.main(["setup"]) == 0
    machine.ran.clear()
    assert go.main(["setup"]) == 0
    assert len(machine.ran) == 1  # it asks .venv's Python for its version


@pytest.mark.parametrize("lost", ["pyproject", "program"])
def test_a_changed_project_or_a_lost_program_installs_again(
    go: ModuleType, machine: Machine, lost: str
) -> None:
    go.ready("report")
    if lost == "program":
        Path(go.program("psrl-pomdp")).unlink()
    else:
        (go.ROOT / "pyproject.toml").write_text(PYPROJECT + "# changed\n")
    machine.ran.clear()
    go.ready("report")
    assert machine.installs()[-1] == f"{UV_INSTALLS} -c constraints.txt -e . plotly>=5"
    assert go.satisfied(THIS, "report")


# What pyproject.toml lists


def test_groups_are_read_with_the_groups_that_they_include(go: ModuleType) -> None:
    assert go.requirements("test") == ["pytest>=8", "sphinx>=8", "plotly>=5"]
    assert go.requirements("report") == ["plotly>=5"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[project", "pyproject.toml cannot be read"),
        ("[project]\n", "pyproject.toml has neither an extra nor a dependency group 'test'."),
    ],
)
def test_a_pyproject_without_the_group_is_an_error(
    go: ModuleType, machine: Machine, text: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (go.ROOT / "pyproject.toml").write_text(text)
    assert go.main(["test"]) == 1
    assert message in capsys.readouterr().err
    assert not any(" -e " in line for line in machine.ran)


def test_the_project_lists_what_every_command_and_every_check_needs(
    go: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(go, "ROOT", GO.parent)
    assert all(go.requirements(name) for name in go.COMMANDS.values())
    listed = {re.split(r"[<>=\[; ]", line)[0] for line in go.requirements("test")}
    assert {words[0] for words in go.CHECKS} - {"lint-imports"} <= listed
    assert {"import-linter", "hatchling"} <= listed
    assert set(go.requirements("test")) | set(go.requirements("docs")) <= set(go.requirements("dev"))
    # The .venv of the tests serves the demo too.
    assert set(go.requirements("report")) <= set(go.requirements("test"))


# .venv


def test_venv_version_is_empty_where_no_python_runs(go: ModuleType) -> None:
    assert go.venv_version() == ""  # no .venv at all
    make_venv(go)
    assert go.venv_version() == ""  # no Python in it
    python = Path(go.program("python"))
    python.write_text("#!/nowhere/python\n")
    python.chmod(0o755)
    assert go.venv_version() == ""  # a Python that does not start
    python.unlink()
    python.symlink_to(sys.executable)
    assert go.venv_version() == THIS
    (go.VENV / "pyvenv.cfg").unlink()
    assert go.venv_version() == ""  # a Python that is not .venv's own


@pytest.mark.parametrize(
    ("found", "remade"), [(THIS, False), ("", True), ("3.6.15", True), (f"{sys.version_info[0]}.1", True)]
)
def test_a_broken_or_foreign_venv_is_made_again(
    go: ModuleType, machine: Machine, monkeypatch: pytest.MonkeyPatch, found: str, remade: bool
) -> None:
    make_venv(go)
    answers = iter([found, THIS])
    monkeypatch.setattr(go, "venv_version", lambda: next(answers))
    assert go.make_venv() == THIS
    assert any("-m venv --clear" in line for line in machine.ran) is remade


def test_windows_keeps_programs_elsewhere(go: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(go, "WINDOWS", True)
    assert go.program("python") == str(go.VENV / "Scripts" / "python.exe")


# The ladder of installers

FETCH_UV = "install --only-binary=:all: uv"
PROJECT = "-c constraints.txt -e . pytest>=8 sphinx>=8 plotly>=5"
OUTER = "python3 -m pip --python python"  # this Python's pip, from outside of .venv


@pytest.mark.parametrize(
    ("broken", "installs"),
    [
        ([], [f"python -m pip {FETCH_UV}", f"{UV_INSTALLS} {PROJECT}"]),
        (
            [NO_UV_TO_FETCH],
            [f"python -m pip {FETCH_UV}", f"python -m pip install {PROJECT}"],
        ),
        (
            [UV_FAILS],
            [
                f"python -m pip {FETCH_UV}",
                f"{UV_INSTALLS} {PROJECT}",
                f"python -m pip install {PROJECT}",
            ],
        ),
        (
            [NO_ENSUREPIP, NO_PIP_INSIDE],
            [f"{OUTER} {FETCH_UV}", f"{UV_INSTALLS} {PROJECT}"],
        ),
        (
            [NO_ENSUREPIP, NO_PIP_INSIDE, NO_UV_TO_FETCH],
            [f"{OUTER} {FETCH_UV}", f"{OUTER} install {PROJECT}"],
        ),
    ],
)
def test_each_rung_of_the_ladder(
    go: ModuleType, machine: Machine, broken: list[str], installs: list[str]
) -> None:
    machine.broken = broken
    assert go.main(["setup"]) == 0
    assert machine.installs() == installs
    assert any("--without-pip" in line for line in machine.ran) is (NO_ENSUREPIP in broken)
    assert go.satisfied(THIS, "test")


def test_a_uv_on_the_path_is_used_without_pip(
    go: ModuleType, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(go.shutil, "which", lambda name: "/opt/uv" if name == "uv" else None)
    machine.broken = ["-m pip"]
    assert go.main(["setup"]) == 0
    assert machine.installs() == [f"{UV_INSTALLS} {PROJECT}"]


def test_uv_is_given_the_index_that_pip_was_given(go: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "file:///mirror")
    monkeypatch.delenv("UV_DEFAULT_INDEX", raising=False)
    assert go.installer_environment()["UV_DEFAULT_INDEX"] == "file:///mirror"
    monkeypatch.setenv("UV_DEFAULT_INDEX", "file:///mine")
    assert go.installer_environment()["UV_DEFAULT_INDEX"] == "file:///mine"


# Failures


@pytest.mark.parametrize(
    ("broken", "says", "advice"),
    [
        ("-m venv", "ensurepip is not available", "sudo apt install python3-venv python3-pip"),
        ("-m venv", "[Errno 13] Permission denied: '.venv'", "must be writable"),
        ("-m venv", "Unable to create directory", "Delete .venv"),
        ("-m pip", "/usr/bin/python3: No module named pip", "sudo apt install python3-venv python3-pip"),
        ("-m pip", "no such option: --python", "pip 22.3 or later"),
        (" install ", "Failed to establish a new connection", "PIP_INDEX_URL"),
        (" install ", "[Errno 28] No space left on device", "disk is full"),
    ],
)
def test_a_failure_shows_its_output_and_says_what_to_do(
    go: ModuleType,
    machine: Machine,
    broken: str,
    says: str,
    advice: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    machine.broken, machine.says = [broken], says
    assert go.main(["demo", "--seed", "1"]) == 1
    error = capsys.readouterr().err
    assert f"    {says}\n" in error
    assert advice in error
    assert error.endswith("Then run again: python3 go.py demo --seed 1\n")
    assert not (go.VENV / ".go-stamp").exists()


def test_without_a_project_it_says_so(go: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    (go.ROOT / "pyproject.toml").unlink()
    assert go.main(["demo"]) == 1
    assert "There is no pyproject.toml" in capsys.readouterr().err


@pytest.mark.parametrize("moment", ["-m venv", " -e "])
def test_ctrl_c_ends_quietly_and_the_next_call_completes(
    go: ModuleType,
    machine: Machine,
    monkeypatch: pytest.MonkeyPatch,
    moment: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def interrupted(command: tuple[str, ...], **_: Any) -> subprocess.CompletedProcess[str]:
        done = machine.run(command)
        if moment in " ".join(command):
            raise KeyboardInterrupt
        return done

    if moment == " -e ":
        go.ready("report")  # an older installation, whose stamp must not outlive the interrupted one
    with monkeypatch.context() as patch:
        patch.setattr(go.subprocess, "run", interrupted)
        assert go.main(["test"]) == 130
    assert capsys.readouterr().err == "\nStopped.\n"
    assert not (go.VENV / ".go-stamp").exists()
    assert go.main(["setup"]) == 0
    assert go.satisfied(THIS, "test")


def test_a_venv_without_pip_is_given_one(go: ModuleType, machine: Machine) -> None:
    machine.broken = [NO_PIP_INSIDE + " --version"]  # as after Ctrl-C between Python and its pip
    assert go.main(["setup"]) == 0
    assert any("-m ensurepip" in line for line in machine.ran)
    assert machine.installs()[0] == f"python -m pip {FETCH_UV}"


# Running


def test_the_exit_code_is_passed_on(go: ModuleType) -> None:
    assert go.run(sys.executable, "-I", "-S", "-c", "raise SystemExit(3)") == 3


@pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX's")
def test_death_by_a_signal_is_an_exit_code(go: ModuleType) -> None:
    assert go.run(sys.executable, "-I", "-S", "-c", "import os; os.kill(os.getpid(), 15)") == 128 + 15


def test_the_demo_gets_its_arguments(
    go: ModuleType, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(go, "run", lambda *command: command)
    assert go.go("demo", ["--seed", "1"]) == (go.program("psrl-pomdp"), "demo", "--seed", "1")


@pytest.mark.parametrize(
    ("codes", "result", "last"),
    [
        ([0, 0, 0, 0, 0], 0, "All 5 checks passed in 0 s."),
        ([0, 0, 7], 7, "Failed: mypy (exit code 7), check 3 of 5."),
    ],
)
def test_the_checks_stop_at_the_first_that_fails(
    go: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    codes: list[int],
    result: int,
    last: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    answers = iter(codes)
    monkeypatch.setattr(go, "run", lambda *command, cwd: next(answers))
    assert go.check(["-k", "filter"]) == result
    shown = [
        "$ ruff check .",
        "$ ruff format --check .",
        "$ mypy",
        "$ lint-imports",
        "$ pytest -n auto --dist worksteal -k filter",
    ]
    assert capsys.readouterr().out.splitlines() == [*shown[: len(codes)], last]
