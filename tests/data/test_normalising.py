"""Features normalised within queries, against RankLib's rules row by row."""

import dataclasses
import math

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from rankplug.data import RankingData, Scaling, normalise_queries
from rankplug.exceptions import DataError, ParameterError

X = np.array(
    [[1.0, 0, -3, 5], [2, 0, -1, 5], [4, 0, -2, 5], [7, 1, 0, -2], [0, 3, 0, -2], [9, 9, 9, -9]]
)
QID = ["a", "a", "a", "b", "b", "c"]


def by_rule(column, method):
    n, low, high = len(column), min(column), max(column)
    if method == "sum":
        total = sum(map(abs, column))
        return [x / total if total > 0 else x for x in column]
    if method == "linear":
        high = max(high, 1.4e-45)  # the smallest number above 0, where RankLib's maximum begins
        return [(x - low) / (high - low) if high > low else 0.0 for x in column]
    mean = sum(column) / n
    s = math.sqrt(sum((x - mean) ** 2 for x in column) / (n - 1)) if n > 1 else 0.0
    return [(x - mean) / s if s > 0 else x for x in column]


@pytest.mark.parametrize("method", ["zscore", "linear", "sum"])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_each_feature_of_each_query_by_itself(method, form):
    data = RankingData.from_arrays(form(X), np.arange(6), QID, feature_names=list("wxyz"))
    found = normalise_queries(data, method)
    expected = np.vstack(
        [
            np.column_stack([by_rule(column, method) for column in X[rows].T.tolist()])
            for rows in (slice(0, 3), slice(3, 5), slice(5, 6))
        ]
    )
    dense = found.X.toarray() if sparse.issparse(found.X) else found.X
    np.testing.assert_allclose(dense, expected, atol=1e-12)
    assert sparse.issparse(found.X) == (method == "sum" and form is not np.asarray)
    assert found.feature_names == data.feature_names
    np.testing.assert_array_equal(data.X if form is np.asarray else data.X.toarray(), X)


@pytest.mark.parametrize("method", ["zscore", "linear", "sum"])
def test_codes_of_categories_stay_as_they_are(method):
    frame = pd.DataFrame({"price": X[:, 0], "shop": pd.Categorical(list("abcabc"))})
    data = RankingData.from_arrays(frame, np.arange(6), QID)
    found = normalise_queries(data, method)
    np.testing.assert_array_equal(found.X[:, 1], data.X[:, 1])
    assert found.categories == data.categories
    assert not np.array_equal(found.X[:, 0], data.X[:, 0])


def test_what_cannot_be_normalised_is_refused():
    data = RankingData.from_arrays(X, np.arange(6), QID)
    with pytest.raises(ParameterError, match="one of zscore, linear, sum"):
        normalise_queries(data, "max")
    holes = RankingData.from_arrays(np.where(X > 8, np.nan, X), np.arange(6), QID)
    with pytest.raises(DataError, match="row 5"):
        normalise_queries(holes, "sum")
    scaled = dataclasses.replace(data, scaling=Scaling(None, np.ones(X.shape[1])))
    with pytest.raises(DataError, match="were scaled when they were prepared: prepare them unsc"):
        normalise_queries(scaled, "sum")
