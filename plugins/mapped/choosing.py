"""Mapped data, kept while C changes, and the choice of C on data that are held out."""

from __future__ import annotations

import math
import time
import warnings
import weakref
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import clone

from rankplug.data import JoinedMatrix, RankingData
from rankplug.exceptions import ConvergenceWarning, DataError, DataWarning
from rankplug.maps import FeatureMap, FittedJoin, JoinedMap
from rankplug.metrics import measure_data
from rankplug.solver import Data, Monitor, Progress, Solver, SolverResult
from rankplug.system.interruption import interrupted

GRID = np.logspace(0.0, 6.0, 13)
"""Of C, where the loss is a mean and rows have length 1: on ranking sets of the public kind noisy
ones are best at 10 to 100, clean ones at 1,000 to 30,000, and none below 1."""
_PATIENCE = 2
"""Values of C without a better score after which the search ends: scores have one peak."""
_LOOSE = 1e-2
"""The tolerance of the search: orders differ little from those of the minimum."""
_DEFAULT = 100.0
"""Of the grid, if there is no time to search."""
_HELD_OUT = 5
"""One of so many queries, or rows."""

# Shares of a time limit, so that there is some for the last solve.
_SHARE_OF_MAP = 0.6
_SHARE_OF_FIRST_MAP = 0.3
_SHARE_OF_SEARCH = 0.5
_SHORTEST = 1e-3  # seconds: limits are above 0

_CACHE: weakref.WeakKeyDictionary[Any, tuple[Any, MappedData, Any]] = weakref.WeakKeyDictionary()
"""The last map of each data set, so that trials that change only C do not fit it again."""


@dataclass(frozen=True)
class MappedData:
    """A fitted map, and the training data on its columns.

    Attributes
    ----------
    map : FittedJoin
    data : RankingData or LabelRankingData
    compact : bool
        Whether the columns stay in blocks, for solvers that see data as shards; else they are CSR.
    """

    map: FittedJoin
    data: Data
    compact: bool

    def of(self, data: Data) -> Data:
        """Other data on the same columns."""
        return _with_columns(data, self.map.transform(data.X), self.compact)

    def watched(self, monitor: Monitor) -> dict[str, Data]:
        """The data that are watched on the same columns."""
        return {name: self.of(data) for name, data in monitor.watched.items()}


def map_data(
    maps: FeatureMap,
    data: Data,
    valid: Data | None,
    rng: np.random.Generator,
    compact: bool,
    time_limit: float | None,
) -> MappedData:
    """Fit the map, or take the one that was fitted last to these data in the same way.

    The generator is then left as fitting leaves it, so that results do not depend on it.
    """
    joined = maps if isinstance(maps, JoinedMap) else JoinedMap([maps])
    state = repr(rng.bit_generator.state)
    asked = (_settings(joined), state, _Itself(valid), compact, time_limit)
    kept = _CACHE.get(data)  # once: other threads may put in theirs
    if kept is not None and kept[0] == asked:
        _, found, rng.bit_generator.state = kept
        return found
    fitted, columns = joined.fit_transform(
        data, valid=valid, random_state=rng, time_limit=time_limit
    )
    found = MappedData(fitted, _with_columns(data, columns, compact), compact)
    if not interrupted():
        _CACHE[data] = asked, found, rng.bit_generator.state
    return found


class _Itself:
    """An object that equals nothing but itself, and is kept: its address is not used again."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Itself) and self._value is other._value

    __hash__ = None  # type: ignore[assignment]


def _settings(joined: JoinedMap) -> list[Any]:
    """Names and parameters of maps; a solver among these is told by its name and parameters."""
    return [
        (one.name, {key: _setting(value) for key, value in one.get_params().items()})
        for one in joined.maps
    ]


def _setting(value: Any) -> Any:
    if isinstance(value, Solver):
        return value.name
    return value if isinstance(value, str | int | float | None) else _Itself(value)


def _with_columns(data: Data, columns: JoinedMatrix, compact: bool) -> Data:
    X: Any = columns if compact else columns.tocsr()
    return replace(data, X=X, feature_names=None).noting_missing(False)


def hold_out(data: Data, rng: np.random.Generator) -> tuple[Data, Data]:
    """Four fifths of the queries (instances, or rows of the only query), and the others."""
    if isinstance(data, RankingData) and data.n_queries == 1:
        return _divide_rows(data, rng)
    order = rng.permutation(data.n_examples)
    # Each part needs pairs: those with some go to both in turn.
    order = np.concatenate(
        [order[data.pair_counts[order] > 0], order[data.pair_counts[order] == 0]]
    )
    held = np.arange(len(order)) % _HELD_OUT == 1
    if not all(data.pair_counts[order[part]].any() for part in (held, ~held)):
        return data, data
    return data.take(np.sort(order[~held])), data.take(np.sort(order[held]))


def _divide_rows(data: RankingData, rng: np.random.Generator) -> tuple[RankingData, RankingData]:
    order = rng.permutation(data.n_samples)
    cut = data.n_samples // _HELD_OUT
    parts = [
        replace(
            data,
            X=data.X[rows],
            relevance=data.relevance[rows],
            query_ptr=np.array([0, len(rows)]),
            order=None,
        )
        for rows in (np.sort(order[cut:]), np.sort(order[:cut]))
    ]
    if not all(len(np.unique(part.relevance)) > 1 for part in parts):
        return data, data
    return parts[0], parts[1]


class CSearch:
    """Solutions for ascending C, each scored on held-out data, until they get worse.

    Attributes
    ----------
    best : SolverResult or None
        That of the best C; None if there was no time for one.
    best_c : float
    n_passes : float
    """

    def __init__(self, solver: Solver, Cs: Any, monitor: Monitor, rng: np.random.Generator) -> None:
        self._solver, self._Cs, self._monitor, self._rng = solver, Cs, monitor, rng
        self.best: SolverResult | None = None
        self.best_c = float(_DEFAULT * Cs[0] / GRID[0])
        self.n_passes = 0.0

    def run(self, mapped: MappedData, held: Data) -> None:
        """Solve for one C after the other.

        Raises
        ------
        DataError
            If the metric is undefined for all queries of the held-out data.
        """
        metric, held = self._monitor.metric_of(held), mapped.of(held)
        watched = mapped.watched(self._monitor)
        sign = 1.0 if metric.greater_is_better else -1.0
        last, best_score, since = None, -np.inf, 0
        for k, C in enumerate(self._Cs):
            last = self._solve(mapped.data, held, float(C), last)
            self.n_passes += last.n_passes
            score = measure_data(held, last.model.predict(held.X), metric)[str(metric)].mean()
            if math.isnan(score):
                raise DataError(
                    f"{metric} is undefined for every query of the data by which C is chosen: take "
                    "another eval_metric or other validation data, or give C"
                )
            since += 1
            if sign * score > best_score:
                self.best, self.best_c, best_score, since = last, float(C), sign * score, 0
            going = self._monitor.report(
                k + 1,
                evals=self._monitor.measure(last.model, watched),
                C=float(C),
                **{f"held_out_{metric.log_name}": score},
            )
            if not going or since >= _PATIENCE or self._is_overdue():
                return

    def _solve(self, data: Data, held: Data, C: float, last: SolverResult | None) -> SolverResult:
        solver = clone(self._solver).set_params(C=C)
        tol = solver.get_params(deep=False).get("tol")
        if tol is not None:
            solver.set_params(tol=max(tol, _LOOSE))
        init = last if solver.tags.warm_start else None
        with warnings.catch_warnings():
            # What a C that is not taken does is no news.
            warnings.simplefilter("ignore", ConvergenceWarning)
            warnings.simplefilter("ignore", DataWarning)
            found: SolverResult = solver.solve(
                data,
                valid=held if solver.uses_validation() else None,
                init=init,
                callback=self._is_over,
                random_state=self._rng,
            )
        return found

    def _is_over(self, step: Progress) -> bool:
        return step.n_iter > 0 and self._is_overdue()

    def _is_overdue(self) -> bool:
        return is_overdue(self._monitor, _SHARE_OF_SEARCH)


def is_overdue(monitor: Monitor, share: float = 1.0) -> bool:
    """Whether that share of the time limit has passed."""
    return _left(monitor, share) <= 0.0


def time_of_map(monitor: Monitor, *, searched: bool) -> float | None:
    """What a map may take of the time that is left; less where C is still to be searched."""
    if monitor.time_limit is None:
        return None
    share = _SHARE_OF_FIRST_MAP if searched else _SHARE_OF_MAP
    return share * max(_left(monitor), _SHORTEST)


def _left(monitor: Monitor, share: float = 1.0) -> float:
    """Seconds until that share of the time limit has passed."""
    if monitor.time_limit is None:
        return np.inf
    return share * monitor.time_limit - (time.perf_counter() - monitor.started)
