"""CatBoost's trees as arrays that rankplug itself predicts with, read from CatBoost's JSON.

A tree is symmetric, one split a level, or any other; either becomes nodes of a `TreeEnsemble`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankplug.models import TreeArrays, TreeEnsemble


class _Node(NamedTuple):
    """A node of a tree: its children, counted from the root (-1: none), its split and its value."""

    left: int
    right: int
    feature: int
    threshold: float
    missing_left: bool
    value: float


def read_trees(
    content: Mapping[str, Any],
    n_features: int,
    n_trees: int,
    importances: NDArray[np.float64] | None = None,
) -> TreeEnsemble:
    """The first trees of a model that CatBoost has written as JSON.

    Raises
    ------
    ValueError
        If trees split by something else than numbers, or rows have several scores.
    """
    scale, bias = content["scale_and_bias"]
    if len(bias) != 1:
        raise ValueError("rows have several scores")
    splits = _Splits(content["features_info"].get("float_features", []))
    if "oblivious_trees" in content:
        trees = [_symmetric(tree, splits) for tree in content["oblivious_trees"][:n_trees]]
    else:
        trees = [list(_nodes(tree, splits)) for tree in content["trees"][:n_trees]]
    nodes = [node for tree in trees for node in tree]
    columns = dict(zip(_Node._fields, zip(*nodes, strict=True), strict=True))
    arrays = TreeArrays(
        sizes=np.array([len(tree) for tree in trees], dtype=np.int64),
        left=np.array(columns["left"], dtype=np.int64),
        right=np.array(columns["right"], dtype=np.int64),
        feature=np.array(columns["feature"], dtype=np.int64),
        threshold=np.array(columns["threshold"], dtype=np.float64),
        value=np.array(columns["value"], dtype=np.float64),
        missing_left=np.array(columns["missing_left"], dtype=np.bool_),
    )
    return TreeEnsemble(
        arrays, n_features, start=float(bias[0]), scale=float(scale), importances=importances
    )


class _Splits:
    """Splits by the features that CatBoost describes."""

    def __init__(self, features: list[Mapping[str, Any]]) -> None:
        self._place = {one["feature_index"]: int(one["flat_feature_index"]) for one in features}
        # Missing values are the smallest or the largest; where training had none, they are smaller.
        self._right = {
            one["feature_index"] for one in features if one["nan_value_treatment"] == "AsTrue"
        }

    def node(self, split: Mapping[str, Any], left: int, right: int) -> _Node:
        """The inner node of a split: rows above its border go right."""
        if split["split_type"] != "FloatFeature":
            raise ValueError(f"trees split by {split['split_type']}")
        feature = split["float_feature_index"]
        # CatBoost compares in single precision.
        border = float(np.float32(split["border"]))
        return _Node(left, right, self._place[feature], border, feature not in self._right, 0.0)


def _leaf(value: float) -> _Node:
    return _Node(-1, -1, 0, 0.0, True, float(value))


def _symmetric(tree: Mapping[str, Any], splits: _Splits) -> list[_Node]:
    """Level by level; a bit of a leaf's number says whether a row is above that split's border."""
    levels = tree["splits"] or []
    nodes = [
        splits.node(split, 2 * node + 1, 2 * node + 2)
        for level, split in enumerate(levels)
        for node in range(2**level - 1, 2 ** (level + 1) - 1)
    ]
    depth, values = len(levels), tree["leaf_values"]
    numbers = (sum((place >> (depth - 1 - i) & 1) << i for i in range(depth))
               for place in range(2**depth))  # fmt: skip
    return nodes + [_leaf(values[number]) for number in numbers]


def _nodes(tree: Mapping[str, Any], splits: _Splits, first: int = 0) -> Iterator[_Node]:
    """A tree of any form, each node before its children, the left ones first."""
    if "split" not in tree:
        yield _leaf(tree["value"])
        return
    left = list(_nodes(tree["left"], splits, first + 1))
    yield splits.node(tree["split"], first + 1, first + 1 + len(left))
    yield from left
    yield from _nodes(tree["right"], splits, first + 1 + len(left))
