"""Models as code: one SQL expression, or one Python function that needs no package.

* SQL: standard ``CASE``, ``COALESCE`` and double-precision literals (with an exponent, which makes
  them DOUBLE in DuckDB, PostgreSQL, SQLite and others), names in double quotes. What is missing is
  NULL.
* Python: a module with ``score(row)``; what is missing is None or NaN.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rankplug.exchange.floats import finite
from rankplug.exchange.form import Form, Trees
from rankplug.exchange.weights import Written


def literal(value: float) -> str:
    """A number that SQL reads in double precision."""
    text = repr(float(value))
    return text if "e" in text else f"{text}e0"


def total(parts: Sequence[str]) -> str:
    """A sum by halves, so that parsers which go down by recursion do not go deep."""
    if len(parts) < 3:
        return " + ".join(parts)
    half = len(parts) // 2
    return f"({total(parts[:half])}) + ({total(parts[half:])})"


def write_sql(form: Form) -> Written:
    """An expression that scores a row of a table with the features as columns."""
    names = ['"' + name.replace('"', '""') + '"' for name in form.names]
    parts = [literal(form.constant)] if form.constant or not form.parts else []
    terms = form.terms
    for j, weight, shift, missing in zip(*(one.tolist() for one in terms), strict=True):
        value = f"({names[j]} - {literal(shift)})" if shift else names[j]
        term = f"{literal(weight)} * {value}"
        known = form.takes_missing and missing == missing
        parts.append(f"COALESCE({term}, {literal(missing)})" if known else term)
    for j, low, high, weight, missing in zip(*(one.tolist() for one in form.ramps), strict=True):
        x = names[j]
        slope = f"{literal(weight)} * (({x} - {literal(low)}) / {literal(high - low)})"
        known = (
            f"WHEN {x} <= {literal(low)} THEN 0e0 WHEN {x} >= {literal(high)} THEN "
            f"{literal(weight)} WHEN {x} IS NOT NULL THEN {slope}"
        )
        rest = literal(missing) if missing == missing else "NULL"
        parts.append(f"CASE {known} ELSE {rest} END")
    parts += [f"({_case(tree, names, 0)})" for tree in form.trees.each()]
    notes = ["missing features are NULL"] if form.takes_missing else []
    if len(set(map(str.lower, form.names))) < form.n_features:
        notes.append("names of features differ only in small and capital letters: SQL may not tell")
    return total(parts) + "\n", tuple(notes)


def _case(tree: Trees, names: Sequence[str], node: int) -> str:
    left, right = int(tree.left[node]), int(tree.right[node])
    if left < 0:
        return literal(tree.value[node])
    x, threshold = names[int(tree.feature[node])], literal(float(finite(tree.threshold[node])))
    # A comparison with NULL is not true, so it is the last branch that takes it.
    first, last = (right, left) if tree.missing_left[node] else (left, right)
    test = f"{x} > {threshold}" if tree.missing_left[node] else f"{x} <= {threshold}"
    if tree.is_odd[node]:
        test += f" AND {x} <> {literal(tree.special[node])}"
    then, other = _case(tree, names, first), _case(tree, names, last)
    return f"CASE WHEN {test} THEN {then} ELSE {other} END"


_PYTHON = '''\
"""A ranking model: score(row) is higher for what ranks higher in its query."""

FEATURES = {names}
# Features that must not be missing.
REQUIRED = {required}

CONSTANT = {constant}
# (feature, weight, shift, what it adds if the feature is missing)
TERMS = {terms}
# (feature, low, high, weight, what it adds if the feature is missing)
RAMPS = {ramps}
# Of each tree the nodes, the root first. A leaf is a number; others are (feature, threshold, place
# of the left node, of the right one, whether what is missing goes left, a value that is missing).
# A feature that is at most the threshold goes left.
TREES = {trees}


def score(row):
    """The score of a row: a mapping of FEATURES to numbers, or the numbers in that order.

    None and NaN are missing.
    """
    if hasattr(row, "keys"):
        row = [row[name] for name in FEATURES]
    x = [None if value is None or value != value else float(value) for value in row]
    if len(x) != len(FEATURES):
        raise ValueError("a row has %d features, not %d" % (len(FEATURES), len(x)))
    for j in REQUIRED:
        if x[j] is None:
            raise ValueError("%r is missing, which the model does not take" % FEATURES[j])
    total = CONSTANT
    for j, weight, shift, missing in TERMS:
        total += missing if x[j] is None else weight * (x[j] - shift)
    for j, low, high, weight, missing in RAMPS:
        if x[j] is None:
            total += missing
        else:
            total += weight * min(max((x[j] - low) / (high - low), 0.0), 1.0)
    for nodes in TREES:
        node = nodes[0]
        while isinstance(node, tuple):
            j, threshold, left, right, missing_left, special = node
            goes_left = x[j] <= threshold if x[j] not in (None, special) else missing_left
            node = nodes[left if goes_left else right]
        total += node
    return total
'''


def write_python(form: Form) -> Written:
    """A module with one function, and the model as plain tuples of numbers."""
    trees = [_nodes(tree) for tree in form.trees.each()]
    text = _PYTHON.format(
        names=_listed([ascii(name) for name in form.names]),
        constant=repr(float(form.constant)),
        terms=_rows(form.terms),
        ramps=_rows(form.ramps),
        trees=_listed(trees),
        required=form.required,
    )
    return text, ()


def _rows(parts: Any) -> str:
    columns = [_plain(one.tolist()) for one in parts]
    return _listed([f"({', '.join(row)})" for row in zip(*columns, strict=True)])


def _plain(values: Sequence[Any]) -> list[str]:
    return ["None" if value != value else repr(value) for value in values]


def _listed(parts: Sequence[str]) -> str:
    return "".join(["[\n", *(f"    {part},\n" for part in parts), "]"]) if parts else "[]"


def _nodes(tree: Trees) -> str:
    odd = tree.is_odd
    rows = []
    for k in range(len(tree.left)):
        if tree.left[k] < 0:
            rows.append(repr(float(tree.value[k])))
            continue
        special = float(tree.special[k]) if odd[k] else None
        split = int(tree.feature[k]), float(finite(tree.threshold[k]))
        children = int(tree.left[k]), int(tree.right[k])
        rows.append(repr((*split, *children, bool(tree.missing_left[k]), special)))
    return f"({', '.join(rows)},)"
