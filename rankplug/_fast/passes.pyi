from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankplug._fast.pairs import ActivePairs

Array = NDArray[Any]
Vector = NDArray[np.float64]

_Index = NDArray[np.int64] | None

def dense_dot(X: Array, v: Vector, z: Vector, rows: _Index = None) -> None: ...
def dense_transposed_dot(X: Array, u: Vector, g: Vector, rows: _Index = None) -> None: ...
def dense_laplacian(X: Array, pairs: ActivePairs, v: Vector, z: Vector, g: Vector) -> None: ...
def dense_moments(
    X: Array, query_ptr: NDArray[np.int64], c: Vector, first: Vector, out: Vector
) -> None: ...
def dense_centre(X: Array, query_ptr: NDArray[np.int64], c: Vector, mean: Vector) -> None: ...
def sparse_dot(
    indptr: Array, indices: Array, values: Array, v: Vector, z: Vector, rows: _Index = None
) -> None: ...
def sparse_transposed_dot(
    indptr: Array, indices: Array, values: Array, u: Vector, g: Vector, rows: _Index = None
) -> None: ...
def sparse_laplacian(
    indptr: Array,
    indices: Array,
    values: Array,
    pairs: ActivePairs,
    v: Vector,
    z: Vector,
    g: Vector,
) -> None: ...
def sparse_moments(
    indptr: Array,
    indices: Array,
    values: Array,
    query_ptr: NDArray[np.int64],
    c: Vector,
    first: Vector,
    out: Vector,
) -> None: ...
