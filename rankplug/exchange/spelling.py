"""Trees to which a value such as 0 is missing, spelled out by comparisons alone.

Most formats have nothing but "at most": a split that sends zeros elsewhere becomes up to three.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rankplug.exceptions import ParameterError
from rankplug.exchange.form import Trees, joined

_MOST_NODES = 2_000_000  # of all trees: a file of that size has some 200 MB
_Bounds = dict[int, tuple[float, float]]


def spell_out(trees: Trees) -> tuple[Trees, tuple[str, ...]]:
    """The trees without special values, and notes about what that has changed.

    Raises
    ------
    ParameterError
        If they become too large.
    """
    if not trees.is_odd.any():
        return trees._replace(special=np.full(len(trees.left), np.nan)), ()
    found: list[Trees] = []
    total = 0
    for tree in trees.each():
        found.append(_Copy(tree, _MOST_NODES - total).trees() if tree.is_odd.any() else tree)
        total += int(found[-1].sizes[0])
    plain = joined(found)
    grown = len(plain.left)
    note = (
        f"zeros are missing to these trees, which the format does not know: their "
        f"{len(trees.left):,} nodes are spelled out as {grown:,} (zeros='value' in training makes "
        "smaller files)"
    )
    return plain._replace(special=np.full(grown, np.nan)), (note,)


class _Copy:
    """A copy of a tree, each node before its children."""

    def __init__(self, tree: Trees, room: int) -> None:
        self._tree, self._room = tree, room
        self._odd = tree.is_odd
        self._rows: list[list[Any]] = []
        self._copy(0, {})

    def trees(self) -> Trees:
        """The copy."""
        columns = list(zip(*self._rows, strict=True))
        kinds = (np.int64, np.int64, np.int64, np.float64, np.bool_, np.float64, np.float64)
        nodes: Any = (np.array(one, dtype=kind) for one, kind in zip(columns, kinds, strict=True))
        return Trees(np.array([len(self._rows)]), *nodes)

    def _new(self) -> int:
        if len(self._rows) >= self._room:
            raise ParameterError(
                "zeros are missing to these trees, which this format does not know, and spelled "
                "out they are too large: train with zeros='value', or export to python, sql, "
                "vespa or lightgbm"
            )
        self._rows.append([])
        return len(self._rows) - 1

    def _copy(self, node: int, bounds: _Bounds) -> int:
        tree = self._tree
        left, right = int(tree.left[node]), int(tree.right[node])
        if left < 0:
            place = self._new()
            self._rows[place] = [-1, -1, 0, 0.0, False, np.nan, tree.value[node]]
            return place
        threshold, missing_left = float(tree.threshold[node]), bool(tree.missing_left[node])
        special = float(tree.special[node])
        low, high = bounds.get(int(tree.feature[node]), (-np.inf, np.inf))
        if not (self._odd[node] and low < special <= high):
            return self._chain(node, [(threshold, left)], right, missing_left, bounds)
        below = float(np.nextafter(special, -np.inf))
        if missing_left:
            steps = [(threshold, left), (below, right), (special, left)]
        else:
            steps = [(below, left), (special, right), (threshold, left)]
        kept, last = [], low
        for step in steps:
            if step[0] > last:
                kept.append(step)
                last = step[0]
        return self._chain(node, kept, right, missing_left, bounds)

    def _chain(
        self,
        node: int,
        steps: list[tuple[float, int]],
        rest: int,
        missing_left: bool,
        bounds: _Bounds,
    ) -> int:
        """Comparisons one after the other; what is missing ends where it did before."""
        if not steps:
            return self._copy(rest, bounds)
        feature = int(self._tree.feature[node])
        low, high = bounds.get(feature, (-np.inf, np.inf))
        goal = int(self._tree.left[node] if missing_left else self._tree.right[node])
        (threshold, child), *more = steps
        place = self._new()
        left = self._copy(child, bounds | {feature: (low, min(high, threshold))})
        above = bounds | {feature: (max(low, threshold), high)}
        right = self._chain(node, more, rest, missing_left, above)
        goes_left = child == goal
        self._rows[place] = [left, right, feature, threshold, goes_left, np.nan, 0.0]
        return place
