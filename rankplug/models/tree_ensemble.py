"""Regression trees as flat arrays, which NumPy walks through once every index is checked.

The scores are those of scikit-learn to the last bit: the same comparisons, and sums in the order
of the trees.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rankplug.data import Matrix
from rankplug.exceptions import DataError, ModelFormatError, ParameterError
from rankplug.models.trees import TreeModel
from rankplug.parameters import Choice, Integer, Optional, Parameter, Real
from rankplug.system.files import load_arrays

_FILE = "trees.npz"

_BLOCK_ELEMENTS = 1 << 21  # of features at once: 16 MB of float64

_LARGEST_FLOAT32 = float(np.finfo(np.float32).max)

# Of arrays; the others are floats.
_KINDS = {**dict.fromkeys(("sizes", "left", "right", "feature"), "i"), "missing_left": "b"}
_TYPES = {"i": np.int64, "b": np.bool_, "f": np.float64}

_HEADER: Mapping[str, Parameter] = {
    "n_features": Integer(1, 2**31),
    "start": Real(),
    "scale": Real(),
    "average": Choice((True, False)),
    "float32": Choice((True, False)),
    "importances": Choice((True, False)),
    "missing": Optional(Choice((True, False))),  # not in models of 0.1
}


_Walk: TypeAlias = tuple[slice, NDArray[Any], NDArray[np.int64], NDArray[np.int64]]
"""Rows, their features end to end, where each row starts there, and the feature of each node."""


class TreeArrays(NamedTuple):
    """Nodes of trees, one tree behind the other, each with its root first.

    Attributes
    ----------
    sizes : int64 ndarray of shape (n_trees,)
        Nodes of each tree.
    left, right : int64 ndarray of shape (n_nodes,)
        Children, counted from the tree's root; -1 for both at a leaf.
    feature : int64 ndarray of shape (n_nodes,)
    threshold : float64 ndarray of shape (n_nodes,)
        Rows whose feature is at most that go left.
    value : float64 ndarray of shape (n_nodes,)
        What a leaf adds to the score.
    missing_left : bool ndarray of shape (n_nodes,) or None
        Whether rows whose feature is missing go left, too; None if none may be missing.
    """

    sizes: NDArray[np.int64]
    left: NDArray[np.int64]
    right: NDArray[np.int64]
    feature: NDArray[np.int64]
    threshold: NDArray[np.float64]
    value: NDArray[np.float64]
    missing_left: NDArray[np.bool_] | None = None


class TreeEnsemble(TreeModel):
    """Scores ``start + scale * sum of the trees' values``, perhaps divided by the number of trees.

    Parameters
    ----------
    trees : TreeArrays
    n_features : int
    start, scale : float
    average : bool
        Whether the sum is divided by the number of trees, as in forests.
    float32 : bool
        Whether features are rounded to float32 before they are compared, as scikit-learn's trees
        do; those on histograms do not.
    importances : ndarray of shape (n_features,), optional

    Raises
    ------
    DataError
        If the arrays do not fit together, or a tree leads out of them.
    """

    kind = "trees"

    def __init__(
        self,
        trees: TreeArrays,
        n_features: int,
        *,
        start: float = 0.0,
        scale: float = 1.0,
        average: bool = False,
        float32: bool = True,
        importances: NDArray[np.float64] | None = None,
    ) -> None:
        _check(trees, n_features, importances)
        self.trees = trees
        self.start, self.scale = start, scale
        self.average, self.float32 = average, float32
        self._n_features = n_features
        self._importances = importances
        # For the walk: children as places in the arrays, both of a node side by side.
        roots = np.cumsum(trees.sizes) - trees.sizes
        base = np.repeat(roots, trees.sizes)
        self._roots = roots
        self._inner = trees.left >= 0
        self._children = np.column_stack((trees.left + base, trees.right + base)).ravel()

    @property
    def n_features(self) -> int:
        """Number of features of a row."""
        return self._n_features

    @property
    def takes_missing_values(self) -> bool:
        """If each node says on which side they go."""
        return self.trees.missing_left is not None

    def require_sum(self) -> None:
        """Raise `ParameterError` if no trees can be added to these."""
        if self.average or not (self.float32 and self.takes_missing_values):
            raise ParameterError(
                "init holds trees of scikit-learn, to which no others can be added: leave out init"
            )

    def add(self, other: TreeEnsemble) -> TreeEnsemble:
        """The sum of both, as one ensemble; importances are means, weighted by numbers of trees.

        Raises
        ------
        ParameterError
            If they are not alike.
        """
        self.require_sum()
        other.require_sum()
        parts = [one.trees._replace(value=one.scale * one.trees.value) for one in (self, other)]
        columns = (np.concatenate(pair) for pair in zip(*parts, strict=True))
        counts = [len(one.trees.sizes) for one in (self, other)]
        told = [
            one for one in map(TreeEnsemble.feature_importances, (self, other)) if one is not None
        ]
        known = np.average(told, axis=0, weights=counts) if len(told) == len(counts) else None
        return TreeEnsemble(
            TreeArrays(*columns),
            self.n_features,
            start=self.start + other.start,
            float32=self.float32,
            importances=known,
        )

    def feature_importances(self) -> NDArray[np.float64] | None:
        """Those that scikit-learn's trees tell; None for trees on histograms."""
        return self._importances

    @property
    def leaf_counts(self) -> NDArray[np.int64]:
        """Number of leaves of each tree, of shape (n_trees,)."""
        counts: NDArray[np.int64] = np.add.reduceat(~self._inner, self._roots, dtype=np.int64)
        return counts

    @property
    def leaf_values(self) -> NDArray[np.float64]:
        """What each leaf adds to the score, of shape (sum of `leaf_counts`,)."""
        scale = self.scale / (len(self._roots) if self.average else 1)
        return scale * self.trees.value[~self._inner]

    def find_leaves(self, X: Matrix) -> NDArray[np.integer[Any]]:
        """The leaf of each row in each tree, of shape (n_samples, n_trees)."""
        starts = np.cumsum(self.leaf_counts) - self.leaf_counts
        number = np.cumsum(~self._inner) - 1 - np.repeat(starts, self.trees.sizes)
        leaves = np.empty((X.shape[0], len(self._roots)), dtype=np.int32)
        for rows, flat, row_starts, feature in self._blocks(X):
            for t, root in enumerate(self._roots):
                leaves[rows, t] = number[self._leaves(flat, row_starts, root, feature)]
        return leaves

    def with_leaf_values(self, values: NDArray[np.float64]) -> TreeEnsemble:
        """The same trees with other values of their leaves, whose sum is the score."""
        value = np.zeros(len(self._inner))
        value[~self._inner] = values
        return TreeEnsemble(self.trees._replace(value=value), self.n_features, float32=self.float32)

    def _predict(self, X: Matrix) -> NDArray[np.float64]:
        scores = np.full(X.shape[0], self.start)
        for rows, flat, row_starts, feature in self._blocks(X):
            for root in self._roots:
                leaf = self._leaves(flat, row_starts, root, feature)
                scores[rows] += self.scale * self.trees.value[leaf]
        if self.average:
            scores /= len(self._roots)
        return scores

    def _blocks(self, X: Matrix) -> Iterator[_Walk]:
        """Some rows at a time, dense, as the trees compare them."""
        feature, used = self.trees.feature, None
        if sparse.issparse(X):  # of few features, often: the others need not become dense
            used, feature = np.unique(feature, return_inverse=True)
        width = X.shape[1] if used is None else len(used)
        step = max(1, _BLOCK_ELEMENTS // width)
        for begin in range(0, X.shape[0], step):
            part: Any = X[begin : begin + step]
            dense = self._convert(part if used is None else part[:, used].toarray())
            starts = np.arange(len(dense)) * dense.shape[1]
            yield slice(begin, begin + step), np.ascontiguousarray(dense).ravel(), starts, feature

    def _convert(self, X: NDArray[Any]) -> NDArray[Any]:
        if not self.float32:
            return X
        if X.dtype != np.float32 and float(np.fmax.reduce(np.abs(X), axis=None)) > _LARGEST_FLOAT32:
            raise DataError(
                "the features are too large for the trees, which compare them as float32: they "
                "must be below 3.4e38"
            )
        return X.astype(np.float32, copy=False)

    def _leaves(
        self,
        flat: NDArray[Any],
        row_starts: NDArray[np.int64],
        root: np.int64,
        feature: NDArray[np.int64],
    ) -> NDArray[np.int64]:
        """The leaf of each row in a tree; all rows go down a level at a time."""
        threshold, missing_left = self.trees.threshold, self.trees.missing_left
        node = np.full(len(row_starts), root)
        if not self._inner[root]:
            return node
        rows, at, starts = np.arange(len(row_starts)), node, row_starts
        while True:
            value = flat[starts + feature[at]]
            right = value > threshold[at]
            if missing_left is not None:
                right |= np.isnan(value) & ~missing_left[at]
            at = self._children[2 * at + right]
            goes_on = self._inner[at]
            done = ~goes_on
            node[rows[done]] = at[done]
            rows, at, starts = rows[goes_on], at[goes_on], starts[goes_on]
            if len(rows) == 0:
                return node

    def _write(self, folder: Path) -> dict[str, Any]:
        trees = self.trees
        given = trees._asdict().items()
        arrays: dict[str, Any] = {name: array for name, array in given if array is not None}
        for name in ("left", "right", "feature"):  # half as large a file
            arrays[name] = arrays[name].astype(np.int32)
        if self._importances is not None:
            arrays["importances"] = self._importances
        np.savez(folder / _FILE, allow_pickle=False, **arrays)
        return {
            "n_features": self.n_features,
            "start": self.start,
            "scale": self.scale,
            "average": self.average,
            "float32": self.float32,
            "importances": self._importances is not None,
            "missing": self.takes_missing_values,
        }

    @classmethod
    def _read(cls, folder: Path, header: Mapping[str, Any]) -> TreeEnsemble:
        wrong = [key for key, kind in _HEADER.items() if not kind.accepts(header.get(key))]
        if wrong:
            raise ModelFormatError(f"{folder}: {', '.join(wrong)} missing or wrong in the header")
        file = folder / _FILE
        names = set(TreeArrays._fields) - (set() if header.get("missing") else {"missing_left"})
        raw = load_arrays(file, *names)
        if any(array.dtype.kind != _KINDS.get(name, "f") for name, array in raw.items()):
            raise ModelFormatError(f"{file}: an array is of a wrong type")
        arrays: Any = {
            name: array.astype(_TYPES[_KINDS.get(name, "f")]) for name, array in raw.items()
        }
        importances = (
            load_arrays(file, "importances")["importances"] if header["importances"] else None
        )
        return cls(
            TreeArrays(**arrays),
            header["n_features"],
            start=float(header["start"]),
            scale=float(header["scale"]),
            average=header["average"],
            float32=header["float32"],
            importances=importances,
        )


def _check(trees: TreeArrays, n_features: int, importances: NDArray[np.float64] | None) -> None:
    """Raise `DataError` unless walks through the trees stay within the arrays and end."""
    _check_sizes(trees)
    inner = trees.left != -1
    if not np.array_equal(inner, trees.right != -1):
        raise DataError("a tree has nodes with one child")
    _check_children(trees, inner)
    if np.any((trees.feature < 0) | (trees.feature >= n_features)):
        raise DataError("a tree splits by features that do not exist")
    if np.isnan(trees.threshold).any() or not np.isfinite(trees.value).all():
        raise DataError("a tree has thresholds or values that are no numbers")
    if importances is not None:
        fits = importances.shape == (n_features,) and importances.dtype == np.float64
        if not (fits and np.isfinite(importances).all()):
            raise DataError("the importances do not fit the features")


def _check_sizes(trees: TreeArrays) -> None:
    sizes, lengths = trees.sizes, {array.shape for array in trees[1:] if array is not None}
    n_nodes = len(trees.left) if trees.left.ndim == 1 else 0
    if sizes.ndim != 1 or lengths != {(n_nodes,)}:
        raise DataError("the trees' arrays do not fit together")
    # Each within the nodes first: the sum cannot wrap around then.
    if not len(sizes) or sizes.min() < 1 or sizes.max() > n_nodes or sizes.sum() != n_nodes:
        raise DataError("the trees' sizes do not fit their nodes")


def _check_children(trees: TreeArrays, inner: NDArray[np.bool_]) -> None:
    """Children lie behind their parents, as they are made, so that no walk comes back."""
    roots = np.repeat(np.cumsum(trees.sizes) - trees.sizes, trees.sizes)[inner]
    parent = np.flatnonzero(inner) - roots
    n_nodes = np.repeat(trees.sizes, trees.sizes)[inner]
    children = [side[inner] for side in (trees.left, trees.right)]
    exist = all(np.all((parent < side) & (side < n_nodes)) for side in children)
    if not exist or len(np.unique(children + roots)) != 2 * len(roots):
        raise DataError("a tree has children that do not exist or have two parents")
