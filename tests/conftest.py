"""The order of the tests."""

from __future__ import annotations

import pytest

from psrl_pomdp._numba import jit as compiled

for group in compiled.GROUPS:
    group.compile()  # what the tests spend their time with; programs that they start do as users' do

COMPILE_NOTHING = {
    f"test_{room}"
    for room in ("fuzz", "go", "model", "pomdp_files", "pomdpx", "priors", "round_trip", "structure")
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What compiles nothing comes first: with two workers, which begin at the start and in the middle, one is
    busy with it while the other compiles, and then finds compiled what it needs."""
    items.sort(key=lambda item: item.path.stem not in COMPILE_NOTHING)
