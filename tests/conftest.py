"""The order of the tests."""

from __future__ import annotations

import pytest

from psrl_pomdp._numba import jit as compiled

for group in compiled.GROUPS:
    group.compile()  # what the tests spend their time with; programs that they start do as users' do

COMPILE_NOTHING = {"io", "models"}  # folders
COMPILE_NOTHING |= {"test_docstrings", "test_go", "test_priors", "test_project_files"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What compiles nothing comes first: with two workers, which begin at the start and in the middle, one is
    busy with it while the other compiles, and then finds compiled what it needs."""
    items.sort(key=lambda item: COMPILE_NOTHING.isdisjoint((item.path.stem, item.path.parent.name)))
