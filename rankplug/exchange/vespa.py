"""Models as Vespa takes them: a ranking expression, or a dump of XGBoost's or LightGBM's.

What the writers rest on is what Vespa 8 takes: a ranking expression in double precision, in which
comparisons with NaN are false; XGBoost's dump in JSON, whose thresholds it rounds to single
precision, and whose ``missing`` it follows; LightGBM's dump, of which it takes "less than" for
LightGBM's "at most".
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from rankplug.exchange.boosters import NOTE_FLOAT32
from rankplug.exchange.floats import finite
from rankplug.exchange.form import Form, Trees
from rankplug.exchange.search_engines import dump_trees, write_json
from rankplug.exchange.spelling import spell_out
from rankplug.exchange.weights import Written

_RANK_FEATURE = re.compile(
    r"[A-Za-z_]\w*(\([A-Za-z_]\w*(,\s*[A-Za-z_]\w*)*\))?(\.[A-Za-z_]\w*)*", re.ASCII
)
_RESERVED = {"if", "in", "true", "false", "min", "max", "isNan", "e", "pi"}


def _vespa_names(form: Form) -> tuple[list[str], tuple[str, ...]]:
    """Names of rank features; those that Vespa would not take are numbered functions."""
    found, changed, taken = [], [], set(form.names)
    for j, name in enumerate(form.names):
        new = name
        if not _RANK_FEATURE.fullmatch(name) or name in _RESERVED:
            new = f"feature_{j}"
            while new in taken:
                new += "_"
            taken.add(new)
            changed.append(f"{name!r} is {new}")
        found.append(new)
    notes = ["each name is a rank feature or a function of the rank profile"]
    if changed:
        notes.append(f"define functions for names that Vespa does not take: {', '.join(changed)}")
    if form.takes_missing:
        notes.append(
            "a missing feature must be NaN in the rank profile: attributes of float or double "
            "without a value are, other rank features are 0"
        )
    return found, tuple(notes)


def write_vespa(form: Form) -> Written:
    """A ranking expression, for ``expression: file:NAME.expression`` in a rank profile."""
    names, notes = _vespa_names(form)
    parts = [repr(float(form.constant))] if form.constant or not form.parts else []
    for j, weight, shift, missing in zip(*(one.tolist() for one in form.terms), strict=True):
        value = f"({names[j]} - {_signed(shift)})" if shift else names[j]
        parts.append(_known(form, names[j], missing, f"{_signed(weight)} * {value}"))
    for j, low, high, weight, missing in zip(*(one.tolist() for one in form.ramps), strict=True):
        part = f"({names[j]} - {_signed(low)}) / {_signed(high - low)}"
        ramp = f"{_signed(weight)} * min(1.0, max(0.0, {part}))"
        parts.append(_known(form, names[j], missing, ramp))
    parts += [_condition(tree, names, 0) for tree in form.trees.each()]
    return " +\n".join(parts) + "\n", notes


def _signed(value: float) -> str:
    return f"({value!r})" if value < 0 else repr(value)


def _known(form: Form, name: str, missing: float, part: str) -> str:
    known = form.takes_missing and missing == missing
    return f"if (isNan({name}), {missing!r}, {part})" if known else part


def _condition(tree: Trees, names: list[str], node: int) -> str:
    left, right = int(tree.left[node]), int(tree.right[node])
    if left < 0:
        return repr(float(tree.value[node]))
    name, threshold = names[int(tree.feature[node])], _signed(float(finite(tree.threshold[node])))
    sides = [left, right]
    test = f"{name} <= {threshold}"
    if tree.missing_left[node]:  # comparisons with NaN are false
        sides, test = [right, left], f"{name} > {threshold}"
    if tree.is_odd[node]:
        test = f"({test}) && ({name} != {_signed(float(tree.special[node]))})"
    return f"if ({test}, {', '.join(_condition(tree, names, side) for side in sides)})"


def write_vespa_xgboost(form: Form) -> Written:
    """XGBoost's dump in JSON, for ``xgboost("NAME.json")`` in a rank profile."""
    names, notes = _vespa_names(form)
    trees, more = dump_trees(Form(tuple(names), form.constant, trees=form.trees))
    return write_json(trees) + "\n", (*notes, NOTE_FLOAT32, *more)


def write_vespa_lightgbm(form: Form) -> Written:
    """LightGBM's dump in JSON, for ``lightgbm("NAME.json")`` in a rank profile."""
    names, notes = _vespa_names(form)
    trees, more = spell_out(form.trees)
    structures = [_lightgbm_node(tree, 0) for tree in trees.each()]
    if form.constant:
        structures.append({"leaf_value": form.constant})
    content = {
        "objective": "regression",
        "feature_names": names,
        "feature_infos": {},
        "tree_info": [{"tree_structure": one} for one in structures],
        "pandas_categorical": [],
    }
    return write_json(content) + "\n", (*notes, *more)


def _lightgbm_node(tree: Trees, node: int) -> dict[str, Any]:
    left, right = int(tree.left[node]), int(tree.right[node])
    if left < 0:
        return {"leaf_value": float(tree.value[node])}
    return {
        "split_feature": int(tree.feature[node]),
        # Vespa sends left what is below: the next number above the one that goes left itself.
        "threshold": float(finite(np.nextafter(tree.threshold[node], np.inf))),
        "decision_type": "<=",
        "default_left": bool(tree.missing_left[node]),
        "left_child": _lightgbm_node(tree, left),
        "right_child": _lightgbm_node(tree, right),
    }
