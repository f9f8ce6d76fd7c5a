"""Real data sets that come with scikit-learn: nothing is downloaded."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankplug.data import LabelRankingData, RankingData
from rankplug.datasets.catalogue import D, DatasetParts, data_set
from rankplug.parameters import Integer

_BRIGHTEST = 16.0  # pixels of scikit-learn's digits are integers from 0 to 16
_SHARES = (0.6, 0.2)  # of the rows, for training and validation


@data_set(
    "digits-retrieval",
    "query-document",
    n_queries=Integer(2, 1000),
    docs_per_query=Integer(20, 300),
)
def digits_retrieval(
    *, n_queries: int = 150, docs_per_query: int = 100, seed: int = 0
) -> DatasetParts[RankingData]:
    """Find images of the same handwritten digit: pixel differences of pairs of images.

    A query is an image of scikit-learn's ``load_digits``; its documents are other images, drawn
    at random. The 64 features of a document are the absolute differences of its pixels and the
    query's, between 0 and 1; its relevance is 1 if it shows the same digit, else 0 (about one in
    ten). Training, validation and test part share no image.

    Parameters
    ----------
    n_queries : int
        Queries of the training part; validation and test have a third as many.
    docs_per_query : int
    seed : int
        Of the partition and of the draws.

    Source: E. Alpaydin, C. Kaynak, Optical Recognition of Handwritten Digits, UCI, 1998.
    """
    from sklearn.datasets import load_digits

    images, shown = load_digits(return_X_y=True)
    rng = np.random.default_rng(seed)
    parts = _partition(rng.permutation(len(images)))
    sizes = (n_queries, -(-n_queries // 3), -(-n_queries // 3))

    def retrieval(part: NDArray[np.int64], n: int, first_id: int) -> RankingData:
        queries = rng.choice(part, n, replace=n > len(part))
        documents = np.concatenate(
            [rng.choice(part[part != query], docs_per_query, replace=False) for query in queries]
        )
        of_query = np.repeat(queries, docs_per_query)
        return RankingData.from_arrays(
            np.abs(images[documents] - images[of_query]) / _BRIGHTEST,
            shown[documents] == shown[of_query],
            np.repeat(np.arange(first_id, first_id + n), docs_per_query),
            feature_names=[f"pixel_{row}_{column}" for row in range(8) for column in range(8)],
        )

    first_ids = np.cumsum((0, *sizes[:-1])).tolist()
    return DatasetParts(*(retrieval(*part) for part in zip(parts, sizes, first_ids, strict=True)))


@data_set("diabetes", "query-document")
def diabetes(*, seed: int = 0) -> DatasetParts[RankingData]:
    """Order patients by how far their diabetes progressed: one query, real-valued relevance.

    The rows of scikit-learn's ``load_diabetes`` (442, 10 features) divided at random into 60 %
    training, 20 % validation, 20 % test; features standardised by the training rows. Relevance
    reaches 346, so metrics with gains 2^relevance make no sense here.

    Source: B. Efron, T. Hastie, I. Johnstone, R. Tibshirani, Least Angle Regression, 2004.
    """
    from sklearn.datasets import load_diabetes

    bunch = load_diabetes()
    parts = _partition(np.random.default_rng(seed).permutation(len(bunch.target)))
    return _divide(RankingData, bunch, _standardise(bunch.data, parts[0]), parts)


@data_set("breast-cancer", "query-document")
def breast_cancer(*, seed: int = 0) -> DatasetParts[RankingData]:
    """Order tumours so that malignant ones come first: one query, relevance 0 or 1.

    The rows of scikit-learn's ``load_breast_cancer`` (569, 30 features; 212 malignant) divided
    at random, each class alike, into 60 % training, 20 % validation, 20 % test; features
    standardised by the training rows.

    Source: W. Wolberg, O. Mangasarian, N. Street, W. Street, Breast Cancer Wisconsin
    (Diagnostic), UCI, 1995.
    """
    from sklearn.datasets import load_breast_cancer

    bunch = load_breast_cancer()
    bunch.target = 1 - bunch.target  # there, 0 is malignant
    parts = _stratify(bunch.target, seed)
    return _divide(RankingData, bunch, _standardise(bunch.data, parts[0]), parts)


@data_set("digits", "label-ranking")
def digits(*, seed: int = 0) -> DatasetParts[LabelRankingData]:
    """Recognise handwritten digits: 64 pixels between 0 and 1, 10 classes.

    The rows of scikit-learn's ``load_digits`` (1,797) divided at random, each class alike, into
    60 % training, 20 % validation, 20 % test.

    Source: E. Alpaydin, C. Kaynak, Optical Recognition of Handwritten Digits, UCI, 1998.
    """
    from sklearn.datasets import load_digits

    bunch = load_digits()
    parts = _stratify(bunch.target, seed)
    return _divide(LabelRankingData, bunch, bunch.data / _BRIGHTEST, parts)


@data_set("wine", "label-ranking")
def wine(*, seed: int = 0) -> DatasetParts[LabelRankingData]:
    """Tell three cultivars of wine by 13 chemical features.

    The rows of scikit-learn's ``load_wine`` (178) divided at random, each class alike, into
    60 % training, 20 % validation, 20 % test; features standardised by the training rows.

    Source: S. Aeberhard, M. Forina, Wine, UCI, 1991.
    """
    from sklearn.datasets import load_wine

    bunch = load_wine()
    parts = _stratify(bunch.target, seed)
    return _divide(LabelRankingData, bunch, _standardise(bunch.data, parts[0]), parts)


def _divide(
    kind: type[D], bunch: Any, X: NDArray[np.float64], parts: list[NDArray[np.int64]]
) -> DatasetParts[D]:
    names, y = list(bunch.feature_names), bunch.target
    divided = (kind.from_arrays(X[rows], y[rows], feature_names=names) for rows in parts)
    return DatasetParts(*divided)


def _standardise(X: NDArray[np.float64], rows: NDArray[np.int64]) -> NDArray[np.float64]:
    """Mean 0 and standard deviation 1 of every column over `rows`."""
    standardised: NDArray[np.float64] = (X - X[rows].mean(axis=0)) / X[rows].std(axis=0)
    return standardised


def _stratify(classes: NDArray[Any], seed: int) -> list[NDArray[np.int64]]:
    """Row numbers of the parts, with the same shares of every class."""
    order = np.random.default_rng(seed).permutation(len(classes))
    by_class = [_partition(order[classes[order] == c]) for c in np.unique(classes)]
    return [np.sort(np.concatenate(rows)) for rows in zip(*by_class, strict=True)]


def _partition(rows: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Cut into the parts for training, validation and test."""
    ends = np.rint(np.cumsum(_SHARES) * len(rows)).astype(int)
    return np.split(rows, ends)
