"""Studies: what to run as data, jobs that survive a crash, results that open in one line."""

from .study import AgentSpec, Study, read_study

__all__ = ["AgentSpec", "Study", "read_study"]
