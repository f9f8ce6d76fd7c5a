"""Rows of the kernel matrix, as many as fit into a given memory.

Compiled epochs read the arrays of the cache without the GIL. Between two of them, when Python
is back, it is asked for the rows that the next one may need.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from rankplug.data import Matrix
from rankplug.kernels import Kernel

__all__ = ["KernelCache"]

Indices: TypeAlias = NDArray[np.int64]

_CHUNK_ROWS = 256


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

    def extend(self, samples: Indices, *, keep: bool) -> NDArray[np.float64]:
        """Make these samples the next columns, and keep their rows too if that is wanted.

        Returns
        -------
        float64 ndarray of shape (len(samples), number of columns before)
            Their kernels with the columns there were.
        """
        before = self.n_columns
        after = before + len(samples)
        self._sample[before:after] = samples
        self.column[samples] = np.arange(before, after)
        self.n_columns = after
        values = self._values(samples, after if keep else before)
        kept = np.flatnonzero(self._owner >= 0)
        self.rows[kept, before:after] = values[:, self.column[self._owner[kept]]].T
        if keep:
            self._clock += 1
            self._last_use[samples] = self._clock
            self.rows[self._places_for(samples), :after] = values
        return values[:, :before]

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
