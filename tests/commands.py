"""The command line inside of a test."""

from __future__ import annotations

import pytest

from psrl_pomdp.cli import main


def run(*arguments: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    """The exit code, and what was written to stdout and stderr."""
    code = 0
    try:
        main(arguments)
    except SystemExit as stop:
        code = int(stop.code or 0)
    out, err = capsys.readouterr()
    return code, out, err
