"""scikit-learn pipelines of transformers and a ranker, as models that need no pickle."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from rankplug.data import (
    Categories,
    Matrix,
    as_matrix,
    describe_categories,
    encode_categories,
    tables,
)
from rankplug.data.arrays import plain_array
from rankplug.exceptions import DataError, ModelFormatError, ParameterError
from rankplug.models.base import Model
from rankplug.models.contributions import Contributions
from rankplug.models.conversion import SAVED, convert_step, find_unknown
from rankplug.models.scikit_steps import ShapeError
from rankplug.models.step_trees import (
    NamedStep,
    ParallelStep,
    Part,
    StepError,
    origin,
    read_steps,
    write_steps,
)
from rankplug.models.steps import MOST_COLUMNS, Step, free_columns, handles_missing, origins
from rankplug.models.wrapped import WrappedModel
from rankplug.system.files import load_numbers

_FILE = "pipeline.npz"
_BLOCK_ELEMENTS = 1 << 23  # of what the widest step makes at once: 64 MB of float64


class PipelineModel(WrappedModel):
    """Scores features that scikit-learn's own transformers have transformed before.

    Parameters
    ----------
    scalers : sequence of (str, transformer)
        Names and fitted transformers in the order in which they are applied; see
        `rankplug.models.conversion.SAVED`.
    model : Model
        Scores what the last of them returns.
    feature_names : sequence of str, optional
        Names of the features that the first of them takes.

    Notes
    -----
    A transformer is saved as plain values and arrays, which are checked before they are used. The
    scores are those of the pipeline to the last bit. (float16 features become float32 before,
    which scikit-learn itself does not do.) Columns that an encoder takes, or that are filled with
    text, may hold anything; the others hold numbers. None, NaN and the like are one missing value.
    """

    kind = "pipeline"

    def __init__(
        self, scalers: Sequence[tuple[str, Any]], model: Model, feature_names: Any = None
    ) -> None:
        super().__init__(model)
        self.steps: list[NamedStep] = []
        for name, one in scalers:
            if isinstance(one, Step):
                self.steps.append(NamedStep(name, one))
            else:
                self.steps += convert_step(name, one, int(one.n_features_in_))
        self.feature_names = None if feature_names is None else tuple(map(str, feature_names))
        self.categories = self._own_categories()

    def _own_categories(self) -> Categories:
        """The categories of the model within, by the number of a feature of the pipeline."""
        own = {origin(self.steps, j): values for j, values in self.model.categories.items()}
        if None in own:
            found = describe_categories(self.model.categories, self.model.feature_names)
            raise ParameterError(
                f"the pipeline changes categories that its last step takes, {found}, or uses them "
                "twice: encode them, as by OneHotEncoder"
            )
        return {j: values for j, values in own.items() if j is not None}

    @property
    def n_features(self) -> int:
        """Number of features that the first step takes."""
        return self.steps[0].step.n_in if self.steps else self.model.n_features

    @property
    def takes_missing_values(self) -> bool:
        """If a step imputes or encodes them, or else as the model within."""
        steps = [one.step for one in self.steps]
        return handles_missing(steps, self.model.takes_missing_values)

    def free_features(self) -> set[int]:
        """The features that may hold anything, such as text."""
        return free_columns([one.step for one in self.steps]) | set(self.categories)

    def check_rows(self, X: Any) -> Any:
        """The features as the first step takes them; raises as `predict`."""
        return X if isinstance(X, MixedColumns) else self._check_columns(X)

    def _check_columns(self, X: Any) -> Any:
        free = self.free_features()
        X = tables.collected(X)
        if free == set(self.categories) or sparse.issparse(X):
            return super().check_rows(X)
        if tables.is_table(X):
            names = self.feature_names or tables.column_names(X)
            columns = tables.columns_or_numbers(
                X, names, {name for j, name in enumerate(names) if j not in free}
            )
        else:
            array = plain_array(X, "X")
            if array.dtype.kind in "UT" and not isinstance(X, np.ndarray):
                array = np.array(X, dtype=object)  # numbers beside text stay numbers
            if array.dtype.kind not in "OUT" or array.ndim != 2:
                return super().check_rows(X)
            names = None
            columns = [tables.numbers_or_same(array[:, j]) for j in range(array.shape[1])]
        if len(columns) != self.n_features:
            raise DataError(
                f"X has {len(columns)} features, but the model is expecting {self.n_features} "
                "features as input"
            )
        if not len(columns[0]):
            raise DataError("X has no rows (0 samples): at least one is needed")
        for j, values in self.categories.items():
            columns[j] = encode_categories(columns[j], values)
        numbers = [j for j, values in enumerate(columns) if tables.holds_numbers(values)]
        if len(numbers) == len(columns) and not isinstance(self.steps[0].step, ParallelStep):
            matrix = tables.side_by_side(columns)
            return as_matrix(matrix, names, allow_missing=self.takes_missing_values)[0]
        for j in numbers:
            name = None if names is None else [names[j]]
            as_matrix(columns[j][:, None], name, allow_missing=self.takes_missing_values)
        return MixedColumns(columns)

    def _predict(self, X: Matrix) -> NDArray[np.float64]:
        widest = max([self.n_features, *(one.step.n_out for one in self.steps)])
        step = max(1, _BLOCK_ELEMENTS // widest)
        if X.shape[0] <= step or sparse.issparse(X):
            return self._predict_block(X)
        begins = range(0, X.shape[0], step)
        return np.concatenate([self._predict_block(X[one : one + step]) for one in begins])

    def _predict_block(self, X: Any) -> NDArray[np.float64]:
        return self.model.predict(self._transform(X))

    def _transform(self, X: Any) -> Any:
        try:
            for one in self.steps:
                X = one.apply(X)
        except StepError as error:
            raise DataError(str(error)) from None
        return X

    def _contributions(self, X: Any) -> Contributions | None:
        of_columns = origins([one.step for one in self.steps], self.n_features)
        if of_columns is None:
            return None
        found = self.model._contributions(self.model.check_rows(self._transform(X)))
        return None if found is None else found.to_features(of_columns, self.n_features)

    def _write(self, folder: Path) -> dict[str, Any]:
        extra = self.model._write(folder)
        arrays: dict[str, Any] = {}
        steps = write_steps(self.steps, arrays)
        np.savez(folder / _FILE, allow_pickle=False, **arrays)
        head = {"kind": self.model.kind, "model": extra, "steps": steps}
        return (
            head if self.n_features == self.model.n_features else head | {"n_in": self.n_features}
        )

    @classmethod
    def _read(cls, folder: Path, header: Mapping[str, Any]) -> PipelineModel:
        model, file = cls._read_wrapped(folder, header), folder / _FILE
        n_in = header.get("n_in", model.n_features)
        try:
            if type(n_in) is not int or not 0 < n_in <= max(MOST_COLUMNS, model.n_features):
                raise ValueError(f"{n_in!r} features")
            steps = read_steps(header["steps"], lambda name: load_numbers(file, name)[name], n_in)
        except ShapeError as error:
            raise ModelFormatError(f"{file}: {error}") from None
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            if isinstance(error, ModelFormatError):
                raise
            raise ModelFormatError(
                f"{folder}: the description of the pipeline's steps is damaged: "
                f"{type(error).__name__} {error}"
            ) from None
        made = steps[-1].step.n_out if steps else n_in
        if made != model.n_features:
            raise ModelFormatError(
                f"{file} does not fit {model.n_features} features: the steps make {made}"
            )
        return cls(steps, model)


class MixedColumns:
    """Columns of numbers and of anything else; those that are chosen are an array."""

    def __init__(self, columns: Sequence[NDArray[Any]]) -> None:
        self._columns = columns
        self.shape = (len(columns[0]), len(columns))

    def mix(self, start: int, own: NDArray[np.bool_]) -> MixedColumns:
        """All rows once for each line of `own`: of each column what is theirs, or that row's."""
        n_times, n_rows = len(own), self.shape[0]
        of_rows = np.repeat(own, n_rows, axis=0)
        return MixedColumns(
            [
                np.where(of_rows[:, j], np.tile(values, n_times), values[start])
                for j, values in enumerate(self._columns)
            ]
        )

    def exchanged(self, column: int, order: NDArray[np.int64]) -> MixedColumns:
        """The rows, but one column's values in another order."""
        columns = list(self._columns)
        columns[column] = columns[column][order]
        return MixedColumns(columns)

    def __array__(self, dtype: Any = None, copy: Any = None) -> NDArray[Any]:
        return np.asarray(self[:, np.arange(self.shape[1])], dtype=dtype)

    def __getitem__(self, key: Any) -> Any:
        if not isinstance(key, tuple):
            return MixedColumns([values[key] for values in self._columns])
        rows, chosen = key
        columns = [self._columns[j][rows] for j in chosen]
        if all(map(tables.holds_numbers, columns)):
            return tables.side_by_side(columns)
        found = np.empty((len(columns[0]), len(columns)), dtype=object)
        for j, values in enumerate(columns):
            found[:, j] = values
        return found


def pipeline_model(pipeline: Pipeline, model: Model) -> PipelineModel:
    """The model of a fitted pipeline whose last step has trained `model`.

    Columns of a table that no step uses, as a ColumnTransformer drops them, are no features of it.

    Raises
    ------
    ParameterError
        If a step is no transformer that can be saved, or is not fitted; all such steps are named.
    """
    *before, _ = flat_steps(pipeline)
    scalers = [(name, step) for name, step in before if step not in (None, "passthrough")]
    wrong = [one for name, step in scalers for one in find_unknown(name, step)]
    if wrong:
        raise ParameterError(
            f"pipeline steps that cannot be saved without pickle: {', '.join(wrong)}; those that "
            f"can are {SAVED}. Transform the features before the pipeline, or save its last step "
            "alone: save_model(pipeline[-1], ...)"
        )
    steps: list[tuple[str, Any]] = []
    for name, step in scalers:
        try:
            check_is_fitted(step)
            n_in = getattr(step, "n_features_in_", None)
            steps += convert_step(name, step, steps[-1][1].n_out if n_in is None else int(n_in))
        except NotFittedError:
            raise ParameterError(
                f"the pipeline's step {name!r} is not fitted: call the pipeline's fit"
            ) from None
        except ValueError as error:
            raise ParameterError(
                f"the pipeline's step {name!r} ({type(step).__name__}) cannot be saved: {error}"
            ) from None
    names = getattr(pipeline, "feature_names_in_", None) if scalers else model.feature_names
    if names is not None and steps and isinstance(steps[0][1], ParallelStep):
        used, first = _without_unused(steps[0][1])
        steps[0], names = (steps[0][0], first), [names[j] for j in used]
    return PipelineModel(steps, model, names)


def _without_unused(step: ParallelStep) -> tuple[list[int], ParallelStep]:
    """The columns that some part takes, and the step for these alone."""
    used = sorted({column for part in step.parts for column in part.columns.tolist()})
    place = {column: j for j, column in enumerate(used)}
    parts = [
        Part(np.array([place[one] for one in columns.tolist()], dtype=np.int64), steps, weight)
        for columns, steps, weight in step.parts
    ]
    return used, ParallelStep(len(used), tuple(parts), step.sparse)


def flat_steps(pipeline: Pipeline) -> Iterator[tuple[str, Any]]:
    """Names and steps in order, those of pipelines within the pipeline among them."""
    for name, step in pipeline.steps:
        if isinstance(step, Pipeline):
            yield from ((f"{name}.{inner}", part) for inner, part in flat_steps(step))
        else:
            yield name, step
