from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

_Allocate: TypeAlias = Callable[..., NDArray[Any]]

class Queries:
    n_rows: int
    n_queries: int
    def __init__(
        self,
        query_ptr: NDArray[np.int64],
        relevance: NDArray[np.float64],
        weight: NDArray[np.float64],
        *,
        winner: NDArray[np.float64] | None = ...,
        loser: NDArray[np.float64] | None = ...,
        gain: NDArray[np.float64] | None = ...,
        allocate: _Allocate = ...,
    ) -> None: ...

class ActivePairs:
    queries: Queries
    def __init__(self, queries: Queries, *, allocate: _Allocate = ...) -> None: ...
    def update(
        self, score: NDArray[np.float64], margin: float = 1.0, band: float = ...
    ) -> None: ...
    def laplacian(self, z: NDArray[np.float64], out: NDArray[np.float64]) -> None: ...
    def squared_hinge(
        self, score: NDArray[np.float64], coefficient: NDArray[np.float64]
    ) -> float: ...
    def hinge(self, score: NDArray[np.float64], coefficient: NDArray[np.float64]) -> float: ...
    def clipped_slack(self, score: NDArray[np.float64]) -> float: ...
    @property
    def count(self) -> NDArray[np.float64]: ...
    @property
    def difference(self) -> NDArray[np.float64]: ...
