"""Kernel functions by name, with their parameters, or of the caller's own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rankplug.data import Matrix
from rankplug.exceptions import DataError

__all__ = ["Kernel", "KernelFunction", "KernelName", "default_gamma", "squared_norms"]

KernelName: TypeAlias = Literal["linear", "rbf", "poly"]
KernelFunction: TypeAlias = Callable[[Any, Any], NDArray[Any]]


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
        return cls(function, default_gamma(X) if gamma is None else gamma, degree, coef0)

    def __call__(self, X: Matrix, Z: Matrix) -> NDArray[np.float64]:
        """The kernel of every row of `X` with every row of `Z`, of shape (len(X), len(Z))."""
        if callable(self.function):
            return self._checked(self.function(X, Z), (X.shape[0], Z.shape[0]))
        if self.function == "rbf":
            from sklearn.metrics.pairwise import euclidean_distances

            distances = np.array(euclidean_distances(X, Z, squared=True), dtype=np.float64)
            distances *= -self.gamma
            return np.asarray(np.exp(distances, out=distances))
        products = _products(X, Z)
        if self.function == "poly":
            products *= self.gamma
            products += self.coef0
            products **= self.degree
        return products

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
        if isinstance(X, np.ndarray):
            return np.asarray(np.square(X, dtype=np.float64).sum(axis=1))
        row = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
        squares = np.square(X.data, dtype=np.float64)
        return np.asarray(np.bincount(row, weights=squares, minlength=X.shape[0]), dtype=np.float64)


def default_gamma(X: Matrix) -> float:
    """``1 / (number of features * variance of X)``, scikit-learn's ``gamma="scale"``."""
    n_samples, n_features = X.shape
    n_values = n_samples * n_features
    mean = float(X.sum(dtype=np.float64)) / n_values
    variance = float(squared_norms(X).sum()) / n_values - mean**2
    return 1.0 / (n_features * variance) if variance > 0 else 1.0


def _products(X: Matrix, Z: Matrix) -> NDArray[np.float64]:
    products: Any = X @ Z.T
    if sparse.issparse(products):
        products = products.toarray()
    return np.array(products, dtype=np.float64, order="C")
