"""What must hold in a text of LightGBM's before LightGBM reads it.

LightGBM trusts the sizes and indices in its texts: a forged one ends the process, or makes it read
memory that is not its own. Here they are checked; whatever else a text may get wrong ends in an
error of LightGBM's.
"""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from rankplug_plugins.boosting.tree_files import require, require_depth

__all__ = ["check_lightgbm_text"]

_NODES = {"split_feature": int, "decision_type": int, "left_child": int, "right_child": int}
_NODES |= {"split_gain": float, "threshold": float, "internal_value": float}
_NODES |= {"internal_weight": float, "internal_count": int}
_LEAVES = {"leaf_value": float, "leaf_weight": float, "leaf_count": int}
_CATEGORICAL = 1  # a bit of decision_type


def check_lightgbm_text(text: str) -> None:
    """Check a model of boosted trees without categorical features.

    Raises
    ------
    ValueError
        If it is none, or its parts do not fit together.
    """
    require(re.search(r"[\x00-\x09\x0b-\x1f]", text) is None, "a character")
    head, *trees = re.split(r"^(?=Tree=)", text, flags=re.MULTILINE)
    try:
        header = _items(head, "tree")
        one_output = (header["num_class"], header["num_tree_per_iteration"]) == ("1", "1")
        require(one_output, "num_class")
        n_features = int(_numbers(header["max_feature_idx"], int, 1)[0]) + 1
        require(n_features > 0, "max_feature_idx")
        for name in ("feature_names", "feature_infos"):
            require(len(header[name].split(" ")) == n_features, name)
        sizes = _numbers(header["tree_sizes"], int, len(trees))
        if trees:
            trees[-1], end, rest = trees[-1].partition("end of trees\n")
            require(bool(end), "end of trees")
            _check_parameters(rest.partition("\nparameters:\n")[2])
        # LightGBM reads the trees in parallel, each from where these sizes say.
        lengths = [len(tree.encode()) for tree in trees]
        require(sizes.tolist() == lengths, "tree_sizes")
        for number, tree in enumerate(trees):
            _check_tree(_items(tree, f"Tree={number}"), n_features)
    except KeyError as error:
        raise ValueError(f"it lacks {error}") from None


def _check_parameters(text: str) -> None:
    """Those of the training, which stand at the end: lines ``[key: value]``."""
    lines, end, _ = text.partition("\nend of parameters\n")
    require(bool(end) or not text, "end of parameters")
    right = all(re.fullmatch(r"\[\w+: .*\]", line) for line in lines.split("\n") if line)
    require(right, "parameters")


def _items(text: str, first: str) -> dict[str, str]:
    """The lines ``key=value`` below the first one."""
    start, *lines = text.split("\n")
    require(start == first, first)
    pairs = [line.partition("=") for line in lines if line]
    items = {key: value for key, _, value in pairs}
    require(len(items) == len(pairs), "a key that occurs twice")
    return items


def _check_tree(items: dict[str, str], n_features: int) -> None:
    n_leaves = int(_numbers(items["num_leaves"], int, 1)[0])
    require(0 < n_leaves < 2**31, "num_leaves")
    require(items["num_cat"] == "0" and items.get("is_linear", "0") == "0", "kind of tree")
    _numbers(items["shrinkage"], float, 1)
    if n_leaves == 1:
        _numbers(items["leaf_value"], float, 1)
        return
    for name, kind in _LEAVES.items():
        _numbers(items[name], kind, n_leaves)
    nodes = {name: _numbers(items[name], kind, n_leaves - 1) for name, kind in _NODES.items()}
    decisions, split = nodes["decision_type"], nodes["split_feature"]
    require(bool(np.all((decisions >= 0) & (decisions < 128))), "decision_type")
    require(not np.any(decisions & _CATEGORICAL), "decision_type")
    require(bool(np.all((split >= 0) & (split < n_features))), "split_feature")
    _check_children(nodes["left_child"], nodes["right_child"], n_leaves)


def _check_children(left: NDArray[np.int64], right: NDArray[np.int64], n_leaves: int) -> None:
    """Each node but the root, and each leaf (written as -1, -2, ...), is a child once."""
    children = np.sort(np.concatenate((left, right)))
    expected = np.concatenate((np.arange(-n_leaves, 0), np.arange(1, n_leaves - 1)))
    require(np.array_equal(children, expected), "children")
    require_depth(left, right)


def _numbers(text: str, kind: type, count: int) -> NDArray[np.int64] | NDArray[np.float64]:
    """So many numbers between blanks."""
    words = text.split(" ") if text else []
    require(len(words) == count, f"{len(words)} numbers instead of {count}")
    pattern = r"-?\d{1,18}" if kind is int else r"[-+]?(?:\d+\.?\d*(?:e[-+]?\d+)?|inf|nan)"
    require(all(re.fullmatch(pattern, word, re.ASCII) for word in words), "numbers")
    return np.array(words, dtype=np.int64 if kind is int else np.float64)
