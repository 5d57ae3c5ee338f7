"""The folder of a study: what was asked, and a file for every job that is done.

    study.toml            the study itself; whoever comes back finds what was asked
    manifest.json         version, platform, when, and the plug-ins that the study uses
    results/NAME.json     one for each finished job, sealed with a checksum
    truth.npz             the plan that regrets are measured against, where all runs share one true model
    partial/NAME.run      unfinished long jobs, as of their last checkpoint
    log.jsonl             what happened when: starts, ends, failures, seconds
    runs.csv, episodes.csv  (or .parquet)   all results as tables, written at the end

Files are written beside their place and moved into it, so that a crash leaves whole files or none. One
process at a time works on a folder: it holds a lock, which the system takes back when the process dies.
"""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from .._serialization.atomic_files import write_atomically
from .._version import __version__
from ..errors import ParseError, PSRLError
from .provenance import plugins_of
from .results import Job, RunResult, check_result, decode, jobs_of
from .study import Study, read_study


class StudyError(PSRLError, RuntimeError):
    """A folder that is not what a study needs; the message says what to do."""


class Store:
    """One study's folder."""

    def __init__(self, folder: Path, study: Study) -> None:
        self.folder, self.study = folder, study
        self.results, self.partial = folder / "results", folder / "partial"

    @classmethod
    def create(cls, folder: Path, study: Study) -> Store:
        """The folder for this study: new, empty, or one that holds the same study already."""
        if (folder / "study.toml").exists():
            store = cls.open(folder)
            if store.study.fingerprint != study.fingerprint:
                raise StudyError(f"{folder} holds another study; take another folder, or remove it")
            return store
        text = study.to_toml().encode()
        if folder.exists() and any(not _ours(path) for path in folder.iterdir()):
            raise StudyError(f"{folder} is not empty and holds no study")
        store = cls(folder, study)
        store.results.mkdir(parents=True, exist_ok=True)
        store.partial.mkdir(exist_ok=True)
        made: dict[str, Any] = {
            "version": __version__,
            "platform": platform.platform(),
            "python": platform.python_version(),
            "made": _now(),
            "study": study.fingerprint,
        }
        if plugins := plugins_of(study):
            made["plugins"] = plugins
        write_atomically(folder / "manifest.json", (json.dumps(made, indent=1) + "\n").encode())
        write_atomically(folder / "study.toml", text)  # last: now it is a study
        return store

    @classmethod
    def open(cls, folder: Path) -> Store:
        """A folder that holds a study, unchanged since it was made."""
        if not (folder / "study.toml").is_file():
            raise StudyError(f"{folder} holds no study (there is no study.toml in it)")
        study = read_study(folder / "study.toml")
        store = cls(folder, study)
        try:
            made = json.loads((folder / "manifest.json").read_bytes())
        except (OSError, ValueError, RecursionError):
            raise StudyError(f"{folder / 'manifest.json'} is missing or damaged") from None
        if not isinstance(made, dict):
            raise StudyError(f"{folder / 'manifest.json'} is damaged")
        if made.get("study") != study.fingerprint:
            raise StudyError(
                f"{folder / 'study.toml'} was changed since the study was begun: begin a new one"
            )
        store.results.mkdir(exist_ok=True)
        store.partial.mkdir(exist_ok=True)
        return store

    @property
    def plugins(self) -> list[dict[str, str]]:
        """The plug-ins of other packages, as the manifest recorded them when the study was begun."""
        try:
            made = json.loads((self.folder / "manifest.json").read_bytes())
            return msgspec.convert(made.get("plugins", []), list[dict[str, str]])
        except (OSError, ValueError, RecursionError, AttributeError):
            raise StudyError(f"{self.folder / 'manifest.json'} is missing or damaged") from None

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Alone in the folder, with leftovers of a crash swept away."""
        with (self.folder / "lock").open("w") as handle:
            if not _lock(handle.fileno()):
                raise StudyError(f"another process is working on {self.folder}")
            for leftover in list(self._halves()):
                leftover.unlink()
            yield

    def _halves(self) -> Iterator[Path]:
        """Files that a crash left half written."""
        yield from self.results.glob(".*.json.*")
        yield from self.partial.glob(".*.run.*")
        for name in ("study.toml", "manifest.json", "truth.npz", "runs.csv", "episodes.csv"):
            yield from self.folder.glob(f".{name}.*")

    # -- results --------------------------------------------------------------------------------

    def path(self, job: Job) -> Path:
        return self.results / f"{job.name}.json"

    def partial_path(self, job: Job) -> Path:
        return self.partial / f"{job.name}.run"

    @property
    def plan_path(self) -> Path:
        """The file of the plan for the true model."""
        return self.folder / "truth.npz"

    def missing(self) -> tuple[list[Job], list[str]]:
        """The jobs that have no good result, and what is wrong with files that are there."""
        todo, complaints = [], []
        for job in jobs_of(self.study):
            path = self.path(job)
            if path.exists():
                try:
                    self.read(job)
                    continue
                except ParseError as error:
                    complaints.append(f"{error}: it is run again")
            todo.append(job)
        return todo, complaints

    def write(self, job: Job, data: bytes) -> None:
        write_atomically(self.path(job), data, sweep=False)  # `locked` has swept
        self.partial_path(job).unlink(missing_ok=True)

    def read(self, job: Job) -> RunResult:
        """A job's result, checked."""
        path = self.path(job)
        result = decode(path.read_bytes(), f"results/{path.name}")
        if (result.study, result.job) != (self.study.fingerprint, job):
            raise ParseError("the result belongs to another study or job", path=f"results/{path.name}")
        check_result(result, self.study, f"results/{path.name}")
        return result

    def done(self) -> Iterator[RunResult]:
        """The results that are there, in the order of the jobs."""
        for job in jobs_of(self.study):
            if self.path(job).exists():
                yield self.read(job)

    def log(self, **words: Any) -> None:
        """A line in the log; a log that cannot be written stops nothing."""
        line = {"at": _now(), **words}
        try:
            with (self.folder / "log.jsonl").open("a", encoding="utf-8") as stream:
                stream.write(json.dumps(line) + "\n")
        except OSError:
            pass


def _ours(path: Path) -> bool:
    """What a study that was killed while it was made leaves in its folder."""
    empty = path.name in ("results", "partial") and not any(path.iterdir())
    return empty or path.name == "manifest.json" or path.name.startswith((".manifest.json.", ".study.toml."))


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def _lock(descriptor: int) -> bool:
    """Take the file for this process; False where another has it."""
    try:
        if os.name == "nt":
            import msvcrt

            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
        else:
            import fcntl

            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
