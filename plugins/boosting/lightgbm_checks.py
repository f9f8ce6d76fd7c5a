"""A check of LightGBM's text of boosted trees, made before the library reads it.

LightGBM reads the trees in threads of its own, in which no error is caught: whatever it does not
expect ends the process. So every line is known here, stands where LightGBM writes it, and holds
what it must.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankplug_plugins.boosting.file_checks import require, require_depth

_NUMBER = r"[-+]?(?:\d{1,40}(?:\.\d{0,40})?(?:e[-+]?\d{1,3})?|inf|nan)"
_INFO = rf"(?:none|\[{_NUMBER}:{_NUMBER}\]|-?\d{{1,10}}(?::-?\d{{1,10}})*)"  # or categories
_WORDS = r"[^\s]+(?: [^\s]+)*"

# Lines of the head, and what they may say; those that are not in `_OPTIONAL` are needed.
_HEAD = {
    "version": r"v[34]",
    "num_class": "1",
    "num_tree_per_iteration": "1",
    "label_index": r"\d{1,9}",
    "max_feature_idx": r"\d{1,9}",
    "objective": rf"(?!multiclass)[a-z_]{{1,40}}(?: sqrt| (?!num_class)[a-z_]{{1,40}}:{_NUMBER})*",
    "feature_names": _WORDS,
    "monotone_constraints": r"-?[01](?: -?[01])*",
    "feature_infos": rf"{_INFO}(?: {_INFO})*",
    "tree_sizes": r"(?:\d{1,18}(?: \d{1,18})*)?",
}
_OPTIONAL = {"objective", "monotone_constraints"}

# Lines of a tree: one number for each inner node, or for each leaf.
_NODES: Mapping[str, type] = {
    **dict.fromkeys(("split_feature", "decision_type", "left_child", "right_child"), int),
    **dict.fromkeys(("split_gain", "threshold", "internal_value", "internal_weight"), float),
    "internal_count": int,
}
_LEAVES: Mapping[str, type] = {"leaf_value": float, "leaf_weight": float, "leaf_count": int}
_OF_CATEGORIES = {"cat_boundaries", "cat_threshold"}
_OF_TREE = {"num_leaves", "num_cat", "is_linear", "shrinkage"}

# Of decision_type: 2 sends missing values left, 4 and 8 say which values are missing; 1 is a split
# by categories.
_DECISIONS = (0, 2, 4, 6, 8, 10, 1, 3, 5, 7, 9, 11)

# What follows the trees: the features' importances, the training's parameters, and the categories.
_REST = re.compile(
    r"\nfeature_importances:\n(?:[^\n]*=\d{1,18}\n)*"
    r"(?:\nparameters:\n(?:\[\w+: [^\n]*\]\n)*\nend of parameters\n)?"
    r"(?:\npandas_categorical:(?:null|\[\])\n?)?\n*"
)


def check_lightgbm_text(text: str) -> None:
    """Check a model of LightGBM's boosted trees in its own format.

    Raises
    ------
    ValueError
        If it is none, or its parts do not fit together.
    """
    require(re.search(r"[\x00-\x09\x0b-\x1f]", text) is None, "a character")
    head, *trees = re.split(r"^(?=Tree=)", text, flags=re.MULTILINE)
    if trees:
        trees[-1], end, rest = trees[-1].partition("end of trees\n")
    else:
        head, end, rest = head.partition("end of trees\n")
    require(bool(end), "end of trees")
    require(_REST.fullmatch(rest) is not None, "parameters")
    try:
        header = _items(head, "tree", "\n")
        n_features = _check_head(header)
        sizes = _numbers(header["tree_sizes"], int, len(trees))
        # LightGBM reads the trees in parallel, each from where these sizes say.
        lengths = [len(tree.encode()) for tree in trees]
        require(sizes.tolist() == lengths, "tree_sizes")
        for number, tree in enumerate(trees):
            _check_tree(_items(tree, f"Tree={number}", "\n\n"), n_features)
    except KeyError as error:
        raise ValueError(f"it lacks {error}") from None


def _items(text: str, first: str, last: str) -> dict[str, str]:
    """The lines ``key=value`` below the first one; behind a blank line LightGBM reads no more."""
    start, *lines = text.removesuffix("\n" + last).split("\n")
    require(text.endswith("\n" + last) and start == first, first)
    require(all("=" in line for line in lines), "a line without =")
    pairs = [line.partition("=") for line in lines]
    items = {key: value for key, _, value in pairs}
    require(len(items) == len(pairs), "a key that occurs twice")
    return items


def _check_head(header: Mapping[str, str]) -> int:
    """The number of features that the head says."""
    require(header.keys() <= _HEAD.keys(), "an unknown key")
    for name, pattern in _HEAD.items():
        if name not in _OPTIONAL or name in header:
            require(re.fullmatch(pattern, header[name], re.ASCII) is not None, name)
    n_features = int(header["max_feature_idx"]) + 1
    for name in ("feature_names", "feature_infos", "monotone_constraints"):
        if name in header:
            require(len(header[name].split(" ")) == n_features, name)
    require(int(header["label_index"]) <= n_features, "label_index")
    return n_features


def _check_tree(items: Mapping[str, str], n_features: int) -> None:
    require(items.keys() <= {*_OF_TREE, *_OF_CATEGORIES, *_NODES, *_LEAVES}, "an unknown key")
    n_leaves = int(_numbers(items["num_leaves"], int, 1)[0])
    require(n_leaves > 0, "num_leaves")
    require(items.get("is_linear", "0") == "0", "kind of tree")
    n_sets = int(_numbers(items["num_cat"], int, 1)[0])
    require(0 <= n_sets < n_leaves, "num_cat")
    require((n_sets > 0) == (not _OF_CATEGORIES.isdisjoint(items)), "categories")
    require(bool(np.isfinite(_numbers(items["shrinkage"], float, 1)[0])), "shrinkage")
    if n_leaves == 1:
        _check_stump(items)
        return
    leaves = {name: _numbers(items[name], kind, n_leaves) for name, kind in _LEAVES.items()}
    require(bool(np.isfinite(leaves["leaf_value"]).all()), "leaf_value")
    nodes = {name: _numbers(items[name], kind, n_leaves - 1) for name, kind in _NODES.items()}
    require(not np.isnan(nodes["threshold"]).any(), "threshold")
    require(bool(np.isin(nodes["decision_type"], _DECISIONS).all()), "decision_type")
    _check_categories(items, n_sets, nodes["threshold"][nodes["decision_type"] % 2 == 1])
    split = nodes["split_feature"]
    require(bool(np.all((split >= 0) & (split < n_features))), "split_feature")
    left, right = nodes["left_child"], nodes["right_child"]
    # Each node but the root, and each leaf (written as -1, -2, ...), is a child once.
    children = np.sort(np.concatenate((left, right)))
    expected = np.concatenate((np.arange(-n_leaves, 0), np.arange(1, n_leaves - 1)))
    require(np.array_equal(children, expected), "children")
    require_depth(left, right)


def _check_categories(items: Mapping[str, str], n_sets: int, thresholds: NDArray[Any]) -> None:
    """The sets of categories that go left, each of 32 in a number, and which node has which."""
    require(bool(np.all((thresholds >= 0) & (thresholds < n_sets))), "threshold")
    require(bool(np.all(thresholds % 1 == 0)), "threshold")
    if n_sets == 0:
        return
    bounds = _numbers(items["cat_boundaries"], int, n_sets + 1)
    require(bounds[0] == 0 and bool(np.all(np.diff(bounds) > 0)), "cat_boundaries")
    words = items["cat_threshold"].split(" ")
    require(len(words) == bounds[-1], "cat_threshold")
    right = all(re.fullmatch(r"\d{1,10}", word, re.ASCII) and int(word) < 2**32 for word in words)
    require(right, "cat_threshold")


def _check_stump(items: Mapping[str, str]) -> None:
    """A tree of one leaf has no nodes, and says of the leaf what LightGBM knows."""
    require(bool(np.isfinite(_numbers(items["leaf_value"], float, 1)[0])), "leaf_value")
    for name, kind in {**_NODES, **_LEAVES}.items():
        text = items.get(name, "")
        require(not text or name in _LEAVES, name)
        if text:
            _numbers(text, kind, 1)


def _numbers(text: str, kind: type, count: int) -> NDArray[Any]:
    """So many numbers between blanks; integers of 32 bits."""
    words = text.split(" ") if text else []
    require(len(words) == count, f"{len(words)} numbers instead of {count}")
    pattern = re.compile(r"-?\d{1,10}" if kind is int else _NUMBER, re.ASCII)
    require(all(map(pattern.fullmatch, words)), "numbers")
    numbers = np.array(words, dtype=np.int64 if kind is int else np.float64)
    require(kind is float or bool(np.all(np.abs(numbers) < 2**31)), "numbers")
    return numbers
