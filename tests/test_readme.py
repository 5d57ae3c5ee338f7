"""What the README shows, runs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", README, flags=re.DOTALL)


def test_python_blocks_run_and_print_what_they_say(tmp_path: Path) -> None:
    """One after the other, as they are read; a comment after a `print` is what it prints."""
    code = "\n".join(text for language, text in BLOCKS if language == "python")
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    promised = re.findall(r"^print\(.*\)  # (.*)$", code, flags=re.MULTILINE)
    assert promised
    assert done.stdout.splitlines() == promised


def test_console_blocks_run(tmp_path: Path) -> None:
    commands = [line[2:] for language, text in BLOCKS if language == "console" for line in text.splitlines()]
    ours = [command for command in commands if command.startswith("psrl-pomdp ")]
    assert ours
    for command in ours:
        script = f"from psrl_pomdp.cli import main; main({command.split()[1:]!r})"
        subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, cwd=tmp_path)


def test_the_two_commands_are_there() -> None:
    assert "python3 go.py demo" in README
    assert "python3 go.py test" in README


def test_the_demo_is_quoted_as_it_prints() -> None:
    """`python docs/quoted.py demo` writes what is quoted; the README has its legend and its table."""
    quoted = (ROOT / "docs" / "quoted" / "demo.txt").read_text(encoding="utf-8")
    [table] = [text for language, text in BLOCKS if language == "text"]
    assert table in quoted
    assert table.count("±") == 7
