"""What is evaluated: relevance, scores and queries, from whatever MLflow's evaluate was given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from mlflow.types import DataType
from numpy.typing import ArrayLike, NDArray

from rankplug.exceptions import DataError, ParameterError, nearest

__all__ = ["RankedRows", "ranked_rows"]


@dataclass(frozen=True)
class RankedRows:
    """Rows with their relevance, scores and query ids (None: one query)."""

    relevance: ArrayLike
    scores: ArrayLike
    qid: ArrayLike | None


def ranked_rows(model: Any, dataset: Any, qid: Any, predictions: str | None) -> RankedRows:
    """Scores of a model, or the static ones of the data set, with relevance and queries.

    Parameters
    ----------
    model : pyfunc model or None
        None: the scores are the data set's predictions. A model whose signature names columns
        gets these, integers as floating-point numbers and query ids as text where it asks for
        that; one without a signature gets all but the query ids; a function gets everything.
    dataset : mlflow.data.evaluation_dataset.EvaluationDataset
    qid : str, array-like or None
        Column of the query ids, or the ids of all rows; None: all rows are one query.
    predictions : str, optional
        The column that holds the scores, if the model returns several.

    Raises
    ------
    DataError
        If there are no targets, no scores, or no such column.
    """
    if dataset.labels_data is None:
        raise DataError(
            "the evaluation has no relevance labels: name their column with targets=..., or in "
            "the data set, as in mlflow.data.from_pandas(frame, targets='label')"
        )
    features = dataset.features_data
    ids = _query_ids(features, qid)
    if model is None:
        if dataset.predictions_data is None:
            raise DataError(
                "nothing to evaluate: pass a model, or name the column of scores with "
                "predictions=... (in the data set, if that is what you pass)"
            )
        scores = dataset.predictions_data
    else:
        scores = _scores(model.predict(_input_of(model, features, qid)), predictions)
    return RankedRows(dataset.labels_data, scores, ids)


def _query_ids(features: Any, qid: Any) -> ArrayLike | None:
    if qid is None:
        return None
    if not isinstance(qid, str):
        return np.asarray(qid)
    if not isinstance(features, pd.DataFrame):
        raise ParameterError(
            "the features are an array, which has no columns: give evaluator_config={'qid': ...} "
            "the query ids of all rows, or None if all rows are one query"
        )
    if qid not in features.columns:
        raise DataError(
            f"no column {qid!r}{nearest(qid, map(str, features.columns))}: name the column of the "
            "query ids with evaluator_config={'qid': ...}, or give None if all rows are one query"
        )
    return features[qid].to_numpy()


def _input_of(model: Any, features: Any, qid: Any) -> Any:
    """The features as the model's signature wants them."""
    if not isinstance(features, pd.DataFrame) or not hasattr(model, "metadata"):
        return features
    schema = None if model.metadata is None else model.metadata.get_input_schema()
    if schema is None or not schema.has_input_names() or schema.is_tensor_spec():
        return features.drop(columns=qid) if isinstance(qid, str) else features
    types = {
        column.name: wanted
        for column in schema.inputs
        if column.name in features.columns
        and (wanted := _wanted_type(column.type, features[column.name])) is not None
    }
    # MLflow leaves out columns that are too many, and tells of missing ones.
    return features.astype(types)


def _wanted_type(declared: Any, values: pd.Series[Any]) -> Any:
    """What to convert a column to, as MLflow would refuse to."""
    if declared == DataType.double and values.dtype.kind in "iub":
        return np.float64
    if declared == DataType.string and values.dtype.kind in "iuf":
        return str
    return None


def _scores(output: Any, predictions: str | None) -> NDArray[Any]:
    if isinstance(output, pd.DataFrame):
        column = predictions or (output.columns[0] if output.shape[1] == 1 else "score")
        if column not in output.columns:
            names = ", ".join(map(str, output.columns))
            raise DataError(
                f"the model returns the columns {names}: say which one holds the scores with "
                "predictions=..."
            )
        return output[column].to_numpy()
    return np.asarray(output)
