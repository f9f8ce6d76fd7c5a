"""What must hold in a file of XGBoost's before XGBoost reads it.

XGBoost trusts the indices in its files: a forged one makes it read and write memory that is not
its own. Here they are checked; whatever else a file may get wrong ends in an error of XGBoost's.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankplug_plugins.boosting.tree_files import require, require_depth
from rankplug_plugins.boosting.ubjson import parse_ubjson

__all__ = ["check_xgboost_file"]

_INTEGERS = ("left_children", "right_children", "parents", "split_indices", "split_type")
_REALS = ("split_conditions", "base_weights", "loss_changes", "sum_hessian")


def check_xgboost_file(content: bytes) -> None:
    """Check a model of boosted trees in UBJSON.

    Raises
    ------
    ValueError
        If it is none, or its parts do not fit together.
    """
    try:
        learner = parse_ubjson(content)["learner"]
        param = learner["learner_model_param"]
        n_features = _count(param["num_feature"])
        require(_count(param["num_class"]) <= 1 and _count(param["num_target"]) == 1, "outputs")
        require(0 < n_features < 2**31, "num_feature")
        for name in ("feature_names", "feature_types"):
            require(len(learner[name]) in (0, n_features), name)
        booster = learner["gradient_booster"]
        require(booster["name"] == "gbtree", "booster")
        _check_trees(booster["model"], n_features)
    except (KeyError, TypeError, IndexError, AttributeError, OverflowError) as error:
        raise ValueError(f"it lacks {error}") from None


def _check_trees(model: dict[str, Any], n_features: int) -> None:
    trees = model["trees"]
    n_trees = len(trees)
    require(_count(model["gbtree_model_param"]["num_trees"]) == n_trees, "num_trees")
    require(len(model["tree_info"]) == n_trees and not any(model["tree_info"]), "tree_info")
    rounds = np.array(model["iteration_indptr"], dtype=np.int64)
    ends = rounds[0] == 0 and rounds[-1] == n_trees
    require(bool(ends and (np.diff(rounds) >= 0).all()), "iteration_indptr")
    require(not any(len(part) for part in model.get("cats", {}).values()), "cats")
    for tree in trees:
        _check_tree(tree, n_features)


def _check_tree(tree: dict[str, Any], n_features: int) -> None:
    param = tree["tree_param"]
    n_nodes = _count(param["num_nodes"])
    one_output = _count(param["size_leaf_vector"]) <= 1
    require(n_nodes > 0 and _count(param["num_feature"]) == n_features and one_output, "tree")
    for names, kinds in ((_INTEGERS, "iu"), (_REALS, "f"), (("default_left",), "iu")):
        for name in names:
            array = np.asarray(tree[name])
            require(array.shape == (n_nodes,) and array.dtype.kind in kinds, name)
    left, right = (np.asarray(tree[name]) for name in ("left_children", "right_children"))
    inner = np.flatnonzero(left != -1)
    require(np.array_equal(inner, np.flatnonzero(right != -1)), "children")
    children = np.concatenate((left[inner], right[inner]))
    # Without a second parent, and without one for the root, there is no way back.
    require(bool(np.all((children > 0) & (children < n_nodes))), "children")
    require(len(np.unique(children)) == len(children), "children")
    require(np.array_equal(np.asarray(tree["parents"])[children], np.tile(inner, 2)), "parents")
    require_depth(left, right)
    split = np.asarray(tree["split_indices"])[inner]
    require(bool(np.all((split >= 0) & (split < n_features))), "split_indices")
    kinds = np.asarray(tree["split_type"])
    require(bool(np.all((kinds == 0) | (kinds == 1))), "split_type")
    _check_categories(tree, inner[kinds[inner] == 1])


def _check_categories(tree: dict[str, Any], splits: NDArray[Any]) -> None:
    """The categories of each categorical split are a part of all of them."""
    names = ("categories", "categories_nodes", "categories_segments", "categories_sizes")
    values, nodes, begins, sizes = (np.asarray(tree[name], dtype=np.int64) for name in names)
    require(np.array_equal(nodes, splits), "categories_nodes")
    require(bool(np.all((values >= 0) & (values < 2**24))), "categories")
    require(begins.shape == sizes.shape == nodes.shape, "categories_sizes")
    within = (begins >= 0) & (sizes > 0) & (begins <= len(values) - sizes)
    require(bool(within.all()), "categories_segments")


def _count(text: Any) -> int:
    """A number that XGBoost writes as text."""
    require(isinstance(text, str) and text.isdecimal() and len(text) < 12, f"number {text!r}")
    return int(text)
