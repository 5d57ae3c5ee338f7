"""The folder of a study: the settings, and one result file for each finished job.

    study.toml            the study file
    manifest.json         version of the package, platform, time of creation, and the plug-ins of the study
    results/NAME.json     the result of one finished job, with a checksum
    truth.npz             the plan for the true model; only if all runs have the same true model
    partial/NAME.run      the saved state of one unfinished long job
    log.jsonl             a log of events with times
    runs.csv, episodes.csv, fits.csv  (or .parquet)   all results as tables, written at the end

Each file is first written to a temporary file, which is then renamed, so that a crash leaves no partial file.
Only one process at a time can work on a folder: it holds a lock, which the system releases when the process
ends.
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
    """Raised if a folder contains no study or cannot be used for one; the message suggests what to do."""


class Store:
    """The folder of one study."""

    def __init__(self, folder: Path, study: Study) -> None:
        self.folder, self.study = folder, study
        self.results, self.partial = folder / "results", folder / "partial"

    @classmethod
    def create(cls, folder: Path, study: Study) -> Store:
        """Return the store of a study in `folder`, which is new, is empty, or contains the same study."""
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
        """Return the store of the study in `folder`; raise `StudyError` if the study file was changed."""
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
        """The plug-ins of other packages that the manifest lists."""
        try:
            made = json.loads((self.folder / "manifest.json").read_bytes())
            return msgspec.convert(made.get("plugins", []), list[dict[str, str]])
        except (OSError, ValueError, RecursionError, AttributeError):
            raise StudyError(f"{self.folder / 'manifest.json'} is missing or damaged") from None

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock of the folder, and delete the temporary files of a crashed process."""
        with (self.folder / "lock").open("w") as handle:
            if not _lock(handle.fileno()):
                raise StudyError(f"another process is working on {self.folder}")
            for leftover in list(self._halves()):
                leftover.unlink()
            yield

    def _halves(self) -> Iterator[Path]:
        """Yield the temporary files that a crash has left."""
        yield from self.results.glob(".*.json.*")
        yield from self.partial.glob(".*.run.*")
        for name in ("study.toml", "manifest.json", "truth.npz", "runs.csv", "episodes.csv", "fits.csv"):
            yield from self.folder.glob(f".{name}.*")

    # -- results --------------------------------------------------------------------------------

    def path(self, job: Job) -> Path:
        """Return the file of the result of a job."""
        return self.results / f"{job.name}.json"

    def partial_path(self, job: Job) -> Path:
        """Return the file of a run that is not complete."""
        return self.partial / f"{job.name}.run"

    @property
    def plan_path(self) -> Path:
        """The file of the plan for the true model."""
        return self.folder / "truth.npz"

    def missing(self) -> tuple[list[Job], list[str]]:
        """Return the jobs without a valid result, and a message for each damaged result."""
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
        """Write the result of a job and remove the file of its incomplete run."""
        write_atomically(self.path(job), data, sweep=False)  # `locked` has swept
        self.partial_path(job).unlink(missing_ok=True)

    def read(self, job: Job) -> RunResult:
        """Return the result of a job; raise `ParseError` if the file is damaged."""
        path = self.path(job)
        result = decode(path.read_bytes(), f"results/{path.name}")
        if (result.study, result.job) != (self.study.fingerprint, job):
            raise ParseError("the result belongs to another study or job", path=f"results/{path.name}")
        check_result(result, self.study, f"results/{path.name}")
        return result

    def done(self) -> Iterator[RunResult]:
        """Yield the existing results in the order of the jobs."""
        for job in jobs_of(self.study):
            if self.path(job).exists():
                yield self.read(job)

    def log(self, **words: Any) -> None:
        """Write a line to the log, if the log can be written."""
        line = {"at": _now(), **words}
        try:
            with (self.folder / "log.jsonl").open("a", encoding="utf-8") as stream:
                stream.write(json.dumps(line) + "\n")
        except OSError:
            pass


def _ours(path: Path) -> bool:
    """Return whether the creation of a study that was killed may have left this file."""
    empty = path.name in ("results", "partial") and not any(path.iterdir())
    return empty or path.name == "manifest.json" or path.name.startswith((".manifest.json.", ".study.toml."))


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def _lock(descriptor: int) -> bool:
    """Lock the file for this process; return False if another process holds the lock."""
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
