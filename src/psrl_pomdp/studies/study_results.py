"""The results of a study, which reports, comparisons and tables use.

`StudyResults.open(folder)` reads them. The attribute `missing` lists the runs without a result.
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
    """The existing results of a study.

    `runs` contains the existing results in the order of the jobs. `missing` maps the name of every other job
    to the reason why it has no result: it failed, its file is damaged, or it was not run.
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

        Raises `StudyError` if the folder contains no study, and `ParseError` for a damaged result. With
        `skip_damaged`, a damaged result is listed in `missing` instead.
        """
        return cls(Store.open(Path(folder)), skip_damaged=skip_damaged)

    @classmethod
    def of(cls, source: Store | StudyResults, *, skip_damaged: bool = False) -> StudyResults:
        """Return `source` itself if it is a `StudyResults`, else read the results of a store."""
        return cls(source, skip_damaged=skip_damaged) if isinstance(source, Store) else source

    def require_some(self) -> None:
        """Raise `StudyError` with the reason if there is no result."""
        if not self.runs:
            why = next(iter(self.missing.values()))
            raise StudyError(f"{self.folder} holds no finished run ({why}): psrl-pomdp resume {self.folder}")

    # -- runs -----------------------------------------------------------------------------------

    @cached_property
    def by_agent(self) -> dict[str, list[RunResult]]:
        """The results of each agent that has any, by the name of the agent, in the order of the study."""
        found: dict[str, list[RunResult]] = {}
        for result in self.runs:
            found.setdefault(result.agent, []).append(result)
        return {spec.label: found[spec.label] for spec in self.study.agents if spec.label in found}

    @property
    def units(self) -> Units:
        """The map between scaled costs and the user's costs."""
        return self.runs[0].units

    # -- what they are about --------------------------------------------------------------------

    @cached_property
    def experiment(self) -> Experiment:
        """The model, the priors and the agents of the study."""
        from .experiment import Experiment

        return Experiment(self.study)

    @cached_property
    def plan_of_truth(self) -> Plan | None:
        """The saved plan for the true model, from which the regrets are computed, or None.

        The plan is saved if all runs have the same true model. The value is None if there is no file, or if
        the file is damaged or contains a plan for another model.
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
        """The processor time and the memory of each finished job in the log, by the name of the job."""
        return {
            str(line["job"]): line["effects"]
            for line in self._log
            if line.get("event") == "done" and line.get("effects", {}).get("steps")
        }

    def _failures(self) -> dict[str, str]:
        """Return the reasons of failed jobs by the name of the job."""
        return {
            str(line.get("job")): f"failed: {line.get('why')}"
            for line in self._log
            if line.get("event") == "failed"
        }

    @cached_property
    def _log(self) -> list[dict[str, Any]]:
        """The valid lines of the log."""
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
