"""The base class of trained models, which predict, save and load.

A saved model is a folder: ``model.json`` describes it (see `rankplug.models.header`), the rest is
its data. Nothing is pickled.
"""

from __future__ import annotations

import os
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from rankplug.data import (
    Categories,
    Matrix,
    all_finite,
    check_features,
    is_sound,
    refuse_missing,
    tables,
)
from rankplug.exceptions import DataError
from rankplug.models.contributions import Contributions, find_contributions
from rankplug.models.header import write_header
from rankplug.system.files import new_folder

ARRAYS = "arrays.npz"
"""The file of a model's arrays."""


class Model(ABC):
    """A scoring function of features.

    Plugins announce their subclasses to `load_model` by an entry point of the group
    ``rankplug.models`` whose name is the `kind`; those of linear models need none.

    Attributes
    ----------
    feature_names : tuple of str or None
    query_column : str or None
        The column in which the model looks for the queries when it ranks; None if it was not
        trained on several.
    id_columns : tuple of str
        Columns that name the rows, such as a document's id: they are no features, but where the
        data have them, they stand beside the predictions.
    zero_based : bool
        Whether the indices of svmlight text began at 0 in training.
    categories : mapping of int to tuple
        By the number of a feature, the categories that it had in training. Arrays and lists of
        numbers hold their codes 1, 2, ...; whatever is no category is missing.
    """

    kind: ClassVar[str]
    requires: tuple[str, ...] = ()  # packages beyond rankplug's own that it needs to predict
    feature_names: tuple[str, ...] | None = None
    query_column: str | None = None
    id_columns: tuple[str, ...] = ()
    zero_based: bool = False
    categories: Categories = MappingProxyType({})

    def free_features(self) -> set[int]:
        """The features that may hold text and the like; the others are numbers."""
        return set(self.categories)

    @property
    def takes_missing_values(self) -> bool:
        """Whether features may be missing (NaN) when it predicts."""
        return False

    @property
    @abstractmethod
    def n_features(self) -> int:
        """Number of features of a row."""

    @property
    def n_labels(self) -> int | None:
        """Number of labels scored for each row; None if the row itself is scored."""
        return None

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Scores of the rows of `X`, higher is better.

        Parameters
        ----------
        X : array, sparse matrix or table of shape (n_samples, n_features)
            A table's columns are matched by name if the model knows its features' names.

        Returns
        -------
        float64 ndarray of shape (n_samples,), or (n_samples, n_labels) for label ranking

        Raises
        ------
        DataError
            If features are too few or too many, not numeric or not finite (NaN only if the model
            takes no missing values), or so large that a score is not finite.
        """
        rows = self.check_rows(X)
        with np.errstate(over="ignore", invalid="ignore"):
            scores = self._predict(rows)
        if not all_finite(scores) and (wrong := ~np.isfinite(scores)).any():
            raise DataError(
                f"the score of row {np.argwhere(wrong)[0][0]} is not finite: its features are too "
                "large for the model"
            )
        return scores

    def check_rows(self, X: Any) -> Matrix:
        """The features as the model takes them, in its columns; raises as `predict`."""
        if is_sound(X) and X.shape[1] == self.n_features and not self.categories:
            return cast(Matrix, X)
        names = self.feature_names if tables.is_table(X) else None
        matrix, _, has_missing, _ = check_features(X, names, self.categories)
        if matrix.shape[1] != self.n_features:
            raise DataError(
                f"X has {matrix.shape[1]} features, but the model is expecting "
                f"{self.n_features} features as input"
            )
        if has_missing and not self.takes_missing_values:
            refuse_missing(matrix, self.feature_names)
        return matrix

    def contributions(self, X: Any) -> NDArray[np.float64]:
        """What each feature adds to the scores of the rows, and last the rest, a constant.

        Exact for linear, additive and boosted models, sampled for others: `find_contributions`
        says which, and with what error. Only differences within a query count for its order.

        Parameters
        ----------
        X : array, sparse matrix or table of shape (n_samples, n_features)

        Returns
        -------
        float64 ndarray of shape (n_samples, n_features + 1)
            Rows add up to their scores, but for rounding (to float32 where trees are XGBoost's).

        Raises
        ------
        DataError
            As `predict`, and if the model ranks labels.
        """
        found = find_contributions(self, X)
        return np.column_stack((found.values, found.constant))

    def _contributions(self, X: Any) -> Contributions | None:
        """What the features of valid rows add to the scores, if the form of the model tells."""
        return None

    def export(self, file: str | os.PathLike[str], to: str) -> list[str]:
        """Write the model in the format of another system; see `rankplug.exchange`.

        Parameters
        ----------
        file : path
            Appears whole or not at all; an earlier one of that name is replaced.
        to : str
            One of `rankplug.exchange.list_formats`, such as "elasticsearch-ltr" or "onnx".

        Returns
        -------
        list of str
            What the format cannot say, or who uses the file should know.

        Raises
        ------
        ParameterError
            If there is no such format, or it cannot say what the model computes.
        """
        # By its name: writers know all kinds of models, which know none of them.
        notes: list[str] = import_module("rankplug.exchange").export(self, file, to)
        return notes

    def feature_importances(self) -> NDArray[np.float64] | None:
        """How much each feature counts, >= 0; None if the model does not tell.

        Linear models have signed weights instead.
        """
        return None

    def _linear_weights(self) -> NDArray[np.float64] | None:
        """Weights of shape (n_features,) or (n_labels, n_features) that rank so, if any do."""
        return None

    @abstractmethod
    def _predict(self, X: Matrix) -> NDArray[np.float64]:
        """Scores of valid rows."""

    @abstractmethod
    def _write(self, folder: Path) -> dict[str, Any]:
        """Write the model's files into an empty folder; return what the header should keep."""

    @classmethod
    @abstractmethod
    def _read(cls, folder: Path, header: Mapping[str, Any]) -> Model:
        """Read the files again; `header` is what `_write` returned."""

    def save(self, path: str | Path) -> None:
        """Write the model to the folder `path`, which must not exist or be empty.

        The folder appears complete or not at all.

        Raises
        ------
        FileExistsError
            If `path` is a file or a folder with something in it, or another process is faster.
        OSError
            If it cannot be written, as on a full disk; nothing is left of it.
        """
        try:
            with new_folder(path) as folder:
                content = self._write(folder)
                features = self.n_features, self.feature_names
                columns = self.query_column, self.id_columns
                told = self.categories, content
                zero_based = self.zero_based
                write_header(folder, self.kind, *features, *columns, *told, zero_based=zero_based)
        except OSError as error:
            if error.filename is not None or error.errno is None:
                raise
            # Of a write, which does not say where.
            reason = f"{error.strerror or error}: the model cannot be written to"
            raise OSError(error.errno, reason, str(path)) from None


def saved_size(model: Model) -> int:
    """Bytes of the model's files; raises `DataError` if it cannot be saved."""
    with tempfile.TemporaryDirectory() as parent:
        folder = Path(parent, "model")
        model.save(folder)
        return sum(file.stat().st_size for file in folder.iterdir())
