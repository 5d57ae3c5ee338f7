"""Plans for many kernels of one setting: the first in full, the others from where it ended."""

from __future__ import annotations

import os
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import nullcontext
from functools import partial
from multiprocessing import get_context

import numpy.typing as npt

from .._utils.arrays import Array, numbers
from ..models.model import POMDP, Setting
from .solution import Plan
from .solve import plan

_FEW = 8  # kernels that are planned for sooner than processes start


def plan_many(
    setting: Setting,
    kernels: npt.ArrayLike,
    tolerance: float = 1e-4,
    *,
    max_work: float | None = None,
    workers: int | None = None,
    executor: Executor | None = None,
) -> list[Plan]:
    """A plan for each of `kernels[M, A, S, S]`, in their order.

    Every plan after the first starts from the first one, so that the plans are the same on any number of
    workers: by default one for each core, or pass any `concurrent.futures.Executor`.
    """
    worlds = [POMDP(setting, kernel) for kernel in numbers("kernels", kernels, "mast")]
    first = plan(worlds[0], tolerance, max_work=max_work)
    job = partial(_plan_from, setting, first, tolerance, max_work)
    rest = [world.transition for world in worlds[1:]]
    count = workers if workers is not None else os.cpu_count() or 1
    if executor is None and (count <= 1 or len(rest) < _FEW):
        return [first, *map(job, rest)]
    pool = nullcontext(executor) if executor else ProcessPoolExecutor(count, get_context("spawn"))
    with pool as running:
        return [first, *running.map(job, rest, chunksize=max(1, len(rest) // (4 * count)))]


def _plan_from(
    setting: Setting, first: Plan, tolerance: float, max_work: float | None, kernel: Array
) -> Plan:
    return plan(POMDP(setting, kernel), tolerance, warm_start=first, max_work=max_work)
