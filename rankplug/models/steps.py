"""Steps of pipelines before a model: features filled in, put into bins, chosen.

A step is kept as JSON and arrays, and each of its numbers is checked before it is used. What these
steps do is plain NumPy, so no object of scikit-learn's, with its private attributes, need be made
again of what a file holds; those whose arithmetic is longer are in `rankplug.models.scikit_steps`,
encoders in `rankplug.models.encoding`, steps side by side in `rankplug.models.step_trees`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from typing_extensions import override

from rankplug.data import tables
from rankplug.models.header import is_text

MOST_COLUMNS = 2**20
"""Of what a step makes: far more than pipelines have, and a row of them takes 8 MB."""

Params: TypeAlias = dict[str, Any]
Arrays: TypeAlias = dict[str, NDArray[Any]]


class Step(ABC):
    """A transformation of features.

    Attributes
    ----------
    kind : str
    n_in, n_out : int
        Columns that it takes, and that it makes.
    """

    kind: ClassVar[str]
    n_in: int
    n_out: int

    @abstractmethod
    def apply(self, X: Any) -> Any:
        """The transformed rows; raises `ValueError` if they are none that it takes."""

    @abstractmethod
    def write(self) -> tuple[Params, Arrays]:
        """What the step consists of: plain values for JSON, and arrays."""

    @classmethod
    @abstractmethod
    def read(cls, kind: str, params: Mapping[str, Any], arrays: Arrays, n_in: int) -> Self:
        """The step again; raises `ValueError` or the like if its parts do not fit together."""

    def free_columns(self) -> set[int]:
        """Columns that may hold anything, text too; the others hold numbers."""
        return set()

    @abstractmethod
    def origins(self) -> NDArray[np.int64] | None:
        """The one column that each made one is a function of; None if there are several."""

    @property
    def takes_missing(self) -> bool | None:
        """Whether it says itself what becomes of missing values; None leaves them as they are."""
        return None


def as_numbers(X: Any) -> Any:
    """Features as a float array or a sparse matrix; raises `ValueError` if they hold text."""
    if sparse.issparse(X) or X.dtype.kind == "f":
        return X
    numbers = tables.numbers_or_same(X)
    if numbers.dtype.kind not in "fiub":
        odd = next(value for value in X.flat if not tables.is_number(value))
        raise ValueError(f"{odd!r:.40} is not a number")
    return numbers.astype(np.float64)


def as_objects(X: Any) -> NDArray[Any]:
    """Any features as an array of objects; None stands for what is missing."""
    dense = np.asarray(X.toarray() if sparse.issparse(X) else X)
    objects = dense.astype(object)
    if dense.dtype.kind == "f":
        objects[np.isnan(dense)] = None
    elif dense.dtype.kind == "O":
        for place, value in enumerate(objects.flat):
            if tables.is_missing(value):
                objects.flat[place] = None
    return objects


@dataclass(frozen=True, eq=False)
class ImputeStep(Step):
    """Something in place of missing values, and columns that say where they were.

    Attributes
    ----------
    statistics : tuple of number, str or None
        What stands for missing values of each column; None leaves the column out.
    missing : number, str or None
        What is missing; None is NaN.
    indicated : int64 ndarray
        Columns for which a column of 0 and 1 is added.
    """

    kind = "SimpleImputer"

    statistics: tuple[Any, ...]
    missing: Any
    indicated: NDArray[np.int64]

    def __post_init__(self) -> None:
        if not all(one is None or is_value(one) for one in (*self.statistics, self.missing)):
            raise ValueError("statistics that are neither numbers nor text")
        _require_within(self.indicated, len(self.statistics))

    @property
    @override
    def n_in(self) -> int:  # type: ignore[override]
        return len(self.statistics)

    @property
    @override
    def n_out(self) -> int:  # type: ignore[override]
        return sum(one is not None for one in self.statistics) + len(self.indicated)

    @property
    @override
    def takes_missing(self) -> bool:
        return self.missing is None

    @override
    def free_columns(self) -> set[int]:
        """Those that are filled with text."""
        text = isinstance(self.missing, str)
        return {j for j, one in enumerate(self.statistics) if text or isinstance(one, str)}

    @override
    def origins(self) -> NDArray[np.int64]:
        return np.concatenate((self._kept(), self.indicated))

    def _kept(self) -> NDArray[np.int64]:
        return np.array([j for j, one in enumerate(self.statistics) if one is not None], dtype=int)

    @override
    def apply(self, X: Any) -> Any:
        kept = self._kept()
        values = [self.statistics[j] for j in kept]
        if sparse.issparse(X):
            return self._apply_to_sparse(X, kept, values)
        numbers = not self.free_columns()
        rows = as_numbers(X) if numbers else as_objects(X)
        if numbers:
            missing = np.isnan(rows) if self.missing is None else rows == self.missing
            fill = np.array(values, dtype=rows.dtype)
        else:
            missing = np.array([[one == self.missing for one in row] for row in rows], dtype=bool)
            fill = np.array(values, dtype=object)
        filled = np.where(missing[:, kept], fill, rows[:, kept])
        if not len(self.indicated):
            return filled
        return np.hstack([filled, missing[:, self.indicated].astype(filled.dtype)])

    def _apply_to_sparse(self, X: Any, kept: NDArray[Any], values: list[Any]) -> Any:
        """Only what is stored may be missing."""
        if self.missing == 0:
            raise ValueError("zeros of sparse features cannot be imputed: pass X.toarray()")
        matrix = sparse.csr_array(X)
        missing = np.isnan(matrix.data) if self.missing is None else matrix.data == self.missing
        fill = np.zeros(self.n_in)
        fill[kept] = values
        filled = sparse.csr_array(
            (np.where(missing, fill[matrix.indices], matrix.data), matrix.indices, matrix.indptr),
            shape=matrix.shape,
        )[:, kept]
        if not len(self.indicated):
            return filled
        marks = (missing.astype(np.float64), matrix.indices, matrix.indptr)
        where = sparse.csr_array(marks, shape=matrix.shape)[:, self.indicated]
        where.eliminate_zeros()
        return sparse.csr_array(sparse.hstack([filled, where]))

    @override
    def write(self) -> tuple[Params, Arrays]:
        params = {"statistics": list(self.statistics), "missing": self.missing}
        return params, {"indicated": self.indicated}

    @classmethod
    @override
    def read(cls, kind: str, params: Mapping[str, Any], arrays: Arrays, n_in: int) -> Self:
        require(len(params["statistics"]) == n_in, f"statistics of {n_in} columns")
        return cls(tuple(params["statistics"]), params["missing"], integers(arrays["indicated"]))


@dataclass(frozen=True, eq=False)
class BinStep(Step):
    """The number of the bin of each value.

    Attributes
    ----------
    edges : tuple of float64 ndarray
        The inner edges of each column's bins, ascending; an edge belongs to the bin above it.
    """

    kind = "KBinsDiscretizer"

    edges: tuple[NDArray[np.float64], ...]

    def __post_init__(self) -> None:
        for one in self.edges:
            require(bool(np.all(np.diff(one) >= 0)), "edges that do not ascend")

    @property
    @override
    def n_in(self) -> int:  # type: ignore[override]
        return len(self.edges)

    n_out = n_in

    @override
    def origins(self) -> NDArray[np.int64]:
        return np.arange(self.n_in)

    @override
    def apply(self, X: Any) -> Any:
        if sparse.issparse(X):
            raise ValueError("bins are made of dense features: pass X.toarray()")
        rows = as_numbers(X)
        if np.isnan(rows).any():
            raise ValueError("missing values (NaN) have no bin: impute them before")
        bins = np.empty_like(rows)
        for j, edges in enumerate(self.edges):
            bins[:, j] = np.searchsorted(edges, rows[:, j], side="right")
        return bins

    @override
    def write(self) -> tuple[Params, Arrays]:
        sizes = np.array([len(one) for one in self.edges], dtype=np.int64)
        return {}, {"edges": np.concatenate(self.edges), "sizes": sizes}

    @classmethod
    @override
    def read(cls, kind: str, params: Mapping[str, Any], arrays: Arrays, n_in: int) -> Self:
        edges, sizes = arrays["edges"].astype(np.float64), integers(arrays["sizes"])
        require(sizes.shape == (n_in,) and bool(np.all(sizes >= 0)), "sizes")
        require(int(np.max(sizes, initial=0)) <= edges.size == int(sizes.sum()), "edges")
        return cls(tuple(np.split(edges, np.cumsum(sizes)[:-1])))


@dataclass(frozen=True, eq=False)
class SelectStep(Step):
    """Some of the columns."""

    kind = "columns"

    n_in: int
    columns: NDArray[np.int64]

    def __post_init__(self) -> None:
        _require_within(self.columns, self.n_in)

    @property
    @override
    def n_out(self) -> int:  # type: ignore[override]
        return len(self.columns)

    @override
    def origins(self) -> NDArray[np.int64]:
        return self.columns

    @override
    def free_columns(self) -> set[int]:
        """Those that are left out."""
        return set(range(self.n_in)) - set(self.columns.tolist())

    @override
    def apply(self, X: Any) -> Any:
        return X[:, self.columns]

    @override
    def write(self) -> tuple[Params, Arrays]:
        return {}, {"columns": self.columns}

    @classmethod
    @override
    def read(cls, kind: str, params: Mapping[str, Any], arrays: Arrays, n_in: int) -> Self:
        return cls(n_in, integers(arrays["columns"]))


def free_columns(steps: Sequence[Step]) -> set[int]:
    """The columns of which the first of these steps says that they may hold anything."""
    return steps[0].free_columns() if steps else set()


def origins(steps: Sequence[Step], n_in: int) -> NDArray[np.int64] | None:
    """The first step's column that each of the last one's is a function of, if it is one."""
    found = np.arange(n_in)
    for step in steps:
        made = step.origins()
        if made is None:
            return None
        found = found[made]
    return found


def handles_missing(steps: Sequence[Step], otherwise: bool) -> bool:
    """Whether missing values may come to these steps, and then to what takes them or does not."""
    for step in steps:
        if step.takes_missing is not None:
            return step.takes_missing
    return otherwise


def integers(values: NDArray[Any]) -> NDArray[np.int64]:
    """A vector of whole numbers; raises `ValueError` if it is none."""
    require(values.ndim == 1 and bool(np.all(values % 1 == 0)), "numbers that are not whole")
    require(bool(np.all(np.abs(values) < 2**53)), "numbers")
    return values.astype(np.int64)


def _require_within(columns: NDArray[np.int64], n_in: int) -> None:
    right = np.all((columns >= 0) & (columns < n_in)) and len(columns) <= MOST_COLUMNS
    require(bool(right), "columns that do not exist")


def is_value(value: Any) -> bool:
    """A truth value, a finite number or text."""
    if isinstance(value, str):
        return is_text(value)
    return isinstance(value, int | float) and bool(np.isfinite(value))


def require(right: bool, what: str) -> None:
    """Raise `ValueError` if something that a file says is not right."""
    if not right:
        raise ValueError(f"{what} cannot be right")
