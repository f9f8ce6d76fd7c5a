"""The data of Lee and Lin's comparisons: the one set of theirs that is here, and stand-ins.

MQ2008 is fold 1 of LETOR 4.0, row for row what the paper has. OHSUMED and ClueWeb09 stand for
MQ2007, MSLR and Yahoo's sets: queries of graded documents. The sets with as many levels as rows
(MQ2007-list, MQ2008-list) have two stand-ins: houses of California, those of a region being a
query and their value the utility, and Reuters documents, one query whose utilities are products
with one document that is taken out.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.preprocessing import MinMaxScaler

import rankplug
from benchmarks.objective import Loss
from rankplug import datasets, read_data
from rankplug.data import RankingData
from rankplug.exceptions import ConvergenceWarning
from rankplug.metrics import evaluate
from rankplug.solver import Solver

CS = tuple(2.0**i for i in range(-15, 11))
"""From which the paper chooses C by the validation part."""
Levels = Literal["graded", "real-valued"]
Parts = tuple[RankingData, RankingData, RankingData]
_HALVINGS = 6  # of California: 64 regions


@dataclass(frozen=True)
class Collection:
    """Three parts of a set; of the paper's, which it is or stands for."""

    name: str
    stands_for: str
    train: RankingData
    valid: RankingData
    test: RankingData
    levels: Levels = "graded"


def quality(data: RankingData, scores: NDArray[np.float64], levels: Levels) -> dict[str, float]:
    """The paper's measures: pairwise accuracy, to which ties give nothing, and LETOR's mean NDCG.

    Utilities that are real numbers are no gains, and have no NDCG.
    """
    # Among equal scores the least relevant row comes first, so that such pairs count as wrong.
    order = np.lexsort((-data.relevance, scores))
    place = np.empty(len(order))
    place[order] = np.arange(len(order))
    found = evaluate(data.relevance, place, data.qid, "pairwise_accuracy")
    if levels == "graded":
        found |= evaluate(data.relevance, scores, data.qid, "mean_ndcg")
    return found


def collections(tiny: bool) -> Iterator[Collection]:
    """All small sets; synthetic ones for a try, none but those without RANKPLUG_DATA."""
    if tiny:
        yield _synthetic("web-search", "graded", n_queries=40, docs_per_query=20)
        yield _synthetic("text-scores", "real-valued", n_documents=200, n_features=200)
    elif (root := os.environ.get("RANKPLUG_DATA")) is not None:
        folder = Path(root)
        mq2008 = _folder(folder / "letor4_mq2008/Fold1")
        yield Collection("mq2008", "MQ2008", *mq2008)
        yield Collection("ohsumed", "MQ2007", *_folder(folder / "letor3_ohsumed/Fold1"))
        yield _clue_web(folder / "webis_clueweb09")
        yield _regions(folder / "cal_housing/cal_housing.txt.gz")
        yield reuters(folder / "reuters_money_fx")


def web_search(tiny: bool) -> Collection:
    """The large set: as many levels and features as MSLR, a sixth of its rows."""
    sizes = {"n_queries": 40, "docs_per_query": 20} if tiny else {"n_queries": 3000}
    return _synthetic("web-search", "graded", **{"docs_per_query": 120, **sizes})


def text_scores(tiny: bool, n_documents: int = 10_000) -> Collection:
    """Sparse, of more features than documents, as the paper's click-through sets are."""
    sizes = {"n_documents": 200, "n_features": 200} if tiny else {"n_documents": n_documents}
    return _synthetic("text-scores", "real-valued", **sizes)


def reuters(folder: Path, levels: Levels = "real-valued") -> Collection:
    """Reuters documents as one query; graded, relevant are those about money and exchange."""
    train = read_data(folder / "reuters.train.txt.gz")
    test = read_data(folder / "reuters.test.txt.gz", like=train)
    target, *order = np.random.default_rng(0).permutation(train.n_samples)

    def part(data: RankingData, rows: Any) -> RankingData:
        X, y = data.X[rows], np.maximum(data.relevance[rows], 0.0)
        if levels == "real-valued":
            y = (X @ train.X[[target]].T).toarray().ravel()
        return RankingData.from_arrays(X, y)

    chosen = (part(train, order[:6000]), part(train, order[6000:]), part(test, slice(None)))
    name = "reuters" if levels == "real-valued" else "reuters-topic"
    stands_for = "MQ2008-list, CTR" if levels == "real-valued" else "KDD2012b"
    return Collection(name, stands_for, *chosen, levels=levels)


def solver_of(loss: Loss, C: float, tol: float = 1e-3, **params: Any) -> Solver:
    """The linear rankSVM of the loss, by the method that needs the fewest passes."""
    if loss == "squared-hinge":
        return rankplug.make_solver("tree-tron", C=C, tol=tol, n_threads=1, **params)
    return rankplug.make_solver(
        "cutting-plane", C=C, tol=tol, method="smoothed-newton", n_threads=1, **params
    )


def choose(
    collection: Collection, loss: Loss, Cs: Sequence[float], **params: Any
) -> dict[str, float]:
    """The value of C that is best for each measure on the validation part."""
    valid, tried = collection.valid, []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for result in rankplug.path(solver_of(loss, 1.0, **params), collection.train, Cs):
            model: Any = result.model
            tried.append(quality(valid, valid.X @ model.coef, collection.levels))
    return best_of(Cs, tried)


def best_of(Cs: Sequence[float], tried: Sequence[dict[str, float]]) -> dict[str, float]:
    """The least of the values of C that are best, by measure."""
    return {
        name: max(zip(Cs, tried, strict=True), key=lambda one: one[1][name])[0] for name in tried[0]
    }


def _folder(folder: Path) -> Parts:
    train = read_data(folder / "train.txt.gz", dense=True)
    valid, test = (read_data(folder / f"{part}.txt.gz", like=train) for part in ("vali", "test"))
    return train, valid, test


def _clue_web(folder: Path) -> Collection:
    folds = [folder / f"Fold{i}.test.txt.gz" for i in range(1, 6)]
    train = read_data(folds[2:], dense=True)
    parts = (train, read_data(folds[1], like=train), read_data(folds[0], like=train))
    return _scaled(Collection("clueweb09", "MSLR", *parts))


def _regions(path: Path) -> Collection:
    """Houses by regions that halve the state, then each half, by longitude and latitude in turn.

    So queries are of one size, as in the paper's lists: pairs grow with the square of it.
    """
    houses = read_data(path, dense=True)
    region = np.zeros(houses.n_samples, dtype=np.int64)
    for halving in range(_HALVINGS):
        for one in range(2**halving):
            rows = np.flatnonzero(region == one)
            east = rows[np.argsort(houses.X[rows, halving % 2], kind="stable")][len(rows) // 2 :]
            region[east] += 2**halving
    place = np.random.default_rng(0).permutation(2**_HALVINGS)[region] / 2**_HALVINGS

    def part(low: float, high: float) -> RankingData:
        rows = np.flatnonzero((low <= place) & (place < high))
        rows = rows[np.argsort(region[rows], kind="stable")]
        return RankingData.from_arrays(houses.X[rows], houses.relevance[rows], region[rows])

    parts = (part(0.0, 0.6), part(0.6, 0.8), part(0.8, 1.0))
    stands_for = "MQ2007-list, MQ2008-list"
    return _scaled(Collection("cal-regions", stands_for, *parts, levels="real-valued"))


def _synthetic(name: str, levels: Levels, **sizes: Any) -> Collection:
    parts = datasets.load(name, **sizes)
    stands_for = "MSLR" if levels == "graded" else "CTR"
    return Collection(name, stands_for, parts.train, parts.valid, parts.test, levels)


def _scaled(collection: Collection) -> Collection:
    """Every feature from 0 to 1 in the training part."""
    scaler = MinMaxScaler().fit(collection.train.X)
    train, valid, test = (
        replace(data, X=scaler.transform(data.X))
        for data in (collection.train, collection.valid, collection.test)
    )
    return replace(collection, train=train, valid=valid, test=test)
