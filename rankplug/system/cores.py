"""Limits of the machine: processor cores for this process and this thread, and memory."""

from __future__ import annotations

import os
from functools import cache
from typing import Any

import joblib
from threadpoolctl import ThreadpoolController, threadpool_limits


def available_cores() -> int:
    """The threads that a solver starts by default: the least of what limits there are.

    * the cores that the process may run on (its affinity) and the quota of its control group, as
      for containers; ``LOKY_MAX_CPU_COUNT`` (`joblib.cpu_count`);
    * the environment variable ``OMP_NUM_THREADS``, which joblib sets in its worker processes,
      and ``rankplug serve`` in its own, so that all of them together have as many threads as
      there are cores;
    * a limit of threadpoolctl that is in force: ``with threadpool_limits(1)``.

    Threads of the caller's own, as of ``joblib.parallel_backend("threading")``, are not counted:
    give the solvers in them ``n_threads=1``.
    """
    limits: list[int] = [joblib.cpu_count()]
    # Of several numbers, separated by commas, the first is for threads like these.
    from_environment = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    if from_environment.isdecimal():
        limits.append(int(from_environment))
    # The largest, since a library that was told to use fewer threads says nothing of the others.
    limits.append(max((one.num_threads for one in _openmp()), default=limits[0]))
    return max(1, min(limits))


def physical_memory() -> int:
    """Bytes of memory of the machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


@cache
def survive_forks() -> None:
    """Let OpenMP run on one thread in processes that are forked from now on.

    To be called before OpenMP is used: GNU's waits in a forked process, for ever, for the threads
    that it had before. So do XGBoost, LightGBM and parts of scikit-learn.
    """
    os.register_at_fork(after_in_child=lambda: threadpool_limits(1, user_api="openmp"))


@cache
def _openmp() -> list[Any]:
    """The OpenMP libraries, among them scikit-learn's."""
    import sklearn.utils  # noqa: F401 - loads it

    controllers: list[Any] = ThreadpoolController().select(user_api="openmp").lib_controllers
    return controllers
