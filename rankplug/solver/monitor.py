"""Watching a solver: iterations are recorded, told to a callback and a log, and may be the last."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, TypeAlias

import numpy as np

from rankplug.data import LabelRankingData, RankingData
from rankplug.metrics import Metric, measure_data, parse_metric
from rankplug.models import Model
from rankplug.solver.stopping import Candidate, EarlyStopping
from rankplug.system.interruption import interrupted

_log = logging.getLogger("rankplug")


@dataclass(frozen=True)
class Progress:
    """An iteration, as a callback gets it; its ``str`` is a line that tells it.

    Attributes
    ----------
    n_iter : int
    seconds : float
        Since the solver was called.
    values : mapping of str to float
        The numbers of that iteration (``objective``, ``gradient_norm``, ...), the same that go
        into the history.
    evals : mapping of str to mapping of str to float
        The metrics of the data that are watched, ``{"validation_0": {"ndcg@10": 0.93}}``.
    model : callable or None
        Makes the model that the solver would return now, or with early stopping that of this
        iteration; None if it does not show its models.
    """

    n_iter: int
    seconds: float
    values: Mapping[str, float]
    evals: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    model: Callable[[], Model] | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        shown = [f"{name} {value:.6g}" for name, value in self.values.items()]
        for data, metrics in self.evals.items():
            shown += [f"{data} {name} {value:.6g}" for name, value in metrics.items()]
        return f"iteration {self.n_iter} ({self.seconds:.2f} s): {', '.join(shown) or 'done'}"


Callback: TypeAlias = Callable[[Progress], bool | None]
"""Called after each iteration; a true return value stops the solver."""


@dataclass
class Monitor:
    """The history of a run, and why it should stop: a signal, the callback or the time limit.

    Each iteration is told to the callback and, at INFO, to the logger ``rankplug``.

    Attributes
    ----------
    callback : callable or None
    time_limit : float or None
    history : list of dict
        A row of `SolverResult.history` for each iteration reported.
    started : float
        Of the clock `time.perf_counter`.
    interruption : "time_limit", "stopped" or None
        Why `report` returned False; it is the status of a run that ends as "stopped".
    objective_of_zero : float or None
        The objective at w = 0, if the solver has said it: a model that has no less ranks nothing.
    name : str
        That of the solver, for the log.
    watched : mapping of str to RankingData or LabelRankingData
        Data that are only looked at, by their names in `evals`.
    metric : Metric or None
        What they are measured by; None: what suits each of them.
    evals : dict of dict of list
        See `SolverResult.evals`.
    failure : Exception or None
        What the callback has raised.
    stopping : EarlyStopping or None
        If validation data are to end the run.
    """

    callback: Callback | None = None
    time_limit: float | None = None
    history: list[dict[str, float]] = field(default_factory=list)
    started: float = field(default_factory=time.perf_counter)
    interruption: Literal["time_limit", "stopped"] | None = None
    objective_of_zero: float | None = None
    name: str = "solver"
    watched: Mapping[str, RankingData | LabelRankingData] = field(default_factory=dict)
    metric: Metric | None = None
    evals: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    failure: Exception | None = None
    stopping: EarlyStopping | None = None

    def report(
        self,
        n_iter: int,
        *,
        model: Callable[[], Model] | None = None,
        iterate: Candidate | None = None,
        evals: Mapping[str, Mapping[str, float]] | None = None,
        **values: float,
    ) -> bool:
        """Record an iteration; False if the solver should stop now.

        Parameters
        ----------
        n_iter : int
        model : callable, optional
            Makes the model that the solver would return now. It is called if data are watched.
        iterate : Candidate, optional
            What this iteration has reached, for early stopping, where that is not `model` with
            the value ``objective``.
        evals : mapping, optional
            The metrics of the watched data, from a solver that measures them itself.
        **values : float
            The solver's own numbers.
        """
        seconds = time.perf_counter() - self.started
        if self.stopping is not None:
            iterate = iterate or (model and Candidate(model, values.get("objective")))
            model, found = self._look_early(n_iter, iterate, self.stopping)
            values |= found
        self.history.append({"n_iter": n_iter, "seconds": seconds, **values})
        if evals is None and model is not None and self.watched:
            evals = self.measure(model())
        evals = {data: dict(metrics) for data, metrics in (evals or {}).items()}
        for data, metrics in evals.items():
            for name, value in metrics.items():
                known = self.evals.setdefault(data, {}).setdefault(name, [])
                known += [np.nan] * (len(self.history) - 1 - len(known)) + [value]
        progress = Progress(n_iter, seconds, values, evals, model)
        if _log.isEnabledFor(logging.INFO):
            _log.info("%s: %s", self.name, progress)
        enough = self.stopping is not None and self.stopping.is_over
        if self._asks_to_stop(progress) or enough:
            self.interruption = "stopped"
        elif self.time_limit is not None and seconds >= self.time_limit:
            self.interruption = "time_limit"
        if interrupted():
            self.interruption = "stopped"
        return self.interruption is None

    def is_late(self) -> bool:
        """Whether the time limit is over."""
        return self.time_limit is not None and time.perf_counter() - self.started >= self.time_limit

    def report_weights(self, make_model: Callable[[Any], Model]) -> Callable[..., bool]:
        """`report` for optimisers, which tell their weights `w`: `make_model` makes the model."""

        def report(
            n_iter: int, *, w: Any, iterate: tuple[Any, float] | None = None, **values: Any
        ) -> bool:
            found = iterate and Candidate(partial(make_model, iterate[0]), iterate[1])
            return self.report(n_iter, model=partial(make_model, w), iterate=found, **values)

        return report

    def _look_early(
        self, n_iter: int, iterate: Candidate | None, stopping: EarlyStopping
    ) -> tuple[Callable[[], Model] | None, dict[str, float]]:
        """Show the iteration's model to early stopping if it is due; what makes it, and values."""
        if iterate is None or not stopping.is_due(n_iter):
            return (None if iterate is None else iterate.make), {}
        made = iterate.make()
        return (lambda: made), stopping.look(n_iter, made, iterate.objective)

    def _asks_to_stop(self, progress: Progress) -> bool:
        try:
            return self.callback is not None and bool(self.callback(progress))
        except Exception as error:
            self.failure = error
            raise

    def finished_evals(self, model: Model) -> dict[str, dict[str, tuple[float, ...]]]:
        """The values of the watched data, those of the model where there are no others."""
        if len(self.evals) < len(self.watched):
            found = self.measure(model)
            for data in self.watched.keys() - self.evals.keys():
                self.evals[data] = {name: [value] for name, value in found[data].items()}
        return {
            data: {name: tuple(values) for name, values in self.evals[data].items()}
            for data in self.watched
        }

    def measure(
        self, model: Model, watched: Mapping[str, RankingData | LabelRankingData] | None = None
    ) -> dict[str, dict[str, float]]:
        """The metric of each of the watched data; NaN where it is undefined for all queries.

        `watched` are the same data with the features that the model takes, where it is a part of
        the model that the solver makes.
        """
        values = {}
        for name, data in (self.watched if watched is None else watched).items():
            metric = self.metric_of(data)
            measured = measure_data(data, model.predict(data.X), metric)
            values[name] = {key: one.mean() for key, one in measured.items()}
        return values

    def metric_of(self, data: RankingData | LabelRankingData) -> Metric:
        """What the data are measured by: the solver's metric, else one that such labels have.

        NDCG@10 of documents, Kendall's tau of labels; where the labels are no gains, the share of
        pairs that are ordered rightly.
        """
        usual = "ndcg@10" if data.n_labels is None else "kendall_tau"
        metric = parse_metric(usual) if self.metric is None else self.metric
        known = data.relevance[~np.isnan(data.relevance)]
        return metric if metric.suits(known) else parse_metric("pairwise_accuracy")
