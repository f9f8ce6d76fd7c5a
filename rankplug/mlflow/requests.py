"""Requests of numbers: answered without a frame, as most requests to a scoring server can be.

MLflow makes a frame of pandas of every request and checks its schema column by column, which takes
some ten times as long as the model. Where rows are lists of numbers, the answer is the same
without. Everything else, and all that is to be refused, is left to MLflow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankplug.data import list_columns
from rankplug.exceptions import RankplugError
from rankplug.mlflow.pyfunc import PARAMS, default_signature, query_columns
from rankplug.models import Model, answers

_LARGEST_INTEGER = 2**53
"""Larger ones are not all numbers of float64."""
_PLAIN = (str, int, float)
"""Of values in columns that are no features: MLflow refuses some others."""


class Table(NamedTuple):
    """Rows of a request; `columns` are None where they have no names."""

    columns: Sequence[str] | None
    rows: Sequence[Sequence[Any]]


def predict_numbers(body: bytes, request: Mapping[str, Any], model: Model) -> Any:
    """What the model answers to a request, as `ScoringModel.predict`; None if MLflow is to answer.

    Parameters
    ----------
    body : bytes
        The request as it came.
    request : mapping
        The same as JSON says it: data in one of MLflow's formats, and maybe "params".
    model : Model
        One of `plain_model`.
    """
    # Python takes true for 1, and frames do not, beside numbers.
    if b"true" in body or b"false" in body:
        return None
    form = _read_form(request.get("params"))
    table = _read_table(request)
    if form is None or table is None:
        return None
    X = _read_numbers(table, model.feature_names)
    if X is None:
        return None
    try:
        scores = model.predict(X)
        if form.output == "score":
            return scores
        qid = _read_query_ids(table, query_columns(model))
        answers.require_queries(model, form, qid)
        return answers.answer(scores, form, qid, answers.label_names(model))
    except (RankplugError, _UnusualError):
        return None


class _UnusualError(Exception):
    """Something that MLflow is to look at."""


def plain_model(loaded: Any) -> Model | None:
    """The model in one of MLflow's, if it takes numbers only and has the signature of rankplug."""
    model = loaded.get_raw_model() if hasattr(loaded, "get_raw_model") else None
    if not isinstance(model, Model) or model.free_features():
        return None
    signature = loaded.metadata.signature
    if signature is None or signature.params != PARAMS or list_columns(model.feature_names or ()):
        return None
    own = default_signature(model).inputs
    return model if signature.inputs is None or signature.inputs == own else None


def _read_form(params: Any) -> answers.Form | None:
    """What is asked for, if it can be answered from scores alone."""
    kinds = {"output": str, "k": int}
    if params is None:
        return answers.Form()
    if not isinstance(params, dict):
        return None
    if any(type(value) is not kinds.get(name) for name, value in params.items()):
        return None
    try:
        form = answers.parse_form(params)
    except RankplugError:
        return None
    return None if form.output == "contributions" else form


def _read_table(request: Mapping[str, Any]) -> Table | None:
    """The rows of a request in any of the four formats, if all have the same columns."""
    ((kind, data),) = ((name, data) for name, data in request.items() if name != "params")
    if not data:
        return None
    if kind == "dataframe_split":
        return _read_split(data)
    if isinstance(data, dict) and kind != "dataframe_records":
        columns = list(data.values())
        if not all(type(values) is list and len(values) == len(columns[0]) for values in columns):
            return None
        return Table(list(data), list(zip(*columns, strict=True)))
    if not isinstance(data, list):
        return None
    if all(type(row) is dict for row in data):
        names = list(data[0])
        if any(row.keys() != data[0].keys() for row in data):
            return None
        return Table(names, [[row[name] for name in names] for row in data])
    rows = all(type(row) is list and len(row) == len(data[0]) for row in data)
    return Table(None, data) if rows and kind != "dataframe_records" else None


def _read_split(data: Any) -> Table | None:
    if not isinstance(data, dict) or data.keys() != {"columns", "data"}:
        return None
    columns, rows = data["columns"], data["data"]
    if not (type(columns) is list and type(rows) is list and rows):
        return None
    n = len(columns)
    named = all(type(name) is str for name in columns) and len(set(columns)) == n
    right = named and all(type(row) is list and len(row) == n for row in rows)
    return Table(columns, rows) if right else None


def _read_numbers(table: Table, names: Sequence[str] | None) -> NDArray[np.float64] | None:
    """The features in the model's order, if all are finite numbers, and other columns plain."""
    rows, columns = table.rows, table.columns
    if (columns is None) != (names is None):
        return None
    if columns is not None and names is not None and list(columns) != list(names):
        place = {name: number for number, name in enumerate(columns)}
        others = [place[name] for name in place.keys() - set(names)]
        plain = all(type(row[other]) in _PLAIN for row in rows for other in others)
        if len(others) + len(names) != len(place) or not plain:
            return None
        places = [place[name] for name in names]
        rows = [[row[place] for place in places] for row in rows]
    try:
        X = np.array(rows)
    except (ValueError, OverflowError):
        return None
    if X.ndim != 2 or X.size == 0 or X.dtype.kind not in "fi":
        return None
    if X.dtype.kind == "i" and np.abs(X).max() > _LARGEST_INTEGER:
        return None
    return X.astype(np.float64, copy=False) if np.isfinite(X).all() else None


def _read_query_ids(table: Table, names: Sequence[str]) -> NDArray[Any] | None:
    """The ids of the first of these columns that is there, all of them text or all integers."""
    found = [name for name in names if name in (table.columns or ())]
    if table.columns is None or not found:
        return None
    place = list(table.columns).index(found[0])
    values = [row[place] for row in table.rows]
    kinds = {type(value) for value in values}
    ids = np.array(values) if kinds in ({str}, {int}) else None
    if ids is None or ids.dtype.kind not in "iU":
        raise _UnusualError
    return ids
