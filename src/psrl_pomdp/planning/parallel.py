"""`plan_many`: plans for many kernels of one setting, all but the first with a warm start."""

from __future__ import annotations

import os
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import nullcontext
from functools import partial
from multiprocessing import get_context

import numpy.typing as npt

from .._utils.arrays import Array, numbers
from ..models import POMDP, Setting
from .solution import Plan
from .solve import plan

_MIN_PARALLEL_KERNELS = 8  # with fewer kernels, planning ends before worker processes have started


def plan_many(
    setting: Setting,
    kernels: npt.ArrayLike,
    tolerance: float = 1e-4,
    *,
    max_work: float | None = None,
    workers: int | None = None,
    executor: Executor | None = None,
) -> list[Plan]:
    """Plan for several kernels in one setting.

    The first plan is the warm start of all others, so that the plans do not depend on the number of workers.

    Parameters
    ----------
    setting
        The POMDP without its transition kernel.
    kernels
        `[M, A, S, S']`, the transition kernels.
    tolerance, max_work
        As in `plan`, for each plan.
    workers
        Number of processes; by default one for each core.
    executor
        Any `concurrent.futures.Executor`, used in place of `workers` processes.

    Returns
    -------
    list of Plan
        One plan for each kernel, in their order.

    Raises
    ------
    InvalidModelError
        If a kernel is invalid, or `tolerance` is out of its range.
    """
    models = [POMDP(setting, kernel) for kernel in numbers("kernels", kernels, "mast")]
    first = plan(models[0], tolerance, max_work=max_work)
    job = partial(_plan_from, setting, first, tolerance, max_work)
    rest = [model.transition for model in models[1:]]
    count = workers if workers is not None else os.cpu_count() or 1
    if executor is None and (count <= 1 or len(rest) < _MIN_PARALLEL_KERNELS):
        return [first, *map(job, rest)]
    pool = nullcontext(executor) if executor else ProcessPoolExecutor(count, get_context("spawn"))
    with pool as running:
        return [first, *running.map(job, rest, chunksize=max(1, len(rest) // (4 * count)))]


def _plan_from(
    setting: Setting, first: Plan, tolerance: float, max_work: float | None, kernel: Array
) -> Plan:
    """Plan for one kernel, from the first plan."""
    return plan(POMDP(setting, kernel), tolerance, warm_start=first, max_work=max_work)
