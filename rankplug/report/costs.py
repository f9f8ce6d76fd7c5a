"""Costs of a solver: time and memory of training, size of the model, time of predictions.

The numbers stand in `Outcome.costs` by these keys:

``train_seconds``, ``train_cpu_seconds``
    Wall time of training, and processor time of all threads of the process.
``train_peak_bytes``
    By how much the process's resident memory at its highest exceeded that before training:
    what training needs beyond the data. Memory that the process had free before and uses again
    is not seen, so it is a lower bound. Linux only; left out elsewhere.
``model_bytes``
    Size of the saved model's files; left out if the model cannot be saved.
``predict_us_1``, ``predict_us_100``, ``predict_us_10000``
    Microseconds of `Model.predict` per row, checks of the features included, in calls of so
    many rows: the median of the calls.
``seconds_to_99``
    Training time after which the solver, stopped there, has 99 % of its final quality; only
    from a `learning_curve`.
"""

from __future__ import annotations

import ctypes
import gc
import math
import statistics
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone

from rankplug.data import Matrix, Scaling
from rankplug.exceptions import ConvergenceWarning, DataError
from rankplug.metrics import measure_data, parse_metric
from rankplug.models import Model, predict_data, saved_size, scaled_model
from rankplug.report.report import LearningPoint
from rankplug.solver import Data, Solver

_BATCHES = (1, 100, 10_000)  # rows of a call: one user's query, a page of results, a file
_SECONDS_PER_BATCH = 0.05  # long against the clock's resolution, short against most trainings
_MOST_CALLS = 100  # the median is steady by then
_MOST_CELLS = 1 << 26  # of a dense batch: half a gigabyte


@contextmanager
def training_costs() -> Iterator[dict[str, float]]:
    """Measure what happens in the block; the dict is filled when it ends without an error.

    Other work of the same process at the same time is counted too.

    Examples
    --------
    >>> with training_costs() as costs:
    ...     total = sum(range(1000))
    >>> costs["train_seconds"] > 0
    True
    """
    costs: dict[str, float] = {}
    resident = _start_of_peak()
    wall, processor = time.perf_counter(), time.process_time()
    yield costs
    costs["train_seconds"] = time.perf_counter() - wall
    costs["train_cpu_seconds"] = time.process_time() - processor
    if resident is not None:
        costs["train_peak_bytes"] = max(0.0, _memory("VmHWM") - resident)


def measure(model: Model, data: Data) -> dict[str, float]:
    """Size and speed of a trained model, in less than a second for models of usual speed.

    Parameters
    ----------
    model : Model
    data : RankingData or LabelRankingData
        Whose features are predicted, repeated where a batch needs more rows.

    Returns
    -------
    dict
        ``model_bytes`` and ``predict_us_*``; a batch too large for the memory is left out.
    """
    costs = {}
    with suppress(DataError):
        costs["model_bytes"] = float(saved_size(model))
    for batch in _BATCHES:
        if sparse.issparse(data.X) or batch * data.n_features <= _MOST_CELLS:
            rows = data.X[np.arange(batch) % data.n_samples]
            costs[f"predict_us_{batch}"] = 1e6 * _seconds_of_call(model, rows) / batch
    return costs


def learning_curve(
    solver: Solver,
    train: Data,
    test: Data,
    metric: str,
    *,
    valid: Data | None = None,
    random_state: int | None = None,
    scaling: Scaling | None = None,
) -> tuple[LearningPoint, ...]:
    """Quality after 1, 2, 4, 8, ... iterations, each by a training of its own that ends there.

    Solvers do not show their models on the way. So each point is what somebody gets who sets
    the iteration limit so low; all points together cost about two more trainings.

    Parameters
    ----------
    solver : Solver
    train, test, valid : RankingData or LabelRankingData
        Features of `train` and `valid` as the solver takes them, those of `test` unscaled.
    metric : str
        Measured on `test`.
    random_state : int, optional
    scaling : Scaling, optional
        How the features of `train` were scaled.

    Returns
    -------
    tuple of LearningPoint
        The last one is the complete training; empty if the solver has no iteration limit.
    """
    most = solver.get_params(deep=False).get(solver.iteration_limit)
    points: list[LearningPoint] = []
    limit = 1
    while most is not None:
        limited = clone(solver).set_params(**{solver.iteration_limit: min(limit, most)})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            result = limited.solve(train, valid=valid, random_state=random_state)
        model = scaled_model(result.model, scaling)
        quality = measure_data(test, predict_data(model, test), metric)[metric].mean()
        points.append(LearningPoint(result.n_iter, result.seconds, quality))
        if limit >= most or (result.status == "converged" and result.n_iter < limit):
            break
        limit *= 2
    return tuple(points)


def seconds_to_share(
    curve: tuple[LearningPoint, ...], metric: str, share: float = 0.99
) -> float | None:
    """Seconds of the first point with that share of the last point's quality.

    Of an error, which is better the lower, the first that is at most ``1 / share`` times the
    last. None if there is no curve, or if its end is not positive and has no shares.
    """
    greater_is_better = parse_metric(metric).greater_is_better
    final = curve[-1].quality if curve else math.nan
    if greater_is_better and not final > 0:
        return None
    for point in curve:
        quality = point.quality
        if quality >= share * final if greater_is_better else quality <= final / share:
            return point.seconds
    return None


def _seconds_of_call(model: Model, rows: Matrix) -> float:
    """Median over many calls, or the first one if it took all the time that we have."""
    times: list[float] = []
    ended = time.perf_counter() + _SECONDS_PER_BATCH
    while not times or (time.perf_counter() < ended and len(times) < _MOST_CALLS):
        started = time.perf_counter()
        model.predict(rows)
        times.append(time.perf_counter() - started)
    return statistics.median(times)


def _start_of_peak() -> float | None:
    """Let the kernel record the peak of resident memory anew; what it is now, None: unknown."""
    # Memory of earlier work is given back: training would use it again unseen.
    gc.collect()
    library: Any = ctypes.CDLL(None)
    if hasattr(library, "malloc_trim"):  # glibc
        library.malloc_trim(0)
    try:
        Path("/proc/self/clear_refs").write_text("5")
        return _memory("VmRSS")
    except OSError:
        return None


def _memory(name: str) -> float:
    """Bytes that Linux reports of this process."""
    status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
    lines = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
    return 1024.0 * int(lines[name].split()[0])
