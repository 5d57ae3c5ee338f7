"""The manual builds without a warning, needs nothing from elsewhere, and what it shows, runs."""

from __future__ import annotations

import json
import re
import runpy
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import click
import pytest

import psrl_pomdp

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.glob("*.md"))
BLOCKS = re.compile(r"^```(\w+)\n(.*?)^```", flags=re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the built pages; a warning is an error."""
    folder = tmp_path_factory.mktemp("docs")
    words = ["-W", "--keep-going", "-q", "-b", "html", "-d", str(folder / "trees"), str(DOCS)]
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", *words, str(folder / "html")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder / "html"


class _Fetched(HTMLParser):
    """What a browser fetches to show a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag in ("script", "img", "iframe", "source", "embed"):
            self.found.append(given.get("src") or "")
        if tag == "link" and given.get("rel") != "canonical":
            self.found.append(given.get("href") or "")


def test_pages_fetch_nothing_from_elsewhere(built: Path) -> None:
    pages = list(built.rglob("*.html"))
    assert len(pages) > 20
    for page in pages:
        reader = _Fetched()
        reader.feed(page.read_text(encoding="utf-8"))
        assert not [what for what in reader.found if re.match(r"(\w+:)?//", what)], page.name
    for sheet in built.rglob("*.css"):
        assert not re.search(r"(url\(|@import)\s*['\"]?(https?:)?//", sheet.read_text(encoding="utf-8")), (
            sheet
        )


def test_formulas_are_drawn_by_the_browser_alone(built: Path) -> None:
    text = (built / "algorithm.html").read_text(encoding="utf-8")
    assert text.count("<math") > 40
    assert not re.search(r"<script[^>]*mathjax", text, flags=re.IGNORECASE)
    assert "m̃" in text


def test_every_public_name_and_every_command_is_there(built: Path) -> None:
    api = "\n".join(page.read_text(encoding="utf-8") for page in (built / "api").glob("*.html"))
    assert [name for name in psrl_pomdp.__all__ if f'id="psrl_pomdp.{name}"' not in api] == []
    commands = (built / "commands.html").read_text(encoding="utf-8")
    for name in ("demo", "solve", "run", "compare", "sensitivity"):
        assert f"psrl-pomdp {name} --help" in commands


def test_docstrings_as_text_become_markup() -> None:
    script = (
        "import sys; sys.path.insert(0, sys.argv[1]); from plain_docstrings import rewritten;"
        "print('\\n'.join(rewritten(sys.argv[2:])))"
    )
    given = ["A `b` of |θ_k|₁, *not* θ*.", "", "    x = y_", "", "- one", "- **two**"]
    done = subprocess.run(
        [sys.executable, "-c", script, str(DOCS), *given], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == [
        "A ``b`` of \\|θ\\_k\\|₁, *not* θ\\*.", "", "::", "", "    x = y_", "", "", "- one", "", "- **two**",
    ]  # fmt: skip


def code_of(page: Path) -> str:
    """The Python blocks of a page, as one script."""
    return "\n".join(text for kind, text in BLOCKS.findall(page.read_text("utf-8")) if kind == "python")


PROGRAM = """
import json, sys
from contextlib import redirect_stdout
from io import StringIO

printed = {}
for name, code in json.load(sys.stdin).items():
    out = StringIO()
    with redirect_stdout(out):
        exec(compile(code, name, "exec"), {"__name__": name})
    printed[name] = out.getvalue()
print(json.dumps(printed))
"""


def test_blocks_run_and_print_what_they_say(tmp_path: Path) -> None:
    """One after the other; a comment after a `print` is what it prints, a block of text what a loop does.

    All pages in one process, which compiles once, each with names of its own.
    """
    codes = {page.name: code for page in PAGES if (code := code_of(page))}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        input=json.dumps(codes),
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    printed = json.loads(done.stdout)
    for name in codes:
        assert printed[name].splitlines() == promised(DOCS / name), name


def promised(page: Path) -> list[str]:
    """What the blocks of a page say that they print."""
    lines: list[str] = []
    for kind, text in BLOCKS.findall(page.read_text("utf-8")):
        if kind == "python":
            lines += re.findall(r"^ *print\(.*\)  +# (.*)$", text, flags=re.MULTILINE)
        elif kind == "text" and lines:
            lines += text.splitlines()
    return lines


def test_console_blocks_name_commands_that_are_there() -> None:
    """Long ones are not run; but their first words exist, and options are spelled as the help has them."""
    from psrl_pomdp.cli import cli

    found = 0
    for page in PAGES:
        for kind, text in BLOCKS.findall(page.read_text("utf-8")):
            for line in re.findall(r"^\$ .*$", text, flags=re.MULTILINE) if kind == "console" else ():
                program, *words = line.removeprefix("$ ").split()
                if program in ("pip", "curl", "echo"):
                    continue
                if program == "psrl-pomdp":
                    command = cli.commands.get(words[0]) or cli.get_command(None, words[0])  # type: ignore[arg-type]
                    if isinstance(command, click.Group):
                        command = command.commands.get(words[1])
                    assert command is not None, line
                    known = {name for option in command.params for name in option.opts}
                    assert {word for word in words if word.startswith("--")} <= known, line
                elif program.startswith("python"):
                    assert (ROOT / words[0]).exists(), line
                else:
                    pytest.fail(f"{page.name}: {line}")
                found += 1
    assert found > 5


def test_the_commands_behind_quoted_results_run(capsys: pytest.CaptureFixture[str]) -> None:
    """With short runs: what they read of results must still exist."""
    quoted = runpy.run_path(str(DOCS / "quoted.py"))
    quoted["blind"](1, times=(100, 1000), seeds=2)
    printed = capsys.readouterr().out
    assert re.search(r"^ +1000 +-?[0-9.]+  \[", printed, flags=re.MULTILINE)
    assert "learns the kernel: manufacture" in printed
    quoted["noise"](1, horizon=100, seeds=3)
    assert "control_variate" in capsys.readouterr().out


def test_quoted_results_are_there() -> None:
    """What pages include was made: `python docs/quoted.py all`."""
    for page in PAGES:
        for name in re.findall(r"^```\{include\} (quoted/\S+)$", page.read_text("utf-8"), flags=re.MULTILINE):
            assert len((DOCS / name).read_text("utf-8").splitlines()) > 2, name
