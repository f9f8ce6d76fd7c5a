"""Kernel functions by name or of the caller's own, and a cache of rows of the kernel matrix.

Compiled epochs read the arrays of the cache without the GIL. Between two of them, when Python
is back, it is asked for the rows that the next one may need.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rankplug.data import Matrix, row_blocks, row_slice, to_dense
from rankplug.exceptions import DataError

__all__ = [
    "Kernel",
    "KernelCache",
    "KernelFunction",
    "KernelName",
    "check_squares",
    "default_gamma",
    "squared_norms",
]

KernelName: TypeAlias = Literal["linear", "rbf", "poly"]
KernelFunction: TypeAlias = Callable[[Any, Any], NDArray[Any]]
Indices: TypeAlias = NDArray[np.int64]

_EPSILON = float(np.finfo(np.float64).eps)
_LARGEST_ERROR = 1e-13  # of an exponent, beyond which squared distances are taken around the mean
_ELEMENTS_AT_ONCE = 2**20  # of features squared at once: 8 MB
_CHUNK_ROWS = 256  # rows asked of the kernel at once, which are copied into the cache


@dataclass(frozen=True)
class Kernel:
    """A kernel function: inner products of rows, perhaps of what they are mapped to.

        linear: x.z       rbf: exp(-gamma |x - z|^2)       poly: (gamma x.z + coef0)^degree

    Attributes
    ----------
    function : "linear", "rbf", "poly" or callable
        A callable takes two matrices of rows and returns all inner products, of shape
        (rows of the first, rows of the second). They must be those of a positive
        semidefinite kernel, which is not checked.
    gamma : float
    degree : int
    coef0 : float
    """

    function: KernelName | KernelFunction
    gamma: float = 1.0
    degree: int = 3
    coef0: float = 0.0

    def __call__(self, X: Matrix, Z: Matrix) -> NDArray[np.float64]:
        """The kernel of every row of `X` with every row of `Z`, of shape (len(X), len(Z)).

        It is computed in float64 whatever the features are: a matrix of kernels that are rounded
        to float32 may not be positive semidefinite, and would certify what is not so.

        Raises
        ------
        DataError
            If a value is not finite, or a caller's function returns something else than numbers.
        """
        if callable(self.function):
            return self._check(self.function(X, Z), (X.shape[0], Z.shape[0]))
        with np.errstate(all="ignore"):
            blocks = [self._evaluate(X, part) for part in _float64_blocks(Z)]
            values = blocks[0] if len(blocks) == 1 else np.concatenate(blocks, axis=1)
            # A finite sum proves finite terms in one fast pass.
            if np.isfinite(values.sum()) or np.isfinite(values).all():
                return values
        raise self._too_large()

    def _evaluate(self, X: Matrix, Z: Matrix) -> NDArray[np.float64]:
        if self.function == "rbf":
            distances = self._squared_distances(X, Z)
            distances *= -self.gamma
            return np.asarray(np.exp(distances, out=distances))
        products = _products(X, Z)
        if self.function == "poly":
            products *= self.gamma
            products += self.coef0
            products **= self.degree
        return products

    def _too_large(self) -> DataError:
        return DataError(
            f"the {self.function} kernel of the features is NaN or infinite: they are too large; "
            "scale them, for example to mean 0 and standard deviation 1"
        )

    def _squared_distances(self, X: Matrix, Z: Matrix) -> NDArray[np.float64]:
        """``|x - z|^2``; rows far from 0, whose squares would cancel, are moved there first."""
        from sklearn.metrics.pairwise import euclidean_distances

        if isinstance(Z, np.ndarray) and self._loses_digits(X):
            center = Z.mean(axis=0, dtype=np.float64)
            X, Z = X - center, Z - center
            if not (np.isfinite(X).all() and np.isfinite(Z).all()):
                raise self._too_large()
        return np.array(euclidean_distances(X, Z, squared=True), dtype=np.float64)

    def _loses_digits(self, X: Matrix) -> bool:
        """Whether dense rows lie too far from 0 for the squares in exponents of rbf."""
        return isinstance(X, np.ndarray) and not _EPSILON * self._exponent(X) < _LARGEST_ERROR

    def _exponent(self, X: Matrix) -> float:
        """The largest of what the exponents of rbf are differences of."""
        return self.gamma * float(squared_norms(X).max(initial=0.0))

    def condition(self, X: Matrix) -> float:
        """By how many units of their last digits kernels of the rows may be wrong, about."""
        if self.function == "poly":
            return float(self.degree)
        if self.function != "rbf":
            return 1.0
        return 1.0 + self._exponent(X - X.mean(axis=0) if self._loses_digits(X) else X)

    def diagonal(self, X: Matrix) -> NDArray[np.float64]:
        """The kernel of every row with itself."""
        n_rows = X.shape[0]
        if callable(self.function):
            return np.array([self(X[i : i + 1], X[i : i + 1])[0, 0] for i in range(n_rows)])
        if self.function == "rbf":
            return np.ones(n_rows)
        norms = squared_norms(X)
        if self.function == "poly":
            return np.asarray((self.gamma * norms + self.coef0) ** self.degree)
        return norms

    def _check(self, values: Any, shape: tuple[int, int]) -> NDArray[np.float64]:
        try:
            matrix = np.array(values, dtype=np.float64, order="C")
        except (TypeError, ValueError) as error:
            raise DataError(f"the kernel function must return numbers: {error}") from None
        if matrix.shape != shape:
            raise DataError(
                f"the kernel function returned shape {matrix.shape} for {shape[0]} and {shape[1]} "
                f"rows: it must be {shape}"
            )
        if not np.isfinite(matrix).all():
            raise DataError("the kernel function returned NaN or infinity")
        return matrix


def check_squares(squares: NDArray[np.float64]) -> None:
    """Raise `DataError` if squared lengths, as from `squared_norms`, are not finite."""
    if not np.isfinite(squares).all():
        raise DataError(
            "the features are too large: their squares overflow; scale the features, for example "
            "to mean 0 and standard deviation 1"
        )


def squared_norms(X: Matrix) -> NDArray[np.float64]:
    """Squared Euclidean norm of each row; infinite where it overflows."""
    with np.errstate(over="ignore"):
        blocks = [_squared_norms(row_slice(X, rows)) for rows in row_blocks(X, _ELEMENTS_AT_ONCE)]
    return np.concatenate(blocks)


def _squared_norms(X: Matrix) -> NDArray[np.float64]:
    if isinstance(X, np.ndarray):
        return np.asarray(np.square(X, dtype=np.float64).sum(axis=1))
    row = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
    squares = np.square(X.data, dtype=np.float64)
    return np.asarray(np.bincount(row, weights=squares, minlength=X.shape[0]), dtype=np.float64)


def default_gamma(X: Matrix) -> float:
    """``1 / (number of features * variance of X)``, scikit-learn's ``gamma="scale"``.

    Constant features have 1.

    Raises
    ------
    DataError
        If that is no finite number.
    """
    with np.errstate(all="ignore"):
        variance = _variance(X)
        gamma = 1.0 / (X.shape[1] * np.float64(variance)) if variance != 0.0 else 1.0
    if not (math.isfinite(variance) and math.isfinite(gamma)):
        raise DataError(
            f"the variance of all features is {variance:g}, too large or too small for the default "
            "gamma: scale the features, for example to mean 0 and standard deviation 1"
        )
    return float(gamma)


def _variance(X: Matrix) -> float:
    """Of all values; those around the mean are squared, which cancels no digits."""
    n_values = X.shape[0] * X.shape[1]
    mean = X.sum(dtype=np.float64) / n_values
    stored = X if isinstance(X, np.ndarray) else X.data
    squares = np.square(np.subtract(stored, mean, dtype=np.float64)).sum()
    return float((squares + (n_values - stored.size) * mean * mean) / n_values)


def _float64_blocks(Z: Matrix) -> Iterator[Matrix]:
    """The rows in float64; those of float32 block by block, so that few are copied at once."""
    if Z.dtype == np.float64 or Z.shape[0] == 0:
        yield Z
        return
    for rows in row_blocks(Z, _ELEMENTS_AT_ONCE):
        yield row_slice(Z, rows).astype(np.float64)


def _products(X: Matrix, Z: Matrix) -> NDArray[np.float64]:
    return np.array(to_dense(X @ Z.T), dtype=np.float64, order="C")


class KernelCache:
    """Keeps the rows used last.

    A row has a value for every sample, or with ``grows=True`` only for those that were made
    columns by `extend`: an online method needs no kernels of samples that it has not met, nor
    of those that it has forgotten.

    Parameters
    ----------
    kernel : Kernel
    X : dense or CSR features of shape (n_samples, n_features)
    megabytes : float
        Room for the rows; at most the whole matrix is kept.
    least : int, default=2
        Rows that have room in any case.
    grows : bool, default=False
        Start without columns.

    Attributes
    ----------
    rows : float64 ndarray of shape (capacity, n_samples)
        ``rows[place[i], column[j]]`` is the kernel of samples i and j.
    place : int64 ndarray of shape (n_samples,)
        -1: the row of that sample is not kept.
    column : int64 ndarray of shape (n_samples,)
        -1: that sample is no column.
    n_columns : int
        Columns ``0 ... n_columns - 1`` are in use.
    n_evaluations : int
        Kernels computed so far.
    """

    def __init__(
        self, kernel: Kernel, X: Matrix, megabytes: float, *, least: int = 2, grows: bool = False
    ) -> None:
        self._kernel = kernel
        self._X = X
        self._grows = grows
        n_samples = int(X.shape[0])
        room = int(megabytes * 2**20 / (8 * n_samples))
        self.capacity = min(max(room, least), n_samples)
        self.rows: NDArray[np.float64] = np.empty((self.capacity, n_samples))
        self.place = np.full(n_samples, -1)
        self.column = np.full(n_samples, -1) if grows else np.arange(n_samples)
        self.n_columns = 0 if grows else n_samples
        self.n_evaluations = 0
        self._sample = np.arange(n_samples)  # of each column
        self._owner = np.full(self.capacity, -1)  # the sample of each place
        self._last_use = np.zeros(n_samples, dtype=np.int64)
        self._clock = 0

    @property
    def chunk_size(self) -> int:
        """How many rows may be asked for at once."""
        whole = self.capacity == len(self.place)
        return self.capacity if whole else min(self.capacity, _CHUNK_ROWS)

    def fetch(self, samples: Indices) -> Indices:
        """Where in `rows` the rows of these different samples stand, at most `capacity` of them."""
        self._clock += 1
        self._last_use[samples] = self._clock
        missing = samples[self.place[samples] < 0]
        for begin in range(0, len(missing), _CHUNK_ROWS):
            part = missing[begin : begin + _CHUNK_ROWS]
            values = self._values(part, self.n_columns)
            self.rows[self._places_for(part), : self.n_columns] = values
        return self.place[samples]

    def extend(
        self, samples: Indices, *, keep: bool, n_beside: int | None = None
    ) -> NDArray[np.float64]:
        """Make these samples the next columns, and keep their rows too if that is wanted.

        If not, the first `n_beside` columns may suffice, of which are all rows that are kept.

        Returns
        -------
        float64 ndarray of shape (len(samples), n_beside or number of columns before)
            Their kernels with the columns there were.
        """
        before = self.n_columns
        n_beside = before if n_beside is None else n_beside
        after = before + len(samples)
        self._sample[before:after] = samples
        self.column[samples] = np.arange(before, after)
        self.n_columns = after
        values = self._values(samples, after if keep else n_beside)
        kept = np.flatnonzero(self._owner >= 0)
        self.rows[kept, before:after] = values[:, self.column[self._owner[kept]]].T
        if keep:
            self._clock += 1
            self._last_use[samples] = self._clock
            self.rows[self._places_for(samples), :after] = values
        return values[:, :n_beside]

    def remove(self, samples: Indices) -> tuple[Indices, Indices]:
        """Forget these samples, rows and columns; the last columns take the places of theirs.

        Returns
        -------
        (to, origin) : int64 ndarrays
            Column ``origin[c]`` became column ``to[c]``.
        """
        places = self.place[samples]
        self._owner[places[places >= 0]] = -1
        gone = self.column[samples]
        self.place[samples] = self.column[samples] = -1
        left = self.n_columns - len(samples)
        to = gone[gone < left]
        origin = np.setdiff1d(np.arange(left, self.n_columns), gone)
        kept = np.flatnonzero(self._owner >= 0)
        self.rows[np.ix_(kept, to)] = self.rows[np.ix_(kept, origin)]
        moved = self._sample[origin]
        self._sample[to], self.column[moved] = moved, to
        self.n_columns = left
        return to, origin

    def move_columns(self, samples: Indices, first: int) -> tuple[Indices, Indices]:
        """Exchange columns so that these samples have columns ``first, first + 1, ...``.

        Returns
        -------
        (to, origin) : int64 ndarrays
            Column ``origin[c]`` became column ``to[c]``.
        """
        wanted = np.arange(first, first + len(samples))
        theirs = self.column[samples]
        origin = np.concatenate((theirs, np.setdiff1d(wanted, theirs)))
        to = np.concatenate((wanted, np.setdiff1d(theirs, wanted)))
        kept = np.flatnonzero(self._owner >= 0)
        self.rows[np.ix_(kept, to)] = self.rows[np.ix_(kept, origin)]
        self._sample[to] = self._sample[origin]
        self.column[self._sample[to]] = to
        return to, origin

    @property
    def samples(self) -> Indices:
        """The sample of each column in use."""
        return self._sample[: self.n_columns]

    def _values(self, samples: Indices, n_columns: int) -> NDArray[np.float64]:
        if n_columns == 0:
            return np.empty((len(samples), 0))
        columns = self._X[self._sample[:n_columns]] if self._grows else self._X
        self.n_evaluations += len(samples) * n_columns
        return self._kernel(self._X[samples], columns)

    def _places_for(self, samples: Indices) -> Indices:
        """Free places, made by forgetting the rows that were not used for longest."""
        free = np.flatnonzero(self._owner < 0)[: len(samples)]
        lacking = len(samples) - len(free)
        if lacking > 0:
            taken = np.flatnonzero(self._owner >= 0)
            age = self._last_use[self._owner[taken]]
            oldest = taken[np.argpartition(age, lacking - 1)[:lacking]]
            self.place[self._owner[oldest]] = -1
            free = np.concatenate((free, oldest))
        self._owner[free] = samples
        self.place[samples] = free
        return free
