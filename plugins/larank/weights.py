"""The weights that the dual variables make: explicit, or by rows of the kernel matrix."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rankplug.data import LabelRankingData, Matrix, concatenate_ranges, n_stored, stack_rows
from rankplug.exceptions import ParameterError
from rankplug.kernels import Kernel, KernelCache, check_squares, squared_norms
from rankplug.models import KernelModel, LabelLinearModel, LinearModel, Model, linear_weights
from rankplug.optim.bracket import Vector
from rankplug.solver import Data
from rankplug.system.interruption import interrupted, is_late, pieces, raise_if_late
from rankplug_plugins.larank import _larank_fast as fast
from rankplug_plugins.larank.patterns import Layout

Indices: TypeAlias = NDArray[np.int64]
Visit: TypeAlias = Callable[[Indices, bool], None]
"""Called with patterns, and whether they only go on with those of the last call."""

_CHUNK_ROWS = 128  # new rows of the kernel matrix at once
_READS_OF_A_VISIT = 8.0  # of a group, about, with the steps that come with it
_PRODUCTS_OF_A_KERNEL = 50.0  # that its exponential or power takes as long as, about


class LinearWeights:
    """Explicit weights: a vector for each label, or one for all documents.

    All scores cost no more than a pass over the features, and no kernel is evaluated. With a base,
    a model of other rows, the weights are its and what the patterns add to them.
    """

    n_evaluations = n_certificate_evaluations = 0

    def __init__(
        self, data: Data, layout: Layout, patterns: fast.Patterns, base: Model | None
    ) -> None:
        self._data = data
        self._layout, self._patterns = layout, patterns
        self._sparse = sparse.issparse(data.X)
        norms = squared_norms(data.X)
        check_squares(norms)
        kind = fast.SparseScores if self._sparse else fast.DenseScores
        self.scores = kind(layout.item, layout.group_ptr, layout.n_channels, norms, data.X)
        of_group = n_stored(data.X) / data.n_samples * np.diff(layout.group_ptr)
        self._work = _READS_OF_A_VISIT * of_group[layout.group]
        self._base: NDArray[np.float64] | None = None
        if base is not None:
            weights = linear_weights(base).reshape(layout.n_channels, -1)
            self._base = np.ascontiguousarray(weights.T if self._sparse else weights)
            np.asarray(self.scores.weights)[:] = self._base

    def recompute(self) -> None:
        """Make the weights from the dual variables."""
        net = np.empty((self._data.n_samples, self._layout.n_channels))
        self._patterns.net(net.ravel())
        W, weights = np.asarray(self._data.X.T @ net), np.asarray(self.scores.weights)
        weights[:] = W if self._sparse else W.T
        if self._base is not None:
            weights += self._base

    @property
    def n_passes(self) -> float:
        """Reads of all features so far."""
        return float(self.scores.n_reads) / self._data.n_samples

    def epoch(self, visit: Visit, order: Indices, gap: Vector) -> None:
        """Let `visit` process these patterns; interruption and time limit end that early."""
        for number, part in enumerate(pieces(order, self._work)):
            visit(part, number > 0)

    def of_items(self) -> Vector:
        """Scores of all items."""
        X: Any = self._data.X
        return np.ascontiguousarray(X @ self._by_feature(), dtype=np.float64).ravel()

    def squared_norm(self) -> float:
        """Squared norm of what the patterns have made of the weights."""
        own = self._own()
        return float(np.vdot(own, own))

    def product_with_base(self) -> float:
        """Inner product of that with the base, 0 without one."""
        return 0.0 if self._base is None else float(np.vdot(self._own(), self._base))

    def _own(self) -> NDArray[np.float64]:
        weights = np.asarray(self.scores.weights)
        return weights if self._base is None else weights - self._base

    def model(self, *, last: bool = False) -> Model:
        """The model with these weights; the last one is no copy of them."""
        if isinstance(self._data, LabelRankingData):
            return LabelLinearModel(self._by_feature().T, self._data.labels, copy=not last)
        return LinearModel(self._by_feature().ravel())

    def _by_feature(self) -> NDArray[np.float64]:
        """Weights of shape (n_features, n_channels)."""
        weights = np.asarray(self.scores.weights)
        return weights if self._sparse else weights.T


class KernelWeights:
    """Scores of the training data stand for the weights, which kernels leave implicit.

    In the first epoch only the kernels between support patterns and the pattern just met are
    computed. Scores of the others are first needed for the duality gap at its end, which makes
    the rows of support patterns whole. Later epochs keep up all scores, or, if they have
    `many_steps`, only those of patterns that have support or a gap, and make the others anew at
    their end. Where the rows of support patterns fill the cache, rows would be missing for that.
    """

    def __init__(
        self,
        X: Matrix,
        labels: NDArray[Any] | None,
        layout: Layout,
        patterns: fast.Patterns,
        kernel: Kernel,
        cache_mb: float,
        many_steps: bool,
        base: Model | None,
    ) -> None:
        self._X = X
        self._base: KernelModel | None = None
        self._of_base: NDArray[np.float64] | None = None
        if base is not None:
            if not isinstance(base, KernelModel):
                raise ParameterError(
                    f"larank with kernels goes on from a model with kernels, not of kind "
                    f"{base.kind!r}: take kernel='linear', or leave out init"
                )
            self._base = base
            self._of_base = base.predict(X).reshape(X.shape[0], -1).T
        self._labels = labels
        self._layout = layout
        self._patterns = patterns
        self._kernel = kernel
        self._n_rows = np.diff(layout.group_ptr) if layout.n_channels == 1 else None
        largest = 1 if self._n_rows is None else int(self._n_rows.max())
        self._cache = KernelCache(kernel, X, cache_mb, least=max(2, largest), grows=True)
        self._chunk_rows = min(_CHUNK_ROWS, self._cache.capacity - largest + 1)
        diagonal = kernel.diagonal(X)
        check_squares(diagonal)
        self.scores = fast.KernelScores(
            layout.item,
            layout.group_ptr,
            layout.n_channels,
            diagonal,
            self._cache.rows,
            self._cache.place,
            self._cache.column,
            n_stored(X) / X.shape[0] + _PRODUCTS_OF_A_KERNEL,  # of a row, in scores
        )
        self._scores = np.asarray(self.scores.scores)
        self._many_steps = many_steps
        self._growing = True
        self._others_are_old = False
        self.n_certificate_evaluations = 0

    def recompute(self) -> None:
        """Make the scores of all rows from the dual variables."""
        if self._growing:
            self._add_all_columns()
            self._growing = False
        self.scores.n_columns = 0
        self._make_others_anew()
        self.scores.n_columns = self._cache.n_columns

    @property
    def n_passes(self) -> float:
        """Kernels computed so far, as a share of the matrix."""
        return float(self._cache.n_evaluations) / self._X.shape[0] ** 2

    @property
    def n_evaluations(self) -> int:
        """Kernels that the steps needed so far; the others only the first duality gap needed."""
        return self._cache.n_evaluations - self.n_certificate_evaluations

    def epoch(self, visit: Visit, order: Indices, gap: Vector) -> None:
        """Let `visit` process these patterns, of which those without a gap need no row.

        Raises
        ------
        Overdue
            If interruption or time limit are long over before all scores are known, which the
            first epoch ends with.
        """
        for number, (part, rows) in enumerate(self._chunks(order, gap)):
            if interrupted() or (number > 0 and is_late()):
                break
            if self._growing:
                self._add_columns(rows, self._cache.n_columns, keep=True)
                visit(part, False)
                self._forget_columns()
            else:
                self._cache.fetch(rows)
                self._keep_up(rows)
                visit(part, False)
        if self._growing:
            self._add_all_columns()
            self._growing = False
        else:
            self._others_are_old = self.scores.n_columns < self._cache.n_columns

    def of_items(self) -> Vector:
        """Scores of all items; `Overdue` as of `epoch`."""
        if self._others_are_old:
            self._make_others_anew()
            self._others_are_old = False
        return np.ascontiguousarray(self._scores[:, self._cache.column].T).ravel()

    def squared_norm(self) -> float:
        """Squared norm of what the patterns have made of the weights."""
        whole = float(np.vdot(self._net(), self.of_items().reshape(self._X.shape[0], -1)))
        return whole if self._of_base is None else whole - self.product_with_base()

    def product_with_base(self) -> float:
        """Inner product of that with the base, 0 without one."""
        return 0.0 if self._of_base is None else float(np.vdot(self._net(), self._of_base.T))

    def model(self, *, last: bool = False) -> Model:
        """The model with these weights."""
        net = self._net()
        used = np.flatnonzero(net.any(axis=1))
        if len(used) == 0:
            used = np.arange(1)
        dual, rows = net[used], self._X[used]
        if self._base is not None:
            dual = np.concatenate((self._base.dual_coef.reshape(-1, dual.shape[1]), dual))
            rows = stack_rows([self._base.support, rows])
        if self._labels is None:
            return KernelModel(self._kernel, rows, dual.ravel())
        return KernelModel(self._kernel, rows, dual, self._labels)

    def _chunks(self, order: Indices, gap: Vector) -> Iterator[tuple[Indices, Indices]]:
        """Patterns, whole groups of them, and the rows that they need."""
        group = self._layout.group[order]
        first = np.flatnonzero(np.diff(group, prepend=-1))
        groups = group[first]
        wanted = np.logical_or.reduceat(gap[order] > 0, first)
        n_rows = np.where(wanted, 1 if self._n_rows is None else self._n_rows[groups], 0)
        cuts = np.flatnonzero(np.diff((np.cumsum(n_rows) - n_rows) // self._chunk_rows)) + 1
        parts = np.split(order, first[cuts])
        for part, these, needed in zip(
            parts, np.split(groups, cuts), np.split(wanted, cuts), strict=True
        ):
            yield part, self._rows_of(these[needed])

    def _rows_of(self, groups: Indices) -> Indices:
        if self._n_rows is None:
            return groups
        positions = concatenate_ranges(self._layout.group_ptr[groups], self._n_rows[groups])
        return np.asarray(self._layout.item[positions])

    def _add_columns(self, rows: Indices, n_support: int, *, keep: bool) -> None:
        """Add rows; those that have support are among the first `n_support` columns."""
        before = self._cache.n_columns
        net = self._net()[self._cache.samples[:n_support]]
        values = self._cache.extend(rows, keep=keep, n_beside=n_support)
        self._scores[:, before : self._cache.n_columns] = net.T @ values.T
        self._add_base(before)
        self.scores.n_columns = self._cache.n_columns

    def _add_base(self, begin: int, end: int | None = None) -> None:
        """Add the base's scores in these columns."""
        if self._of_base is not None:
            columns = slice(begin, self._cache.n_columns if end is None else end)
            self._scores[:, columns] += self._of_base[:, self._cache.samples[columns]]

    def _forget_columns(self) -> None:
        """Forget the rows of groups without a support pattern."""
        support = np.flatnonzero(np.asarray(self._patterns.size))
        supported = np.zeros(len(self._layout.group_ptr) - 1, dtype=bool)
        supported[self._layout.group[support]] = True
        live = np.zeros(self._X.shape[0], dtype=bool)
        live[self._rows_of(np.flatnonzero(supported))] = True
        samples = self._cache.samples
        to, origin = self._cache.remove(samples[~live[samples]])
        self._scores[:, to] = self._scores[:, origin]
        self.scores.n_columns = self._cache.n_columns

    def _keep_up(self, rows: Indices) -> None:
        """Bring the scores of these rows up to date, and keep them so."""
        n_columns = self.scores.n_columns
        new = rows[self._cache.column[rows] >= n_columns]
        if len(new) == 0:
            return
        to, origin = self._cache.move_columns(new, n_columns)
        self._scores[:, to] = self._scores[:, origin]
        values = self._cache.rows[self._cache.place[new], :n_columns]
        net = self._net()[self._cache.samples[:n_columns]]
        self._scores[:, n_columns : n_columns + len(new)] = net.T @ values.T
        self._add_base(n_columns, n_columns + len(new))
        self.scores.n_columns = n_columns + len(new)

    def _make_others_anew(self) -> None:
        """Scores of the rows that were not kept up."""
        others = slice(self.scores.n_columns, self._cache.n_columns)
        net = self._net()
        support = np.flatnonzero(net.any(axis=1))
        self._scores[:, others] = 0.0
        self._add_base(self.scores.n_columns)
        for begin in range(0, len(support), self._chunk_rows):
            raise_if_late()
            part = support[begin : begin + self._chunk_rows]
            values = self._cache.rows[self._cache.fetch(part), others]
            self._scores[:, others] += net[part].T @ values

    def _add_all_columns(self) -> None:
        n_live = self._cache.n_columns
        before = self._cache.n_evaluations
        left = np.flatnonzero(self._cache.column < 0)
        for begin in range(0, len(left), _CHUNK_ROWS):
            raise_if_late()
            self._add_columns(left[begin : begin + _CHUNK_ROWS], n_live, keep=False)
        self.n_certificate_evaluations += self._cache.n_evaluations - before
        if self._many_steps and 1.5 * n_live <= self._cache.capacity:
            self.scores.n_columns = n_live

    def _net(self) -> NDArray[np.float64]:
        """Sums of the dual variables of each item, of shape (n_rows, n_channels)."""
        net = np.empty((self._X.shape[0], self._layout.n_channels))
        self._patterns.net(net.ravel())
        return net


Weights: TypeAlias = LinearWeights | KernelWeights
"""What the schedules and the duality gap work with."""
