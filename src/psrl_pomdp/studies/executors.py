"""Engines: they open the `concurrent.futures.Executor` that executes the jobs of a study.

`local` is a pool of processes on this machine. `dask` and `ray` start a local cluster; `dask://host:port` and
`ray://host:port` connect to an existing cluster. Other packages add engines through `psrl_pomdp.registry`. No
shared file system is needed, because the engine transfers the results.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from importlib import import_module
from multiprocessing import get_context
from typing import Any

from .. import registry
from ..errors import PSRLError, UnknownNameError
from ..registry import Plugin


class MissingEngineError(PSRLError, ImportError):
    """Raised if the package of an engine is not installed; the message says how to install it."""


@dataclass(frozen=True)
class Engine:
    """A function that opens an executor; it takes an address, which may be empty, and the number of workers.

    `shares_filesystem` is True if the workers can write to the folder of the study, so that the state of
    unfinished jobs can be saved there. An engine of another package is any callable with these arguments; the
    attribute is optional.
    """

    opened: Callable[[str, int], AbstractContextManager[Executor]]
    shares_filesystem: bool = False

    def __call__(self, address: str, workers: int) -> AbstractContextManager[Executor]:
        """Open an executor at this address with this number of workers."""
        return self.opened(address, workers)


@contextmanager
def engine(name: str, workers: int | None) -> Iterator[Executor]:
    """Open the executor NAME or NAME://ADDRESS, and close it at the end of the `with` block."""
    plugin, address = _split(name)
    factory = plugin.load()
    if not callable(factory):
        raise plugin.error(f"an object of type {type(factory).__name__} cannot be called")
    with ExitStack() as stack:
        try:
            pool = stack.enter_context(factory(address, workers or os.cpu_count() or 1))
        except PSRLError:
            raise
        except Exception as error:
            raise plugin.error(f"raised {error!r} when it was opened with {address!r}") from error
        if not callable(getattr(pool, "submit", None)):
            raise plugin.error(
                f"it returned an object of type {type(pool).__name__}, which has no method `submit`"
            )
        yield pool


def plugin_of(name: str) -> Plugin:
    """Return the plug-in that NAME or NAME://ADDRESS stands for; `UnknownNameError` where there is none."""
    return _split(name)[0]


def keeps_files(name: str) -> bool:
    """Return whether the workers of an engine can write to the folder of the study."""
    return bool(getattr(_split(name)[0].load(), "shares_filesystem", False))


def _split(name: str) -> tuple[Plugin, str]:
    """Return the plug-in and the address in a name such as `ray://host:10001`."""
    kind, _, address = name.partition("://")
    return registry.find("executors", kind), address


@contextmanager
def local(workers: int) -> Iterator[ProcessPoolExecutor]:
    """Open a pool of processes on this machine, which end when this process ends, even if it is killed."""
    pool = ProcessPoolExecutor(workers, get_context("spawn"), initializer=_watch, initargs=(os.getpid(),))
    try:
        yield pool
    finally:
        workers_left = list((pool._processes or {}).values())
        pool.shutdown(wait=False, cancel_futures=True)
        for worker in workers_left:  # what they were at is kept half done, or was not begun
            worker.terminate()


def _local(address: str, workers: int) -> AbstractContextManager[Executor]:
    if address:
        raise UnknownNameError(f"engine local has no address, got {address!r}")
    return local(workers)


def _watch(parent: int) -> None:
    """Prepare a worker process: it ends when its parent ends, and leaves compilation to the parent."""
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
def _dask(address: str, workers: int) -> Iterator[Executor]:
    dask = _installed("distributed", "dask")
    if address:
        with dask.Client(f"tcp://{address}") as client:
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
def _ray(address: str, workers: int) -> Iterator[Executor]:
    ray = _installed("ray", "ray")
    where = {"address": f"ray://{address}"} if address else {"num_cpus": workers, "include_dashboard": False}
    ray.init(**where, log_to_driver=False, configure_logging=False)
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
        """Return the future result of a call in a process of the cluster."""
        task = self._ray.remote(max_retries=3)(_called)
        found: Future[Any] = task.remote(fn, args, kwargs).future()
        return found


def _called(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return function(*args, **kwargs)


LOCAL = Engine(_local, shares_filesystem=True)
DASK = Engine(_dask)
RAY = Engine(_ray)
