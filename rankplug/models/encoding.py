"""Encoding of categories in pipelines: one-hot, as columns of 0 and 1, or ordinal, as a number."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from typing_extensions import override

from rankplug.data import find_category
from rankplug.models.steps import (
    MOST_COLUMNS,
    Arrays,
    Params,
    Step,
    as_objects,
    integers,
    is_value,
    require,
)


@dataclass(frozen=True, eq=False)
class EncodeStep(Step):
    """Categories as columns of 0 and 1, or as a number.

    Attributes
    ----------
    kind : "OneHotEncoder" or "OrdinalEncoder"
    categories : tuple of tuple of number, str or None
        Of each column; None is what is missing.
    codes : float64 ndarray
        Of all categories, one column behind the other: the place of the 1 among the columns that
        its own becomes, -1 for none; or the number, which may be NaN.
    widths : int64 ndarray of shape (n_in,)
        Columns that each becomes.
    unknown : tuple of float or None
        The code of any other value of each column; None refuses it.
    sparse : bool
    dtype : "float64", "float32" or "same"
        Of what it makes; "same" as the numbers that it gets.
    """

    kind: str  # type: ignore[misc]
    categories: tuple[tuple[Any, ...], ...]
    codes: NDArray[np.float64]
    widths: NDArray[np.int64]
    unknown: tuple[float | None, ...]
    sparse: bool = False
    dtype: str = "float64"

    def __post_init__(self) -> None:
        n_in, sizes = len(self.categories), [len(values) for values in self.categories]
        require(self.dtype in ("float64", "float32", "same"), "dtype")
        require(n_in == len(self.widths) == len(self.unknown), "categories of some columns only")
        require(len(self.codes) == sum(sizes), "codes of some categories only")
        require(bool(np.all(self.widths >= 0)), "columns")
        require(int(self.widths.sum()) <= MOST_COLUMNS, "more columns than a step may make")
        for values in self.categories:
            right = all(one is None or is_value(one) for one in values)
            require(right and len(set(values)) == len(values), "categories")
        if self.kind == "OneHotEncoder":
            widths = np.repeat(self.widths, sizes)
            given = [(one, w) for one, w in zip(self.unknown, self.widths, strict=True)]
            places = np.array([-1 if one is None else one for one, _ in given])
            right = (self.codes >= -1) & (self.codes < widths) & (self.codes % 1 == 0)
            others = (places >= -1) & (places < self.widths) & (places % 1 == 0)
            require(bool(right.all() and others.all()), "codes beyond the columns")
        else:
            require(bool(np.all(self.widths == 1)), "columns")
            require(not np.isinf(self.codes).any(), "codes")
            finite = [one for one in self.unknown if one is not None]
            require(not np.isinf(finite).any(), "codes")

    @property
    @override
    def n_in(self) -> int:  # type: ignore[override]
        return len(self.categories)

    @property
    @override
    def n_out(self) -> int:  # type: ignore[override]
        return int(self.widths.sum())

    @property
    @override
    def takes_missing(self) -> bool:
        return True

    @override
    def origins(self) -> NDArray[np.int64]:
        return np.repeat(np.arange(self.n_in), self.widths)

    @override
    def free_columns(self) -> set[int]:
        """All: any value is a category, or none that is known."""
        return set(range(self.n_in))

    @override
    def apply(self, X: Any) -> Any:
        rows = as_objects(X)
        codes = np.empty(rows.shape)
        ends = np.cumsum([len(values) for values in self.categories])
        for j, values in enumerate(self.categories):
            known = dict(zip(values, self.codes[ends[j] - len(values) : ends[j]], strict=True))
            codes[:, j] = self._column(rows[:, j], known, j)
        dtype = X.dtype if self.dtype == "same" and X.dtype == np.float32 else self.dtype
        dtype = np.dtype("float64" if dtype == "same" else dtype)
        if self.kind == "OrdinalEncoder":
            return codes.astype(dtype, copy=False)
        starts = np.cumsum(self.widths) - self.widths
        row, column = np.nonzero(codes >= 0)
        places = (codes[row, column] + starts[column]).astype(np.int64)
        shape = (len(rows), self.n_out)
        ones = sparse.csr_array((np.ones(len(row), dtype), (row, places)), shape=shape)
        return ones if self.sparse else ones.toarray()

    def _column(self, values: NDArray[Any], known: Mapping[Any, float], j: int) -> list[float]:
        unknown = self.unknown[j]
        found = []
        for value in values.tolist():
            code = find_category(value, known)
            if code is None:
                if unknown is None:
                    raise ValueError(
                        f"{value!r:.40} in column {j} is none of the categories it was trained on"
                    )
                code = unknown
            found.append(code)
        return found

    @override
    def write(self) -> tuple[Params, Arrays]:
        params = {
            "categories": [list(values) for values in self.categories],
            "unknown": ["NaN" if one != one else one for one in self.unknown],
            "sparse": self.sparse,
            "dtype": self.dtype,
        }
        known = ~np.isnan(self.codes)  # files hold finite numbers
        codes = np.where(known, self.codes, 0.0)
        return params, {"codes": codes, "known": known.astype(np.float64), "widths": self.widths}

    @classmethod
    @override
    def read(cls, kind: str, params: Mapping[str, Any], arrays: Arrays, n_in: int) -> Self:
        require(len(params["categories"]) == n_in, f"categories of {n_in} columns")
        unknown = tuple(np.nan if one == "NaN" else one for one in params["unknown"])
        require(all(one is None or isinstance(one, int | float) for one in unknown), "unknown")
        require(type(params["sparse"]) is bool, "sparse")
        categories = tuple(tuple(values) for values in params["categories"])
        codes = np.where(arrays["known"] > 0, arrays["codes"], np.nan).astype(np.float64)
        widths = integers(arrays["widths"])
        more = params["sparse"], params["dtype"]
        return cls(kind, categories, codes, widths, unknown, *more)
