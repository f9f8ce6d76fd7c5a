"""Models as ``mlflow.pyfunc`` calls them, and the signature that they declare to MLflow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from mlflow.exceptions import MlflowException
from mlflow.models import ModelSignature
from mlflow.types import ColSpec, ParamSchema, ParamSpec, Schema, TensorSpec
from mlflow.types.schema import AnyType
from numpy.typing import NDArray
from scipy import sparse

from rankplug.data import list_columns, tables
from rankplug.exceptions import DataError, ParameterError, RankplugError
from rankplug.mlflow._private import params_of_the_caller
from rankplug.models import Model, answers

QID = "qid"
"""The optional column that says which query a row belongs to; scores do not depend on it."""

PARAMS = ParamSchema([ParamSpec("output", "string", "score"), ParamSpec("k", "long", 10)])
"""Parameters of ``predict``, for a signature made by hand: ``ModelSignature(params=PARAMS)``."""


class ScoringModel:
    """The model as ``mlflow.pyfunc`` calls it."""

    def __init__(self, model: Model) -> None:
        self._model = model

    def get_raw_model(self) -> Model:
        """The rankplug model."""
        return self._model

    def predict(
        self, data: Any, params: dict[str, Any] | None = None
    ) -> NDArray[np.float64] | pd.DataFrame:
        """Scores of the rows, their ranks, or the best of them.

        Parameters
        ----------
        data : DataFrame, dict of columns, list of records, array or sparse matrix
            Frames are those of pandas, Polars or Arrow. Columns are matched by name and extra ones
            ignored; those of arrays are the features in the order of the training. Frames for a
            model without feature names either have the columns ``f0``, ``f1``, ... or exactly as
            many columns as the model has features, beside the query ids. These stand in the column
            that held them in training, or in ``qid``; without them, as in arrays, all rows are
            one query, if they were in training.
        params : dict, optional
            ``output`` is "score" (default), "rank" or "top_k", and ``k``, 10 by default, says
            how many are the best. Equal scores keep the order of the rows or labels.

        Returns
        -------
        score : float64 ndarray of shape (n_rows,), or (n_rows, n_labels) for label ranking
            In the order of the rows, higher is better.
        rank : DataFrame in the order of the rows
            Columns qid, score and rank, 1 = best in its query (qid 0 if there is none); for
            label ranking a column of ranks for each label.
        top_k : DataFrame
            Columns qid, row, score and rank: the k best rows of each query, best first, queries
            in order of first appearance, rows counted from 0. For label ranking row, label,
            score and rank: the k best labels of each row.
        contributions : DataFrame in the order of the rows
            What each feature adds to the score, and a column "(constant)"; see
            `rankplug.models.Model.contributions`. Not for label ranking.

        Raises
        ------
        MlflowException
            With the code INVALID_PARAMETER_VALUE, which a scoring server answers with 400: if
            columns are missing (all are named), not numeric or not finite, if query ids are
            missing or of different kinds, or ranks are wanted without them of a model that was
            trained on several queries, or if a parameter is unknown or has a wrong value.
        """
        try:
            form = answers.parse_form(self._params(params))
            return self._predict(_table_or_array(tables.collected(data)), form)
        except RankplugError as error:
            raise MlflowException.invalid_parameter_value(str(error)) from error

    def _params(self, params: dict[str, Any] | None) -> dict[str, Any]:
        """The parameters, or an error if MLflow has dropped some of them."""
        kept = params or {}
        given = params_of_the_caller(self)
        if not given:
            return kept
        if not isinstance(given, Mapping):
            raise ParameterError(f"params must be a dictionary, not {type(given).__name__}")
        if not kept:
            raise ParameterError(
                f"params {', '.join(map(repr, given))} cannot be used: the signature that the "
                "model was saved with declares none. Save it without a signature of your own, "
                "or with ModelSignature(..., params=rankplug.mlflow.PARAMS)"
            )
        return {**{str(name): value for name, value in given.items()}, **kept}

    def _predict(self, data: Any, form: answers.Form) -> NDArray[np.float64] | pd.DataFrame:
        if form.output == "contributions":
            return answers.contributions(self._model, self._features(data))
        scores = self._model.predict(self._features(data))
        if form.output == "score":
            return scores
        labels = answers.label_names(self._model)
        qid = self._query_ids(data)
        answers.require_queries(self._model, form, qid)
        return answers.answer(scores, form, qid, labels)

    def _features(self, data: Any) -> Any:
        """What the model takes; the columns of a frame by name or, without names, by position."""
        if not tables.is_table(data) or self._model.feature_names is not None:
            return data
        numbered = feature_columns(self._model)
        known = set(numbered)
        of_queries = query_columns(self._model)
        given = [name for name in tables.column_names(data) if name not in of_queries]
        if not known.isdisjoint(given):
            return tables.to_matrix(data, numbered)
        if len(given) != len(numbered):
            raise DataError(
                f"{len(given)} columns beside {QID!r}, but the model has {len(numbered)} features "
                f"without names: pass as many columns, or name them f0 ... f{len(numbered) - 1}"
            )
        return tables.to_matrix(data, given)

    def _query_ids(self, data: Any) -> NDArray[Any] | None:
        there = tables.column_names(data) if tables.is_table(data) else []
        found = [name for name in query_columns(self._model) if name in there]
        return tables.column(data, found[0]) if found else None


def _table_or_array(data: Any) -> Any:
    """Columns in a dictionary and rows in a list of dictionaries as a frame."""
    if isinstance(data, list) and data and all(isinstance(row, dict) for row in data):
        data = [{name: _scalar(value) for name, value in row.items()} for row in data]
    elif not isinstance(data, dict):
        return data
    try:
        return pd.DataFrame(data)
    except (TypeError, ValueError) as error:
        raise DataError(
            f"the columns make no table: {error}. Pass one list of values, all of the same "
            "length, for each column"
        ) from None


def _scalar(value: Any) -> Any:
    """A scoring server makes arrays without dimensions of the numbers in records."""
    return value.item() if isinstance(value, np.ndarray) and value.ndim == 0 else value


def feature_columns(model: Model) -> list[str]:
    """The names of the features: the model's own, else ``f0``, ``f1``, ... by position."""
    if model.feature_names is not None:
        return list(model.feature_names)
    return [f"f{j}" for j in range(model.n_features)]


def default_signature(model: Model, *, any_input: bool = False) -> ModelSignature:
    """Named columns of any type and an optional ``qid`` in, scores out, and `PARAMS`.

    The model checks and converts its features itself; of a column of numbers of one type MLflow
    would refuse most others. With `any_input`, and for models whose features have no names, the
    input is left open: MLflow itself lets arrays and tables that are not of pandas through to the
    model only then, elsewhere `is_checked_by_model` does.
    """
    inputs = None
    if not any_input and model.feature_names is not None:
        anything = AnyType()  # type: ignore[no-untyped-call]
        columns: list[ColSpec | TensorSpec]
        lists = list_columns(model.feature_names)
        columns = [ColSpec(anything, name, required=False) for name in lists]  # or one by one
        columns += [
            ColSpec(anything, name, required=name.rpartition("[")[0] not in lists)
            for name in model.feature_names
        ]
        more = [name for name in query_columns(model) if name not in model.feature_names]
        columns += [ColSpec(anything, name, required=False) for name in more]
        inputs = Schema(columns)
    return ModelSignature(inputs, _output_schema(model), PARAMS)


def is_checked_by_model(data: Any, schema: Schema) -> bool:
    """Whether the model takes the input as it is, instead of a frame of pandas made of it.

    With the schema of `default_signature` these are arrays, sparse matrices and the tables of
    Polars and Arrow. One that the user has written is a promise about the input, and MLflow's.
    """
    if schema.is_tensor_spec() or not all(
        isinstance(kind, AnyType) for kind in schema.input_types()
    ):
        return False
    if isinstance(data, np.ndarray):
        return data.ndim == 2
    if sparse.issparse(data) or tables.is_lazy(data):
        return True
    # What Spark has is not rows in memory.
    return tables.is_table(data) and hasattr(data, "to_pandas")


def plain_example(example: Any, n_rows: int | None = None) -> Any:
    """An input example as MLflow writes it: sparse features as a CSR matrix, tables of pandas.

    Parameters
    ----------
    example : features of any kind
    n_rows : int, optional
        How many rows of it to take; all if omitted.
    """
    if tables.is_lazy(example):
        example = tables.collected(example if n_rows is None else example.head(n_rows))
    if sparse.issparse(example):
        return sparse.csr_matrix(example.tocsr()[:n_rows])
    if tables.is_table(example) and not isinstance(example, pd.DataFrame):
        # As any other frame, whose text is not of a type of Arrow's.
        example = example[:n_rows].to_pandas()
    return example[:n_rows] if n_rows is not None else example


def named_example(model: Model, example: Any) -> Any:
    """A plain input example as a frame that fits the default signature."""
    if model.feature_names is None:
        return example
    columns = list(model.feature_names)
    if hasattr(example, "toarray"):
        example = example.toarray()
    if isinstance(example, np.ndarray) and example.shape[1:] == (model.n_features,):
        return pd.DataFrame(example, columns=columns)
    if isinstance(example, pd.DataFrame) and set(columns) <= set(example.columns):
        more = [name for name in query_columns(model) if name not in columns]
        return example[[*columns, *(name for name in more if name in example.columns)]]
    return example


def query_columns(model: Model) -> list[str]:
    """Where the queries are looked for: in the column of the training, or else in ``qid``.

    Label ranking knows no queries, and a feature may be called ``qid``.
    """
    if model.n_labels is not None:
        return []
    known = [] if model.query_column is None else [model.query_column]
    return known if QID in (*known, *feature_columns(model)) else [*known, QID]


def _output_schema(model: Model) -> Schema:
    if model.n_labels is None:
        return Schema([ColSpec("double")])
    return Schema([TensorSpec(np.dtype(np.float64), (-1, model.n_labels))])
