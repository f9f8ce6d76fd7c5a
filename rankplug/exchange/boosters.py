"""Trees as model files of XGBoost and LightGBM, and readers of theirs.

* XGBoost: JSON as `Booster.save_model` of versions 2.0 to 3.2 writes it; UBJSON is read, too.
  Splits are "less than" in single precision, and leaves are in single precision.
* LightGBM: text as `Booster.save_model` of versions 3.3 to 4.6 (``version=v4``) writes it. Splits
  are "at most" in double precision; a split may say that zeros are missing.

A model of the library's own trees is written as it is; all others are written as trees that the
library reads. What is read goes through the checks of saved models.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from rankplug.exceptions import DataError, ModelFormatError
from rankplug.exchange.floats import LARGEST_FLOAT32, finite, less_than_float32
from rankplug.exchange.form import Form, Trees
from rankplug.exchange.spelling import spell_out
from rankplug.exchange.weights import Read, Written
from rankplug.models import Model, model_class

NOTE_FLOAT32 = (
    "features and thresholds are in single precision there: a feature within rounding of a "
    "threshold may go another way, and scores are right to about 1e-6"
)
_NOTE_ZEROS = (
    "zeros are missing to these trees, which the file does not say: pass missing=0 where XGBoost "
    "reads dense rows"
)
_IDENTITY = ("rank:", "reg:squared", "reg:absolute")


def native_xgboost(model: Model) -> Written | None:
    """The model's own trees in XGBoost's JSON; None if it has none that are XGBoost's alone."""
    trees, booster = _own_trees(model, "xgboost")
    if booster is None:
        return None
    notes: tuple[str, ...] = (_NOTE_ZEROS,) if trees.zeros == "missing" else ()
    content = json.loads(booster.save_raw("json"))
    learner = content["learner"]
    if model is not trees and str(learner["objective"]["name"]).startswith(_IDENTITY):
        constant = float(model.predict(np.zeros((1, model.n_features)))[0]) - float(
            trees.predict(np.zeros((1, model.n_features)))[0]
        )
        notes += (f"scores differ by a constant of about {constant:g}, which changes no order",)
    if model.feature_names is not None:
        names, renamed = _names(model.feature_names, r"[\[\]<\x00-\x1f]")
        learner["feature_names"], notes = names, (*notes, *renamed)
    return _xgboost_text(content), notes


def _own_trees(model: Any, kind: str) -> tuple[Any, Any]:
    """The model of the library's trees that a model is, or is of, and their booster."""
    if model.kind == kind:
        return model, model.booster
    if model.kind != "mapped" or len(model.map.parts) != 1:
        return None, None
    trees = getattr(model.map.parts[0], "trees", None)
    if trees is None or trees.kind != kind or model.model.kind != "linear":
        return None, None
    refitted = model.to_xgboost() if kind == "xgboost" else model.to_lightgbm()
    return _with_booster(trees, refitted), refitted


def _with_booster(trees: Any, booster: Any) -> Any:
    if trees.kind == "xgboost":
        return type(trees)(booster, trees.zeros)
    return type(trees)(booster.model_to_string())


def _names(names: tuple[str, ...], bad: str) -> tuple[list[str], tuple[str, ...]]:
    """Names that a library takes, and a note about those that it did not."""
    found: list[str] = []
    taken = set(names)
    changed = []
    for name in names:
        new = re.sub(bad, "_", name) or "_"
        while new != name and new in taken:
            new += "_"
        taken.add(new)
        found.append(new)
        if new != name:
            changed.append(f"{name!r} is {new!r}")
    notes = (f"names of features are changed: {', '.join(changed)}",) if changed else ()
    return found, notes


def write_xgboost(form: Form) -> Written:
    """Any trees as XGBoost's."""
    trees, notes = spell_out(form.trees)
    names, renamed = _names(form.names, r"[\[\]<\x00-\x1f]")
    n_trees = len(trees.sizes)
    written = [_xgboost_tree(tree, k, form.n_features) for k, tree in enumerate(trees.each())]
    content = {
        "learner": {
            "attributes": {},
            "feature_names": names,
            "feature_types": ["float"] * form.n_features,
            "gradient_booster": {
                "model": {
                    "gbtree_model_param": {"num_parallel_tree": "1", "num_trees": str(n_trees)},
                    "iteration_indptr": list(range(n_trees + 1)),
                    "tree_info": [0] * n_trees,
                    "trees": written,
                },
                "name": "gbtree",
            },
            "learner_model_param": {
                "base_score": f"{np.float32(form.constant):.9E}",
                "boost_from_average": "0",
                "num_class": "0",
                "num_feature": str(form.n_features),
                "num_target": "1",
            },
            "objective": {"name": "reg:squarederror", "reg_loss_param": {"scale_pos_weight": "1"}},
        },
        "version": [2, 0, 0],
    }
    return _xgboost_text(content), (NOTE_FLOAT32, *notes, *renamed)


def _xgboost_text(content: Any) -> str:
    # As XGBoost reads it: the first two characters tell JSON, and none is escaped by its number.
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    return re.sub(r"(?<=[\[,:])(-?)Infinity(?=[\],}])", r"\g<1>1e39", text)


def _side_by_side(tree: Trees) -> Trees:
    """The tree level by level, a node's children side by side, as XGBoost walks through it."""
    order, place = [0], 0
    while place < len(order):
        node = order[place]
        if tree.left[node] >= 0:
            order += [int(tree.left[node]), int(tree.right[node])]
        place += 1
    number = np.zeros(len(tree.left), dtype=np.int64)  # some may be left out, as pruned ones
    number[order] = np.arange(len(order))
    moved: Any = (column[order] for column in tree[1:])
    found = Trees(np.array([len(order)]), *moved)
    leaf = found.is_leaf
    left, right = (np.where(leaf, -1, number[side]) for side in (found.left, found.right))
    return found._replace(left=left, right=right)


def _xgboost_tree(tree: Trees, number: int, n_features: int) -> dict[str, Any]:
    tree = _side_by_side(tree)
    size, leaf = len(tree.left), tree.is_leaf
    parents = np.full(size, 2**31 - 1)
    inner = np.flatnonzero(~leaf)
    parents[tree.left[inner]] = parents[tree.right[inner]] = inner
    conditions = np.where(leaf, tree.value, less_than_float32(tree.threshold).astype(np.float64))
    zeros, floats = [0] * size, [0.0] * size
    return {
        "base_weights": np.where(leaf, tree.value, 0.0).tolist(),
        "categories": [],
        "categories_nodes": [],
        "categories_segments": [],
        "categories_sizes": [],
        "default_left": tree.missing_left.astype(int).tolist(),
        "id": number,
        "left_children": tree.left.tolist(),
        "loss_changes": floats,
        "parents": parents.tolist(),
        "right_children": tree.right.tolist(),
        "split_conditions": np.clip(conditions, -LARGEST_FLOAT32, LARGEST_FLOAT32).tolist(),
        "split_indices": tree.feature.tolist(),
        "split_type": zeros,
        "sum_hessian": floats,
        "tree_param": {
            "num_deleted": "0",
            "num_feature": str(n_features),
            "num_nodes": str(size),
            "size_leaf_vector": "1",
        },
    }


def native_lightgbm(model: Model) -> Written | None:
    """The model's own trees in LightGBM's text; None if it has none that are LightGBM's alone."""
    _, booster = _own_trees(model, "lightgbm")
    if booster is None:
        return None
    text = booster.model_to_string()
    notes: tuple[str, ...] = ()
    if model.kind == "mapped":
        notes = ("scores differ by a constant, which changes no order in a query",)
    if model.feature_names is not None:
        names, notes = _lightgbm_names(model.feature_names, notes)
        line = "feature_names=" + " ".join(names)
        text = re.sub(r"^feature_names=.*$", lambda _: line, text, count=1, flags=re.MULTILINE)
    return text, notes


def _lightgbm_names(
    names: tuple[str, ...], notes: tuple[str, ...]
) -> tuple[list[str], tuple[str, ...]]:
    found, renamed = _names(names, r"[\s\",:\[\]{}=\x00-\x1f]")
    return found, (*notes, *renamed)


def write_lightgbm(form: Form) -> Written:
    """Any trees as LightGBM's; a constant becomes a tree of one leaf."""
    odd = form.trees.is_odd
    trees = form.trees
    notes: tuple[str, ...] = ()
    if np.any(trees.special[odd] != 0.0):
        trees, notes = spell_out(trees)
    elif odd.any():
        notes = ("what lies within 1e-35 of 0 counts as missing to some splits, as zeros do here",)
    texts = [_lightgbm_tree(tree, form.takes_missing) for tree in trees.each()]
    if form.constant or not texts:
        texts.append(f"num_leaves=1\nnum_cat=0\nleaf_value={form.constant!r}\nshrinkage=1\n")
    texts = [f"Tree={k}\n{text}\n\n" for k, text in enumerate(texts)]
    names, renamed = _lightgbm_names(form.names, notes)
    head = [
        "tree",
        "version=v4",
        "num_class=1",
        "num_tree_per_iteration=1",
        "label_index=0",
        f"max_feature_idx={form.n_features - 1}",
        "objective=regression",
        f"feature_names={' '.join(names)}",
        f"feature_infos={' '.join(['[-1e+308:1e+308]'] * form.n_features)}",
        f"tree_sizes={' '.join(str(len(text.encode())) for text in texts)}",
        "",
        "",
    ]
    end = "end of trees\n\nfeature_importances:\n\nparameters:\n\nend of parameters\n\n"
    return "\n".join(head) + "".join(texts) + end + "pandas_categorical:null\n", renamed


def _lightgbm_tree(tree: Trees, takes_missing: bool) -> str:
    """LightGBM counts inner nodes and leaves apart, and writes leaves as -1, -2, ..."""
    leaf = tree.is_leaf
    inner = np.flatnonzero(~leaf)
    values = tree.value[leaf]
    if not len(inner):
        return f"num_leaves=1\nnum_cat=0\nleaf_value={float(values[0])!r}\nshrinkage=1\n"
    number = np.where(leaf, -np.cumsum(leaf, dtype=np.int64), np.cumsum(~leaf) - 1)
    # Missing values: 8 are NaN, 4 are zeros and NaN; 2 sends them left.
    kinds = np.where(tree.is_odd, 4, 8 if takes_missing else 0)
    kinds = (kinds + 2 * tree.missing_left)[inner]
    threshold = finite(tree.threshold[inner])
    ones, zeros = [1] * len(inner), [0] * len(inner)
    rows: Mapping[str, Any] = {
        "num_leaves": [len(values)],
        "num_cat": [0],
        "split_feature": tree.feature[inner].tolist(),
        "split_gain": ones,
        "threshold": threshold.tolist(),
        "decision_type": kinds.tolist(),
        "left_child": number[tree.left[inner]].tolist(),
        "right_child": number[tree.right[inner]].tolist(),
        "leaf_value": values.tolist(),
        "leaf_weight": [1] * len(values),
        "leaf_count": [1] * len(values),
        "internal_value": zeros,
        "internal_weight": ones,
        "internal_count": ones,
        "is_linear": [0],
        "shrinkage": [1],
    }
    return "".join(f"{name}={' '.join(map(repr, row))}\n" for name, row in rows.items())


def read_xgboost(content: bytes) -> Read:
    """The model of an XGBoost file, JSON or UBJSON.

    Raises
    ------
    ModelFormatError
        If it is none, or one whose parts do not fit together.
    """
    file = "trees.json" if content[:2] == b'{"' else "model.ubj"
    model = _read_by("xgboost", file, content, {"zeros": "value", "labels": None})
    notes = ["zeros are values and NaN is missing, as XGBoost takes dense rows"]
    names = model.booster.feature_names
    stopped = model.booster.attr("best_iteration")
    if stopped is not None and stopped.isdecimal() and int(stopped) + 1 < model.n_trees:
        notes.append(
            f"all {model.n_trees} rounds count, also those after the best iteration, {stopped}"
        )
    return _named(model, names, notes)


def read_lightgbm(content: bytes) -> Read:
    """The model of a LightGBM file.

    Raises
    ------
    ModelFormatError
        If it is none, or one whose parts do not fit together.
    """
    model = _read_by("lightgbm", "model.txt", content.replace(b"\r\n", b"\n"), {})
    return _named(model, model.booster.feature_name(), [])


def _read_by(kind: str, name: str, content: bytes, header: Mapping[str, Any]) -> Any:
    """Read it as the file of a saved model is read, by the same checks."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, name)
        file.write_bytes(content)
        try:
            model: Any = model_class(kind, Path(folder))._read(Path(folder), header)
        except (ModelFormatError, DataError) as error:
            reason = str(error).replace(f"{file} cannot be read: ", "").replace(str(file), "")
            raise ModelFormatError(f"no model of {kind} that can be read: {reason}") from None
    if model.n_features < 1:
        raise ModelFormatError(f"no model of {kind} that can be read: it has no features")
    return model


def _named(model: Any, names: Any, notes: list[str]) -> Read:
    """The model with the file's names of features, unless these are the library's own."""
    own = [f"Column_{j}" for j in range(model.n_features)]
    if names and list(names) != own:
        model.feature_names = tuple(map(str, names))
    return model, tuple(notes)
