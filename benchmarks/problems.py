"""The data sets, embedded and real, with the values of C at which they are trained."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.preprocessing import StandardScaler

from rankplug import datasets, read_data
from rankplug.data import RankingData

GRADED = ("ndcg@10", "pairwise_accuracy")
REAL_VALUED = ("pairwise_accuracy",)
"""Metrics: gains of 2^y make no sense for real-valued utilities."""


@dataclass(frozen=True)
class Problem:
    """A data set with a test part, the values of C and the metrics that suit it."""

    name: str
    train: RankingData
    test: RankingData
    Cs: tuple[float, ...]
    metrics: tuple[str, ...] = GRADED


def embedded(
    name: str, Cs: tuple[float, ...], metrics: tuple[str, ...] = GRADED, **sizes: Any
) -> Problem:
    """A data set of `rankplug.datasets`."""
    splits = datasets.load(name, **sizes)
    return Problem(name, splits.train, splits.test, Cs, metrics)


def web_search(n_queries: int = 3000, docs_per_query: int = 120) -> Problem:
    """Synthetic, 136 dense features, 5 levels."""
    Cs = (1e-5, 1e-3, 1.0)
    return embedded("web-search", Cs, n_queries=n_queries, docs_per_query=docs_per_query)


def text_scores(n_documents: int = 200_000, n_features: int = 50_000) -> Problem:
    """Synthetic, one query, sparse, every utility distinct."""
    return embedded(
        "text-scores", (1e-6, 1e-4), REAL_VALUED, n_documents=n_documents, n_features=n_features
    )


def small_real() -> Iterator[Problem]:
    """The small public sets in the folder named by RANKPLUG_DATA; none if it is unset."""
    root = os.environ.get("RANKPLUG_DATA")
    if root is None:
        return
    folder = Path(root)
    for name, part, test in (
        ("mq2008", "letor4_mq2008/Fold1", "test.txt.gz"),
        ("ohsumed", "letor3_ohsumed/Fold1", "test.txt.gz"),
        ("lightgbm-example", "lightgbm_lambdarank", "test.txt.gz"),
    ):
        train = read_data(folder / part / "train.txt.gz", dense=True)
        yield Problem(name, train, read_data(folder / part / test, like=train), (1e-3, 0.1))


def large_queries() -> Iterator[Problem]:
    """Public sets with many pairs in a query: webis ClueWeb09 and California housing."""
    root = os.environ.get("RANKPLUG_DATA")
    if root is None:
        return
    folder = Path(root)
    folds = [folder / f"webis_clueweb09/Fold{i}.test.txt.gz" for i in range(1, 6)]
    train = read_data(folds[1:], dense=True)
    yield _standardised(Problem("webis", train, read_data(folds[0], like=train), (1e-3, 0.1)))

    houses = read_data(folder / "cal_housing/cal_housing.txt.gz", dense=True)
    order = np.random.default_rng(0).permutation(houses.n_samples)
    train, test = (
        RankingData.from_arrays(houses.X[rows], houses.relevance[rows])
        for rows in (order[:16_000], order[16_000:])
    )
    yield _standardised(Problem("cal-housing", train, test, (1e-6, 1e-3), REAL_VALUED))


def as_float32(data: RankingData) -> RankingData:
    """The same data with features in float32."""
    return replace(data, X=data.X.astype(np.float32))


def with_levels(data: RankingData, n_levels: int) -> RankingData:
    """One-query data whose utilities are cut into `n_levels` equally frequent levels."""
    rank = np.argsort(np.argsort(data.relevance, kind="stable"), kind="stable")
    return replace(data, relevance=(rank * n_levels // len(rank)).astype(np.float64))


def _standardised(problem: Problem) -> Problem:
    """Every feature with mean 0 and variance 1 in the training part."""
    scaler = StandardScaler().fit(problem.train.X)
    train, test = (replace(d, X=scaler.transform(d.X)) for d in (problem.train, problem.test))
    return replace(problem, train=train, test=test)
