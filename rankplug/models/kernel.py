"""`KernelModel`: scores that are sums of kernels with rows of the training data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rankplug.data import Matrix, as_matrix
from rankplug.exceptions import DataError, ModelFormatError
from rankplug.kernels import Kernel
from rankplug.models.base import ARRAYS, Model
from rankplug.models.header import check_names
from rankplug.models.linear import check_labels
from rankplug.parameters import Choice, Integer, Parameter, Real
from rankplug.system.files import load_arrays, load_numbers

_CHUNK = 2**22  # values of the kernel at once: 32 MB
_HEADER: Mapping[str, Parameter] = {
    "kernel": Choice(("linear", "rbf", "poly")),
    "gamma": Real(),
    "degree": Integer(1, 2**31 - 1),
    "coef0": Real(),
    "sparse": Choice((True, False)),
    "n_features": Integer(1, 2**62),
}


class KernelModel(Model):
    """Scores ``kernel(X, support) @ dual_coef``.

    Parameters
    ----------
    kernel : Kernel
        A model with a caller's own function predicts but cannot be saved.
    support : array or sparse matrix of shape (n_support, n_features)
        Rows of the training data.
    dual_coef : array-like of shape (n_support,), or (n_support, n_labels) for label ranking
    labels : array-like of shape (n_labels,), optional
        Names of the labels, integers, floats, booleans or strings.
    feature_names : sequence of str, optional
    """

    kind = "kernel"

    def __init__(
        self,
        kernel: Kernel,
        support: Any,
        dual_coef: Any,
        labels: Any = None,
        feature_names: Any = None,
    ) -> None:
        self.kernel = kernel
        self.support, _ = as_matrix(support)
        self.dual_coef = _dual_coefficients(dual_coef, self.support.shape[0])
        self.labels = np.arange(0) if self.n_labels is None else check_labels(labels, self.n_labels)
        self.feature_names = check_names(feature_names, self.n_features)

    @property
    def n_features(self) -> int:
        """Number of features of a row."""
        return int(self.support.shape[1])

    @property
    def n_labels(self) -> int | None:
        """Number of labels scored for each row; None if the row itself is scored."""
        return None if self.dual_coef.ndim == 1 else int(self.dual_coef.shape[1])

    def _predict(self, X: Matrix) -> NDArray[np.float64]:
        scores = [self.kernel(rows, self.support) @ self.dual_coef for rows in self._chunks(X)]
        return np.concatenate(scores)

    def _chunks(self, X: Matrix) -> Iterator[Matrix]:
        size = max(1, _CHUNK // self.support.shape[0])
        for begin in range(0, X.shape[0], size):
            yield X[begin : begin + size]

    def _write(self, folder: Path) -> dict[str, Any]:
        kernel = self.kernel
        if callable(kernel.function):
            raise DataError(
                "a model with a kernel function of your own cannot be saved: only the kernels "
                "'linear', 'rbf' and 'poly' have a name that can be written to a file"
            )
        arrays: dict[str, Any] = {"dual_coef": self.dual_coef, "labels": self.labels}
        if sparse.issparse(self.support):
            X: Any = self.support
            arrays |= {"data": X.data, "indices": X.indices, "indptr": X.indptr}
        else:
            arrays["support"] = np.asarray(self.support)
        np.savez(folder / ARRAYS, **arrays)
        return {
            "n_labels": self.n_labels,
            "sparse": sparse.issparse(self.support),
            "n_features": self.n_features,
            "kernel": kernel.function,
            "gamma": kernel.gamma,
            "degree": kernel.degree,
            "coef0": kernel.coef0,
        }

    @classmethod
    def _read(cls, folder: Path, header: Mapping[str, Any]) -> KernelModel:
        file = folder / ARRAYS
        wrong = [key for key, kind in _HEADER.items() if not kind.accepts(header.get(key))]
        if wrong:
            raise ModelFormatError(f"{folder}: {', '.join(wrong)} missing or wrong in the header")
        gamma, coef0 = float(header["gamma"]), float(header["coef0"])
        kernel = Kernel(header["kernel"], gamma, header["degree"], coef0)
        if header["sparse"]:
            support: Any = _sparse_support(file, header["n_features"])
        else:
            support = load_numbers(file, "support")["support"]
        dual_coef = load_numbers(file, "dual_coef")["dual_coef"]
        return cls(kernel, support, dual_coef, load_arrays(file, "labels")["labels"])


def _sparse_support(file: Path, n_features: int) -> sparse.csr_array:
    data = load_numbers(file, "data")["data"]
    index = load_arrays(file, "indices", "indptr")
    if {array.dtype.kind for array in index.values()} != {"i"} or index["indptr"].ndim != 1:
        raise ModelFormatError(f"{file}: indices and indptr must be integers")
    shape = (len(index["indptr"]) - 1, n_features)
    try:
        return sparse.csr_array((data, index["indices"], index["indptr"]), shape=shape)
    except ValueError as error:
        raise ModelFormatError(f"{file}: no valid sparse matrix: {error}") from None


def _dual_coefficients(dual_coef: Any, n_support: int) -> NDArray[np.float64]:
    try:
        array = np.array(dual_coef, dtype=np.float64, order="C")
    except (TypeError, ValueError) as error:
        raise DataError(f"dual_coef must hold numbers: {error}") from None
    if array.ndim not in (1, 2) or not np.isfinite(array).all():
        raise DataError("dual_coef must have one or two dimensions and be finite")
    if len(array) != n_support:
        raise DataError(f"{n_support} support rows but {len(array)} rows of dual_coef")
    return array
