"""The results of a study, read once: all that reports, comparisons and tables are made from.

`StudyResults.open(folder)` reads them. Runs that failed, are damaged or were never begun are in `missing`.
"""

from __future__ import annotations

import json
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import ParseError, PSRLError
from .results import RunResult, jobs_of
from .store import Store, StudyError

if TYPE_CHECKING:
    from ..models import Units
    from ..planning import Plan
    from .experiment import Experiment


class StudyResults:
    """What a study has produced so far.

    `runs` are the results that are there, in the order of the jobs; `missing` says of each other job why it
    has none, by its name.
    """

    def __init__(self, store: Store, *, skip_damaged: bool = False) -> None:
        """Read the folder of `store`; see `open`."""
        self.folder, self.study = store.folder, store.study
        self.missing: dict[str, str] = {}
        runs = []
        failures = self._failures()
        for job in jobs_of(self.study):
            try:
                runs.append(store.read(job))
            except FileNotFoundError:
                self.missing[job.name] = failures.get(job.name, "not run so far")
            except ParseError as error:
                if not skip_damaged:
                    raise
                self.missing[job.name] = str(error)
        self.runs: tuple[RunResult, ...] = tuple(runs)
        self._plan_path = store.plan_path

    @classmethod
    def open(cls, folder: str | Path, *, skip_damaged: bool = False) -> StudyResults:
        """Read the results in the folder of a study.

        Raises `StudyError` where the folder holds no study, and `ParseError` for a result that is damaged,
        unless `skip_damaged`: then it is named in `missing`.
        """
        return cls(Store.open(Path(folder)), skip_damaged=skip_damaged)

    @classmethod
    def of(cls, source: Store | StudyResults, *, skip_damaged: bool = False) -> StudyResults:
        """Return results that were read already, or read those of an open folder."""
        return cls(source, skip_damaged=skip_damaged) if isinstance(source, Store) else source

    def require_some(self) -> None:
        """Raise `StudyError`, with the reason, where there is no result at all."""
        if not self.runs:
            why = next(iter(self.missing.values()))
            raise StudyError(f"{self.folder} holds no finished run ({why}): psrl-pomdp resume {self.folder}")

    # -- runs -----------------------------------------------------------------------------------

    @cached_property
    def by_agent(self) -> dict[str, list[RunResult]]:
        """The runs of each agent that has any, by its label, in the order of the study."""
        found: dict[str, list[RunResult]] = {}
        for result in self.runs:
            found.setdefault(result.agent, []).append(result)
        return {spec.label: found[spec.label] for spec in self.study.agents if spec.label in found}

    @property
    def units(self) -> Units:
        """What the scaled costs of all runs mean in the user's numbers."""
        return self.runs[0].units

    # -- what they are about --------------------------------------------------------------------

    @cached_property
    def experiment(self) -> Experiment:
        """The model, the priors and the agents of the study."""
        from .experiment import Experiment

        return Experiment(self.study)

    @cached_property
    def plan_of_truth(self) -> Plan | None:
        """The plan that regrets are measured against, as it was stored; None where it was not.

        It is stored where all runs share one true model. A file that is damaged, or holds a plan for another
        model, counts as none.
        """
        from ..planning import Plan

        try:
            found = Plan.load(self._plan_path)
            model = self.experiment.model(0)
        except (PSRLError, OSError):
            return None
        return found if found.fingerprint == model.fingerprint else None

    # -- the log --------------------------------------------------------------------------------

    @cached_property
    def effects(self) -> dict[str, dict[str, Any]]:
        """What each finished job took, by its name, as far as the log says so."""
        return {
            str(line["job"]): line["effects"]
            for line in self._log
            if line.get("event") == "done" and line.get("effects", {}).get("steps")
        }

    def _failures(self) -> dict[str, str]:
        """Why jobs failed, by name."""
        return {
            str(line.get("job")): f"failed: {line.get('why')}"
            for line in self._log
            if line.get("event") == "failed"
        }

    @cached_property
    def _log(self) -> list[dict[str, Any]]:
        """The lines of the log that can be read."""
        try:
            text = (self.folder / "log.jsonl").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return []
        found = []
        for line in text.splitlines():
            try:
                words = json.loads(line)
            except (ValueError, RecursionError):
                continue  # the last line of a process that was killed
            if isinstance(words, dict):
                found.append(words)
        return found
