"""The squared hinge loss of pairs, counted by any of the structures that Lee and Lin compare.

`counting.c` has the structures: direct counting, PRSVM+, the selection tree, and balanced trees
of levels or of scores. The loss fits rankplug's trust-region Newton method, so that trainings
differ in nothing but the counting, as in the paper. ``"prefix-sums"`` is what rankplug has in
their place. Where there is no C compiler, only that is there.
"""

from __future__ import annotations

import ctypes
import os
import shlex
import subprocess
import sysconfig
import tempfile
from functools import lru_cache
from pathlib import Path
from shutil import which
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankplug._fast.pairs import ActivePairs, Queries
from rankplug.data import RankingData

Vector = NDArray[np.float64]

# The places are the numbers of the enumeration in counting.c.
_IN_C = (
    "direct",
    "prsvm+",
    "selection-tree",
    "red-black-tree",
    "avl-tree",
    "aa-tree",
    "red-black-tree-of-scores",
)
_OURS = "prefix-sums"


def structures() -> tuple[str, ...]:
    """Those that can be had here."""
    return (*_IN_C, _OURS) if _compiler() else (_OURS,)


class CountedSquaredHinge:
    """Sum over pairs of ``max(0, 1 - (s_i - s_j))^2``; a `rankplug.optim.newton_cg.LinearLoss`."""

    def __init__(self, data: RankingData, structure: str) -> None:
        self.n_columns, self.n_passes = data.n_features, 0.0
        self._X = data.X
        self.pairs = _OurPairs(data) if structure == _OURS else _PairsInC(data, structure)
        self._moved = False  # whether the pairs are those of a step that was not accepted

    def move_to(self, w: Vector | None) -> float:
        self.n_passes += w is not None
        self._scores = np.zeros(self._X.shape[0]) if w is None else self._X @ w
        loss, self._coefficient = self.pairs.evaluate(self._scores)
        self._moved = False
        return loss

    def gradient(self) -> Vector:
        return self._times_transposed(self._coefficient)

    def hessian_product(self, v: Vector) -> Vector:
        if self._moved:
            self.pairs.evaluate(self._scores)
            self._moved = False
        self.n_passes += 1
        self._product = self._X @ v
        return self._times_transposed(self.pairs.laplacian(self._product))

    def start_direction(self) -> None:
        self._direction = np.zeros_like(self._scores)

    def extend_direction(self, step: float) -> None:
        self._direction += step * self._product

    def loss_along(self, step: float) -> float:
        self._tried = self._scores + step * self._direction
        loss, self._tried_coefficient = self.pairs.evaluate(self._tried)
        self._moved = True
        return loss

    def accept(self) -> None:
        self._scores, self._coefficient = self._tried, self._tried_coefficient
        self._moved = False

    def updated_gradient(self) -> None:
        return None  # X tells it

    def aim_at(self, w: Vector) -> None:
        self.n_passes += 1
        self._direction = self._X @ w - self._scores

    def _times_transposed(self, z: Vector) -> Vector:
        self.n_passes += 1
        product: Vector = 2.0 * (self._X.T @ z)
        return product


class _OurPairs:
    """Prefix sums, as rankplug has them."""

    def __init__(self, data: RankingData) -> None:
        queries = Queries(data.query_ptr, data.relevance, np.ones(data.n_queries))
        self._active = ActivePairs(queries)

    def evaluate(self, scores: Vector) -> tuple[float, Vector]:
        coefficient = np.empty_like(scores)
        self._active.update(scores)
        return self._active.squared_hinge(scores, coefficient), coefficient

    def laplacian(self, z: Vector) -> Vector:
        out = np.empty_like(z)
        self._active.laplacian(z, out)
        return out


class _PairsInC:
    """The pairs active at some scores: how many there are of a row, and the sums of a vector.

    ``u(z) = (above + below) z - (sums of z above and below)``, row by row, is the product with
    the Laplacian of the pairs; with ``d = below - above`` the loss is ``p_w - 2 s.d + s.u(s)``
    and half its derivative by the scores ``u(s) - d`` (equations 2.11 to 2.13).
    """

    def __init__(self, data: RankingData, structure: str) -> None:
        self._function = _compiled().count_pairs
        self._structure = _IN_C.index(structure)
        self._ptr = np.ascontiguousarray(data.query_ptr, dtype=np.int64)
        self._query = np.repeat(np.arange(data.n_queries), np.diff(self._ptr))
        self._first = self._ptr[self._query]
        n = data.n_samples
        order = np.lexsort((data.relevance, self._query))
        y, query = data.relevance[order], self._query[order]
        starts = np.r_[True, query[1:] != query[:-1]]
        step = (np.r_[True, y[1:] != y[:-1]] & ~starts).astype(np.int64)
        level = np.cumsum(step)
        level -= np.maximum.accumulate(np.where(starts, level, 0))
        self._level = np.empty(n, dtype=np.int32)
        self._level[order] = level
        self._n_levels = np.zeros(data.n_queries, dtype=np.int32)
        np.maximum.at(self._n_levels, query, level.astype(np.int32) + 1)
        self._by_level = (order - self._first).astype(np.int32)
        self._found = np.empty((2, n, 2))

    def evaluate(self, scores: Vector) -> tuple[float, Vector]:
        order = np.lexsort((scores, self._query)) if len(self._n_levels) > 1 else scores.argsort()
        self._scores, self._by_score = scores, (order - self._first).astype(np.int32)
        product = self.laplacian(scores)
        above, below = self._found[:, :, 0]
        difference = below - above
        return float(above.sum() - 2.0 * (scores @ difference) + scores @ product), (
            product - difference
        )

    def laplacian(self, z: Vector) -> Vector:
        self._count(z)
        found = self._found[0] + self._found[1]
        product: Vector = found[:, 0] * z - found[:, 1]
        return product

    def _count(self, z: Vector) -> None:
        whole = (self._ptr, self._n_levels, self._level, self._by_score, self._by_level)
        arrays = (*whole, self._scores, np.ascontiguousarray(z), *self._found)
        pointers: list[Any] = [array.ctypes.data_as(ctypes.c_void_p) for array in arrays]
        if self._function(self._structure, ctypes.c_int64(len(self._n_levels)), *pointers):
            raise MemoryError("no memory for a tree over the rows of a query")


def _compiler() -> list[str]:
    """How to call the compiler of this Python, or cc; empty if there is neither, or on Windows."""
    if os.name == "nt":  # whose compilers take other options, and which locks what is loaded
        return []
    for command in (sysconfig.get_config_var("CC"), "cc"):
        words = shlex.split(command or "")
        if words and which(words[0]):
            return words
    return []


@lru_cache
def _compiled() -> ctypes.CDLL:
    """The functions of counting.c, compiled for this process."""
    source = Path(__file__).with_suffix(".c")
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "counting.so"
        options = ["-O3", "-shared", "-fPIC", "-o", str(library), str(source)]
        subprocess.run([*_compiler(), *options], check=True)
        return ctypes.CDLL(str(library))
