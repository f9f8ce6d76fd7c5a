"""Rows of the kernel matrix, as many as fit into a given memory."""

from __future__ import annotations

from collections import OrderedDict

import numpy as np
from numpy.typing import NDArray

from rankplug.data import Matrix
from rankplug.kernels import Kernel

__all__ = ["KernelCache"]

_CHUNK_ROWS = 256


class KernelCache:
    """Keeps the rows used last.

    Parameters
    ----------
    kernel : Kernel
    X : dense or CSR features of shape (n_samples, n_features)
    megabytes : float
        Room for the rows; at least two rows, at most the whole matrix, are kept.
    """

    def __init__(self, kernel: Kernel, X: Matrix, megabytes: float) -> None:
        self._kernel = kernel
        self._X = X
        self.n_samples = int(X.shape[0])
        room = int(megabytes * 2**20 / (8 * self.n_samples))
        self.capacity = min(max(room, 2), self.n_samples)
        self.rows: NDArray[np.float64] = np.empty((self.capacity, self.n_samples))
        self.n_computed = 0
        self._place: OrderedDict[int, int] = OrderedDict()

    @property
    def chunk_size(self) -> int:
        """How many rows may be asked for at once."""
        whole = self.capacity == self.n_samples
        return self.n_samples if whole else min(self.capacity, _CHUNK_ROWS)

    def fetch(self, samples: NDArray[np.int64]) -> NDArray[np.int64]:
        """Where in `rows` the rows of these samples stand, at most `chunk_size` of them."""
        missing = []
        for sample in samples.tolist():
            if sample in self._place:
                self._place.move_to_end(sample)
            else:
                missing.append(sample)
        for begin in range(0, len(missing), _CHUNK_ROWS):
            self._compute(missing[begin : begin + _CHUNK_ROWS])
        return np.array([self._place[sample] for sample in samples.tolist()], dtype=np.int64)

    def _compute(self, samples: list[int]) -> None:
        values = self._kernel(self._X[samples], self._X)
        self.n_computed += len(samples)
        for sample, row in zip(samples, values, strict=True):
            if len(self._place) < self.capacity:
                place = len(self._place)
            else:
                _, place = self._place.popitem(last=False)
            self._place[sample] = place
            self.rows[place] = row
