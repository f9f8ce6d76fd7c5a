"""Documents and entrants: what is ranked, and those whose rankings are looked at."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rankplug.data import RankingData, recode, take_rows
from rankplug.maps import MappedModel
from rankplug.models import Contributions, Model, TreeModel, WrappedModel, find_contributions

Features: TypeAlias = Callable[[NDArray[np.int64]], Any]
"""From positions of rows to their features, in a form that the model's `predict` takes."""

_MOST_SCORES = 400_000
"""That are computed to sample contributions: a second or a few."""
_MOST_LEAVES = 500_000_000
"""That TreeSHAP looks at for all rows: a minute or so on one processor."""
_PERMUTATIONS = 8  # random orders of sampled contributions


@dataclass(frozen=True, eq=False)
class Documents:
    """The documents of queries; those of a query stand together.

    Attributes
    ----------
    query_ids : ndarray of shape (n_queries,)
    query_ptr : int64 ndarray of shape (n_queries + 1,)
    relevance : float64 ndarray of shape (n_rows,) or None
        None if nothing is known of it.
    rows : int64 ndarray of shape (n_rows,)
        What the documents are called if nothing else names them: their positions in the data.
    shown : pyarrow.Table or None
        The columns that describe them, of n_rows rows.
    """

    query_ids: NDArray[Any]
    query_ptr: NDArray[np.int64]
    relevance: NDArray[np.float64] | None
    rows: NDArray[np.int64]
    shown: Any = None

    @property
    def row_query(self) -> NDArray[np.int64]:
        """The number of each document's query."""
        return np.repeat(np.arange(len(self.query_ids)), np.diff(self.query_ptr))

    @classmethod
    def of(cls, data: RankingData) -> Documents:
        """Those of ranking data."""
        rows = np.arange(data.n_samples) if data.order is None else data.order
        return cls(data.query_ids, data.query_ptr, data.relevance, rows, data.shown)


@dataclass(frozen=True, eq=False)
class Entrant:
    """One whose ranking is looked at.

    Attributes
    ----------
    name : str
    scores : float64 ndarray of shape (n_rows,)
        Of all documents.
    values : float64 ndarray of shape (n_queries,) or None
        Of the metric, NaN where a query does not count.
    mean : float or None
        Of the metric, over all queries.
    model : Model or None
        What made the scores; None if it cannot explain them.
    features : callable or None
        The features of some rows, as `model` takes them.
    """

    name: str
    scores: NDArray[np.float64]
    values: NDArray[np.float64] | None = None
    mean: float | None = None
    model: Model | None = None
    features: Features | None = None


@dataclass(frozen=True, eq=False)
class Explained:
    """What the features of some rows add to their scores.

    Attributes
    ----------
    names : list of str
        Of the features.
    values : list of list
        The rows' features: numbers, texts, and None where they are missing, feature by feature.
    parts : Contributions
    fits : bool ndarray of shape (n_rows,)
        Whether the model's score is the one that is shown.
    """

    names: list[str]
    values: list[list[Any]]
    parts: Contributions
    fits: NDArray[np.bool_]


def features_of(data: RankingData, model: Model) -> Features:
    """The rows of data as a model of unscaled features takes them."""

    def features(rows: NDArray[np.int64]) -> Any:
        X = take_rows(data.X, rows)
        if dict(model.categories) != dict(data.categories):
            X = recode(X, data.categories, model.categories)
        return X if data.scaling is None else data.scaling.undo(X)

    return features


def can_explain(entrant: Entrant, rows: NDArray[np.int64]) -> bool:
    """Whether `explain` can tell what features add to the scores of these rows, in short time."""
    model, features = entrant.model, entrant.features
    if model is None or features is None or not len(rows):
        return False
    if len(rows) * _count_leaves(model) > _MOST_LEAVES:
        return False
    some = model.check_rows(features(rows[:2]))
    n_scores = 2 * _PERMUTATIONS * len(rows) * some.shape[1]
    return (
        n_scores <= _MOST_SCORES or find_contributions(model, some, n_permutations=2).error is None
    )


def _count_leaves(model: Model) -> int:
    """Leaves of all trees of a model, which TreeSHAP looks at for each row."""
    while isinstance(model, WrappedModel) and not isinstance(model, MappedModel):
        model = model.model
    holders = [model, *(model.map.parts if isinstance(model, MappedModel) else ())]
    trees = [model, *(getattr(one, "trees", None) for one in holders)]
    return sum(int(one.leaf_counts.sum()) for one in trees if isinstance(one, TreeModel))


def explain(entrant: Entrant, rows: NDArray[np.int64]) -> Explained:
    """What the features of these rows add to their scores."""
    model, features = entrant.model, entrant.features
    assert model is not None
    assert features is not None
    checked = model.check_rows(features(rows))
    found = find_contributions(model, checked, n_permutations=_PERMUTATIONS)
    total, scores = found.values.sum(axis=1) + found.constant, entrant.scores[rows]
    fits = np.isclose(total, scores, rtol=1e-4, atol=1e-4 * np.abs(scores).max())
    names = [*(model.feature_names or (f"f{j}" for j in range(model.n_features)))]
    return Explained(names, _plain_columns(model, checked), found, fits)


def _plain_columns(model: Model, rows: Any) -> list[list[Any]]:
    """Features as numbers, texts and None, column by column."""
    dense = rows.toarray() if hasattr(rows, "toarray") else np.asarray(rows)
    names = {j: dict(enumerate(values, 1)) for j, values in model.categories.items()}
    return [
        [_plain(value, names.get(j)) for value in column]
        for j, column in enumerate(dense.T.tolist())
    ]


def _plain(value: Any, names: dict[int, Any] | None) -> Any:
    if value is None or value != value:
        return None
    if names is not None:
        value = names.get(int(value), value)
    return value if isinstance(value, int | float) else str(value)
