"""`Cluster`: a Dask client with time limits, whose errors say what is wrong with the cluster."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import threading
import time
import uuid
from collections.abc import Hashable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias, TypeVar

from dask.delayed import Delayed
from distributed import Client, Future, KilledWorker
from distributed.client import ClosedClientError
from distributed.comm import CommClosedError
from distributed.scheduler import NoValidWorkerError, NoWorkerError

from rankplug.exceptions import ClusterError, ParameterError
from rankplug.parameters import Optional, Real, check_parameters
from rankplug.system.interruption import raise_if_overdue

T = TypeVar("T")

Graph: TypeAlias = Mapping[Any, Any]
"""Tasks ``{key: (function, argument or key or future, ...)}``, as Dask writes them."""

_LOOK_EVERY = 0.5
"""Seconds until an interruption or a lost scheduler is noticed; a task that is done is at once."""
_ANSWER_WITHIN = 5.0
"""Seconds for a question that is asked for the sake of an error message only."""
_FAULTS = (
    asyncio.CancelledError,
    concurrent.futures.CancelledError,
    CommClosedError,
    ClosedClientError,
    NoValidWorkerError,
    NoWorkerError,
)


class Cluster:
    """The workers that a client reaches.

    Every method raises `ClusterError` if the scheduler is lost, what a task needs cannot be had
    again, or nothing is done for `timeout` seconds; and what a task raised, if one did.

    Parameters
    ----------
    client : distributed.Client
    timeout : float or None
        None: wait for ever.
    """

    def __init__(self, client: Client, timeout: float | None) -> None:
        self.client = client
        self.timeout = timeout

    @property
    def n_threads(self) -> int:
        """Threads of all workers that are there now."""
        with self._explain_faults():
            return sum(self.client.nthreads().values())

    def start(self, graph: Graph, keys: Sequence[Hashable]) -> list[Future]:
        """Have the tasks done; those named are kept until their futures are released."""
        with self._explain_faults():
            futures: list[Future] = self.client.get(dict(graph), list(keys), sync=False)
        return futures

    def compute(self, delayed: Sequence[Delayed]) -> list[Future]:
        """Have these computed; they are kept until their futures are released."""
        with self._explain_faults():
            futures: list[Future] = self.client.compute(list(delayed))
        return futures

    def send(self, value: Any) -> Future:
        """Send a value to a worker; Dask cannot make it again if all workers with it are lost."""
        with self._explain_faults():
            try:
                (future,) = self.client.scatter([value], hash=False, timeout=self.timeout)
            except TimeoutError:
                raise self._timed_out() from None
        return future

    def results(self, graph: Graph, keys: Sequence[Hashable]) -> list[Any]:
        """Have the tasks done and return the results of those named."""
        futures = self.start(graph, keys)
        try:
            self.wait(futures)
            return self._fetch(futures)
        finally:
            release(futures)

    def run(self, graph: Graph, key: Hashable) -> Any:
        """Have the tasks done and return the result of one."""
        (result,) = self.results(graph, [key])
        return result

    def gather(self, futures: Sequence[Future]) -> list[Any]:
        """Wait for the results, bring them together on a worker, and fetch them."""
        self.wait(futures)
        name = unique_name("gather")
        results: list[Any] = self.run({name: (same, list(futures))}, name)
        return results

    def wait(self, futures: Sequence[Future]) -> None:
        """Wait until all are done, or one has failed."""
        last, changed = len(futures), time.monotonic()
        for pending in until_done(futures):
            raise_if_overdue()
            if any(future.status == "error" for future in futures):
                return
            if self.client.status != "running":
                raise self._lost(CommClosedError())
            if len(pending) < last:
                last, changed = len(pending), time.monotonic()
            elif self.timeout is not None and time.monotonic() - changed > self.timeout:
                raise self._timed_out()

    def _fetch(self, futures: Sequence[Future]) -> list[Any]:
        gather = partial(self.client.gather, list(futures), asynchronous=True)
        with self._explain_faults():
            try:
                results: list[Any] = self.client.sync(gather, callback_timeout=self.timeout)
            except TimeoutError:
                if any(future.status == "error" for future in futures):  # it is the task's own
                    raise
                raise self._timed_out() from None
        return results

    @contextlib.contextmanager
    def _explain_faults(self) -> Iterator[None]:
        try:
            yield
        except KilledWorker as error:
            raise ClusterError(
                f"{error.allowed_failures + 1} workers died one after the other at the same task "
                f"({error.task}): most likely a partition does not fit into the memory of a "
                "worker; make partitions smaller or workers larger"
            ) from error
        except _FAULTS as error:
            raise self._lost(error) from error
        except Exception as error:
            if self.client.status == "running":
                raise
            raise self._lost(error) from error

    def _lost(self, error: BaseException) -> ClusterError:
        if self.client.status != "running":
            return ClusterError(
                f"the connection to the Dask scheduler {_address(self.client)} was lost (the "
                f"client is {self.client.status}): start it again, or connect a new Client, and "
                "train again"
            )
        return ClusterError(
            "the cluster lost something that it cannot compute again, such as data sent by "
            f"Client.scatter, or was restarted: make the data anew and train again ({error})"
        )

    def _timed_out(self) -> ClusterError:
        if self.client.status != "running":
            return self._lost(TimeoutError())
        return ClusterError(
            f"the cluster {_address(self.client)} got nothing done for {self.timeout:g} seconds: "
            f"{self._state()}; look at its dashboard and logs, or raise timeout"
        )

    def _state(self) -> str:
        ask = self.client.scheduler.ncores
        try:
            workers = self.client.sync(ask, workers=None, callback_timeout=_ANSWER_WITHIN)
        except TimeoutError:
            return "its scheduler does not answer"
        return f"workers connected: {len(workers)}" if workers else "no worker is left"


def connect(client: Client | None, timeout: float | None) -> Cluster:
    """The cluster of a client, by default that of the current one.

    Raises
    ------
    ParameterError
        Without a client, if it is closed, asynchronous or something else, or `timeout` is not a
        number.
    """
    check_parameters("Dask cluster", {"timeout": Optional(Real(0))}, {"timeout": timeout})
    if client is None:
        try:
            client = Client.current()
        except ValueError:
            raise ParameterError(
                "no Dask client: connect one first, client = distributed.Client(address), or "
                "distributed.Client() for this machine alone"
            ) from None
    if not isinstance(client, Client):
        raise ParameterError(f"client={client!r} must be a distributed.Client")
    if client.asynchronous:
        raise ParameterError("client is asynchronous: pass a Client(..., asynchronous=False)")
    if client.status != "running":
        raise ParameterError(f"client is {client.status}: connect a new one")
    return Cluster(client, timeout)


def until_done(futures: Sequence[Future]) -> Iterator[list[Future]]:
    """Those that are pending, whenever one of them is done or half a second has passed."""
    done = threading.Event()  # `distributed.wait` asks whatever client is the default one
    for future in futures:
        future.add_done_callback(lambda _: done.set())
    pending = _pending(futures)
    while pending:
        done.wait(_LOOK_EVERY)
        done.clear()
        pending = _pending(futures)
        if pending:
            yield pending


def release(futures: Sequence[Future]) -> None:
    """Let the workers forget the results, unless there is another future of them."""
    for future in futures:
        future.release()


def same_future(future: Future) -> Future:
    """Another one of the same task, which is kept as long as one of them is not released."""
    return Future(future.key, future.client)


def same(value: T) -> T:
    """A task: what it depends on."""
    return value


def unique_name(what: str) -> str:
    """A key that nobody else has; on dashboards it is shown as `what`."""
    return f"rankplug-{what.replace('_', '-')}-{uuid.uuid4().hex}"


def _pending(futures: Sequence[Future]) -> list[Future]:
    return [future for future in futures if future.status == "pending"]


def _address(client: Client) -> str:
    return f"at {client.scheduler.address}" if client.scheduler is not None else ""
