"""Kernel functions by name, with their parameters, or of the caller's own."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rankplug.arrays import row_blocks, row_slice
from rankplug.data import Matrix
from rankplug.exceptions import DataError

__all__ = ["Kernel", "KernelFunction", "KernelName", "default_gamma", "squared_norms"]

KernelName: TypeAlias = Literal["linear", "rbf", "poly"]
KernelFunction: TypeAlias = Callable[[Any, Any], NDArray[Any]]

_EPSILON = float(np.finfo(np.float64).eps)
_LARGEST_ERROR = 1e-9  # of an exponent
_ELEMENTS_AT_ONCE = 2**20


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

    @classmethod
    def for_data(
        cls,
        function: KernelName | KernelFunction,
        gamma: float | None,
        degree: int,
        coef0: float,
        X: Matrix,
    ) -> Kernel:
        """The kernel with these parameters; gamma is `default_gamma` of X if it is None."""
        if gamma is None:
            gamma = default_gamma(X) if function in ("rbf", "poly") else 1.0
        return cls(function, gamma, degree, coef0)

    def __call__(self, X: Matrix, Z: Matrix) -> NDArray[np.float64]:
        """The kernel of every row of `X` with every row of `Z`, of shape (len(X), len(Z)).

        Raises
        ------
        DataError
            If a value is not finite, or a caller's function returns something else than numbers.
        """
        if callable(self.function):
            return self._checked(self.function(X, Z), (X.shape[0], Z.shape[0]))
        with np.errstate(all="ignore"):
            values = self._named(X, Z)
            # A finite sum proves finite terms in one fast pass.
            if np.isfinite(values.sum()) or np.isfinite(values).all():
                return values
        raise self._too_large()

    def _named(self, X: Matrix, Z: Matrix) -> NDArray[np.float64]:
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

        if isinstance(X, np.ndarray) and isinstance(Z, np.ndarray):
            error = self.gamma * _EPSILON * float(squared_norms(X).max(initial=0.0))
            if not error < _LARGEST_ERROR:
                center = Z.mean(axis=0, dtype=np.float64)
                X, Z = X - center, Z - center
                if not (np.isfinite(X).all() and np.isfinite(Z).all()):
                    raise self._too_large()
        return np.array(euclidean_distances(X, Z, squared=True), dtype=np.float64)

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

    def _checked(self, values: Any, shape: tuple[int, int]) -> NDArray[np.float64]:
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


def _products(X: Matrix, Z: Matrix) -> NDArray[np.float64]:
    products: Any = X @ Z.T
    if sparse.issparse(products):
        products = products.toarray()
    return np.array(products, dtype=np.float64, order="C")
