"""Where jobs run: any `concurrent.futures.Executor`.

`local` is a pool of processes on this machine. `dask` and `ray` start a local cluster of that kind;
`dask://host:port` and `ray://host:port` use one that is there. No shared file system is assumed: results come
back through the engine.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from contextlib import contextmanager
from importlib import import_module
from multiprocessing import get_context
from typing import Any

from ..errors import PSRLError, UnknownNameError, did_you_mean

KINDS = ("local", "dask", "ray")


class MissingEngineError(PSRLError, ImportError):
    """An engine whose package is not installed; the message says how to."""


@contextmanager
def engine(name: str, workers: int | None) -> Iterator[Executor]:
    """An executor by its name, closed afterwards."""
    kind = name.split("://", maxsplit=1)[0]
    if kind not in KINDS:
        raise UnknownNameError(f"engine {name!r} is none of {', '.join(KINDS)}{did_you_mean(kind, KINDS)}")
    count = workers or os.cpu_count() or 1
    if kind == "local":
        with local(count) as pool:
            yield pool
    elif kind == "dask":
        with _dask(name, count) as pool:
            yield pool
    else:
        with _ray(name, count) as pool:
            yield pool


def keeps_files(name: str) -> bool:
    """Whether workers see the folder of the study, so that long jobs can be kept half done."""
    return name == "local"


@contextmanager
def local(workers: int) -> Iterator[ProcessPoolExecutor]:
    """Processes on this machine, which end when this one does, however it ends."""
    pool = ProcessPoolExecutor(workers, get_context("spawn"), initializer=_watch, initargs=(os.getpid(),))
    try:
        yield pool
    finally:
        workers_left = list((pool._processes or {}).values())
        pool.shutdown(wait=False, cancel_futures=True)
        for worker in workers_left:  # what they were at is kept half done, or was not begun
            worker.terminate()


def _watch(parent: int) -> None:
    """Nobody is left behind by a dead parent, which also sees to it that what is needed is compiled."""
    import signal

    from .._numba import jit as compiled

    for group in compiled.GROUPS:
        group.asks = False
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which then stops us

    def leave() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=leave, daemon=True).start()


@contextmanager
def _dask(name: str, workers: int) -> Iterator[Executor]:
    dask = _installed("distributed", "dask")
    if "://" in name:
        with dask.Client(name.replace("dask://", "tcp://")) as client:
            yield client.get_executor(pure=False, retries=3)
        return
    with (
        dask.LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",  # of a server that even without a dashboard listens, on 8787
            scheduler_kwargs={"dashboard": False},
            silence_logs=50,
        ) as cluster,
        dask.Client(cluster) as client,
    ):
        yield client.get_executor(pure=False, retries=3)


@contextmanager
def _ray(name: str, workers: int) -> Iterator[Executor]:
    ray = _installed("ray", "ray")
    address = {"address": name} if "://" in name else {"num_cpus": workers, "include_dashboard": False}
    ray.init(**address, log_to_driver=False, configure_logging=False)
    try:
        yield RayExecutor(ray)
    finally:
        ray.shutdown()


def _installed(package: str, extra: str) -> Any:
    try:
        return import_module(package)
    except ImportError:
        raise MissingEngineError(f'engine {extra}: pip install "psrl-pomdp[{extra}]"') from None


class RayExecutor(Executor):
    """The little of an executor that a study needs, on Ray: a task is tried again where its worker died."""

    def __init__(self, ray: Any) -> None:
        self._ray = ray

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        task = self._ray.remote(max_retries=3)(_called)
        found: Future[Any] = task.remote(fn, args, kwargs).future()
        return found


def _called(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return function(*args, **kwargs)
