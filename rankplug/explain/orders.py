"""Explanations of an order: what puts a document above another, or apart from its query."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rankplug.exceptions import ParameterError
from rankplug.explain.base import MOST_ROWS, Explanation, feature_names_of
from rankplug.models import Model, find_contributions

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class PairExplanation(Explanation):
    """What each feature adds to the difference of two documents' scores.

    Attributes
    ----------
    feature_names : tuple of str
    above, below : tuple
        The features of both documents, as they were given to the model.
    differences : float64 ndarray of shape (n_features,)
        Of the contributions; they add up to the difference of the scores, above minus below.
    difference : float
        Of the scores. Below 0 if the document "above" stands below.
    method : str
        How contributions were found; see `rankplug.models.Contributions`.
    error : float64 ndarray of shape (n_features,) or None
        About the standard error of each difference, where they are sampled.
    """

    feature_names: tuple[str, ...]
    above: tuple[Any, ...]
    below: tuple[Any, ...]
    differences: NDArray[np.float64]
    difference: float
    method: str
    error: NDArray[np.float64] | None = None

    def table(self, top: int | None = None) -> pd.DataFrame:
        """Features with both values and the difference they make, the largest first.

        Parameters
        ----------
        top : int, optional
            How many; the others are one row, "other features". All if omitted.
        """
        import pandas as pd

        order = np.argsort(-np.abs(self.differences), kind="stable")
        first, rest = order[:top], order[len(order) if top is None else top :]
        columns: dict[str, list[Any]] = {
            "feature": [self.feature_names[j] for j in first],
            "above": [self.above[j] for j in first],
            "below": [self.below[j] for j in first],
            "difference": self.differences[first].tolist(),
        }
        if self.error is not None:
            columns["error"] = self.error[first].tolist()
        if len(rest):
            others = [f"{len(rest)} other features", None, None, self.differences[rest].sum()]
            if self.error is not None:
                others.append(float(np.linalg.norm(self.error[rest])))
            for column, value in zip(columns.values(), others, strict=True):
                column.append(value)
        return pd.DataFrame(columns)

    def plot(self, top: int = MOST_ROWS, ax: Any = None) -> Any:
        """The largest differences as bars; returns the matplotlib axes."""
        return _draw_bars(self.table(top), "difference", "what it adds to the difference", ax)

    @property
    def summary(self) -> str:
        """The difference of the scores, and how contributions were found."""
        return f"difference of the scores {self.difference:.6g} ({self.method})"


@dataclass(frozen=True, eq=False)
class QueryExplanation(Explanation):
    """What sets each document of a query apart from the others.

    Attributes
    ----------
    feature_names : tuple of str
    X : ndarray, sparse matrix or columns, of shape (n_documents, n_features)
        The documents as they were given to the model.
    rows : int64 ndarray of shape (n_documents,)
        Their positions in the data.
    scores : float64 ndarray of shape (n_documents,)
    contributions : float64 ndarray of shape (n_documents, n_features)
        Less their means over the query, as what all documents share moves none: a row adds up to
        the document's score less the mean score.
    method : str
    error : float64 ndarray of shape (n_documents, n_features) or None
    categories : mapping of int to tuple
        Of features whose values are codes of categories.
    """

    _shown = 5  # columns

    feature_names: tuple[str, ...]
    X: Any
    rows: NDArray[np.int64]
    scores: NDArray[np.float64]
    contributions: NDArray[np.float64]
    method: str
    error: NDArray[np.float64] | None
    categories: Any

    def pair(self, above: int, below: int) -> PairExplanation:
        """Why the document in row `above` of the data has another score than that in `below`.

        Raises
        ------
        ParameterError
            If a row is not of the query.
        """
        a, b = self._place(above), self._place(below)
        error = self.error
        return PairExplanation(
            self.feature_names,
            self._values(a),
            self._values(b),
            self.contributions[a] - self.contributions[b],
            float(self.scores[a] - self.scores[b]),
            self.method,
            None if error is None else np.hypot(error[a], error[b]),
        )

    def _place(self, row: int) -> int:
        found = np.flatnonzero(self.rows == row)
        if not len(found):
            known = ", ".join(map(str, self.rows[:MOST_ROWS]))
            more = ", ..." if len(self.rows) > MOST_ROWS else ""
            raise ParameterError(f"row {row} is not of the query, whose rows are {known}{more}")
        return int(found[0])

    def _values(self, place: int) -> tuple[Any, ...]:
        """The features of a document, categories by name."""
        line = self.X[[place]]
        values = np.asarray(line.toarray() if sparse.issparse(line) else line)[0].tolist()
        for j, names in self.categories.items():
            code = values[j]
            values[j] = names[int(code) - 1] if code == code and code > 0 else None
        return tuple(values)

    def table(self, top: int | None = None) -> pd.DataFrame:
        """Documents, the best first: rank, row, score, and the strongest features' contributions.

        Parameters
        ----------
        top : int, optional
            How many features, those that move documents most; all if omitted.
        """
        import pandas as pd

        order = np.argsort(-self.scores, kind="stable")
        moves = np.argsort(-np.abs(self.contributions).mean(axis=0), kind="stable")[:top]
        return pd.DataFrame(
            {
                "rank": np.arange(1, len(order) + 1),
                "row": self.rows[order],
                "score": self.scores[order],
                **{self.feature_names[j]: self.contributions[order, j] for j in moves},
            }
        )

    def to_shap(self) -> Any:
        """A `shap.Explanation`, for SHAP's own plots; needs the package shap.

        Raises
        ------
        ImportError
            If it is not installed.
        """
        import shap

        dense = np.asarray(self.X.toarray() if sparse.issparse(self.X) else self.X)
        mean = np.full(len(self.scores), self.scores.mean())
        return shap.Explanation(
            self.contributions, mean, dense, feature_names=list(self.feature_names)
        )

    @property
    def summary(self) -> str:
        """How contributions were found."""
        return f"contributions less their means over the query ({self.method})"


def explain_query(
    model: Model,
    X: Any,
    *,
    rows: NDArray[np.int64] | None = None,
    n_permutations: int = 32,
    random_state: int = 0,
) -> QueryExplanation:
    """What sets each document of a query apart from the others of the query.

    Parameters
    ----------
    model : Model
    X : array, sparse matrix or table of shape (n_documents, n_features)
        The documents of one query.
    rows : int64 ndarray of shape (n_documents,), optional
        What the documents are called: their positions in the data; 0, 1, ... by default.
    n_permutations, random_state
        Where contributions are sampled: see `rankplug.models.find_contributions`.

    Returns
    -------
    QueryExplanation

    Raises
    ------
    DataError
        As `Model.predict`, and if the model ranks labels.
    """
    checked = model.check_rows(X)
    found = find_contributions(
        model, checked, n_permutations=n_permutations, random_state=random_state
    )
    return QueryExplanation(
        feature_names_of(model),
        checked,
        np.arange(len(found.values)) if rows is None else rows,
        found.values.sum(axis=1) + found.constant,
        found.values - found.values.mean(axis=0),
        found.method,
        found.error,
        model.categories,
    )


def _draw_bars(table: pd.DataFrame, column: str, label: str, ax: Any) -> Any:
    """A bar for each feature, the first at the top."""
    from matplotlib.figure import Figure

    axes = Figure().add_subplot() if ax is None else ax
    axes.barh(table["feature"][::-1], table[column][::-1])
    axes.axvline(0.0, color="black", linewidth=0.8)
    axes.set_xlabel(label)
    return axes
