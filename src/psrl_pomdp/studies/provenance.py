"""Which plug-ins of other packages decide the results of a study: for its records, and for its errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

from .. import registry
from ..errors import PluginError, PSRLError
from ..registry import Plugin
from .study import AgentSpec, Study


def plugins_of(study: Study) -> list[dict[str, str]]:
    """Return group, name, path, package and version of every plug-in of another package that a study uses."""
    return [dict(words) for words in map(_provenance, dict.fromkeys(_used(study)))]


def _used(study: Study) -> Iterator[Plugin]:
    asked = []
    if study.file_sha256:
        asked.append(("formats", Path(study.problem).suffix.lower()[1:]))
    else:
        asked.append(("problems", study.problem))
    found = [registry.find(group, name) for group, name in asked]
    yield from (plugin for plugin in found if not plugin.built_in)
    for agent in study.agents:
        yield from _used_by(agent)


def _used_by(agent: AgentSpec) -> Iterator[Plugin]:
    """Yield the plug-ins of other packages that an agent uses: its class, its prior and its planner."""
    asked = [("agents", agent.kind)]
    asked += [("priors", agent.prior_kind)] if agent.prior else []
    asked += [("planners", agent.planner)] if agent.planner else []
    found = (registry.find(group, name) for group, name in asked)
    return (plugin for plugin in found if not plugin.built_in)


@contextmanager
def named_plugins(agent: AgentSpec) -> Iterator[None]:
    """Turn an exception of a run into a `PluginError` that names the plug-ins that the agent uses.

    The exceptions of an agent without plug-ins of other packages do not change. `SystemExit` is an exception
    like any other here: a plug-in must not end the program. `PluginError` contains only a text, so that it
    reaches the main process, unlike an exception of the plug-in that cannot be pickled.
    """
    try:
        yield
    except (PluginError, KeyboardInterrupt):
        raise
    except (Exception, SystemExit) as error:
        used = list(_used_by(agent))
        if not used:
            raise
        why = str(error) if isinstance(error, PSRLError) else f"raised {error!r} in a run"
        others = f" (the agent also uses the {' and the '.join(map(str, used[1:]))})" if used[1:] else ""
        raise PluginError(f"{used[0]}: {why}{others}") from error


@lru_cache(maxsize=64)
def _provenance(plugin: Plugin) -> tuple[tuple[str, str], ...]:
    """Once for all jobs of a process."""
    return tuple(registry.provenance(plugin).items())
