"""Classes to learn: the sets of the LaRank paper that are there, and stand-ins of the others.

letter and usps are the paper's, with its C and its kernel; pendigits, digits drawn with a pen,
stands in for MNIST, and sector, texts with a linear kernel, for INEX. usps-blurred is usps with
smoother images, as some copies of that set have them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from scipy.ndimage import gaussian_filter
from sklearn.datasets import load_digits, load_svmlight_file, load_svmlight_files

from rankplug.kernels import Kernel

_BLUR = 0.8  # pixels: the deviation with which the dual objective of the optimum is the paper's
_IMAGE = (-1, 16, 16)  # of usps
_BACKGROUND = -1.0


@dataclass(frozen=True)
class MulticlassSet:
    """A training and a test part, and the machine that is trained on them."""

    name: str
    train: tuple[Any, Any]
    test: tuple[Any, Any]
    C: float
    gamma: float | None  # None: linear

    @property
    def params(self) -> dict[str, Any]:
        """Of a solver with kernels; the linear one is a polynomial, so that kernels are counted."""
        if self.gamma is None:
            return {"C": self.C, "kernel": "poly", "gamma": 1.0, "degree": 1}
        return {"C": self.C, "kernel": "rbf", "gamma": self.gamma}

    @property
    def kernel(self) -> Kernel:
        """That of `params`."""
        params = {key: value for key, value in self.params.items() if key not in ("C", "kernel")}
        return Kernel(self.params["kernel"], **params)

    def about(self) -> dict[str, Any]:
        """Columns that say what it is."""
        X, y = self.train
        return {
            "data": self.name,
            "n_samples": X.shape[0],
            "n_features": X.shape[1],
            "n_classes": len(np.unique(y)),
            "n_test": self.test[0].shape[0],
            "C": self.C,
            "gamma": "" if self.gamma is None else self.gamma,
            "n_threads": 1,
        }

    def take(self, rows: Any) -> MulticlassSet:
        """The same with some of the training examples."""
        X, y = self.train
        return MulticlassSet(self.name, (X[rows], y[rows]), self.test, self.C, self.gamma)


def read_sets(tiny: bool, wanted: tuple[str, ...] = ()) -> Iterator[MulticlassSet]:
    """The sets named by RANKPLUG_MULTICLASS_SETS, or those that are wanted, or all."""
    if tiny:
        X, y = load_digits(return_X_y=True)
        for name, C, gamma in (("digits-linear", 0.1, None), ("digits", 10.0, 0.5)):
            parts = [(X[rows] / 16.0, y[rows]) for rows in (slice(150), slice(150, 450))]
            yield MulticlassSet(name, *parts, C, gamma)
        return
    if "RANKPLUG_DATA" not in os.environ:
        return
    folder = Path(os.environ["RANKPLUG_DATA"]) / "multiclass"
    named = os.environ.get("RANKPLUG_MULTICLASS_SETS", " ".join(wanted or _SETS)).split()
    for name in named:
        read, C, gamma = _SETS[name]
        yield MulticlassSet(name, *read(folder), C, gamma)


_Parts = tuple[tuple[Any, Any], tuple[Any, Any]]


def _letter(folder: Path) -> _Parts:
    X, y = load_svmlight_file(str(folder / "letter_recognition.txt.gz"))
    X = X.toarray()
    return (X[:16_000], y[:16_000]), (X[16_000:], y[16_000:])


def _usps(folder: Path) -> _Parts:
    (X, y), (Z, z) = _sparse("usps.train.txt", "usps.test.txt")(folder)
    return (X.toarray(), y), (Z.toarray(), z)


def _usps_blurred(folder: Path) -> _Parts:
    (X, y), (Z, z) = _usps(folder)
    return (_blur(X), y), (_blur(Z), z)


def _blur(X: Any) -> Any:
    images = X.reshape(_IMAGE)
    blurred = gaussian_filter(images, (0.0, _BLUR, _BLUR), mode="constant", cval=_BACKGROUND)
    return blurred.reshape(X.shape)


def _pendigits(folder: Path) -> _Parts:
    (X, y), (Z, z) = _sparse("pendigits.txt", "pendigits.t.txt")(folder)
    X, Z = X.toarray(), Z.toarray()
    mean, deviation = X.mean(axis=0), X.std(axis=0)
    return ((X - mean) / deviation, y), ((Z - mean) / deviation, z)


def _sparse(train: str, test: str) -> Callable[[Path], _Parts]:
    def read(folder: Path) -> _Parts:
        X, y, Z, z = load_svmlight_files([str(folder / f"{name}.gz") for name in (train, test)])
        # scikit-learn's own machines take 32-bit indices only.
        X, Z = (
            sparse.csr_array((M.data, M.indices.astype("i4"), M.indptr.astype("i4")), M.shape)
            for M in (X, Z)
        )
        return (X, y), (Z, z)

    return read


_SETS: dict[str, tuple[Callable[[Path], _Parts], float, float | None]] = {
    "letter": (_letter, 10.0, 0.025),
    "usps": (_usps, 10.0, 0.025),
    "usps-blurred": (_usps_blurred, 10.0, 0.025),
    "pendigits": (_pendigits, 10.0, 1 / 16),
    "sector": (_sparse("sector.scale.train.txt", "sector.scale.test.txt"), 1.0, None),
}
