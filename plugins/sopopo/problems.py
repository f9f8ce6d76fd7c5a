"""Dual variables and weights of label ranking and query-document data, for dual ascent."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rankplug.data import LabelRankingData, Matrix, RankingData, concatenate_ranges, n_stored
from rankplug.exceptions import ParameterError
from rankplug.kernels import Kernel, KernelCache, check_squares, squared_norms
from rankplug.models import KernelModel, LabelLinearModel, LinearModel, Model, linear_weights
from rankplug.optim.bracket import Vector
from rankplug.solver import Data
from rankplug.system.interruption import interrupted, is_late, pieces
from rankplug_plugins.sopopo import _sopopo_fast as fast
from rankplug_plugins.sopopo.decompositions import Graphs, graph_curvatures, kernel_curvatures

Indices: TypeAlias = NDArray[np.int64]
Point: TypeAlias = tuple[NDArray[np.float64], ...]

_MOST_ROWS = 256  # of the kernel matrix fetched at once, between two looks for a signal


class _Linear:
    """Explicit weights; a subclass says which compiled epochs they take.

    Parameters
    ----------
    data : RankingData or LabelRankingData
    weights : float64 ndarray
        All 0.
    work : float or float64 ndarray of shape (n_examples,)
        Of a visit to a group, as `pieces` counts it.
    """

    graphs: fast.DualGraphs
    _dense_epoch: Callable[..., float]
    _sparse_epoch: Callable[..., float]

    def __init__(self, data: Data, weights: NDArray[np.float64], work: Any) -> None:
        self._X: Any = data.X
        self._n_groups = data.n_examples
        self._work = work
        self.weights = weights
        self.n_passes = 0.0

    def epoch(self, order: Indices) -> float:
        """Visit these groups; returns the largest change of a score that a step aimed at."""
        moved = 0.0
        for part in pieces(order, self._work):
            moved = max(moved, self._visit(part))
        return moved

    def _visit(self, order: Indices) -> float:
        X = self._X
        self.n_passes += 2.0 * len(order) / self._n_groups
        if sparse.issparse(X):
            matrix = X.indptr, X.indices, X.data
            return float(self._sparse_epoch(self.graphs, order, *matrix, self.weights))
        return float(self._dense_epoch(self.graphs, order, X, self.weights))

    def squared_norm(self) -> float:
        """Squared norm of the weights."""
        return float(np.vdot(self.weights, self.weights))

    def point(self) -> Point:
        """A copy of what `model` needs."""
        return (self.weights.copy(),)

    def point_of(self, model: Model) -> Point | None:
        """What `model` would need to make this one; None if it is not linear."""
        try:
            weights = linear_weights(model)
        except ParameterError:
            return None
        return (self._arrange(weights),)

    def _arrange(self, weights: Vector) -> NDArray[np.float64]:
        """Weights that stand label by label, as the compiled epochs take them."""
        return weights


class LinearLabels(_Linear):
    """Label ranking with one weight vector a label.

    The weights are (n_labels, n_features) for dense features, and transposed for sparse ones,
    of which each then meets consecutive weights.
    """

    _dense_epoch = staticmethod(fast.label_epoch_dense)
    _sparse_epoch = staticmethod(fast.label_epoch_sparse)

    def __init__(self, data: LabelRankingData, graphs: Graphs, bound: Vector) -> None:
        shape = data.n_labels, data.n_features
        self._sparse = sparse.issparse(data.X)
        weights = np.zeros(shape[::-1] if self._sparse else shape)
        super().__init__(data, weights, 2.0 * data.n_labels * _mean_size(data.X))
        self._labels = data.labels
        self.incidence = _Incidence(graphs, data.n_labels * np.arange(data.n_samples + 1))
        norms = squared_norms(data.X)
        check_squares(norms)
        self.graphs = _dual_graphs(
            graphs, self.incidence.offset, data.relevance.ravel(), bound, norms[graphs.group]
        )

    def scores(self) -> Vector:
        """Scores of all items."""
        self.n_passes += 1
        weights = self.weights if self._sparse else self.weights.T
        return np.ascontiguousarray(self._X @ weights, dtype=np.float64).ravel()

    def _arrange(self, weights: Vector) -> NDArray[np.float64]:
        coef = weights.reshape(len(self._labels), -1)
        return np.ascontiguousarray(coef.T if self._sparse else coef)

    def model(self, point: Point) -> Model:
        """The model at an earlier point."""
        coef = point[0].T if self._sparse else point[0]
        return LabelLinearModel(coef, self._labels)

    def recompute(self) -> None:
        """Make the weights again from the dual variables, without what rounding has added."""
        self.n_passes += 1
        W = self._X.T @ self.incidence.net(self.graphs.dual).reshape(self._n_groups, -1)
        self.weights = np.ascontiguousarray(W if self._sparse else W.T, dtype=np.float64)


class _Kernel:
    """Kernels: the weights are not known, but the scores of the training data stand for them.

    They are of shape (n_labels, n_samples), of documents (1, n_samples).
    """

    incidence: _Incidence

    def __init__(self, data: Data, kernel: Kernel, cache_mb: float, least: int = 2) -> None:
        self._data = data
        self._kernel = kernel
        self._cache = KernelCache(kernel, data.X, cache_mb, least=max(2, least))
        self.weights = np.zeros((data.n_labels or 1, data.n_samples))

    @property
    def n_passes(self) -> float:
        """Kernels computed, a share of all."""
        return self._cache.n_evaluations / self._data.n_samples**2

    def scores(self) -> Vector:
        """Scores of all items."""
        return np.ascontiguousarray(self.weights.T).ravel()

    def squared_norm(self) -> float:
        """Squared norm of the weights."""
        return float(np.vdot(self._net(), self.weights.T))

    def point(self) -> Point:
        """A copy of what `model` needs."""
        return (self._net(),)

    def point_of(self, model: Model) -> None:
        """None: rows of other data, which a model may hold, make no point."""

    def model(self, point: Point) -> Model:
        """The model at an earlier point."""
        (net,) = point
        used = np.flatnonzero(net.any(axis=1))
        if len(used) == 0:
            used = np.arange(1)
        return self._make_model(self._data.X[used], net[used])

    @abstractmethod
    def _make_model(self, rows: Matrix, dual: NDArray[np.float64]) -> Model:
        """The model of these rows."""

    def recompute(self) -> None:
        """Make the weights again from the dual variables, without what rounding has added."""
        net = self._net()
        used = np.flatnonzero(net.any(axis=1))
        self.weights[:] = 0.0
        size = self._cache.chunk_size
        for begin in range(0, len(used), size):
            if interrupted():
                break
            part = used[begin : begin + size]
            self.weights += net[part].T @ self._cache.rows[self._cache.fetch(part)]

    def _net(self) -> NDArray[np.float64]:
        return self.incidence.net(self.graphs.dual).reshape(self._data.n_samples, -1)


class KernelLabels(_Kernel):
    """Label ranking with kernels."""

    def __init__(
        self, data: LabelRankingData, graphs: Graphs, bound: Vector, kernel: Kernel, cache_mb: float
    ) -> None:
        super().__init__(data, kernel, cache_mb)
        self._labels = data.labels
        self.incidence = _Incidence(graphs, data.n_labels * np.arange(data.n_samples + 1))
        diagonal = kernel.diagonal(data.X)
        check_squares(diagonal)
        self.graphs = _dual_graphs(
            graphs, self.incidence.offset, data.relevance.ravel(), bound, diagonal[graphs.group]
        )

    def epoch(self, order: Indices) -> float:
        """Visit these groups; returns the largest change of a score that a step aimed at."""
        moved = 0.0
        size = min(self._cache.chunk_size, _MOST_ROWS)
        for begin in range(0, len(order), size):
            part = order[begin : begin + size]
            rows = self._cache.fetch(part)
            for visits in pieces(np.arange(len(part)), 2.0 * self.weights.size):
                step = fast.label_epoch_kernel(
                    self.graphs, part[visits], rows[visits], self._cache.rows, self.weights
                )
                moved = max(moved, float(step))
            if interrupted() or is_late():
                break
        return moved

    def _make_model(self, rows: Matrix, dual: NDArray[np.float64]) -> Model:
        return KernelModel(self._kernel, rows, dual, self._labels)


class LinearQueries(_Linear):
    """Query-document data: one weight vector for all documents."""

    _dense_epoch = staticmethod(fast.query_epoch_dense)
    _sparse_epoch = staticmethod(fast.query_epoch_sparse)

    def __init__(self, data: RankingData, graphs: Graphs, bound: Vector) -> None:
        work = 2.0 * _mean_size(data.X) * np.diff(graphs.member_ptr[graphs.group_ptr])
        super().__init__(data, np.zeros(data.n_features), work)
        self.incidence = _Incidence(graphs, data.query_ptr)
        curvature = graph_curvatures(data.X, graphs, data.query_ptr)
        check_squares(curvature)
        self.graphs = _dual_graphs(graphs, data.query_ptr, data.relevance, bound, curvature)

    def scores(self) -> Vector:
        """Scores of all items."""
        self.n_passes += 1
        return np.asarray(self._X @ self.weights, dtype=np.float64)

    def model(self, point: Point) -> Model:
        """The model at an earlier point."""
        return LinearModel(point[0])

    def recompute(self) -> None:
        """Make the weights again from the dual variables, without what rounding has added."""
        self.n_passes += 1
        self.weights = np.asarray(self._X.T @ self.incidence.net(self.graphs.dual), dtype=float)


class KernelQueries(_Kernel):
    """Query-document data with kernels; a query's rows of the kernel matrix are there at once."""

    def __init__(
        self, data: RankingData, graphs: Graphs, bound: Vector, kernel: Kernel, cache_mb: float
    ) -> None:
        super().__init__(data, kernel, cache_mb, least=int(data.sizes.max()))
        self.incidence = _Incidence(graphs, data.query_ptr)
        self._query_ptr = data.query_ptr
        curvature = kernel_curvatures(kernel, data.X, graphs, data.query_ptr)
        check_squares(curvature)
        self.graphs = _dual_graphs(graphs, data.query_ptr, data.relevance, bound, curvature)

    def epoch(self, order: Indices) -> float:
        """Visit these groups; returns the largest change of a score that a step aimed at."""
        moved, sizes = 0.0, np.diff(self._query_ptr)[order]
        room = max(min(self._cache.capacity, _MOST_ROWS), int(sizes.max(initial=0)))
        done = np.cumsum(sizes)
        while len(order) and not interrupted():
            n_fit = int(np.searchsorted(done, room, side="right"))
            part = order[:n_fit]
            self._cache.fetch(concatenate_ranges(self._query_ptr[part], sizes[:n_fit]))
            arguments = self._cache.place, self._cache.rows, self.weights[0]
            moved = max(moved, float(fast.query_epoch_kernel(self.graphs, part, *arguments)))
            order, sizes, done = order[n_fit:], sizes[n_fit:], done[n_fit:] - done[n_fit - 1]
            if is_late():
                break
        return moved

    def _make_model(self, rows: Matrix, dual: NDArray[np.float64]) -> Model:
        return KernelModel(self._kernel, rows, dual.ravel())


DualProblem: TypeAlias = LinearLabels | KernelLabels | LinearQueries | KernelQueries
"""Dual variables, and `weights`, what they make, linear in them.

An interruption or the time limit ends an epoch early; after an interruption the weights that
`recompute` makes may be wrong.
"""


class _Incidence:
    """From the dual variables of graphs to the sum of them at each item, B's negative."""

    def __init__(self, graphs: Graphs, offset: Indices) -> None:
        sizes = np.diff(graphs.member_ptr)
        self.offset = offset
        self._item = np.repeat(offset[graphs.group], sizes) + graphs.member
        self._is_better = graphs.is_better
        self.largest_weight = float(graphs.weight.max(initial=0.0))

    def signed(self, values: Vector) -> Vector:
        """A value of each item, for all members of the graphs; B's negative."""
        own = values[self._item]
        return np.where(self._is_better, own, np.negative(own))

    def net(self, dual: Vector) -> Vector:
        """The sums, of shape (n_items,)."""
        signed = np.where(self._is_better, dual, np.negative(dual))
        sums = np.bincount(self._item, weights=signed, minlength=int(self.offset[-1]))
        return np.asarray(sums, dtype=np.float64)


def _dual_graphs(
    graphs: Graphs, offset: Indices, relevance: Vector, bound: Vector, curvature: Vector
) -> fast.DualGraphs:
    # Only differences within a group count, of which those from its lowest lose no digits.
    lowest = np.fmin.reduceat(relevance, offset[:-1])
    relevance = relevance - np.repeat(lowest, np.diff(offset))
    # Where features hardly differ, 1 / curvature would overflow; they are as good as equal.
    curvature = np.where(curvature > np.finfo(float).tiny * 1e100, curvature, 0.0)
    return fast.DualGraphs(
        graphs.group_ptr,
        graphs.member_ptr,
        graphs.n_better,
        graphs.member,
        np.ascontiguousarray(offset, dtype=np.int64),
        np.ascontiguousarray(relevance),
        bound,
        curvature,
    )


def _mean_size(X: Matrix) -> float:
    """Elements of a row."""
    return n_stored(X) / X.shape[0]
