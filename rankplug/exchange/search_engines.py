"""Models as search engines take them: Elasticsearch, OpenSearch, Solr and RankLib's trees.

What the writers rest on is what the parsers of these versions take:

* Elasticsearch LTR (o19s, 1.5 and main for Elasticsearch 8) and OpenSearch LTR (2.x and 3.x):
  ``model/linear``, a number for each feature's name, and ``model/xgboost+json``, a list of trees of
  ``nodeid, depth, split, split_condition, yes, no, missing, children`` or ``leaf``, where "less
  than" goes to ``yes``. ``feature_normalizers`` (standard: mean, standard_deviation) come before
  either. All numbers are in single precision. That ``missing`` is followed came late: to
  Elasticsearch LTR in 2024 (pull requests 480 and 482), to OpenSearch LTR in 2026 (issue 378, in
  3.6); before, what is missing is 0, or from OpenSearch 3.3 on goes to ``no``.
* Solr 6.4 to 9: ``LinearModel`` and ``MultipleAdditiveTreesModel``, "at most" goes left, all in
  single precision, and 1e-6 is added to each threshold. ``isNullSameAsZero: false`` and a node's
  ``missing`` came with 9.2 (SOLR-16596); they are written only where they are needed.
* RankLib 2.x: the ``ensemble`` of LambdaMART, "at most" goes left, in single precision.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankplug.exceptions import ParameterError
from rankplug.exchange.boosters import NOTE_FLOAT32
from rankplug.exchange.floats import LARGEST_FLOAT32, floor_float32, less_than_float32
from rankplug.exchange.form import Floats, Form, Trees
from rankplug.exchange.spelling import spell_out
from rankplug.exchange.weights import Written, note_missing, note_order, write_ranklib_weights

_FEATURES = "the file names features, which a feature set or store of the engine must define"


def write_elasticsearch(form: Form) -> Written:
    """The body of a request ``POST _ltr/_featureset/SET/_createmodel`` of Elasticsearch LTR."""
    return _ltr(form, "Elasticsearch LTR of before 2024 takes what is missing for 0")


def write_opensearch(form: Form) -> Written:
    """The body of a request ``POST _ltr/_featureset/SET/_createmodel`` of OpenSearch LTR."""
    return _ltr(form, "OpenSearch LTR before 3.6 sends what is missing to 0, or always right")


def _ltr(form: Form, before: str) -> Written:
    model: dict[str, Any]
    notes: tuple[str, ...]
    if "trees" in form.parts:
        _refuse_both(form, "this format")
        trees, notes = dump_trees(form)
        model = {"type": "model/xgboost+json", "definition": write_json(trees)}
        notes = (NOTE_FLOAT32, *notes, *((before,) if form.takes_missing else ()))
    else:
        weights, shifts, notes = _shifted(form)
        model = {"type": "model/linear", "definition": write_json(weights)}
        if shifts:
            model["feature_normalizers"] = {
                name: {"standard": {"mean": mean, "standard_deviation": 1.0}}
                for name, mean in shifts.items()
            }
    return write_json({"model": {"name": "model", "model": model}}) + "\n", (_FEATURES, *notes)


def _refuse_both(form: Form, what: str) -> None:
    if form.parts > {"trees"}:
        raise ParameterError(
            f"{what} holds linear terms or trees, and the model is a sum of both: export it to "
            "vespa, sql, python or onnx"
        )


def _shifted(form: Form) -> tuple[dict[str, float], dict[str, float], tuple[str, ...]]:
    """Weights and, where features are shifted, their means; by name."""
    terms, used = form.terms, dict[int, float]()
    weights, _, missing = form.folded_terms()
    for j, shift in zip(terms.feature.tolist(), terms.shift.tolist(), strict=True):
        if j in used and used[j] != shift:  # of several terms of a feature: none needs a shift
            shift = 0.0
        used[j] = shift
    shifts = {form.names[j]: shift for j, shift in used.items() if shift}
    found = dict(zip(form.names, weights.tolist(), strict=True))
    shown = {name: weight for name, weight in found.items() if weight} or found
    notes: tuple[str, ...] = (
        "features and weights are in single precision there: scores are right to about 1e-6",
    )
    left = np.array([used[j] for j in terms.feature.tolist()]) - terms.shift
    if form.constant + float(np.sum(terms.weight * left)):
        notes += ("a constant is left out, which changes no order in a query",)
    return shown, shifts, (*notes, *note_missing(form, missing))


def write_json(content: Any) -> str:
    """JSON in which names are as they are."""
    return json.dumps(content, ensure_ascii=False)


# XGBoost's dump, which several engines read


def dump_trees(form: Form) -> tuple[list[dict[str, Any]], tuple[str, ...]]:
    """The trees as `Booster.get_dump` has them; a constant is a tree of one leaf."""
    trees, notes = spell_out(form.trees)
    found = [_dump_tree(tree, form.names) for tree in trees.each()]
    if form.constant or not found:
        found.append({"nodeid": 0, "leaf": form.constant})
    return found, notes


def _dump_tree(tree: Trees, names: tuple[str, ...]) -> dict[str, Any]:
    below = less_than_float32(tree.threshold).astype(np.float64).tolist()

    def node(number: int, depth: int) -> dict[str, Any]:
        yes, no = int(tree.left[number]), int(tree.right[number])
        if yes < 0:
            return {"nodeid": number, "leaf": float(tree.value[number])}
        return {
            "nodeid": number,
            "depth": depth,
            "split": names[int(tree.feature[number])],
            "split_condition": below[number],
            "yes": yes,
            "no": no,
            "missing": yes if tree.missing_left[number] else no,
            "children": [node(yes, depth + 1), node(no, depth + 1)],
        }

    return node(0, 0)


# Solr

_SLACK = np.float32(1e-6)
_TINY = 1e-34  # below which no feature is but 0: LightGBM splits at 1e-35 to tell zeros
_MOST_HALVINGS = 120  # of single precision, which ends at 2^-126
_LARGEST_SCALED = 2.0**100  # of thresholds: features may be larger
_LTR = "org.apache.solr.ltr"


def write_solr(form: Form) -> Written:
    """A model for Solr's model store, ``PUT /solr/COLLECTION/schema/model-store``."""
    notes: tuple[str, ...] = (_FEATURES,)
    if "trees" in form.parts:
        _refuse_both(form, "a Solr model")
        features, params, more = _solr_trees(form)
        kind, notes = "MultipleAdditiveTreesModel", (*notes, NOTE_FLOAT32, *more)
    else:
        weights, shifts, more = _shifted(form)
        features = [_solr_feature(name, shifts.get(name, 0.0), 1.0) for name in weights]
        kind, params, notes = "LinearModel", {"weights": weights}, (*notes, *more)
    model = {
        "class": f"{_LTR}.model.{kind}",
        "name": "model",
        "features": features,
        "params": params,
    }
    return json.dumps(model, ensure_ascii=False, indent=1) + "\n", notes


def _solr_feature(name: str, mean: float, deviation: float) -> dict[str, Any]:
    if mean == 0.0 and deviation == 1.0:
        return {"name": name}
    params = {"avg": repr(mean), "std": repr(deviation)}
    return {"name": name, "norm": {"class": f"{_LTR}.norm.StandardNormalizer", "params": params}}


def _solr_trees(form: Form) -> tuple[list[Any], dict[str, Any], tuple[str, ...]]:
    trees, notes = spell_out(form.trees)
    inner = ~trees.is_leaf
    wanted = np.clip(floor_float32(trees.threshold), -LARGEST_FLOAT32, LARGEST_FLOAT32)
    written, scale = np.zeros(len(wanted), dtype=np.float32), np.ones(form.n_features)
    for j in np.unique(trees.feature[inner]).tolist():
        nodes = np.flatnonzero(inner & (trees.feature == j))
        scale[j], written[nodes], n_wrong = _scaled_without_slack(wanted[nodes])
        if n_wrong:
            notes += (
                f"{n_wrong} thresholds of {form.names[j]!r} are off by rounding, as Solr adds "
                "1e-6 to each",
            )
    if np.any(scale != 1.0):
        notes += ("some features are divided by a power of 2, as Solr adds 1e-6 to thresholds",)
    missing = form.takes_missing and _zero_differs(trees)
    params: dict[str, Any] = {}
    if missing:
        params["isNullSameAsZero"] = False
        notes += (
            "missing features need Solr 9.2 or later, and defaultValue NaN in the feature store",
        )
    start = 0
    params["trees"] = []
    for tree in trees.each():
        size = len(tree.left)
        root = _solr_node(tree, 0, form.names, written[start : start + size], missing)
        params["trees"].append({"weight": "1", "root": root})
        start += size
    if form.constant:
        params["trees"].append({"weight": "1", "root": {"value": repr(form.constant)}})
    used = np.unique(trees.feature[inner]).tolist() or [0]
    features = [_solr_feature(form.names[j], 0.0, float(scale[j])) for j in used]
    return features, params, notes


def _zero_differs(trees: Trees) -> bool:
    """Whether a missing feature ever goes elsewhere than 0 does."""
    return bool(np.any(~trees.is_leaf & (trees.missing_left != (trees.threshold >= 0.0))))


def _scaled_without_slack(wanted: NDArray[np.float32]) -> tuple[float, NDArray[np.float32], int]:
    """By which power of 2 to divide a feature, its thresholds then, and how many are wrong.

    The larger the numbers, the less 1e-6 matters; mostly the feature may stay as it is.
    """
    ends = np.abs(wanted) >= LARGEST_FLOAT32  # where all rows go one way, at any scale
    best = (1.0, np.where(ends, wanted, wanted - _SLACK), len(wanted))
    largest = float(np.abs(wanted[~ends].astype(np.float64)).max(initial=0.0))
    for power in range(0, -_MOST_HALVINGS, -2):
        scale = 2.0**power
        if power and largest / scale > _LARGEST_SCALED:
            break
        found, right = _without_slack(np.where(ends, np.float32(0), wanted), np.float32(scale))
        n_wrong = int((~right).sum())
        if n_wrong < best[2]:
            best = (scale, np.where(ends, wanted, found), n_wrong)
        if n_wrong == 0:
            break
    return best


def _without_slack(
    wanted: NDArray[np.float32], scale: np.float32
) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """Numbers that become the scaled ones when Solr has added 1e-6, and which do so exactly.

    Any number between 0 and what is all but 0 serves as well as the latter.
    """
    start = wanted / scale - _SLACK
    candidates = [start]
    for side in (np.float32(-np.inf), np.float32(np.inf)):
        one = start
        for _ in range(2):
            with np.errstate(over="ignore"):
                one = np.nextafter(one, side)
            candidates.append(one)
    every = np.stack(candidates)
    with np.errstate(under="ignore"):
        becomes = (every + _SLACK) * scale
    nearly = (np.abs(wanted) < _TINY) & (np.abs(becomes) < _TINY)
    exact = (becomes == wanted) | (nearly & (np.sign(becomes) == np.sign(wanted)))
    found = np.take_along_axis(every, exact.argmax(axis=0)[None], axis=0)[0]
    return found, exact.any(axis=0)


def _solr_node(
    tree: Trees, node: int, names: tuple[str, ...], written: Floats | Any, missing: bool
) -> dict[str, Any]:
    left, right = int(tree.left[node]), int(tree.right[node])
    if left < 0:
        return {"value": repr(float(tree.value[node]))}
    found: dict[str, Any] = {
        "feature": names[int(tree.feature[node])],
        "threshold": repr(float(written[node])),
    }
    if missing:
        found["missing"] = "left" if tree.missing_left[node] else "right"
    found["left"] = _solr_node(tree, left, names, written, missing)
    found["right"] = _solr_node(tree, right, names, written, missing)
    return found


# RankLib


def write_ranklib(form: Form) -> Written:
    """A model file of RankLib: coordinate ascent for a linear model, LambdaMART for trees."""
    if "trees" not in form.parts:
        return write_ranklib_weights(form)
    _refuse_both(form, "a RankLib file")
    trees, notes = spell_out(form.trees)
    lines = ["## LambdaMART", f"## No. of trees = {len(trees.sizes)}", "", "<ensemble>"]
    for k, tree in enumerate(trees.each(), start=1):
        at_most = np.clip(floor_float32(tree.threshold), -LARGEST_FLOAT32, LARGEST_FLOAT32)
        lines += [f'\t<tree id="{k}" weight="1.0">', "\t\t<split>"]
        lines += _ranklib_node(tree, 0, at_most.astype(np.float64).tolist(), "\t\t\t")
        lines += ["\t\t</split>", "\t</tree>"]
    lines.append("</ensemble>")
    more = [note_order(form), NOTE_FLOAT32, *notes]
    if form.constant:
        more.append(f"the constant {form.constant:g} is left out, which changes no order")
    if form.takes_missing and _zero_differs(trees):
        more.append("a missing feature counts as 0 there, and may go another way than here")
    return "\n".join(lines) + "\n", tuple(more)


def _ranklib_node(tree: Trees, node: int, at_most: list[float], tabs: str) -> list[str]:
    left, right = int(tree.left[node]), int(tree.right[node])
    if left < 0:
        return [f"{tabs}<output> {float(tree.value[node])!r} </output>"]
    lines = [f"{tabs}<feature> {int(tree.feature[node]) + 1} </feature>"]
    lines.append(f"{tabs}<threshold> {at_most[node]!r} </threshold>")
    for side, child in (("left", left), ("right", right)):
        lines.append(f'{tabs}<split pos="{side}">')
        lines += _ranklib_node(tree, child, at_most, tabs + "\t")
        lines.append(f"{tabs}</split>")
    return lines
