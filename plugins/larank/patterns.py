"""The patterns of LaRank: an item, and a span of items to be ranked below it.

A group is what is ranked together: the labels of an instance or the documents of a query.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from rankplug.data import concatenate_ranges
from rankplug.optim.bracket import Vector
from rankplug.solver import Data, require_room

Indices: TypeAlias = NDArray[np.int64]

_BYTES_OF_A_PAIR = 150  # as a pattern: its places, weight, gap, order of visits, dual variable


@dataclass(frozen=True, eq=False)
class Layout:
    """Items by position, and patterns as an item and a span of positions that it beats.

    Attributes
    ----------
    item : int64 ndarray of shape (n_positions,)
        The items of a group stand together, the least relevant first. An item is a row and a
        channel, ``row * n_channels + channel``: a label has its instance's row and a channel of
        its own, documents have one channel.
    relevance : float64 ndarray of shape (n_positions,)
    group_ptr : int64 ndarray of shape (n_groups + 1,)
        Positions ``group_ptr[g]:group_ptr[g + 1]`` are those of group ``g``.
    n_channels : int
    group, own, begin, end : int64 ndarrays of shape (n_patterns,)
        The item at ``own`` is better than those at ``begin:end``.
    weight : float64 ndarray of shape (n_patterns,)
        How much the loss of each pattern counts, all > 0.
    """

    item: Indices
    relevance: Vector
    group_ptr: Indices
    n_channels: int
    group: Indices
    own: Indices
    begin: Indices
    end: Indices
    weight: Vector


def list_patterns(data: Data, pairs: bool = False) -> Layout:
    """The patterns of ranking data.

    Each document that beats others of its query is one pattern, with all that it beats. A label
    makes one pattern for each level of relevance that it beats, with the labels of that level.
    Either way, classes make one pattern an instance. With `pairs` each pair is a pattern.

    Raises
    ------
    DataError
        If there are more pairs than memory holds.
    """
    relevance, group_weight, n_channels = data.relevance.ravel(), data.weights, data.n_labels or 1
    group = np.repeat(np.arange(data.n_examples), data.sizes)
    item = np.lexsort((relevance, group))
    item = item[~np.isnan(relevance[item])]
    relevance, group = relevance[item], group[item]
    sizes = np.bincount(group, minlength=len(group_weight))
    group_ptr = np.concatenate(([0], np.cumsum(sizes)))
    new_group = np.ones(len(item), dtype=bool)
    new_group[1:] = group[1:] != group[:-1]
    new_level = new_group.copy()
    new_level[1:] |= relevance[1:] != relevance[:-1]
    start = np.flatnonzero(new_level)
    level = np.cumsum(new_level) - 1  # of each position, counted through all groups
    if pairs:
        n_beaten = start[level] - group_ptr[group]
        n_pairs = int(n_beaten.sum())
        require_room("larank", "patterns", n_pairs, _BYTES_OF_A_PAIR, "patterns='items'")
        own = np.repeat(np.arange(len(item)), n_beaten)
        begin = concatenate_ranges(group_ptr[group], n_beaten)
        end = begin + 1
    elif n_channels == 1:
        own = np.flatnonzero(start[level] > group_ptr[group])
        begin, end = group_ptr[group[own]], start[level[own]]
    else:
        lowest = level[group_ptr[group]]
        n_beaten = level - lowest
        own = np.repeat(np.arange(len(item)), n_beaten)
        beaten = concatenate_ranges(lowest, n_beaten)
        begin, end = start[beaten], np.append(start, len(item))[beaten + 1]
    counts = group_weight[group[own]] > 0
    own, begin, end = own[counts], begin[counts], end[counts]
    weight = group_weight[group[own]]
    return Layout(item, relevance, group_ptr, n_channels, group[own], own, begin, end, weight)
