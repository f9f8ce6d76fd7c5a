from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankplug._fast.pairs import ActivePairs

Array = NDArray[Any]
Vector = NDArray[np.float64]

_CSR = NDArray[Any]
_Starts = NDArray[np.int64]
_Index = NDArray[np.int64] | None

def add_scaled(factor: float, x: Vector, y: Vector) -> None: ...
def find_changes(
    query_ptr: _Starts, before: Vector, now: Vector, step: float, bend: Vector, share: float
) -> NDArray[np.int64]: ...
def dense_dot(X: Array, v: Vector, z: Vector, rows: _Index = None) -> None: ...
def dense_transposed_dot(X: Array, u: Vector, g: Vector, rows: _Index = None) -> None: ...
def dense_laplacian(
    X: Array, pairs: ActivePairs, v: Vector, z: Vector, of_z: Vector, g: Vector
) -> None: ...
def dense_moments(X: Array, query_ptr: _Starts, c: Vector, first: Vector, out: Vector) -> None: ...
def dense_centre(X: Array, query_ptr: _Starts, c: Vector, mean: Vector) -> None: ...
def sparse_dot(
    indptr: _CSR, indices: _CSR, values: _CSR, v: Vector, z: Vector, rows: _Index = None
) -> None: ...
def sparse_transposed_dot(
    indptr: _CSR, indices: _CSR, values: _CSR, u: Vector, g: Vector, rows: _Index = None
) -> None: ...
def sparse_laplacian(
    indptr: _CSR,
    indices: _CSR,
    values: _CSR,
    pairs: ActivePairs,
    v: Vector,
    z: Vector,
    of_z: Vector,
    g: Vector,
) -> None: ...
def sparse_moments(
    indptr: _CSR,
    indices: _CSR,
    values: _CSR,
    query_ptr: _Starts,
    c: Vector,
    first: Vector,
    out: Vector,
) -> None: ...
def onehot_dot(codes: Array, starts: _Starts, v: Vector, z: Vector) -> None: ...
def onehot_transposed_dot(codes: Array, starts: _Starts, u: Vector, g: Vector) -> None: ...
def onehot_moments(
    codes: Array, starts: _Starts, query_ptr: _Starts, c: Vector, first: Vector, out: Vector
) -> None: ...
