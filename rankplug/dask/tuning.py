"""`tune`: trials on the workers of a Dask cluster, the study in one process here.

This process asks the study for parameters, decides what is pruned and writes what comes out, so
that any storage will do, in memory too. Workers get parameters and the number of a fold, and send
back the metric of single queries.
"""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from typing import Any, Self, TypeAlias

from dask import is_dask_collection
from distributed import Client, Event, Future, KilledWorker
from sklearn.base import clone

from rankplug.dask.cluster import Cluster, connect, same, unique_name, until_done
from rankplug.dask.forms import is_complete, open_data, unpack
from rankplug.data import LabelRankingData, RankingData
from rankplug.exceptions import ClusterError, ConvergenceWarning, ParameterError, TuningError
from rankplug.parameters import Integer, Optional, check_parameters
from rankplug.solver import Data, Solver
from rankplug.tuning import FoldResult, Stopped, TuneResult, TuningTask, train_here
from rankplug.tuning import tune as tune_with

Values: TypeAlias = Sequence[float] | None
"""Of C, solved one after the other; None: the solver's own."""
Stopping: TypeAlias = Callable[[], bool]
"""Whether the study has ended."""

_LOOK_EVERY = 0.5
"""Seconds between two questions of a worker, to the scheduler, whether its study goes on."""
_SENDINGS = 5
"""How often the data of one fold are sent before a cluster that loses them is given up."""
_cutting = threading.Lock()


def tune(
    solver: str | Solver,
    data: Any,
    y: Any = None,
    *,
    qid: Any = None,
    sample_weight: Any = None,
    valid: Any = None,
    client: Client | None = None,
    n_jobs: int | None = None,
    cluster_timeout: float | None = 300.0,
    **options: Any,
) -> TuneResult:
    """`rankplug.tune` with its trials on the workers of a Dask cluster.

    The data go to each worker once, from worker to worker. A fold of a trial is a task, an
    ordinary training in the memory of one worker on one thread (unless the solver's `n_threads`
    says otherwise); the folds of a trial follow each other, so that pruned trials cost little.

    Parameters
    ----------
    solver : str or Solver
    data : RankingData, LabelRankingData, ClusterData, PreparedFolder, str, Path, or X
        In the memory of this process, and of each worker beside its folds: rows that are on the
        cluster come here. X, with `y`, are those of `rankplug.dask.Ranker.fit`, or of
        `rankplug.Ranker.fit`.
    y, qid, sample_weight : optional
        With X: relevance, query and weight of each row; see there.
    valid : optional
        Validation data of `rankplug.tune`, in the form of `data`, or ``(X, y)``, ``(X, y, qid)`` or
        ``(X, y, qid, sample_weight)``.
    client : distributed.Client, optional
        By default the current one.
    n_jobs : int, optional
        Trials at a time; by default the threads of all workers.
    cluster_timeout : float, optional
        Seconds to wait for a worker when there is none. None: wait for ever.
    **options
        All others of `rankplug.tune`.

    Returns
    -------
    TuneResult
        With the same trials as from `rankplug.tune` if ``n_jobs=1``; otherwise parameters that
        "tpe" chooses, and what is pruned, depend on which trials end first. Without pruner, the
        samplers "random", "qmc" and "grid" make the same trials with any `n_jobs`.

    Raises
    ------
    ClusterError
        If the scheduler is lost, or there is no worker for too long. Trials that were running then
        count as killed, and the study can be resumed.
    ParameterError, DataError, TuningError
        As `rankplug.tune`.

    Notes
    -----
    When a worker is lost, others do its folds anew; trials notice nothing. A trial fails if several
    workers die of it. `refit` trains in this process.
    """
    check_parameters("tune", {"n_jobs": Optional(Integer(1))}, {"n_jobs": n_jobs})
    if "trainer" in options:
        raise ParameterError("tune: trainer is what the cluster is; leave it out")
    cluster = connect(client, cluster_timeout)
    here = _bring_here(cluster, data, y, qid, sample_weight)
    if valid is not None:
        given = (
            (valid,)
            if isinstance(valid, RankingData | LabelRankingData)
            else unpack(valid, "valid")
        )
        options["valid"] = _bring_here(cluster, *given)
    with ClusterTrainer(cluster) as trainer:
        n_jobs = n_jobs or max(1, cluster.n_threads)
        return tune_with(solver, here, n_jobs=n_jobs, trainer=trainer, **options)


def _bring_here(
    cluster: Cluster, data: Any, y: Any = None, qid: Any = None, sample_weight: Any = None
) -> Data:
    """All rows in this process, checked."""
    if isinstance(data, RankingData | LabelRankingData):
        if not (y is None and qid is None and sample_weight is None):
            raise ParameterError("tune: y, qid and sample_weight come with such data")
        return data
    if not (is_complete(data) or is_dask_collection(data)):
        return RankingData.from_arrays(data, y, qid, sample_weight=sample_weight)
    options: dict[str, Any] = {"client": cluster.client, "timeout": cluster.timeout}
    with open_data(data, y, qid, sample_weight, **options) as there:
        return RankingData.stack(there.map(same))


class ClusterTrainer:
    """A `rankplug.tuning.Trainer` that trains on workers, for one study at a time.

    Between `__enter__` and `__exit__` an event of the cluster is set; workers stop once it is not.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._goes_on = Event(unique_name("study"), client=cluster.client)
        self._sending = threading.Lock()
        self._sent: tuple[TuningTask, Future] | None = None
        self._seen_workers = time.monotonic()

    def __enter__(self) -> Self:
        self._goes_on.set()
        return self

    def __exit__(self, *_: object) -> None:
        self._sent = None
        with suppress(Exception):  # a lost cluster has stopped anyway
            self._goes_on.clear()

    def __call__(
        self, task: TuningTask, number: int, solver: Solver, Cs: Values, stopping: Stopping
    ) -> Generator[FoldResult]:
        """As `train_here`, on a worker; again if the cluster loses the data."""
        arguments = number, _on_one_thread(solver), Cs, self._goes_on.name
        for _ in range(_SENDINGS):
            data = self._send(task)
            trained = self._train(data, arguments, stopping)
            if trained is not None:
                yield from trained
                return
            self._forget(data)
        raise ClusterError(f"the cluster lost the data {_SENDINGS} times: its workers keep dying")

    def _train(
        self, data: Future, arguments: tuple[Any, ...], stopping: Stopping
    ) -> list[FoldResult] | None:
        """The result of a task; None if the data are lost."""
        key = unique_name("trial")
        (future,) = self._cluster.start({key: (_Training(arguments), data)}, [key])
        try:
            self._wait(future, stopping)
            if future.status == "error":
                raise _reason(future)
            if future.status in ("cancelled", "lost"):
                self._require_workers()  # raises if it is the scheduler that is lost
                return None
            trained: list[FoldResult] = self._cluster.gather([future])[0]
            return trained
        finally:
            future.release()

    def _wait(self, future: Future, stopping: Stopping) -> None:
        """Wait for as long as it takes, but not for workers that do not come."""
        for _ in until_done([future]):
            if stopping():
                self._goes_on.clear()
                raise Stopped
            self._require_workers()

    def _require_workers(self) -> None:
        timeout = self._cluster.timeout
        if self._cluster.n_threads:
            self._seen_workers = time.monotonic()
        elif timeout is not None and time.monotonic() - self._seen_workers > timeout:
            raise self._without_workers()

    def _without_workers(self) -> ClusterError:
        return ClusterError(
            f"the cluster has had no worker for {self._cluster.timeout:g} seconds: start some, and "
            "resume the study, or raise cluster_timeout"
        )

    def _send(self, task: TuningTask) -> Future:
        with self._sending:
            if self._sent is None or self._sent[0] is not task:
                try:
                    self._sent = task, self._cluster.send(task)
                except ClusterError:
                    if self._cluster.n_threads:
                        raise
                    raise self._without_workers() from None
            return self._sent[1]

    def _forget(self, data: Future) -> None:
        with self._sending:
            if self._sent is not None and self._sent[1] is data:
                self._sent = None


class _Training:
    """A task: train on a fold of the data.

    An object, because Dask would look for names of tasks among plain arguments.
    """

    def __init__(self, arguments: tuple[int, Solver, Values, str]) -> None:
        self._arguments = arguments

    def __call__(self, task: TuningTask) -> list[FoldResult]:
        number, solver, Cs, study = self._arguments
        with _cutting:  # once for all tasks of this worker
            task.folds  # noqa: B018
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # counted, as in the study
            return list(train_here(task, number, solver, Cs, _Stopping(study)))


class _Stopping:
    """Whether the study has ended, asked of the scheduler now and then."""

    def __init__(self, study: str) -> None:
        self._goes_on = Event(study)
        self._asked = time.monotonic()
        self._answer = False

    def __call__(self) -> bool:
        if not self._answer and time.monotonic() - self._asked > _LOOK_EVERY:
            self._answer = not self._goes_on.is_set()
            self._asked = time.monotonic()
        return self._answer


def _on_one_thread(solver: Solver) -> Solver:
    """The solver as it shares a machine: a worker does as many tasks as it has threads."""
    if solver.get_params(deep=False).get("n_threads", 1) is not None:
        return solver
    own: Solver = clone(solver).set_params(n_threads=1)
    return own


def _reason(future: Future) -> BaseException:
    error: BaseException = future.exception()
    if not isinstance(error, KilledWorker):
        return error
    return TuningError(
        f"{error.allowed_failures + 1} workers died one after the other while they trained with "
        "these parameters: most likely the data and the model do not fit into a worker's memory"
    )
