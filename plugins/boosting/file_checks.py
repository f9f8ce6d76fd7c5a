"""Checks of the files of trees, made before XGBoost or LightGBM reads them.

Both libraries trust the sizes and indices in their files: a forged one ends the process, or makes
it read and write memory that is not its own. These are checked here; whatever else a file may get
wrong ends in an error of the library's.

XGBoost's trees are saved as JSON. Version 0.1 of rankplug saved them as Universal Binary JSON,
which `ubjson_to_json` translates: XGBoost is given the JSON that was checked, whichever it was.
"""

from __future__ import annotations

import json
import re
from io import BytesIO
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankplug.system.files import parse_json

# Of a tree. The libraries walk through it by recursion, and the stack holds many times that.
_DEEPEST_TREE = 4096

# Of values within each other in XGBoost's files; true ones have 8. XGBoost reads them by recursion.
_DEEPEST_VALUE = 20

# Columns of XGBoost's trees by the kinds of NumPy's types that they may have.
_XGBOOST_COLUMNS = {
    **dict.fromkeys(("left_children", "right_children", "parents"), "iu"),
    **dict.fromkeys(("split_indices", "split_type", "default_left"), "iu"),
    **dict.fromkeys(("split_conditions", "base_weights", "loss_changes", "sum_hessian"), "f"),
}

# A number, or a list of it, since XGBoost 3.1.
_BASE_SCORE = r"(\[)?-?\d+(\.\d+)?([eE][-+]?\d{1,2})?(?(1)\])"

_FEATURE_TYPES = {"q", "i", "c", "int", "float"}

_UBJSON_INTEGERS = {b"i": ">i1", b"U": ">u1", b"I": ">i2", b"l": ">i4", b"L": ">i8"}
_UBJSON_NUMBERS = {**_UBJSON_INTEGERS, b"d": ">f4", b"D": ">f8"}
_UBJSON_CONSTANTS = {b"T": True, b"F": False, b"Z": None}


def check_xgboost_json(text: str) -> None:
    """Check a model of XGBoost's boosted trees in JSON.

    Raises
    ------
    ValueError
        If it is none, or its parts do not fit together.
    """
    content = parse_json(text)
    # Where XGBoost would not read what was just parsed: it tells JSON from other formats by the
    # first two characters, and leaves characters escaped by numbers as they are.
    require(text.startswith('{"'), "the beginning")
    require("\\u" not in text, "an escaped character")
    try:
        _require_shallow(content, _DEEPEST_VALUE)
        learner = content["learner"]
        param = learner["learner_model_param"]
        n_features = _count(param["num_feature"])
        require(_count(param["num_class"]) <= 1 and _count(param["num_target"]) == 1, "outputs")
        require(0 < n_features < 2**31, "num_feature")
        base_score = param["base_score"]
        require(isinstance(base_score, str) and len(base_score) < 40, "base_score")
        require(re.fullmatch(_BASE_SCORE, base_score, re.ASCII) is not None, "base_score")
        for name in ("feature_names", "feature_types"):
            words = learner[name]
            require(isinstance(words, list) and len(words) in (0, n_features), name)
            require(all(isinstance(word, str) for word in words), name)
        require(set(learner["feature_types"]) <= _FEATURE_TYPES, "feature_types")
        booster = learner["gradient_booster"]
        require(booster["name"] == "gbtree", "booster")
        _check_xgboost_trees(booster["model"], n_features)
    except (KeyError, TypeError, IndexError, AttributeError, OverflowError) as error:
        raise ValueError(f"it lacks {error}") from None


def _check_xgboost_trees(model: dict[str, Any], n_features: int) -> None:
    trees = model["trees"]
    n_trees = len(trees)
    require(_count(model["gbtree_model_param"]["num_trees"]) == n_trees, "num_trees")
    require(len(model["tree_info"]) == n_trees and not any(model["tree_info"]), "tree_info")
    rounds = np.array(model["iteration_indptr"], dtype=np.int64)
    ends = rounds[0] == 0 and rounds[-1] == n_trees
    require(bool(ends and (np.diff(rounds) >= 0).all()), "iteration_indptr")
    require(not any(len(part) for part in model.get("cats", {}).values()), "cats")
    # The places where XGBoost puts the trees: it would follow what is left empty.
    require([tree["id"] for tree in trees] == list(range(n_trees)), "id")
    for tree in trees:
        _check_xgboost_tree(tree, n_features)


def _check_xgboost_tree(tree: dict[str, Any], n_features: int) -> None:
    param = tree["tree_param"]
    n_nodes = _count(param["num_nodes"])
    one_output = _count(param["size_leaf_vector"]) <= 1
    require(n_nodes > 0 and _count(param["num_feature"]) == n_features and one_output, "tree")
    columns = {name: np.asarray(tree[name]) for name in _XGBOOST_COLUMNS}
    for name, kinds in _XGBOOST_COLUMNS.items():
        array = columns[name]
        require(array.shape == (n_nodes,) and array.dtype.kind in kinds, name)
    left, right = columns["left_children"], columns["right_children"]
    inner = np.flatnonzero(left != -1)
    require(np.array_equal(inner, np.flatnonzero(right != -1)), "children")
    # XGBoost looks for the right child behind the left one, wherever it is said to be.
    require(np.array_equal(right[inner], left[inner] + 1), "children")
    children = np.concatenate((left[inner], right[inner]))
    # Without a second parent, and without one for the root, there is no way back.
    require(bool(np.all((children > 0) & (children < n_nodes))), "children")
    require(len(np.unique(children)) == len(children), "children")
    require(np.array_equal(columns["parents"][children], np.tile(inner, 2)), "parents")
    require_depth(left, right)
    split, kinds_of_split = columns["split_indices"][inner], columns["split_type"]
    require(bool(np.all((split >= 0) & (split < n_features))), "split_indices")
    require(bool(np.all((kinds_of_split == 0) | (kinds_of_split == 1))), "split_type")
    _check_categories(tree, inner[kinds_of_split[inner] == 1])


def _check_categories(tree: dict[str, Any], splits: NDArray[Any]) -> None:
    """The categories of each categorical split are a part of all of them."""
    names = ("categories", "categories_nodes", "categories_segments", "categories_sizes")
    values, nodes, begins, sizes = (np.asarray(tree[name], dtype=np.int64) for name in names)
    require(np.array_equal(nodes, splits), "categories_nodes")
    # XGBoost keeps categories as float32, which has all integers below 2^24.
    require(bool(np.all((values >= 0) & (values < 2**24))), "categories")
    require(begins.shape == sizes.shape == nodes.shape, "categories_sizes")
    within = (begins >= 0) & (sizes > 0) & (begins <= len(values) - sizes)
    require(bool(within.all()), "categories_segments")


def _count(text: Any) -> int:
    """A number that XGBoost writes as text."""
    right = isinstance(text, str) and text.isascii() and text.isdecimal() and len(text) < 12
    require(right, f"number {text!r}")
    return int(text)


def finite_json(text: str) -> str:
    """A text of XGBoost's as JSON, which has no infinity; a split at the end of float32 is at it.

    XGBoost reads the number in its place, which is beyond float32, as infinity again.
    """
    if "Infinity" not in text:
        return text
    return re.sub(r"(?<=[\[,:])(-?)Infinity(?=[\],}])", r"\g<1>1e39", text)


def ubjson_to_json(content: bytes) -> str:
    """The JSON of what stands in Universal Binary JSON as XGBoost writes it.

    Raises
    ------
    ValueError
        If it is something else, is cut off, or something stands behind it.
    """
    stream = BytesIO(content)
    try:
        value = _ubjson_value(stream, _take(stream, 1))
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if stream.read(1):
        raise ValueError("something stands behind the end")
    return finite_json(text)


def _ubjson_value(stream: BytesIO, mark: bytes) -> Any:
    """The value that begins with this mark."""
    if mark in _UBJSON_NUMBERS:
        return _ubjson_numbers(stream, mark, 1)[0]
    if mark in _UBJSON_CONSTANTS:
        return _UBJSON_CONSTANTS[mark]
    if mark == b"S":
        return _ubjson_text(stream, _take(stream, 1))
    if mark == b"{":
        items: dict[str, Any] = {}
        while (mark := _take(stream, 1)) != b"}":
            key = _ubjson_text(stream, mark)
            if key in items:
                raise ValueError(f"the key {key!r} occurs twice")
            items[key] = _ubjson_value(stream, _take(stream, 1))
        return items
    if mark == b"[":
        return _ubjson_array(stream)
    raise ValueError(f"no value of a known type begins with {mark!r}")


def _ubjson_array(stream: BytesIO) -> list[Any]:
    """Numbers of one type, so many values, or values up to a bracket."""
    mark = _take(stream, 1)
    if mark == b"$":
        kind = _take(stream, 1)
        if kind not in _UBJSON_NUMBERS or _take(stream, 1) != b"#":
            raise ValueError("an array of an unknown type")
        return _ubjson_numbers(stream, kind, _ubjson_length(stream, _take(stream, 1)))
    if mark == b"#":
        length = _ubjson_length(stream, _take(stream, 1))
        return [_ubjson_value(stream, _take(stream, 1)) for _ in range(length)]
    values = []
    while mark != b"]":
        values.append(_ubjson_value(stream, mark))
        mark = _take(stream, 1)
    return values


def _ubjson_text(stream: BytesIO, mark: bytes) -> str:
    return _take(stream, _ubjson_length(stream, mark)).decode()


def _ubjson_length(stream: BytesIO, mark: bytes) -> int:
    if mark != b"L":
        raise ValueError("a length is missing")
    return int(_ubjson_numbers(stream, mark, 1)[0])


def _ubjson_numbers(stream: BytesIO, mark: bytes, count: int) -> list[Any]:
    kind = np.dtype(_UBJSON_NUMBERS[mark])
    numbers: list[Any] = np.frombuffer(_take(stream, count * kind.itemsize), kind).tolist()
    return numbers


def _take(stream: BytesIO, n_bytes: int) -> bytes:
    """The next bytes; nothing is allocated that the stream does not hold."""
    part = stream.read(n_bytes) if 0 <= n_bytes <= len(stream.getbuffer()) else b""
    if len(part) != n_bytes:
        raise ValueError("cut off")
    return part


def require(right: bool, what: str) -> None:
    """Raise `ValueError`, which names a part of a file, unless that is right."""
    if not right:
        raise ValueError(f"{what} cannot be right")


def _require_shallow(value: Any, levels: int) -> None:
    """Refuse values that are nested too deeply."""
    require(levels > 0, "depth")
    parts = value.values() if isinstance(value, dict) else value
    if not {dict, list}.isdisjoint(map(type, parts)):  # most are long lists of numbers
        for part in parts:
            if isinstance(part, dict | list):
                _require_shallow(part, levels - 1)


def require_depth(left: NDArray[Any], right: NDArray[Any]) -> None:
    """Refuse trees that are too deep; children below 0 are leaves or none.

    Every node but the first must be the child of exactly one.
    """
    level, depth = np.array([0]), 0
    while len(level):
        level = np.concatenate((left[level], right[level]))
        level, depth = level[level >= 0], depth + 1
    require(depth <= _DEEPEST_TREE, "depth")
