from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankplug._fast.pairs import ActivePairs

Vector = NDArray[np.float64]

_Index = NDArray[np.int64] | None

def dense_dot(X: NDArray[Any], v: Vector, z: Vector, rows: _Index = None) -> None: ...
def dense_transposed_dot(X: NDArray[Any], u: Vector, g: Vector, rows: _Index = None) -> None: ...
def dense_laplacian(
    X: NDArray[Any], pairs: ActivePairs, v: Vector, z: Vector, g: Vector
) -> None: ...
def dense_moments(
    X: NDArray[Any], query_ptr: NDArray[np.int64], c: Vector, first: Vector, out: Vector
) -> None: ...
def dense_centre(
    X: NDArray[Any], query_ptr: NDArray[np.int64], c: Vector, mean: Vector
) -> None: ...
def sparse_dot(
    indptr: NDArray[Any],
    indices: NDArray[Any],
    values: NDArray[Any],
    v: Vector,
    z: Vector,
    rows: _Index = None,
) -> None: ...
def sparse_transposed_dot(
    indptr: NDArray[Any],
    indices: NDArray[Any],
    values: NDArray[Any],
    u: Vector,
    g: Vector,
    rows: _Index = None,
) -> None: ...
def sparse_laplacian(
    indptr: NDArray[Any],
    indices: NDArray[Any],
    values: NDArray[Any],
    pairs: ActivePairs,
    v: Vector,
    z: Vector,
    g: Vector,
) -> None: ...
def sparse_moments(
    indptr: NDArray[Any],
    indices: NDArray[Any],
    values: NDArray[Any],
    query_ptr: NDArray[np.int64],
    c: Vector,
    first: Vector,
    out: Vector,
) -> None: ...
