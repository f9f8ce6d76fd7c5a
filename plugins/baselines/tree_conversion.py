"""Fitted trees, forests and gradient boosting of scikit-learn as a `TreeEnsemble`."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankplug.models import TreeArrays, TreeEnsemble
from rankplug_plugins.baselines.parts import (
    Part,
    attribute,
    kind_of,
    number,
    part_of,
    require_one_output,
)


class _Nodes(NamedTuple):
    """One tree; the attributes are those of `TreeArrays`."""

    left: NDArray[np.int64]
    right: NDArray[np.int64]
    feature: NDArray[np.int64]
    threshold: NDArray[np.float64]
    value: NDArray[np.float64]
    missing_left: NDArray[np.bool_] | None


def forest(part: Part, n_features: int) -> TreeEnsemble:
    """The mean of the trees of a forest."""
    require_one_output(part, "n_outputs_")
    return _tree_mean(_sequence(part, "estimators_"), n_features)


def single_tree(part: Part, n_features: int) -> TreeEnsemble:
    """A decision tree alone."""
    require_one_output(part, "n_outputs_")
    return _tree_mean([part], n_features)


def _tree_mean(members: list[Any], n_features: int) -> TreeEnsemble:
    trees = _trees_of(members)
    importances = [_importances(tree, n_features) for tree in trees if len(tree.state["nodes"]) > 1]
    normal = [one / np.sum(one) if np.sum(one) > 0.0 else one for one in importances]
    mean = _mean(normal, n_features)
    return TreeEnsemble(
        _stack([_compiled_nodes(tree) for tree in trees]),
        n_features,
        average=True,
        importances=mean if len(members) > 1 else (normal or [np.zeros(n_features)])[0],
    )


def boosted_trees(part: Part, n_features: int) -> TreeEnsemble:
    """A constant, and the sum of the trees of gradient boosting."""
    require_one_output(part, "n_trees_per_iteration_")
    trees = _trees_of(_sequence(part, "estimators_"))
    init = attribute(part, "init_")
    if init == "zero":
        start = 0.0
    elif kind_of(part_of(init)) == "DummyRegressor":
        start = number(part_of(init), "constant_")
    else:
        raise ValueError("its init is neither 'zero' nor a constant")
    importances = [_importances(tree, n_features) for tree in trees if len(tree.state["nodes"]) > 1]
    return TreeEnsemble(
        _stack([_compiled_nodes(tree) for tree in trees], missing=False),
        n_features,
        start=start,
        scale=number(part, "learning_rate"),
        importances=_mean(importances, n_features),
    )


def boosted_histograms(part: Part, n_features: int) -> TreeEnsemble:
    """A constant, and the sum of the trees of gradient boosting on histograms."""
    require_one_output(part, "n_trees_per_iteration_")
    if part.state.get("_preprocessor") is not None:
        raise ValueError("it takes categorical features")
    predictors = [part_of(tree) for tree in _sequence(part, "_predictors")]
    _require_distinct(predictors)
    return TreeEnsemble(
        _stack([_histogram_nodes(one) for one in predictors]),
        n_features,
        start=number(part, "_baseline_prediction"),
        float32=False,
    )


def _sequence(part: Part, name: str) -> list[Any]:
    """The trees in a list, in a list of lists of one, or in an array of one column."""
    value = attribute(part, name)
    if isinstance(value, np.ndarray):
        if value.dtype != object or value.ndim != 2 or value.shape[1] != 1:
            raise ValueError(f"{kind_of(part)}.{name} has a wrong shape or type")
        value = value.ravel().tolist()
    if not isinstance(value, list) or not value:
        raise ValueError(f"{kind_of(part)}.{name} holds no trees")
    if isinstance(value[0], list):
        if any(not isinstance(one, list) or len(one) != 1 for one in value):
            raise ValueError(f"{kind_of(part)}.{name} has a wrong shape or type")
        value = [one[0] for one in value]
    return value


def _trees_of(members: list[Any]) -> list[Part]:
    """The compiled trees of fitted tree regressors."""
    trees = [part_of(attribute(part_of(member), "tree_")) for member in members]
    _require_distinct(trees)
    return trees


def _require_distinct(trees: list[Part]) -> None:
    """Refuse nodes that are named again and again: together they may be larger than any memory."""
    if len({id(attribute(tree, "nodes")) for tree in trees}) < len(trees):
        raise ValueError("it holds the same tree twice")


def _compiled_nodes(tree: Part) -> _Nodes:
    """Those of scikit-learn's `Tree`."""
    nodes, values = attribute(tree, "nodes"), attribute(tree, "values")
    numbers = isinstance(values, np.ndarray) and values.dtype.kind == "f"
    if not numbers or values.shape != (len(nodes), 1, 1):
        raise ValueError("a tree's values do not fit its nodes")
    if attribute(tree, "node_count") != len(nodes):
        raise ValueError("a tree has more nodes than its arrays")
    left, right = _field(nodes, "left_child", "i"), _field(nodes, "right_child", "i")
    inner = left != -1
    feature = np.where(inner, _field(nodes, "feature", "i"), 0)
    threshold = np.where(inner, _field(nodes, "threshold", "f"), 0.0)
    missing_left = _missing_left(nodes)
    return _Nodes(left, right, feature, threshold, values.astype(np.float64).ravel(), missing_left)


def _histogram_nodes(predictor: Part) -> _Nodes:
    """Those of scikit-learn's `TreePredictor`."""
    nodes = attribute(predictor, "nodes")
    inner = _field(nodes, "is_leaf", "iu") == 0
    if np.any(_field(nodes, "is_categorical", "iu")[inner]):
        raise ValueError("a tree splits by categories")
    # The root is nobody's child: scikit-learn writes 0 for the children of leaves.
    left = np.where(inner, _field(nodes, "left", "iu"), -1)
    right = np.where(inner, _field(nodes, "right", "iu"), -1)
    feature = np.where(inner, _field(nodes, "feature_idx", "iu"), 0)
    threshold = np.where(inner, _field(nodes, "num_threshold", "f"), 0.0)
    missing_left = _missing_left(nodes)
    return _Nodes(left, right, feature, threshold, _field(nodes, "value", "f"), missing_left)


def _field(nodes: Any, name: str, kinds: str) -> NDArray[Any]:
    """A column of records of nodes, as int64 or float64."""
    if not isinstance(nodes, np.ndarray) or nodes.ndim != 1 or not nodes.dtype.names:
        raise ValueError("a tree's nodes are no records")
    if name not in nodes.dtype.names or len(nodes) == 0:
        raise ValueError(f"a tree's nodes have no {name}")
    column = nodes[name]
    if column.dtype.kind not in kinds or column.ndim != 1:
        raise ValueError(f"a tree's {name} is of a wrong type")
    return column.astype(np.float64 if kinds == "f" else np.int64)


def _missing_left(nodes: Any) -> NDArray[np.bool_] | None:
    """Whether missing values go left at each node; older versions of scikit-learn do not say."""
    if "missing_go_to_left" not in nodes.dtype.names:
        return None
    column: NDArray[np.bool_] = _field(nodes, "missing_go_to_left", "iu") != 0
    return column


def _stack(trees: list[_Nodes], *, missing: bool = True) -> TreeArrays:
    """All trees behind each other; `missing` says whether they take missing values."""
    sizes = np.array([len(tree.left) for tree in trees], dtype=np.int64)
    *columns, goes_left = zip(*trees, strict=True)
    known = missing and not any(one is None for one in goes_left)
    arrays = map(np.concatenate, columns)
    return TreeArrays(sizes, *arrays, missing_left=np.concatenate(goes_left) if known else None)


def _importances(tree: Part, n_features: int) -> NDArray[np.float64]:
    """How much each feature lowers the impurity, as scikit-learn sums it, for any root's weight."""
    nodes = tree.state["nodes"]
    left, right = _field(nodes, "left_child", "i"), _field(nodes, "right_child", "i")
    feature, inner = _field(nodes, "feature", "i"), np.flatnonzero(left != -1)
    ends = np.concatenate((left[inner], right[inner]))
    if np.any((ends < 0) | (ends >= len(nodes))):
        raise ValueError("a tree has children that do not exist or have two parents")
    if np.any((feature[inner] < 0) | (feature[inner] >= n_features)):
        raise ValueError("a tree splits by features that do not exist")
    weight = _field(nodes, "weighted_n_node_samples", "f")
    with np.errstate(all="ignore"):
        lost = weight * _field(nodes, "impurity", "f")
        gains = lost[inner] - lost[left[inner]] - lost[right[inner]]
        sums = np.zeros(n_features)
        np.add.at(sums, feature[inner], gains)
        sums /= weight[0]
    return sums


def _mean(importances: list[NDArray[np.float64]], n_features: int) -> NDArray[np.float64]:
    if not importances:
        return np.zeros(n_features)
    with np.errstate(all="ignore"):
        mean = np.mean(importances, axis=0, dtype=np.float64)
        total = np.sum(mean)
        return np.asarray(mean / total if total != 0 else mean)
