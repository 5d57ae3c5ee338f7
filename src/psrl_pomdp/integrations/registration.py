"""Registration of the library's problems with Gymnasium, whichever of the two is imported first.

`gymnasium.make("psrl_pomdp:tiger-v0")` imports this package so that it can register its environments. Where
the package was imported before Gymnasium, that import does nothing. Therefore `register_with_gymnasium` puts
a finder in front of `sys.meta_path` that leaves every module to the finders after it, runs
`register_environments` after the import of Gymnasium, and then removes itself. If Gymnasium is never
imported, nothing else happens.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType

_GYMNASIUM = "gymnasium"


def register_with_gymnasium() -> None:
    """Register the environments now where Gymnasium is imported already, else when it has been."""
    if _GYMNASIUM in sys.modules:
        register_environments()
    elif not any(isinstance(finder, _Waiting) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Waiting())


def register_environments() -> None:
    """Register `model-v0` and an id for every problem; ids that exist already do not change."""
    import gymnasium

    from ..problems import catalogue

    ids = {f"{entry.name}-v0": {"model": entry.name} for entry in catalogue()}
    for name, arguments in (ids | {"model-v0": {}}).items():
        if name not in gymnasium.registry:
            gymnasium.register(name, entry_point="psrl_pomdp.gym:POMDPEnv", kwargs=arguments)


class _Waiting(MetaPathFinder):
    """Waits for the import of Gymnasium, which the finders after this one carry out."""

    def __init__(self) -> None:
        self._asking = False  # the finders after this one

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != _GYMNASIUM or self._asking:
            return None
        self._asking = True
        try:
            spec = find_spec(fullname)
        finally:
            self._asking = False
        if spec is not None and spec.loader is not None:
            spec.loader = _RegisteringLoader(spec.loader, self)
        return spec


class _RegisteringLoader(Loader):
    """Loads a module as its own loader does, and registers the environments afterwards."""

    def __init__(self, own: Loader, finder: _Waiting) -> None:
        self._own, self._finder = own, finder

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._own.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = self._own
        module.__loader__ = self._own
        self._own.exec_module(module)
        if self._finder in sys.meta_path:
            sys.meta_path.remove(self._finder)
        register_environments()
