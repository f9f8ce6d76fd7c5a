from typing import Any

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Indices = NDArray[np.int64]

class Patterns:
    n_patterns: int
    n_support: int
    n_vectors: int
    size: Indices
    def __init__(
        self,
        item: Indices,
        relevance: Vector,
        group_ptr: Indices,
        group: Indices,
        own: Indices,
        begin: Indices,
        end: Indices,
        bound: Vector,
        graded: bool,
    ) -> None: ...
    def move_to(self, score: Vector, h: float) -> None: ...
    def net(self, beta: Vector) -> None: ...
    def evaluate(self, score: Vector, gap: Vector) -> tuple[float, float]: ...

class Scores:
    n_reads: float

class DenseScores(Scores):
    weights: NDArray[np.float64]
    def __init__(
        self, item: Indices, group_ptr: Indices, n_channels: int, diagonal: Vector, X: Any
    ) -> None: ...

class SparseScores(Scores):
    weights: NDArray[np.float64]
    def __init__(
        self, item: Indices, group_ptr: Indices, n_channels: int, diagonal: Vector, X: Any
    ) -> None: ...

class KernelScores(Scores):
    n_columns: int
    scores: NDArray[np.float64]
    def __init__(
        self,
        item: Indices,
        group_ptr: Indices,
        n_channels: int,
        diagonal: Vector,
        rows: NDArray[np.float64],
        place: Indices,
        column: Indices,
        cost_of_row: float,
    ) -> None: ...

class Schedule:
    n_steps: int
    n_visits: int
    counts: tuple[int, int, int]
    def __init__(
        self, patterns: Patterns, scores: Scores, seed: int, old: bool = True, optimize: bool = True
    ) -> None: ...
    def adaptive(self, order: Indices, again: bool = False) -> None: ...
    def cyclic(self, order: Indices, again: bool = False) -> None: ...
