"""Preferences as sets of complete bipartite graphs, and the curvature of the dual along a graph.

A group is what is ranked together: the labels of an instance or the documents of a query. A
graph says that each of its items A is better than each of its items B.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse
from scipy.sparse.linalg import LinearOperator, eigsh

from rankplug.data import Matrix, concatenate_ranges
from rankplug.exceptions import DataError, ParameterError
from rankplug.kernels import Kernel, squared_norms
from rankplug.optim.bracket import Vector
from rankplug.parameters import Real
from rankplug.solver import require_room

Indices: TypeAlias = NDArray[np.int64]
Graph: TypeAlias = tuple[Sequence[int], Sequence[int]] | tuple[Sequence[int], Sequence[int], float]
Decomposition: TypeAlias = (
    Literal["auto", "adjacent-layers", "all-pairs", "top-vs-rest", "all-layers"]
    | Callable[[Vector], Sequence[Graph]]
)
Weights: TypeAlias = Literal["sum", "mean"]

_BYTES_OF_A_GRAPH = 300  # of two items: pointers, members, dual variables and what makes them


@dataclass(frozen=True, eq=False)
class Graphs:
    """The graphs of all groups, one group after the other.

    Attributes
    ----------
    group_ptr : int64 ndarray of shape (n_groups + 1,)
        Graphs ``group_ptr[g]:group_ptr[g + 1]`` are those of group ``g``.
    member_ptr : int64 ndarray of shape (n_graphs + 1,)
        Members ``member_ptr[b]:member_ptr[b + 1]`` are those of graph ``b``, A first.
    n_better : int32 ndarray of shape (n_graphs,)
        Size of A.
    member : int32 ndarray of shape (n_members,)
        Positions of the items within their group.
    weight : float64 ndarray of shape (n_graphs,)
        How much the loss of each graph counts, all > 0.
    """

    group_ptr: Indices
    member_ptr: Indices
    n_better: NDArray[np.int32]
    member: NDArray[np.int32]
    weight: Vector

    @property
    def group(self) -> Indices:
        """The group of each graph."""
        return np.repeat(np.arange(len(self.group_ptr) - 1), np.diff(self.group_ptr))

    @property
    def is_better(self) -> NDArray[np.bool_]:
        """Whether each member stands in A."""
        sizes = np.diff(self.member_ptr)
        place = np.arange(len(self.member)) - np.repeat(self.member_ptr[:-1], sizes)
        better: NDArray[np.bool_] = place < np.repeat(self.n_better, sizes)
        return better


def decompose(
    relevance: Vector,
    offset: Indices,
    group_weight: Vector,
    decomposition: Decomposition,
    weights: Weights,
) -> Graphs:
    """The graphs of all groups.

    Parameters
    ----------
    relevance : float64 ndarray of shape (n_items,)
        NaN: the item is not compared.
    offset : int64 ndarray of shape (n_groups + 1,)
        Items ``offset[g]:offset[g + 1]`` are those of group ``g``.
    group_weight : float64 ndarray of shape (n_groups,)
        Groups of weight 0 get no graph.
    decomposition : str or callable
        See `Sopopo`.
    weights : "sum" or "mean"
        A graph weighs as much as its group, or that divided by the group's number of graphs.

    Raises
    ------
    ParameterError
        If a callable returns what are no graphs of the relevance it was given.
    DataError
        If it returns none at all.
    """
    if callable(decomposition):
        graphs = _graphs_of_function(relevance, offset, group_weight, decomposition)
    else:
        graphs = _named_graphs(relevance, offset, group_weight, decomposition)
    weight = graphs.weight * group_weight[graphs.group]
    if weights == "mean":
        weight /= np.diff(graphs.group_ptr)[graphs.group]
    return Graphs(graphs.group_ptr, graphs.member_ptr, graphs.n_better, graphs.member, weight)


@dataclass(frozen=True, eq=False)
class _Layers:
    """Items in descending order of relevance, group by group; equal ones make a layer."""

    item: Indices  # place -> position of the item in its group
    item_layer: Indices  # place -> layer
    group: Indices  # layer -> group
    begin: Indices  # layer -> first place
    end: Indices  # layer -> place after its last one
    group_end: Indices  # layer -> place after the last one of its group


# Of each graph: first and last place of A, first and last place of B, group.
_Spans: TypeAlias = tuple[Indices, Indices, Indices, Indices, Indices]


def _adjacent_layers(layers: _Layers) -> _Spans:
    upper = np.flatnonzero(layers.group[1:] == layers.group[:-1])
    lower = upper + 1
    begin, end = layers.begin, layers.end
    return begin[upper], end[upper], begin[lower], end[lower], layers.group[upper]


def _all_layers(layers: _Layers) -> _Spans:
    n_layers = len(layers.group)
    last = np.searchsorted(layers.group, layers.group, side="right")
    upper, lower = _pairs_with_later(np.arange(n_layers) + 1, last)
    begin, end = layers.begin, layers.end
    return begin[upper], end[upper], begin[lower], end[lower], layers.group[upper]


def _all_pairs(layers: _Layers) -> _Spans:
    layer = layers.item_layer
    better, worse = _pairs_with_later(layers.end[layer], layers.group_end[layer])
    return better, better + 1, worse, worse + 1, layers.group[layer[better]]


def _top_vs_rest(layers: _Layers) -> _Spans:
    first = np.ones(len(layers.group), dtype=bool)
    first[1:] = layers.group[1:] != layers.group[:-1]
    top = np.flatnonzero(first & (layers.end < layers.group_end))
    begin, end, group_end = layers.begin[top], layers.end[top], layers.group_end[top]
    return begin, end, end, group_end, layers.group[top]


NAMES: dict[str, Callable[[_Layers], _Spans]] = {
    "adjacent-layers": _adjacent_layers,
    "all-pairs": _all_pairs,
    "top-vs-rest": _top_vs_rest,
    "all-layers": _all_layers,
}


def _named_graphs(relevance: Vector, offset: Indices, group_weight: Vector, name: str) -> Graphs:
    layers = _find_layers(relevance, offset, group_weight)
    better_begin, better_end, worse_begin, worse_end, group = NAMES[name](layers)
    n_better = better_end - better_begin
    begin = np.stack((better_begin, worse_begin), axis=1).ravel()
    size = np.stack((n_better, worse_end - worse_begin), axis=1).ravel()
    return Graphs(
        group_ptr=np.searchsorted(group, np.arange(len(offset))),
        member_ptr=_make_pointers(size.reshape(-1, 2).sum(axis=1)),
        n_better=n_better.astype(np.int32),
        member=layers.item[concatenate_ranges(begin, size)].astype(np.int32),
        weight=np.ones(len(group)),
    )


def _find_layers(relevance: Vector, offset: Indices, group_weight: Vector) -> _Layers:
    sizes = np.diff(offset)
    group = np.repeat(np.arange(len(sizes)), sizes)
    used = np.flatnonzero(~np.isnan(relevance) & (group_weight[group] > 0))
    used = used[np.lexsort((-relevance[used], group[used]))]
    group, value = group[used], relevance[used]
    new_layer = np.ones(len(used), dtype=bool)
    new_layer[1:] = (group[1:] != group[:-1]) | (value[1:] != value[:-1])
    begin = np.flatnonzero(new_layer)
    return _Layers(
        item=used - offset[group],
        item_layer=np.cumsum(new_layer) - 1,
        group=group[begin],
        begin=begin,
        end=np.append(begin[1:], len(used)),
        group_end=np.searchsorted(group, group[begin], side="right"),
    )


def _pairs_with_later(first: Indices, last: Indices) -> tuple[Indices, Indices]:
    """Each index i with every one from ``first[i]`` to before ``last[i]``."""
    size = last - first
    require_room(
        "sopopo", "graphs", int(size.sum()), _BYTES_OF_A_GRAPH, "decomposition='adjacent-layers'"
    )
    return np.repeat(np.arange(len(size)), size), concatenate_ranges(first, size)


def _make_pointers(size: Indices) -> Indices:
    return np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(size, dtype=np.int64)))


def _graphs_of_function(
    relevance: Vector,
    offset: Indices,
    group_weight: Vector,
    function: Callable[[Vector], Sequence[Graph]],
) -> Graphs:
    members: list[NDArray[np.int32]] = []
    sizes, n_better, weight, n_graphs = [], [], [], []
    for g, (begin, end) in enumerate(pairwise(offset)):
        graphs = []
        if group_weight[g] > 0:
            graphs = list(_checked_graphs(relevance[begin:end], function, g))
        n_graphs.append(len(graphs))
        for better, worse, graph_weight in graphs:
            members += [better, worse]
            sizes.append(len(better) + len(worse))
            n_better.append(len(better))
            weight.append(graph_weight)
    if not members:
        raise DataError("decomposition returned no graph for any of the data: nothing to learn")
    return Graphs(
        _make_pointers(np.array(n_graphs)),
        _make_pointers(np.array(sizes)),
        np.array(n_better, dtype=np.int32),
        np.concatenate(members),
        np.array(weight, dtype=np.float64),
    )


def _checked_graphs(
    relevance: Vector, function: Callable[[Vector], Sequence[Graph]], group: int
) -> Iterator[tuple[NDArray[np.int32], NDArray[np.int32], float]]:
    returned = function(relevance.copy())
    where = f"decomposition, for the relevance {relevance.tolist()} at position {group},"
    try:
        graphs = [(graph[0], graph[1], graph[2] if len(graph) > 2 else 1.0) for graph in returned]
    except (TypeError, IndexError, KeyError):
        raise ParameterError(f"{where} must return a list of (A, B) or (A, B, weight)") from None
    for a, b, weight in graphs:
        better, worse = (_check_positions(side, len(relevance), where) for side in (a, b))
        if not relevance[better].min() > relevance[worse].max():
            raise ParameterError(
                f"{where} returned A={better.tolist()}, B={worse.tolist()}: every item of A must "
                "have a higher relevance than every item of B"
            )
        if not Real(0).accepts(weight):
            raise ParameterError(f"{where} returned the weight {weight!r}: it must be > 0")
        yield better, worse, float(weight)


def _check_positions(side: Any, n_items: int, where: str) -> NDArray[np.int32]:
    found = np.asarray(side)
    if found.ndim != 1 or found.size == 0 or found.dtype.kind not in "iu":
        raise ParameterError(f"{where} returned {side!r}: A and B must be lists of positions")
    if found.min() < 0 or found.max() >= n_items or len(np.unique(found)) < len(found):
        raise ParameterError(
            f"{where} returned {side!r}: positions go from 0 to {n_items - 1}, each once"
        )
    return found.astype(np.int32)


_EXACT = 400  # rows or columns up to which all eigenvalues are computed
_MARGIN = 1.01  # on an eigenvalue that was only approximated
_PAIR_CHUNK = 2**20  # elements of feature differences at once


def graph_curvatures(X: Matrix, graphs: Graphs, query_ptr: NDArray[np.int64]) -> Vector:
    """Largest eigenvalue of the Gram matrix of each graph's documents around their mean.

    The mean may be taken off because the signed moves along a graph add up to 0.
    """
    sizes = np.diff(graphs.member_ptr)
    rows = np.repeat(query_ptr[graphs.group], sizes) + graphs.member
    curvature = np.empty(len(sizes))
    pairs = np.flatnonzero(sizes == 2)
    first = graphs.member_ptr[pairs]
    curvature[pairs] = _pair_curvatures(X, rows[first], rows[first + 1])
    with np.errstate(over="ignore", invalid="ignore"):
        for b in np.flatnonzero(sizes != 2):
            own = rows[graphs.member_ptr[b] : graphs.member_ptr[b + 1]]
            curvature[b] = _largest_eigenvalue(X[own])
    return curvature


def kernel_curvatures(
    kernel: Kernel, X: Matrix, graphs: Graphs, query_ptr: NDArray[np.int64]
) -> Vector:
    """The same in the space of a kernel, from its matrix of each query."""
    sizes = np.diff(graphs.member_ptr)
    curvature = np.empty(len(sizes))
    for q in np.flatnonzero(np.diff(graphs.group_ptr)):
        X_q = X[query_ptr[q] : query_ptr[q + 1]]
        gram = kernel(X_q, X_q)
        own = np.arange(graphs.group_ptr[q], graphs.group_ptr[q + 1])
        pairs = own[sizes[own] == 2]
        a, b = (graphs.member[graphs.member_ptr[pairs] + side] for side in (0, 1))
        curvature[pairs] = 0.5 * np.maximum(gram[a, a] + gram[b, b] - 2.0 * gram[a, b], 0.0)
        for graph in own[sizes[own] != 2]:
            member = graphs.member[graphs.member_ptr[graph] : graphs.member_ptr[graph + 1]]
            curvature[graph] = _top_eigenvalue(_centred(gram[np.ix_(member, member)]))
    return curvature


def _pair_curvatures(X: Matrix, a: NDArray[np.int64], b: NDArray[np.int64]) -> Vector:
    """Half the squared distances: two rows lie half a difference from their mean."""
    chunk = max(1, _PAIR_CHUNK // X.shape[1])
    parts = [
        0.5 * squared_norms(X[a[i : i + chunk]] - X[b[i : i + chunk]])
        for i in range(0, len(a), chunk)
    ]
    return np.concatenate(parts) if parts else np.empty(0)


def _largest_eigenvalue(rows: Any) -> float:
    n, d = rows.shape
    rows = rows.astype(np.float64)
    mean = np.asarray(rows.mean(axis=0)).ravel()
    if min(n, d) > _EXACT:
        return _approximate_eigenvalue(rows, mean)
    if sparse.issparse(rows):
        gram = _centred_gram(rows, mean)
    else:
        rows -= mean
        gram = rows @ rows.T if n <= d else rows.T @ rows
    return _top_eigenvalue(gram)


def _top_eigenvalue(gram: NDArray[np.float64]) -> float:
    if not np.isfinite(gram).all():
        return np.inf
    top = len(gram) - 1
    if top >= _EXACT:
        return _bound_eigenvalue(gram)
    return max(float(linalg.eigvalsh(gram, subset_by_index=[top, top])[0]), 0.0)


def _centred(gram: NDArray[np.float64]) -> NDArray[np.float64]:
    """The Gram matrix of the same less their mean."""
    gram -= gram.mean(axis=0)
    gram -= gram.mean(axis=1)[:, None]
    return gram


def _centred_gram(rows: Any, mean: Vector) -> NDArray[np.float64]:
    """The smaller Gram matrix of sparse rows less their mean, which would fill them."""
    n, d = rows.shape
    if n > d:
        return np.asarray((rows.T @ rows).toarray() - n * np.outer(mean, mean))
    return _centred((rows @ rows.T).toarray())


def _approximate_eigenvalue(rows: Any, mean: Vector) -> float:
    d = rows.shape[1]

    def product(v: Vector) -> Vector:
        v = v.ravel()
        z = rows @ v - mean @ v
        return np.asarray(rows.T @ z - mean * z.sum())

    return _bound_eigenvalue(LinearOperator((d, d), matvec=product, dtype=np.float64))


def _bound_eigenvalue(matrix: Any) -> float:
    """A little above the largest one, of a large matrix."""
    start = np.random.default_rng(0).normal(size=matrix.shape[0])
    found = eigsh(matrix, k=1, tol=1e-3, v0=start, return_eigenvectors=False)
    return _MARGIN * max(float(found[0]), 0.0)
