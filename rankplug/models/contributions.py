"""What each feature adds to a score: exact where a model's form tells it, sampled elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rankplug.data import to_dense
from rankplug.exceptions import DataError, ParameterError
from rankplug.parameters import Integer

if TYPE_CHECKING:
    from rankplug.models.base import Model

WEIGHTS = "weight times value"
SHAPES = "shape functions"
TREES = "TreeSHAP"
SAMPLED = "sampled Shapley values"

_BLOCK_ELEMENTS = 1 << 21  # of features scored at once: 16 MB of float64


@dataclass(frozen=True)
class Contributions:
    """What features add to the scores of rows; with the constants they add up to the scores.

    Attributes
    ----------
    values : float64 ndarray of shape (n_samples, n_features)
    constant : float64 ndarray of shape (n_samples,)
        The rest of each score, the same for all rows but for rounding.
    method : str
        What the values are: "weight times value", "shape functions", "TreeSHAP" (the Shapley
        values of trees, path-dependent), several of these joined by " + ", or "sampled Shapley
        values".
    error : float64 ndarray of shape (n_samples, n_features) or None
        The standard errors of sampled values; None for exact ones.
    """

    values: NDArray[np.float64]
    constant: NDArray[np.float64]
    method: str
    error: NDArray[np.float64] | None = None

    @property
    def is_additive(self) -> bool:
        """Whether each is a function of its feature alone, as in linear and additive models."""
        return set(self.method.split(" + ")) <= {WEIGHTS, SHAPES}

    def __add__(self, other: Contributions) -> Contributions:
        """Those to the sum of two scores of the same rows."""
        methods = [*self.method.split(" + "), *other.method.split(" + ")]
        return Contributions(
            self.values + other.values,
            self.constant + other.constant,
            " + ".join(dict.fromkeys(methods)),
        )

    def to_features(self, origins: NDArray[np.int64], n_features: int) -> Contributions:
        """Those of the features of which these ones' columns are made.

        Parameters
        ----------
        origins : int64 ndarray of shape (n columns,)
            The feature that each column is a function of.
        n_features : int
        """
        places = np.arange(len(origins)), origins
        sums = sparse.csr_array((np.ones(len(origins)), places), shape=(len(origins), n_features))
        return Contributions(self.values @ sums, self.constant, self.method)

    @classmethod
    def stacked(cls, parts: Sequence[Contributions]) -> Contributions:
        """Those of the rows of all parts, one part after the other."""
        if len(parts) == 1:
            return parts[0]
        return cls(
            np.concatenate([part.values for part in parts]),
            np.concatenate([part.constant for part in parts]),
            parts[0].method,
        )


def find_contributions(
    model: Model, X: Any, *, n_permutations: int = 32, random_state: int = 0
) -> Contributions:
    """What each feature adds to the scores of the rows of `X`.

    Linear models tell it by weight and value, additive ones by their shape functions, boosted
    trees (and the leaves of such that another solver weighs) by TreeSHAP; models of scaled,
    imputed or encoded features by the columns before. For all others Shapley values are sampled:
    a feature's mean effect on the score when features change one by one, in random order, from
    those of a random row of `X` to those of the row.

    Parameters
    ----------
    model : Model
        Of documents: labels have a score each.
    X : array, sparse matrix or table of shape (n_samples, n_features)
    n_permutations : int, default=32
        Random orders, each of which is also gone backwards, where values are sampled: about
        ``2 * n_permutations * n_samples * n_features`` scores are computed.
    random_state : int, default=0

    Returns
    -------
    Contributions

    Raises
    ------
    DataError
        If the model ranks labels, or as its `predict`.
    ParameterError
        If `n_permutations` is no number above 1.

    References
    ----------
    .. [1] Lundberg et al., From local explanations to global understanding with explainable AI for
       trees, Nature Machine Intelligence 2 (2020).
    .. [2] Strumbelj and Kononenko, Explaining prediction models and individual predictions with
       feature contributions, Knowledge and Information Systems 41 (2014).
    """
    if model.n_labels is not None:
        raise DataError("contributions are those to the score of a document, not of a label")
    if not Integer(2).accepts(n_permutations):
        raise ParameterError(f"n_permutations={n_permutations!r} must be an integer above 1")
    rows = model.check_rows(X)
    exact = model._contributions(rows)
    if exact is not None:
        return exact
    return _sample(model, rows, n_permutations, np.random.default_rng(random_state))


def _sample(model: Model, X: Any, n_permutations: int, rng: np.random.Generator) -> Contributions:
    """Means over random orders, each gone in both directions, which takes noise away.

    In an order, all rows start from the same one, so that the constant is the same for all.
    """
    rows = to_dense(X) if sparse.issparse(X) else X
    varying = np.flatnonzero(_vary(rows))
    starts = np.resize(rng.permutation(rows.shape[0]), n_permutations)
    scores = model._predict(rows)
    values, squares = np.zeros(rows.shape), np.zeros(rows.shape)
    for k, start in enumerate(starts if len(varying) else (), start=1):
        order, effects = rng.permutation(varying), np.zeros(rows.shape)
        for path in (order, order[::-1]):
            effects[:, path] += 0.5 * _effects(model, rows, scores, int(start), path)
        # The mean and the squares of the distances from it (Welford 1962).
        distance = effects - values
        values += distance / k
        squares += distance * (effects - values)
    error = np.sqrt(squares / (n_permutations - 1) / n_permutations)
    return Contributions(values, scores - values.sum(axis=1), SAMPLED, error)


def _effects(
    model: Model, rows: Any, scores: NDArray[np.float64], start: int, path: NDArray[np.int64]
) -> NDArray[np.float64]:
    """By how much each row's score changes when features become its own in this order."""
    (n, d), n_steps = rows.shape, len(path)
    found = np.empty((n_steps + 1, n))
    found[0], found[-1] = scores[start], scores
    own = np.zeros((n_steps - 1, d), dtype=bool)
    for step, feature in enumerate(path[:-1]):
        own[step:, feature] = True
    most = max(1, _BLOCK_ELEMENTS // (n * d))
    for begin in range(0, n_steps - 1, most):
        mixed = _mix(rows, start, own[begin : begin + most])
        scored = model._predict(mixed).reshape(-1, n)
        found[begin + 1 : begin + 1 + len(scored)] = scored
    return np.diff(found, axis=0).T


def _mix(rows: Any, start: int, own: NDArray[np.bool_]) -> Any:
    """All rows once for each line of `own`, which says what is theirs and not the first's."""
    if isinstance(rows, np.ndarray):
        return np.where(own[:, None], rows, rows[start]).reshape(-1, rows.shape[1])
    mixed: Any = rows.mix(start, own)
    return mixed


def _vary(rows: Any) -> NDArray[np.bool_]:
    """The features in which rows differ; the others change no score."""
    if isinstance(rows, np.ndarray):
        same: NDArray[np.bool_] = (rows == rows[0]) | (np.isnan(rows) & np.isnan(rows[0]))
        return np.asarray(~same.all(axis=0))
    return np.ones(rows.shape[1], dtype=bool)
