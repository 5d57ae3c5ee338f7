"""Which plug-ins of other packages decide the results of a study, for its manifest and its results."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from .. import registry
from ..registry import Plugin
from .study import Study


def plugins_of(study: Study) -> list[dict[str, str]]:
    """Return group, name, path, package and version of every plug-in of another package that a study uses."""
    return [dict(words) for words in map(_provenance, dict.fromkeys(_used(study)))]


def _used(study: Study) -> Iterator[Plugin]:
    asked = []
    if study.file_sha256:
        asked.append(("formats", Path(study.problem).suffix.lower()[1:]))
    else:
        asked.append(("problems", study.problem))
    for agent in study.agents:
        asked.append(("agents", agent.kind))
        asked += [("priors", agent.prior_kind)] if agent.prior else []
        asked += [("planners", agent.planner)] if agent.planner else []
    found = (registry.find(group, name) for group, name in asked)
    return (plugin for plugin in found if not plugin.built_in)


@lru_cache(maxsize=64)
def _provenance(plugin: Plugin) -> tuple[tuple[str, str], ...]:
    """Once for all jobs of a process."""
    return tuple(registry.provenance(plugin).items())
