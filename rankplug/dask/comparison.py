"""`compare`: solvers trained on the same partitions of a cluster, scored alike, in a report."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from importlib.metadata import version
from typing import Any

import numpy as np
import yaml
from distributed import Client
from numpy.typing import NDArray

from rankplug.dask.data import ClusterData
from rankplug.dask.forms import Given, lacks_queries, open_data, unpack, warn_of_one_query
from rankplug.data import RankingData
from rankplug.exceptions import DataError, RankplugError, UnknownNameError
from rankplug.metrics import parse_metric, parse_metrics
from rankplug.metrics.evaluation import Measured, measure_queries
from rankplug.models import Model, predict_data, scaled_model
from rankplug.report import Outcome, Report
from rankplug.solver import Solver, Solvers, make_solver, name_solvers
from rankplug.tuning import plain

_USUAL_BASELINE = "xgboost-pairwise"
_PACKAGES = ("rankplug", "dask", "numpy", "xgboost")


def compare(
    solvers: Solvers,
    train: Given,
    test: Given,
    *,
    metrics: str | Sequence[str] = "ndcg@10",
    baseline: str | None = None,
    name: str = "cluster",
    seed: int = 0,
    client: Client | None = None,
    timeout: float | None = 300.0,
) -> Report:
    """Train solvers one after the other on `train`, and compare them query by query on `test`.

    Every solver gets the same partitions where they are; "xgboost-pairwise" trains on them by
    ``xgboost.dask``. Partitions are scored where they are, too: of each query only the metrics
    come here, on which the tests of the report are made.

    Parameters
    ----------
    solvers : iterable of str or Solver, or mapping of them by name
        Registered names or solvers that can train on a cluster.
    train, test : ClusterData, tuple, str, Path or PreparedFolder
        With the same features: data on the cluster; ``(X, y, qid)`` of Dask collections, with
        ``sample_weight`` behind it if there are weights, or ``(X, y)`` with a column ``qid`` in X;
        or a prepared folder that every worker sees.
    metrics : str or sequence of str
        Names of `rankplug.metrics`; the first is what is tested.
    baseline : str, optional
        Which of the solvers the others are compared with; by default "xgboost-pairwise" if it is
        one of them, else the first.
    name : str
        Title of the report.
    seed : int
        For solvers that use random numbers.
    client, timeout
        As in `ClusterData.from_collections`, for data that are not on the cluster.

    Returns
    -------
    Report
        `rankplug.report.write_report` makes files of it, among them an HTML page. A solver that
        fails has an outcome with its error. Seconds are wall time, here.

    Raises
    ------
    DataError
        If the features differ, or a metric has no meaning for the relevance.
    ParameterError
        If two solvers have one name, or there is none.
    UnknownNameError
        If a solver, a metric or the baseline is unknown.

    Examples
    --------
    >>> train = df[features], df["y"], df["qid"]  # doctest: +SKIP
    >>> report = compare(["tree-tron", "xgboost-pairwise"], train, "test-folder")  # doctest: +SKIP
    >>> print(rankplug.report.to_text(report))  # doctest: +SKIP
    """
    chosen = _by_name(solvers)
    names = tuple(map(str, parse_metrics(metrics).values()))
    baseline = _baseline(baseline, list(chosen))
    given = {"train": unpack(train, "train"), "test": unpack(test, "test")}
    with ExitStack() as stack:
        data = {
            split: stack.enter_context(open_data(*one, client=client, timeout=timeout))
            for split, one in given.items()
        }
        for split, (X, _, qid, _) in given.items():
            if lacks_queries(X, qid):
                warn_of_one_query(data[split].n_samples, stacklevel=2)
        _require_same_features(data["train"], data["test"])
        query_ids = np.concatenate(data["test"].map(_checked_query_ids, names))
        outcomes = [
            _compete(one, solver, data["train"], data["test"], names, seed)
            for one, solver in chosen.items()
        ]
        return Report(
            name=name,
            metrics=names,
            outcomes=tuple(outcomes),
            recipe=_description(chosen, names, baseline, seed),
            splits={split: _describe(one) for split, one in data.items()},
            query_ids=query_ids,
            baseline=baseline,
            digests={"seed": str(seed), **{package: version(package) for package in _PACKAGES}},
        )


def _compete(
    name: str,
    solver: Solver,
    train: ClusterData,
    test: ClusterData,
    metrics: Sequence[str],
    seed: int,
) -> Outcome:
    """Train one solver and score its model; a failure is an outcome too."""
    outcome = Outcome(name, solver.name, solver.get_params(deep=False), "failed")
    try:
        started = time.perf_counter()
        result = solver.solve(train, random_state=seed)
        seconds = time.perf_counter() - started
        model = scaled_model(result.model, train.scaling)
        measured = _measure(model, test, metrics)
    except Exception as error:
        reason = (
            str(error) if isinstance(error, RankplugError) else f"{type(error).__name__}: {error}"
        )
        return replace(outcome, error=reason)
    return replace(
        outcome,
        status=result.status,
        result=replace(result, model=model),
        metrics={"test": {metric: values.mean() for metric, values in measured.items()}},
        per_query={metric: values.values for metric, values in measured.items()},
        train_seconds=seconds,
        costs={"train_seconds": seconds},
    )


def _measure(model: Model, test: ClusterData, metrics: Sequence[str]) -> dict[str, Measured]:
    """The metrics of all queries, in the order of the partitions."""
    parts = test.map(_measure_part, model, metrics)
    return {
        metric: Measured(*map(np.concatenate, zip(*(part[metric] for part in parts), strict=True)))
        for metric in metrics
    }


def _measure_part(data: RankingData, model: Model, metrics: Sequence[str]) -> dict[str, Measured]:
    """A task: the metrics of a partition's queries."""
    return measure_queries(data.relevance, predict_data(model, data), data.qid, metrics)


def _checked_query_ids(data: RankingData, metrics: Sequence[str]) -> NDArray[Any]:
    """A task: the ids of a partition's queries; raises if a metric has no meaning for them."""
    for metric in metrics:
        parse_metric(metric).check(data.relevance)
    return data.query_ids


def _by_name(solvers: Solvers) -> dict[str, Solver]:
    named = name_solvers(solvers)
    return {name: make_solver(one) if isinstance(one, str) else one for name, one in named.items()}


def _baseline(asked: str | None, names: Sequence[str]) -> str:
    if asked is None:
        return _USUAL_BASELINE if _USUAL_BASELINE in names else names[0]
    if asked not in names:
        raise UnknownNameError("baseline", asked, names)
    return asked


def _require_same_features(train: ClusterData, test: ClusterData) -> None:
    if (test.n_features, test.feature_names) != (train.n_features, train.feature_names):
        raise DataError(
            f"the test data have {test.n_features} features, which are not the "
            f"{train.n_features} of the training data: give both the same columns"
        )


def _describe(data: ClusterData) -> str:
    return (
        f"{data.n_queries:,} queries, {data.n_samples:,} rows, {data.n_features:,} features, "
        f"{data.n_partitions} partitions"
    )


def _description(
    solvers: Mapping[str, Solver], metrics: Sequence[str], baseline: str, seed: int
) -> str:
    """What was compared, as YAML."""
    described = {
        name: {"solver": solver.name, "params": plain(solver.get_params(deep=False))}
        for name, solver in solvers.items()
    }
    content = {"metrics": list(metrics), "baseline": baseline, "seed": seed, "solvers": described}
    return yaml.safe_dump(content, sort_keys=False)
