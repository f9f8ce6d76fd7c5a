"""Pairs that count differently: what a pass costs, and what gains do to NDCG@10."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from typing import Any

import numpy as np

import rankplug
from benchmarks.boosting import Fold, Row, comparison_rows, sets_of_folds
from benchmarks.measure import alternate
from rankplug.data import RankingData
from rankplug.exceptions import ConvergenceWarning
from rankplug.metrics import per_query
from rankplug.objectives import PairWeighting, SquaredHinge, open_pairs
from rankplug.solver import iterate_path

_WEIGHINGS: Mapping[str, tuple[PairWeighting, bool]] = {
    "uniform": (PairWeighting(), False),
    "documents, preferred (rank 1)": (PairWeighting(), True),
    "documents, product (rank 1)": (PairWeighting(document_pairs="product"), True),
    "gain (rank 2)": (PairWeighting("gain"), False),
    "gain and documents (rank 2)": (PairWeighting("gain", "product"), True),
}
_ROWS = 50_000

_ENTRANTS: Mapping[str, tuple[str, dict[str, Any], bool]] = {
    "tree-tron": ("tree-tron", {"n_threads": 1}, False),
    "tree-tron, gain": ("tree-tron", {"n_threads": 1, "pair_weight": "gain"}, False),
    "tree-tron, gain, inverse-idcg": ("tree-tron", {"n_threads": 1, "pair_weight": "gain"}, True),
    "tree-tron, relevance": ("tree-tron", {"n_threads": 1, "pair_weight": "relevance"}, False),
    "xgboost-all-pairs": ("xgboost-all-pairs", {}, False),
    "xgboost-all-pairs, gain": ("xgboost-all-pairs", {"pair_weight": "gain"}, False),
    "xgboost-all-pairs, gain, inverse-idcg": ("xgboost-all-pairs", {"pair_weight": "gain"}, True),
}
_TREES = {
    "zeros": "value",
    "n_threads": 1,
    "n_estimators": 300,
    "early_stopping_rounds": 30,
    "max_depth": 5,
    "learning_rate": 0.1,
}
_CS = np.arange(1.0, 7.01, 0.5)
"""Decades of C above where nothing is learnt yet."""


def pair_weights(tiny: bool, rounds: int) -> Iterator[Row]:
    """CPU time of a Hessian product and of a step of the line search, one thread, alternated."""
    shapes = [(5, 136, 120), (5, 20, 120), (12, 136, 120), (1000, 136, 1000), (1000, 20, 1000)]
    for n_levels, n_features, query_size in shapes:
        data = _rows(n_levels, n_features, query_size, 2000 if tiny else _ROWS)
        with ExitStack() as stack:
            calls: dict[str, Callable[[], Any]] = {}
            for name, (weighting, documents) in _WEIGHINGS.items():
                used = data if documents else data.with_facts(document_weight=None)
                shards = stack.enter_context(open_pairs(used, "mean", 1, weighting))
                loss = SquaredHinge(shards)
                loss.move_to(np.zeros(n_features))
                loss.start_direction()
                v = np.random.default_rng(1).normal(size=n_features) / np.sqrt(n_features)
                loss.hessian_product(v)
                loss.extend_direction(1.0)
                calls[f"product: {name}"] = partial(loss.hessian_product, v)
                calls[f"step: {name}"] = partial(loss.loss_along, 0.7)
            found = alternate(calls, max(3, 3 * rounds))
        for call, samples in found.items():
            what, name = call.split(": ")
            plain = found[f"{what}: uniform"]
            yield {
                "levels": n_levels,
                "features": n_features,
                "rows": data.n_samples,
                "rows_a_query": query_size,
                "call": {"product": "Hessian product", "step": "step of the line search"}[what],
                "weights": name,
                "thread_cpu_s": samples.median("thread_cpu"),
                "of_uniform": samples.ratio(plain, "thread_cpu"),
                "runs": len(samples.timings),
            }


def _rows(n_levels: int, n_features: int, query_size: int, n_rows: int) -> RankingData:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, n_features)).astype(np.float32)
    y = rng.integers(0, n_levels, n_rows) * (min(4.0, n_levels) / n_levels)
    qid = np.arange(n_rows) // query_size
    return RankingData.from_arrays(X, y, qid, document_weight=rng.random(n_rows))


def gain_ndcg(tiny: bool, _rounds: int) -> Iterator[Row]:
    """NDCG@10 of the test queries of all folds, by what pairs count, with intervals.

    C of the linear solver is the best of 13 by validation NDCG@10, trees stop early by it.
    """
    for name, folds in sets_of_folds(tiny).items():
        made = [fold() for fold in folds]
        found = {
            entrant: np.concatenate([_tested(entrant, fold, tiny) for fold in made])
            for entrant in _ENTRANTS
        }
        for entrant, values in found.items():
            common = {"data": name, "folds": len(made), "entrant": entrant}
            yield {**common, "mean": float(np.nanmean(values))}
        for solver in ("tree-tron", "xgboost-all-pairs"):
            own = {key: values for key, values in found.items() if key.startswith(solver)}
            for row in comparison_rows(own, solver, "ndcg@10"):
                yield {"data": name, "folds": len(made), **row}


def _tested(entrant: str, fold: Fold, tiny: bool) -> Any:
    """NDCG@10 of each test query."""
    name, params, by_idcg = _ENTRANTS[entrant]
    train = fold.train.weigh_queries("inverse-idcg") if by_idcg else fold.train
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        if name == "tree-tron":
            solver: Any = rankplug.make_solver(name, **params)
            low = solver.tuning_space(train)["C"].low
            Cs = low * 10.0 ** (_CS[::4] if tiny else _CS)
            models = [result.model for result in iterate_path(solver, train, Cs)]
            models = sorted(models, key=lambda model: -float(np.nanmean(_ndcg(model, fold.valid))))
            return _ndcg(models[0], fold.test)
        trees = rankplug.make_solver(name, **{**_TREES, **params})
        return _ndcg(trees.solve(train, valid=fold.valid, random_state=0).model, fold.test)


def _ndcg(model: Any, data: RankingData) -> Any:
    scores = model.predict(data.X)
    return per_query(data.relevance, scores, data.qid, "ndcg@10")["ndcg@10"]
