"""Leaves of trees as features: their matrices against CSR, and California housing as one query.

He et al., "Practical lessons from predicting clicks on ads at Facebook", ADKDD 2014, have the
construction; here the weights of all leaves solve the ranking problem over all pairs.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import rankplug
from benchmarks.measure import alternate, timed
from rankplug.data import JoinedMatrix, RankingData
from rankplug.metrics import measure_data
from rankplug.objectives import SquaredHinge
from rankplug.shards import open_shards, pair_weights

Row = dict[str, Any]

_SIZES = (12_000, 3_000)  # rows to train and to validate; the others test
_CS = tuple(np.logspace(0.0, 5.0, 11))
_TREES = {"max_depth": 6, "learning_rate": 0.1, "n_jobs": 1, "random_state": 0}


def leaves(tiny: bool, rounds: int) -> Iterator[Row]:
    """Bytes and passes of leaf matrices of 300 trees, and a path of 11 C, beside CSR."""
    for train, _, _ in _housing(tiny):
        trees = _regression(train, 20 if tiny else 300)
        fitted = rankplug.make_map("leaves", trees=trees).fit(train, random_state=0)
        blocks = JoinedMatrix([fitted.transform(train.X)])
        forms = {"leaves": blocks, "csr": _short(blocks.tocsr())}
        data = {name: _on(train, X) for name, X in forms.items()}
        paths = {name: _path(of, 1) for name, of in data.items()}
        paths |= {
            f"{name}, all threads": _path(of, os.cpu_count() or 1) for name, of in data.items()
        }
        with ExitStack() as held:
            passes = {name: _pass(of, blocks.shape[1], held) for name, of in data.items()}
            pass_times = alternate(passes, rounds, dict.fromkeys(passes, 5))
        path_times = alternate(paths, 1 if tiny else min(rounds, 3))
        for name, X in forms.items():
            yield {
                "matrix": name,
                "n_samples": X.shape[0],
                "n_trees": len(fitted.starts) - 1,
                "n_columns": X.shape[1],
                "bytes": _bytes(X),
                "pass_s": pass_times[name].median("thread_cpu"),
                "path_s": path_times[name].median("wall"),
                "path_all_threads_s": path_times[f"{name}, all threads"].median("wall"),
                "n_threads": os.cpu_count(),
                "path_passes": path_times[name].result,
            }


def housing(tiny: bool, _rounds: int) -> Iterator[Row]:
    """Kendall's tau on the test part: trees, and the same trees' leaves under tree-tron."""
    for train, valid, test in _housing(tiny):
        n_trees = (5, 10) if tiny else (100, 500)
        for n in n_trees:
            trees, growing = timed(partial(_regression, train, n))
            scores = trees.predict(test.X)
            yield _quality(f"XGBoost regression, {n} trees", growing.wall, scores, test)
            solver = rankplug.make_solver("mapped", map={"leaves": {"trees": trees}})
            yield _solved(f"their leaves, {n} trees", growing.wall, solver, train, valid, test)
        linear = rankplug.make_solver("tree-tron", reduction="mean")
        yield _solved("tree-tron", 0.0, linear, train, valid, test)
        own = rankplug.make_solver("mapped", map="leaves")
        yield _solved("mapped, map=leaves", 0.0, own, train, valid, test)


def _solved(
    name: str, before: float, solver: Any, train: RankingData, valid: RankingData, test: RankingData
) -> Row:
    started = time.perf_counter()
    result = solver.solve(train, valid=valid, random_state=0)
    seconds = before + time.perf_counter() - started
    return _quality(name, seconds, result.model.predict(test.X), test)


def _quality(name: str, seconds: float, scores: Any, test: RankingData) -> Row:
    accuracy = float(measure_data(test, scores, "pairwise_accuracy")["pairwise_accuracy"].mean())
    return {"method": name, "seconds": seconds, "kendall_tau": 2.0 * accuracy - 1.0}


def _regression(train: RankingData, n_trees: int) -> Any:
    from xgboost import XGBRegressor

    return XGBRegressor(n_estimators=n_trees, **_TREES).fit(train.X, train.relevance)


def _housing(tiny: bool) -> Iterator[tuple[RankingData, RankingData, RankingData]]:
    """Training, validation and test rows, each as one query."""
    if "RANKPLUG_DATA" not in os.environ:
        return
    file = Path(os.environ["RANKPLUG_DATA"]) / "cal_housing/cal_housing.txt.gz"
    data = rankplug.read_data(file, dense=True)
    rows = np.random.default_rng(0).permutation(data.n_samples)
    sizes = (400, 100) if tiny else _SIZES
    parts = np.split(rows[:700] if tiny else rows, np.cumsum(sizes))
    train, valid, test = (
        RankingData.from_arrays(data.X[part], data.relevance[part], group=[len(part)])
        for part in parts
    )
    yield train, valid, test


def _on(data: RankingData, X: Any) -> RankingData:
    return replace(data, X=X, feature_names=None)


def _short(X: Any) -> Any:
    """CSR with indices of 32 bits, its smallest form."""
    X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
    return X


def _bytes(X: Any) -> int:
    if isinstance(X, JoinedMatrix):
        return int(X.nbytes)
    return int(X.data.nbytes + X.indices.nbytes + X.indptr.nbytes)


def _pass(data: RankingData, n_columns: int, held: ExitStack) -> Callable[[], Any]:
    """One product with the Hessian of the squared hinge."""
    shards = held.enter_context(open_shards(data, pair_weights(data, "mean"), 1))
    loss, w = SquaredHinge(shards), np.random.default_rng(0).normal(size=n_columns)
    loss.move_to(w)
    return lambda: loss.hessian_product(w)


def _path(data: RankingData, n_threads: int) -> Callable[[], float]:
    """Passes over the data of a path at the default tolerance."""
    solver = rankplug.make_solver("tree-tron", reduction="mean", n_threads=n_threads)
    return lambda: sum(result.n_passes for result in rankplug.path(solver, data, _CS))
