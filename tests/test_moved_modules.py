"""The module paths of version 0.1 go on to work, with a warning."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec

import pytest

from psrl_pomdp._moved_modules import PLACES, new_place


@pytest.fixture(autouse=True)
def forget_old_paths(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python warns at the first import of a path only."""
    for name in list(sys.modules):
        package, _, old = name.partition(".")
        if package == "psrl_pomdp" and new_place(old) is not None:
            monkeypatch.delitem(sys.modules, name)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("agent", "agents.psrl"),
        ("regret.bounds", "analysis.bounds"),
        ("files.pomdpx.reader", "io.pomdpx.reader"),
        ("experiment.learners", "studies.agent_kinds"),
    ],
)
def test_an_old_path_gives_the_module_at_its_new_place(old: str, new: str) -> None:
    with pytest.warns(DeprecationWarning, match="the old path works until") as warned:
        module = import_module(f"psrl_pomdp.{old}")
    assert f"psrl_pomdp.{old} is now psrl_pomdp.{new};" in str(warned[-1].message)
    assert module is import_module(f"psrl_pomdp.{new}")
    assert module.__name__ == f"psrl_pomdp.{new}"
    assert module.__spec__ is not None
    assert module.__spec__.name == f"psrl_pomdp.{new}"


def test_names_can_be_imported_from_old_packages() -> None:
    with pytest.warns(DeprecationWarning, match="the old path works until"):
        found = import_module("psrl_pomdp.posterior").FinitePrior
    assert found.__module__ == "psrl_pomdp.inference.finite_prior"


def test_every_place_in_the_table_exists_and_no_old_path_hides_a_module() -> None:
    for old, new in PLACES.items():
        assert find_spec(f"psrl_pomdp.{new}") is not None, new
        assert old != new


def test_an_unknown_module_is_still_unknown() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"psrl_pomdp\.agnet"):
        import_module("psrl_pomdp.agnet")
