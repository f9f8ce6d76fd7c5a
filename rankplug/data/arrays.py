"""Arrays as solvers want them: features, real values and query ids, checked once."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, NoReturn, TypeAlias, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from rankplug.data import tables
from rankplug.data.blocks import JoinedMatrix
from rankplug.data.categories import Categories, encode_objects, read_features, require_codes
from rankplug.exceptions import DataError

Matrix: TypeAlias = "NDArray[np.float32] | NDArray[np.float64] | sparse.csr_array"

_FLOATS = (np.dtype(np.float64), np.dtype(np.float32))
_PIECE = 8192  # numbers in a sum of squares, for more of which BLAS would start threads
_SAMPLE_ROWS = 1000
_MOST_NAMED = 10  # columns, so that a message stays readable
_FAR = 10.0  # deviations from 0: the mean of a column that lies far from it


def as_matrix(
    X: Any, feature_names: Sequence[str] | None = None, *, allow_missing: bool = False
) -> tuple[Matrix, tuple[str, ...] | None]:
    """Features as a C-contiguous float array or canonical `csr_array`, with their names.

    float32 and float64 are kept (float16 becomes float32, other numbers float64); nothing is
    copied that already has the right form, and the caller's arrays are never changed.

    Raises
    ------
    DataError
        If `X` is empty, not two-dimensional, not numeric, or holds infinity, or NaN unless
        missing values are allowed.
    """
    matrix, names, _ = _features(X, feature_names, {}, False)
    _find_missing(matrix, names, allowed=allow_missing)
    return matrix, names


def is_sound(X: Any) -> bool:
    """Whether `X` is at once known to be what `check_features` would return as it is, all finite.

    That is what most requests for a score hold: a C-contiguous float array of finite numbers. For
    False nothing is known.
    """
    return (
        type(X) is np.ndarray
        and X.dtype in _FLOATS
        and X.ndim == 2
        and X.size > 0
        and X.flags.c_contiguous
        and all_finite(X)
    )


def all_finite(values: NDArray[np.floating[Any]]) -> bool:
    """Whether sums of squares prove that no value is infinite or NaN; False proves nothing."""
    flat = values.ravel()
    parts = (flat[b : b + _PIECE] for b in range(0, flat.size, _PIECE))
    return all(math.isfinite(np.vdot(part, part)) for part in parts)  # which warns of no overflow


class CheckedFeatures(NamedTuple):
    """Features as a matrix, their names, whether a value is missing, and their categories."""

    matrix: Matrix
    names: tuple[str, ...] | None
    has_missing: bool
    categories: dict[int, tuple[Any, ...]]


def check_features(
    X: Any,
    feature_names: Sequence[str] | None = None,
    categories: Categories | None = None,
    *,
    category_numbers: bool = False,
) -> CheckedFeatures:
    """As `as_matrix` where missing values are allowed, and columns of categories and of lists.

    Parameters
    ----------
    X : array, sparse matrix or table
    feature_names : sequence of str, optional
    categories : mapping of int to tuple, optional
        Those that columns have; an array of numbers holds their codes. If omitted, those of a
        table's columns are learnt.
    category_numbers : bool
        Whether categories that are numbers are learnt as such.
    """
    matrix, names, found = _features(X, feature_names, categories, category_numbers)
    return CheckedFeatures(matrix, names, _find_missing(matrix, names, allowed=True), found)


def _features(
    X: Any,
    feature_names: Sequence[str] | None,
    categories: Categories | None,
    category_numbers: bool,
) -> tuple[Matrix, tuple[str, ...] | None, dict[int, tuple[Any, ...]]]:
    """Features as a matrix, their names and categories; the values are not looked at."""
    if isinstance(X, JoinedMatrix):  # made by a map of features that were checked
        return cast(Any, X), None if feature_names is None else tuple(feature_names), {}
    names: list[str] | None
    X = tables.collected(X)
    found = dict(categories or {})
    if tables.is_table(X):
        read = read_features(X, feature_names, categories, numbers_too=category_numbers)
        matrix: Matrix = read.matrix
        names, found = read.names, read.categories
    else:
        names = None if feature_names is None else [str(name) for name in feature_names]
        if categories and not sparse.issparse(X):
            X = encode_objects(X, categories)
        matrix = _csr(X) if sparse.issparse(X) else _dense(X)
        if categories:
            require_codes(matrix, categories)
    if matrix.shape[0] == 0:
        raise DataError("X has no rows (0 samples): at least one is needed")
    if matrix.shape[1] == 0:
        raise DataError("X has no columns (0 feature(s)): at least one is needed")
    if names is not None and len(names) != matrix.shape[1]:
        raise DataError(f"{len(names)} feature names for {matrix.shape[1]} columns of X")
    return matrix, None if names is None else tuple(names), found


def real_vector(values: ArrayLike, what: str, n_samples: int) -> NDArray[np.float64]:
    """One finite number for each row of `X`; raises `DataError` that calls them `what`."""
    vector = real_array(values, what)
    if vector.ndim == 2 and vector.shape[1] == 1:
        vector = vector.ravel()
    if vector.ndim != 1:
        raise DataError(f"{what} has {vector.ndim} dimensions; it needs one value per row of X")
    if len(vector) != n_samples:
        raise DataError(f"X has {n_samples} rows but {what} has {len(vector)} values")
    return vector


def real_array(values: Any, what: str, *, allow_nan: bool = False) -> NDArray[np.float64]:
    """Numbers as a float64 array without infinity and, by default, without NaN."""
    given = tables.numbers_or_same(plain_array(values, what))
    if given.dtype.kind == "c":
        raise DataError(f"{what} holds complex numbers: Complex data not supported")
    if given.dtype.kind not in "fiubO":
        raise DataError(f"{what} must hold numbers, not values of type {given.dtype}")
    try:
        with np.errstate(over="ignore"):  # infinity is looked for below
            array = np.ascontiguousarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError(f"{what} must hold numbers, not values of type {given.dtype}") from None
    wrong = np.isinf(array) if allow_nan else ~np.isfinite(array)
    if wrong.any():
        where = np.argwhere(wrong)[0]
        place = f" at row {where[0]}" if len(where) else ""
        raise DataError(
            f"{what} contains {array[tuple(where)]} (NaN or infinity){place}: "
            "relevance and weights must be finite numbers"
        )
    return array


def index_type(*largest: int) -> type[np.signedinteger[Any]]:
    """The integer type for CSR indices that go up to the largest of these numbers."""
    return np.int32 if max(largest) <= np.iinfo(np.int32).max else np.int64


def n_stored(X: Matrix) -> int:
    """How many elements are stored: all of dense features, the nonzeros of sparse ones."""
    return int(X.size if isinstance(X, np.ndarray) else X.nnz)


def even_spans(starts: NDArray[np.int64], n_spans: int) -> list[tuple[int, int]]:
    """Spans of neighbours with about equally many elements; at most so many, none empty.

    Parameters
    ----------
    starts : int64 array of shape (n + 1,)
        The number of elements before each of the n neighbours, and of all.
    n_spans : int

    Examples
    --------
    >>> even_spans(np.array([0, 5, 10, 20]), 2)
    [(0, 2), (2, 3)]
    """
    cuts = np.searchsorted(starts, np.linspace(0, starts[-1], n_spans + 1)[1:-1])
    bounds = np.unique(np.concatenate(([0], cuts, [len(starts) - 1])))
    return list(pairwise(bounds.tolist()))


def concatenate_ranges(begin: NDArray[np.int64], size: NDArray[np.int64]) -> NDArray[np.int64]:
    """The numbers ``begin[i], begin[i] + 1, ...``, ``size[i]`` of them for each i."""
    return np.repeat(begin - (np.cumsum(size) - size), size) + np.arange(int(size.sum()))


def far_origin(X: Matrix) -> NDArray[np.float64] | None:
    """Means of the columns that vary little beside their distance from 0, and 0 for the others.

    A column is far where ``|mean| > 10 deviation > 0`` in a sample of the rows.

    Returns
    -------
    float64 ndarray of shape (n_columns,) or None
        None if there is no such column, or `X` is sparse.
    """
    if not isinstance(X, np.ndarray):
        return None
    some = np.asarray(X[:: max(1, X.shape[0] // _SAMPLE_ROWS)], dtype=np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        mean, deviation = some.mean(axis=0), some.std(axis=0)
        far = np.isfinite(mean) & (deviation > 0) & (np.abs(mean) > _FAR * deviation)
    return np.where(far, mean, 0.0) if far.any() else None


def row_blocks(X: Matrix, n_elements: int) -> Iterator[slice]:
    """Runs of rows of about so many stored elements; the last one ends with `X`."""
    n_rows = X.shape[0]
    step = max(1, int(n_elements * n_rows // max(n_stored(X), 1)))
    for start in range(0, n_rows, step):
        yield slice(start, min(start + step, n_rows))


def csr_of_parts(
    values: NDArray[Any], columns: NDArray[Any], row_ptr: NDArray[Any], n_columns: int
) -> sparse.csr_array:
    """A canonical CSR matrix of these very arrays, which are neither looked at nor copied.

    SciPy's own constructor reads 64-bit indices to see whether they could be smaller, which takes
    long where they are mapped from a large file.
    """
    matrix = sparse.csr_array((len(row_ptr) - 1, n_columns), dtype=values.dtype)
    matrix.data, matrix.indices, matrix.indptr = values, columns, row_ptr
    matrix.has_sorted_indices = matrix.has_canonical_format = True
    return matrix


def row_slice(X: Matrix, rows: slice) -> Matrix:
    """Consecutive rows of `X`, which share its memory, or its file if it is mapped."""
    if not sparse.issparse(X):
        return X[rows]
    matrix: Any = X
    start, stop = matrix.indptr[rows.start], matrix.indptr[rows.stop]
    row_ptr = matrix.indptr[rows.start : rows.stop + 1] - start
    return csr_of_parts(
        matrix.data[start:stop], matrix.indices[start:stop], row_ptr, matrix.shape[1]
    )


def take_rows(X: Matrix, rows: NDArray[np.int64]) -> Matrix:
    """Some rows of `X` in the given order; consecutive ones share its memory."""
    if np.all(np.diff(rows) == 1):
        return row_slice(X, slice(int(rows[0]), int(rows[-1]) + 1))
    return X[rows]


def stack_rows(matrices: Sequence[Matrix]) -> Matrix:
    """The rows of several matrices, sparse if one of them is."""
    if any(sparse.issparse(matrix) for matrix in matrices):
        return sparse.csr_array(sparse.vstack(matrices, format="csr"))
    return np.concatenate(matrices)


def to_dense(X: Any) -> NDArray[Any]:
    """A matrix, dense, sparse or of blocks, as a dense array."""
    return np.asarray(X.toarray() if hasattr(X, "toarray") else X)


def _reads_as_number(value: Any) -> bool:
    """Whether it is a number, or text that NumPy reads as one."""
    try:
        return tables.is_number(value) or isinstance(float(value), float)
    except (TypeError, ValueError, OverflowError):
        return False


def plain_array(values: Any, what: str) -> NDArray[Any]:
    """The values as a NumPy array, as they are.

    Raises
    ------
    DataError
        If they are of no common shape, or some of them are masked.
    """
    refuse_masked(values, what)
    try:
        return np.asarray(tables.collected(values))
    except (TypeError, ValueError) as error:
        raise DataError(f"{what} cannot be made an array: {error}") from None


def refuse_masked(values: Any, what: str) -> None:
    """Raise `DataError` if some values are masked: NumPy would hand out what lies beneath."""
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        place = zip(("row", "column"), np.argwhere(np.ma.getmaskarray(values))[0], strict=False)
        where = ", ".join(f"{axis} {at}" for axis, at in place)
        raise DataError(
            f"{what} is masked at {where}: fill in the masked values, as with .filled(), or leave "
            "these rows out"
        )


def non_numeric_columns(X: NDArray[Any]) -> str | None:
    """The columns of objects or text that hold something else than numbers, in words."""
    if X.ndim != 2 or X.dtype.kind not in "OUS":
        return None
    found = []
    for j in range(X.shape[1]):
        odd = next((value for value in X[:, j] if not _reads_as_number(value)), None)
        if odd is not None:
            found.append(f"column {j} ({type(odd).__name__} {odd!r:.40})")
    return f"{', '.join(found[:_MOST_NAMED])}{', ...' if len(found) > _MOST_NAMED else ''}" or None


def _dense(X: Any) -> NDArray[Any]:
    array = plain_array(X, "X")
    if array.ndim != 2:
        raise DataError(
            f"X has {array.ndim} dimension(s); it needs two, (n_samples, n_features). Reshape your "
            "data: X.reshape(-1, 1) for a single feature, X.reshape(1, -1) for a single sample"
        )
    dtype = _float_type(array.dtype)
    try:
        with np.errstate(over="ignore"):  # infinity is looked for later
            return np.ascontiguousarray(array, dtype=dtype)
    except (OverflowError, TypeError, ValueError) as error:
        wrong = non_numeric_columns(array) or error
        raise DataError(f"X must hold numbers only: {wrong}") from None


def _csr(X: Any) -> sparse.csr_array:
    if X.ndim != 2:
        raise DataError(
            f"X has {X.ndim} dimension(s); it needs two, (n_samples, n_features). Reshape your "
            "data: X.reshape(1, -1) for a single sample"
        )
    dtype = _float_type(X.dtype)
    matrix = sparse.csr_array(X)
    try:
        # SciPy does not look at the rows of a matrix whose last row ends at 0 or before.
        if np.any(matrix.indptr[1:] < matrix.indptr[:-1]):
            raise ValueError("index pointer values must not decrease")
        matrix.check_format(full_check=True)
    except ValueError as error:
        raise DataError(f"X is not a valid sparse matrix: {error}") from None
    if matrix.dtype != dtype:
        matrix = matrix.astype(dtype)
    if not matrix.has_canonical_format:
        # sum_duplicates works in place, on the caller's own arrays.
        matrix = matrix.copy()
        matrix.sum_duplicates()
    return matrix


def _float_type(dtype: np.dtype[Any]) -> type[np.floating[Any]]:
    if dtype in (np.float32, np.float16):
        return np.float32
    if dtype.kind in "fiubO":
        return np.float64
    if dtype.kind == "c":
        raise DataError("X holds complex numbers: Complex data not supported")
    raise DataError(f"X must hold numbers, not values of type {dtype}")


def stored_values(X: Matrix) -> NDArray[Any]:
    """The elements that are stored: all of dense features, those of sparse ones in one row.

    None of joined blocks, which are made of features that were checked.
    """
    if isinstance(X, JoinedMatrix):
        return np.empty(0)
    return X if isinstance(X, np.ndarray) else np.asarray(X.data)


def largest_stored(X: Matrix) -> float:
    """The largest absolute value that is stored and not missing; 0 if there is none."""
    return float(np.fmax.reduce(np.abs(stored_values(X)), axis=None, initial=0.0))


def with_short_indices(X: Any, taker: str) -> Any:
    """Features for code that knows sparse indices of 32 bits only; dense ones as they are.

    Raises
    ------
    DataError
        If the indices need more; it names who takes no others.
    """
    if not sparse.issparse(X):
        return X
    if max(X.nnz, *X.shape) > np.iinfo(np.int32).max:
        raise DataError(
            f"{taker} takes sparse features with up to 2^31 values and columns: train on fewer, or "
            "with another solver"
        )
    short = X.indices.astype(np.int32), X.indptr.astype(np.int32)
    return sparse.csr_matrix((X.data, *short), shape=X.shape)


def holds_nan(X: Matrix) -> bool:
    """Whether an element is NaN, of features without infinity."""
    # A sum that is no NaN proves that there is none in one fast pass, where nothing is infinite.
    values = stored_values(X)
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isnan(values.sum(dtype=np.float64)) and np.isnan(values).any())


def _find_missing(matrix: Matrix, names: Sequence[str] | None, *, allowed: bool) -> bool:
    """Whether a value is NaN; raises `DataError` if one is infinite, or NaN and not allowed."""
    if isinstance(matrix, JoinedMatrix):
        return False
    values = stored_values(matrix)
    # A finite sum proves finite terms in one fast pass; an overflowing one proves nothing.
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(values.sum(dtype=np.float64)):
            return False
    wrong = np.isinf(values) if allowed else ~np.isfinite(values)
    if wrong.any():
        _refuse_value(matrix, int(np.argmax(wrong)), names)
    return allowed and bool(np.isnan(values).any())


def refuse_missing(matrix: Matrix, names: Sequence[str] | None) -> NoReturn:
    """Raise `DataError` that says where the first value is missing, of features where one is."""
    _refuse_value(matrix, int(np.argmax(np.isnan(stored_values(matrix)))), names)


def _refuse_value(matrix: Matrix, place: int, names: Sequence[str] | None) -> NoReturn:
    values = stored_values(matrix)
    if isinstance(matrix, np.ndarray):
        row, column = divmod(place, matrix.shape[1])
    else:
        row = int(np.searchsorted(matrix.indptr, place, side="right")) - 1
        column = int(matrix.indices[place])
    name = f" ({names[column]})" if names is not None else ""
    kind = "NaN" if np.isnan(values.flat[place]) else "infinity (inf)"
    raise DataError(
        f"X contains {kind} at row {row}, column {column}{name}: "
        "fill in or drop missing values and clip infinite ones before ranking"
    )
