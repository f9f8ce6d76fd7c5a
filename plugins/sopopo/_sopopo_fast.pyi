from typing import Any

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Indices = NDArray[np.int64]

class DualGraphs:
    n_graphs: int
    dual: Vector
    def __init__(
        self,
        group_ptr: Indices,
        member_ptr: Indices,
        n_better: NDArray[np.int32],
        member: NDArray[np.int32],
        offset: Indices,
        relevance: Vector,
        bound: Vector,
        curvature: Vector,
    ) -> None: ...
    def has_active(self) -> NDArray[np.bool_]: ...
    def move_to(self, target: Vector) -> None: ...
    def linear(self) -> float: ...
    def loss(self, score: Vector, margin: float) -> float: ...

def label_epoch_dense(
    graphs: DualGraphs, order: Indices, X: NDArray[Any], W: NDArray[np.float64]
) -> float: ...
def label_epoch_sparse(
    graphs: DualGraphs,
    order: Indices,
    indptr: NDArray[Any],
    indices: NDArray[Any],
    values: NDArray[Any],
    W: NDArray[np.float64],
) -> float: ...
def label_epoch_kernel(
    graphs: DualGraphs, order: Indices, row: Indices, K: NDArray[np.float64], S: NDArray[np.float64]
) -> float: ...
def query_epoch_kernel(
    graphs: DualGraphs, order: Indices, place: Indices, K: NDArray[np.float64], S: Vector
) -> float: ...
def query_epoch_dense(graphs: DualGraphs, order: Indices, X: NDArray[Any], w: Vector) -> float: ...
def query_epoch_sparse(
    graphs: DualGraphs,
    order: Indices,
    indptr: NDArray[Any],
    indices: NDArray[Any],
    values: NDArray[Any],
    w: Vector,
) -> float: ...
