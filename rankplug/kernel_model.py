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
from rankplug.models import Model, load_arrays

__all__ = ["KernelModel"]

_FILE = "arrays.npz"
_KINDS_OF_LABELS = "iufbU"
_CHUNK = 2**22  # values of the kernel at once: 32 MB


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
        self.labels = self._checked_labels(labels)
        if feature_names is not None and len(feature_names) != self.n_features:
            raise DataError(f"{len(feature_names)} feature names for {self.n_features} features")
        self.feature_names = None if feature_names is None else tuple(map(str, feature_names))

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

    def _checked_labels(self, labels: Any) -> NDArray[Any]:
        if self.n_labels is None:
            return np.arange(0)
        array = np.arange(self.n_labels) if labels is None else np.asarray(labels)
        if array.dtype == object:
            array = np.array(array.tolist())
        if array.dtype.kind not in _KINDS_OF_LABELS:
            raise DataError("labels must be all integers, all floats, all booleans or all strings")
        if array.shape != (self.n_labels,):
            raise DataError(f"{self.n_labels} columns of dual_coef, labels of shape {array.shape}")
        return array

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
        np.savez(folder / _FILE, **arrays)
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
        file = folder / _FILE
        arrays = load_arrays(file, "dual_coef", "labels")
        try:
            kernel = _kernel(header)
            if header["sparse"]:
                parts = load_arrays(file, "data", "indices", "indptr")
                shape = (len(parts["indptr"]) - 1, int(header["n_features"]))
                support: Any = sparse.csr_array(
                    (parts["data"], parts["indices"], parts["indptr"]), shape=shape
                )
            else:
                support = load_arrays(file, "support")["support"]
        except (KeyError, TypeError, ValueError) as error:
            raise ModelFormatError(
                f"{folder}: the header of the kernel model is damaged: {type(error).__name__} "
                f"{error}"
            ) from None
        return cls(kernel, support, arrays["dual_coef"], arrays["labels"])


def _kernel(header: Mapping[str, Any]) -> Kernel:
    if header["kernel"] not in ("linear", "rbf", "poly"):
        raise ValueError(f"unknown kernel {header['kernel']!r}")
    return Kernel(
        header["kernel"], float(header["gamma"]), int(header["degree"]), float(header["coef0"])
    )


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
