"""The tables of Lee and Lin, "Large-scale linear rankSVM", Neural Computation 26 (2014).

Sets (2, 8), C by validation (3, 4), regression beside rankSVM (5), forests and boosted trees
(6, 7), sparse documents against forests (9), pairs of adjacent levels only (10).
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.ensemble import GradientBoostingRegressor, RandomForestRegressor
from sklearn.svm import LinearSVR

import rankplug
from benchmarks.measure import alternate
from benchmarks.objective import Loss
from benchmarks.papers.lee_lin_sets import (
    CS,
    Collection,
    best_of,
    choose,
    collections,
    quality,
    reuters,
    solver_of,
    text_scores,
    web_search,
)
from benchmarks.rivals import RIVALS
from benchmarks.speed import Row, sizes
from rankplug.data import RankingData
from rankplug.objectives.adjacent import split_levels

_FEW_CS = (1e-3, 1.0)
_MOST_PASSES = 1000  # LIBLINEAR's own limit, which the paper's L1-loss SVR reaches
_PAPER_CS = [
    (name, "the paper", measure, 2.0**power)
    for name, *powers in (
        ("L2-loss rankSVM", 7, 7),
        ("L1-loss rankSVM", 8, -6),
        ("L1-loss SVR", 8, 8),
        ("L2-loss SVR", -1, -4),
    )
    for measure, power in zip(("pairwise_accuracy", "mean_ndcg"), powers, strict=True)
]
"""What the paper chooses for MQ2008, its Tables 3 and 4."""
_FEW_TREES = {"random forest": 40, "GBDT": 100}
_MANY_TREES = 1000
_MOST_ROWS_OF_MANY = 10_000
_DEPTH = 4  # of boosted trees, as the paper's; those of forests are grown out


def data_statistics(tiny: bool, _rounds: int) -> Iterator[Row]:
    """Tables 2 and 8: the training parts, and which of the paper's sets they are or stand for."""
    for collection in _all_collections(tiny):
        data = collection.train
        parts = [data.relevance[a:b] for a, b in pairwise(data.query_ptr)]
        X: Any = data.X
        nonzeros = X.nnz if sparse.issparse(X) else np.count_nonzero(X)
        yield {
            "problem": collection.name,
            "stands_for": collection.stands_for,
            **sizes(data),
            "n_levels": len(np.unique(data.relevance)),
            "levels_per_row": float(np.mean([len(np.unique(y)) / len(y) for y in parts])),
            "nonzeros_per_row": nonzeros / data.n_samples,
            "n_test_queries": collection.test.n_queries,
            "n_test_samples": collection.test.n_samples,
            "n_threads": 1,
        }


def pointwise(tiny: bool, rounds: int) -> Iterator[Row]:
    """Tables 3 to 5: C by validation, then seconds and test metrics, rankSVM and regression."""
    Cs = _FEW_CS if tiny else CS
    for collection in collections(tiny):
        chosen = [
            (name, "validation", measure, C)
            for name, (find, _) in _LINEAR.items()
            for measure, C in find(collection, Cs).items()
        ]
        if collection.name == collection.stands_for.lower():
            chosen += _PAPER_CS
        calls = {
            f"{name} {C}": partial(_LINEAR[name][1], collection.train, C)
            for name, _, _, C in chosen
        }
        samples = alternate(calls, rounds)
        for name, by, measure, C in chosen:
            fitted = samples[f"{name} {C}"]
            model, converged = fitted.result
            yield {
                **_about(collection),
                "method": name,
                "measure": measure,
                "C_from": by,
                "C": C,
                "value": _tested(collection, model)[measure],
                "converged": int(converged),
                **fitted.columns(),
            }


def forests(tiny: bool, rounds: int) -> Iterator[Row]:
    """Tables 6 and 7: pointwise trees; 1000 of them where the set is small.

    A forest of few trees is grown `rounds` times; the table has the mean and the deviation.
    """
    for collection in collections(tiny):
        if sparse.issparse(collection.train.X):
            continue  # in `sparse_forests`
        for name, grow in _TREES.items():
            few = _FEW_TREES["random forest" if name == "random forest" else "GBDT"]
            is_small = collection.train.n_samples <= _MOST_ROWS_OF_MANY
            many = [_MANY_TREES] if is_small and name != "GBDT, scikit-learn" else []
            for trees in [2] if tiny else [few, *many]:
                repeat = name == "random forest" and trees == few and not tiny
                seeds = range(rounds if repeat else 1)
                calls = {str(s): partial(grow, collection.train, trees, s) for s in seeds}
                samples = alternate(calls, 1)
                found = [_tested(collection, one.result) for one in samples.values()]
                row: Row = {"method": name, "n_trees": trees, "runs": len(found)}
                for measure in found[0]:
                    values = [one[measure] for one in found]
                    row |= {measure: np.mean(values), f"{measure}_deviation": np.std(values)}
                spent = [one.median("thread_cpu") for one in samples.values()]
                yield {**_about(collection), **row, "thread_cpu_s": float(np.median(spent))}


def sparse_forests(tiny: bool, rounds: int) -> Iterator[Row]:
    """Table 9: sparse documents, rankSVM with C = 1 against a forest of 40 trees."""
    trees = 2 if tiny else _FEW_TREES["random forest"]
    for collection in _sparse_collections(tiny):
        data = collection.train
        machine = partial(_rank_svm, "squared-hinge", data, 1.0)
        fitted = alternate({"tree-tron": machine}, rounds)
        fitted |= alternate({"random forest": partial(_forest, data, trees, 0)}, 1)
        for name, samples in fitted.items():
            model = samples.result[0] if name == "tree-tron" else samples.result
            row = {**_about(collection), "method": name, **_tested(collection, model)}
            yield {**row, **samples.columns()}


def partial_pairs(tiny: bool, rounds: int) -> Iterator[Row]:
    """Table 10: pairs of adjacent levels against all pairs, where levels are as many as rows."""
    Cs = _FEW_CS if tiny else CS
    several = [one for one in collections(tiny) if one.levels == "real-valued"]
    for collection in [*several, text_scores(tiny, 4000)]:
        data = collection.train
        adjacent: Any = split_levels(data)[0]
        calls: dict[str, Callable[[], Any]] = {}
        chosen = {}
        for pairs in ("adjacent", "all"):
            best = choose(collection, "squared-hinge", Cs, pairs=pairs)["pairwise_accuracy"]
            chosen[pairs] = best
            calls[pairs] = partial(_rank_svm, "squared-hinge", data, best, pairs=pairs)
        # The paper's way to adjacent pairs: LIBLINEAR on the differences of their rows.
        liblinear = RIVALS["linear-svc"]
        chosen["adjacent, LIBLINEAR"] = chosen["adjacent"]
        calls["adjacent, LIBLINEAR"] = partial(
            _differences, liblinear.prepare(adjacent), chosen["adjacent"]
        )
        for name, samples in alternate(calls, rounds).items():
            count = data if name == "all" else adjacent
            row = {"pairs": name, "n_pairs_used": int(count.pair_counts.sum()), "C": chosen[name]}
            found = _tested(collection, samples.result[0])
            yield {**_about(collection), **row, **found, **samples.columns()}


def _all_collections(tiny: bool) -> Iterator[Collection]:
    yield from collections(tiny)
    yield web_search(tiny)
    yield from (one for one in _sparse_collections(tiny) if one.name != "reuters")


def _sparse_collections(tiny: bool) -> Iterator[Collection]:
    if not tiny and "RANKPLUG_DATA" in os.environ:
        folder = Path(os.environ["RANKPLUG_DATA"]) / "reuters_money_fx"
        yield reuters(folder)
        yield reuters(folder, "graded")
    yield text_scores(tiny)


def _about(collection: Collection) -> Row:
    return {"problem": collection.name, **sizes(collection.train), "n_threads": 1}


def _tested(collection: Collection, model: Any) -> dict[str, float]:
    test = collection.test
    return quality(test, np.asarray(model.predict(test.X)).ravel(), collection.levels)


def _rank_svm(loss: Loss, data: RankingData, C: float, **params: Any) -> tuple[Any, bool]:
    """The model, and whether it is within the tolerance."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = solver_of(loss, C, **params).solve(data)
    return result.model, result.status == "converged"


def _regression(loss: str, data: RankingData, C: float) -> tuple[Any, bool]:
    """LIBLINEAR's support vector regression as the paper has it: epsilon = 0 and no bias."""
    squared = loss == "squared_epsilon_insensitive"
    machine = LinearSVR(
        epsilon=0.0,
        loss=loss,
        C=C,
        dual=not squared,
        # LIBLINEAR's own defaults of the two methods.
        tol=1e-3 if squared else 0.1,
        fit_intercept=False,
        max_iter=_MOST_PASSES,
        random_state=0,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        machine.fit(data.X, data.relevance)
    return machine, machine.n_iter_ < _MOST_PASSES


def _differences(prepared: Any, C: float) -> tuple[Any, bool]:
    fitted = RIVALS["linear-svc"].fit(prepared, C=C, tol=1e-3)
    return rankplug.models.LinearModel(fitted.coef), True


def _choose_regression(
    loss: str, collection: Collection, Cs: tuple[float, ...]
) -> dict[str, float]:
    machines = [_regression(loss, collection.train, C)[0] for C in Cs]
    valid = collection.valid
    tried = [quality(valid, one.predict(valid.X), collection.levels) for one in machines]
    return best_of(Cs, tried)


_Choose = Callable[[Collection, tuple[float, ...]], dict[str, float]]
_Fit = Callable[[RankingData, float], tuple[Any, bool]]


def _rank(loss: Loss) -> tuple[_Choose, _Fit]:
    return lambda collection, Cs: choose(collection, loss, Cs), partial(_rank_svm, loss)


def _regress(loss: str) -> tuple[_Choose, _Fit]:
    return partial(_choose_regression, loss), partial(_regression, loss)


def _across_queries(data: RankingData) -> RankingData:
    """The same rows as one query: pairs of rows of different queries count, too."""
    return RankingData.from_arrays(data.X, data.relevance)


def _rank_across() -> tuple[_Choose, _Fit]:
    choose_C, fit = _rank("squared-hinge")
    return (
        lambda one, Cs: choose_C(replace(one, train=_across_queries(one.train)), Cs),
        lambda data, C: fit(_across_queries(data), C),
    )


_LINEAR: dict[str, tuple[_Choose, _Fit]] = {
    "L2-loss rankSVM": _rank("squared-hinge"),
    "L2-loss rankSVM across queries": _rank_across(),
    "L1-loss rankSVM": _rank("hinge"),
    "L1-loss SVR": _regress("epsilon_insensitive"),
    "L2-loss SVR": _regress("squared_epsilon_insensitive"),
}


def _forest(data: RankingData, trees: int, seed: int) -> Any:
    features = int(np.sqrt(data.n_features))
    forest = RandomForestRegressor(trees, max_features=features, n_jobs=1, random_state=seed)
    return forest.fit(_known(data.X), data.relevance)


def _boosted(data: RankingData, trees: int, seed: int) -> Any:
    """Friedman's algorithm."""
    machine = GradientBoostingRegressor(
        n_estimators=trees, learning_rate=0.1, max_depth=_DEPTH, random_state=seed
    )
    return machine.fit(data.X, data.relevance)


def _boosted_by_histograms(data: RankingData, trees: int, seed: int) -> Any:
    """As pGBRT, splits are looked for in histograms of the features."""
    from xgboost import XGBRegressor

    machine = XGBRegressor(
        n_estimators=trees, learning_rate=0.1, max_depth=_DEPTH, n_jobs=1, random_state=seed
    )
    return machine.fit(data.X, data.relevance)


_TREES = {
    "random forest": _forest,
    "GBDT, scikit-learn": _boosted,
    "GBDT, XGBoost": _boosted_by_histograms,
}


def _known(X: Any) -> Any:
    return sparse.csc_matrix(X) if sparse.issparse(X) else X
