"""`describe`: any model of one score as a `Form`."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from rankplug.data import to_dense
from rankplug.exceptions import ParameterError
from rankplug.exchange.floats import widen
from rankplug.exchange.form import Columns, Expansion, Floats, Form, Ramps, Terms, Trees, joined
from rankplug.exchange.layers import Layer, behind, of_scaling, of_steps
from rankplug.models import Model


def describe(model: Model) -> Form:
    """The model as a sum of linear terms, ramps, trees and kernels of the features.

    Raises
    ------
    ParameterError
        If it has no such form; the message says which part has none.
    """
    if model.n_labels is not None:
        raise ParameterError(
            f"the model ranks {model.n_labels} labels, with a score for each: models of one score "
            "can be exported"
        )
    form = _describe(model)
    names = model.feature_names
    notes = form.notes
    if names is None:
        notes += ("the model knows no names of its features: they are called x0, x1, ...",)
    else:
        form = replace(form, names=tuple(names))
    twice = [name for name, count in Counter(form.names).items() if count > 1]
    if twice:
        raise ParameterError(
            f"several features are called {twice[0]!r}, which files that name features cannot tell "
            "apart: give them names of their own"
        )
    if model.categories:
        first = form.names[min(model.categories)]
        raise ParameterError(
            f"the feature {first!r} holds categories, whose codes no other system knows: models of "
            "numbers can be exported, and xgboost and lightgbm models to their own formats"
        )
    return replace(form, takes_missing=model.takes_missing_values, notes=notes)


def _describe(model: Model) -> Form:
    if model.kind not in _KINDS:
        raise ParameterError(
            f"a model of kind {model.kind!r} has no form that other systems know; those of kind "
            f"{', '.join(_KINDS)} have one"
        )
    return _KINDS[model.kind](model)


def _blank(n_features: int) -> Form:
    return Form(tuple(f"x{j}" for j in range(n_features)))


# Linear and kernel models


def _linear(model: Any) -> Form:
    missing = 0.0 if model.takes_missing_values else np.nan
    return replace(_blank(model.n_features), terms=_terms(model.coef, missing=missing))


def _terms(weights: Floats, shift: Any = 0.0, missing: Any = np.nan) -> Terms:
    shift, missing = (np.broadcast_to(one, weights.shape) for one in (shift, missing))
    used = np.flatnonzero(weights)
    return Terms(used, weights[used], shift[used], missing[used])


def _kernel(model: Any) -> Form:
    kernel, form = model.kernel, _blank(model.n_features)
    if kernel.function == "linear":
        weights = np.asarray(model.support.T @ model.dual_coef, dtype=np.float64)
        return replace(form, terms=_terms(weights))
    if callable(kernel.function):
        raise ParameterError("a kernel function of your own cannot be exported")
    rows = np.asarray(to_dense(model.support), dtype=np.float64)
    return replace(form, expansions=(_expansion(kernel.function, rows, model.dual_coef, kernel),))


def _expansion(function: str, rows: Floats, coef: Floats, kernel: Any) -> Expansion:
    offset = np.full(len(rows), float(kernel.coef0))
    columns = _same_columns(rows.shape[1])
    return Expansion(function, rows, coef, offset, float(kernel.gamma), kernel.degree, columns)


def _same_columns(n: int) -> Columns:
    return Columns(np.arange(n), np.zeros(n), np.ones(n), np.full(n, np.nan))


# Trees


def _trees(model: Any) -> Form:
    scale = model.scale / (len(model.trees.sizes) if model.average else 1)
    trees = model.trees
    missing_left = trees.missing_left
    if missing_left is None:
        missing_left = np.zeros(len(trees.left), dtype=bool)
    found = Trees(
        trees.sizes,
        trees.left,
        trees.right,
        trees.feature,
        widen(trees.threshold) if model.float32 else trees.threshold,
        missing_left,
        np.full(len(trees.left), np.nan),
        scale * trees.value,
    )
    start = model.start / (len(trees.sizes) if model.average else 1)
    return replace(_blank(model.n_features), constant=float(start), trees=found)


def _xgboost(model: Any) -> Form:
    content = json.loads(model.booster.save_raw("json"))
    learner = content["learner"]
    if learner["gradient_booster"]["name"] != "gbtree":
        raise ParameterError(
            f"boosters of kind {learner['gradient_booster']['name']!r} cannot be exported but to "
            "XGBoost itself: train with booster='gbtree'"
        )
    given = learner["gradient_booster"]["model"]["trees"]
    _refuse_categories(any(any(tree["split_type"]) for tree in given))
    special = 0.0 if model.zeros == "missing" else np.nan
    # Of no trees too, as an early stop may leave.
    trees = joined([_no_trees(), *(_xgboost_tree(tree, special) for tree in given)])
    form = replace(_blank(model.n_features), trees=trees)
    notes = _note_of_link(str(learner["objective"]["name"]))
    return replace(form, constant=_base_score(model, learner, trees), notes=notes)


def _xgboost_tree(tree: Mapping[str, Any], special: float) -> Trees:
    left = np.array(tree["left_children"], dtype=np.int64)
    conditions = np.array(tree["split_conditions"], dtype=np.float64)
    leaf = left < 0
    with np.errstate(over="ignore"):
        # Rows below the condition go left, in single precision.
        below = np.nextafter(conditions.astype(np.float32), np.float32(-np.inf))
    return Trees(
        np.array([len(left)]),
        left,
        np.array(tree["right_children"], dtype=np.int64),
        np.where(leaf, 0, np.array(tree["split_indices"], dtype=np.int64)),
        np.where(leaf, 0.0, widen(below)),
        np.array(tree["default_left"], dtype=bool),
        np.full(len(left), special),
        np.where(leaf, conditions.astype(np.float32).astype(np.float64), 0.0),
    )


def _base_score(model: Any, learner: Mapping[str, Any], trees: Trees) -> float:
    """What XGBoost adds to the trees, which some objectives transform: by a row of nothing."""
    row = np.full((1, model.n_features), np.nan)
    total = sum(_leaf_of_missing(tree) for tree in trees.each())
    added = float(model.predict(row)[0]) - total
    text = re.sub(r"[\[\]]", "", str(learner["learner_model_param"]["base_score"]))
    said = float(text)
    near = abs(said - added) <= 1e-4 * (1.0 + abs(total) + abs(said))
    return float(np.float32(said)) if near else added


def _leaf_of_missing(tree: Trees) -> float:
    node = 0
    while tree.left[node] >= 0:
        node = int(tree.left[node] if tree.missing_left[node] else tree.right[node])
    return float(tree.value[node])


def _note_of_link(objective: str) -> tuple[str, ...]:
    if objective.startswith(("rank:", "reg:squared", "reg:absolute", "lambdarank")):
        return ()
    if objective in ("binary:logitraw", "regression", "custom", "rank_xendcg"):
        return ()
    return (
        f"scores are those before the transformation that the objective {objective} ends with, "
        "which changes no order",
    )


def _refuse_categories(there: bool) -> None:
    if there:
        raise ParameterError(
            "trees that split by categories cannot be exported but to the library that has grown "
            "them: train on numbers"
        )


def _no_trees() -> Trees:
    return _blank(0).trees


def _lightgbm(model: Any) -> Form:
    text = model.booster.model_to_string()
    head, *trees = re.split(r"^Tree=\d+\n", text.partition("\nend of trees")[0], flags=re.MULTILINE)
    found = [_lightgbm_tree(dict(re.findall(r"^(\w+)=(.*)$", one, re.MULTILINE))) for one in trees]
    objective = re.search(r"^objective=(\S+)", head, re.MULTILINE)
    notes = _note_of_link(objective[1]) if objective else ()
    form = _blank(model.n_features)
    return replace(form, trees=joined([_no_trees(), *found]), notes=notes)


def _lightgbm_tree(lines: Mapping[str, str]) -> Trees:
    """Inner nodes first, then the leaves, which LightGBM counts as -1, -2, ..."""
    values = _numbers(lines["leaf_value"])
    inner, size = len(values) - 1, 2 * len(values) - 1
    none = np.full(len(values), -1)
    if inner == 0:
        columns: Any = [none, none, np.zeros(1, np.int64), np.zeros(1), np.zeros(1, bool)]
        columns += [np.full(1, np.nan), values]
        return Trees(np.array([1]), *columns)
    kinds = _numbers(lines["decision_type"]).astype(np.int64)
    _refuse_categories(bool(np.any(kinds & 1)))
    thresholds = _numbers(lines["threshold"])
    zeros, nans = (kinds >> 2) & 3 == 1, (kinds >> 2) & 3 == 2
    # Where a split has met nothing that is missing, LightGBM takes it for 0.
    missing_left = np.where(zeros | nans, kinds & 2 > 0, thresholds >= 0.0)
    children = [_numbers(lines[side]).astype(np.int64) for side in ("left_child", "right_child")]
    left, right = (np.where(side < 0, inner + ~side, side) for side in children)
    rest = len(values)
    return Trees(
        np.array([size]),
        np.concatenate((left, none)),
        np.concatenate((right, none)),
        np.concatenate((_numbers(lines["split_feature"]).astype(np.int64), np.zeros(rest, int))),
        np.concatenate((thresholds, np.zeros(rest))),
        np.concatenate((missing_left, np.zeros(rest, bool))),
        np.concatenate((np.where(zeros, 0.0, np.nan), np.full(rest, np.nan))),
        np.concatenate((np.zeros(inner), values)),
    )


def _numbers(text: str) -> Floats:
    return np.array(text.split(), dtype=np.float64)


# Models behind something, or of several parts


def _scaled(model: Any) -> Form:
    return _behind(of_scaling(model.scaling), model)


def _pipeline(model: Any) -> Form:
    return _behind(of_steps(model.steps, model.n_features), model)


def _behind(layer: Layer, model: Any) -> Form:
    names = _blank(model.n_features).names
    return behind(layer, _describe(model.model), names, model.takes_missing_values)


def _regressor(model: Any) -> Form:
    converted = model.converted
    if converted is None:
        raise ParameterError(
            "this regressor has no form that other systems know: scikit-learn's linear regressors, "
            "SVR, KernelRidge, trees, forests and gradient boosting, behind scalers, have one"
        )
    if any(step.operation == "clip" for step in converted.steps):
        raise ParameterError("a scaler that clips cannot be exported")
    operations = tuple((step.operation, step.values) for step in converted.steps)
    layer = Layer(np.arange(model.n_features), operations)
    inner = _describe(converted.model)
    form = behind(layer, inner, inner.names, model.takes_missing_values)
    notes = form.notes
    if converted.link != "identity":
        notes += ("scores are those before the exponential, which changes no order",)
    return replace(form, constant=form.constant + converted.intercept, notes=notes)


def _linear_then_trees(model: Any) -> Form:
    return _describe(model.linear).plus(_describe(model.trees))


def _mapped(model: Any) -> Form:
    if model.model.kind != "linear":
        raise ParameterError(
            f"only linear models behind a map can be exported, not one of kind {model.model.kind!r}"
        )
    form = _blank(model.n_features)
    for part, weights in model.map.split_weights(model.model.coef):
        if part.kind not in _MAPS:
            raise ParameterError(
                f"the map {part.kind!r} has no form that other systems know; "
                f"{', '.join(_MAPS)} have one"
            )
        form = form.plus(_MAPS[part.kind](part, weights))
    return form


def _identity(part: Any, weights: Floats) -> Form:
    missing = weights * part.fill
    terms = _terms(weights * part.factor, part.shift, missing)
    return replace(_blank(part.n_features), terms=terms)


def _splines(part: Any, weights: Floats) -> Form:
    feature = part.column_features()
    knots = [part.knots_of(j) for j in range(part.n_features)]
    low = np.concatenate([one[:-1] for one in knots])
    high = np.concatenate([one[1:] for one in knots])
    ramps = Ramps(feature, low, high, weights, 0.5 * weights)
    return replace(_blank(part.n_features), ramps=ramps)


def _leaves(part: Any, weights: Floats) -> Form:
    form = _describe(part.trees)
    trees = form.trees
    value = np.zeros(len(trees.value))
    value[trees.is_leaf], constant = part.trees.centred(weights)
    return replace(form, constant=constant, trees=trees._replace(value=value), notes=())


def _nystroem(part: Any, weights: Floats) -> Form:
    coef = part.whitening.T @ weights
    rows, columns = part.landmarks, _same_columns(part.n_features)
    one = Expansion("rbf", rows, coef, np.zeros(len(rows)), float(part.gamma), 1, columns)
    return replace(_blank(part.n_features), expansions=(one,))


def _fourier(part: Any, weights: Floats) -> Form:
    coef = np.sqrt(2.0 / part.n_columns) * weights
    columns = _same_columns(part.n_features)
    one = Expansion("cos", np.ascontiguousarray(part.waves.T), coef, part.phases, 1.0, 1, columns)
    return replace(_blank(part.n_features), expansions=(one,))


_MAPS: Mapping[str, Callable[[Any, Floats], Form]] = {
    "leaves": _leaves,
    "splines": _splines,
    "identity": _identity,
    "nystroem": _nystroem,
    "fourier": _fourier,
}

_KINDS: Mapping[str, Callable[[Any], Form]] = {
    "linear": _linear,
    "scaled": _scaled,
    "pipeline": _pipeline,
    "mapped": _mapped,
    "trees": _trees,
    "xgboost": _xgboost,
    "lightgbm": _lightgbm,
    "linear-then-trees": _linear_then_trees,
    "kernel": _kernel,
    "regressor": _regressor,
}
