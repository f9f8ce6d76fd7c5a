"""Features in blocks of columns, side by side: dense, sparse, or one 1 in each group of columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rankplug._fast import passes
from rankplug.exceptions import DataError


class OneHotMatrix:
    """A 0/1 matrix with one 1 a row in each group of columns, such as the leaves of trees.

    Only the place of the 1 within its group is kept, in 16 or 32 bits: for groups of up to 65,536
    columns a sixth of what CSR with 32-bit indices and float64 values takes.

    Parameters
    ----------
    codes : unsigned integer ndarray of shape (n_rows, n_groups)
        Column ``starts[t] + codes[i, t]`` of row i is 1.
    starts : int64 ndarray of shape (n_groups + 1,)
        The first column of each group, and the number of columns.

    Raises
    ------
    DataError
        If a code is beyond its group: what multiplies looks at no code again.
    """

    dtype = np.dtype(np.float64)
    ndim = 2

    def __init__(self, codes: NDArray[Any], starts: NDArray[np.int64]) -> None:
        narrow = np.max(np.diff(starts), initial=0) <= np.iinfo(np.uint16).max + 1
        self.codes = np.ascontiguousarray(codes, dtype=np.uint16 if narrow else np.uint32)
        self.starts = np.ascontiguousarray(starts, dtype=np.int64)
        if np.any(self.codes.max(axis=0, initial=0) >= np.diff(self.starts)):
            raise DataError("a code is beyond the columns of its group")

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return len(self.codes), int(self.starts[-1])

    @property
    def nbytes(self) -> int:
        """Bytes of the codes."""
        return int(self.codes.nbytes)

    def __getitem__(self, rows: Any) -> OneHotMatrix:
        return OneHotMatrix(self.codes[rows], self.starts)

    def __matmul__(self, v: NDArray[np.float64]) -> NDArray[np.float64]:
        scores = np.empty(len(self.codes))
        passes.onehot_dot(self.codes, self.starts, v, scores)
        return scores

    def tocsr(self) -> sparse.csr_array:
        """The same matrix with every 1 written out."""
        n_rows, n_groups = self.codes.shape
        columns = np.add(self.codes, self.starts[:-1], dtype=np.int64).ravel()
        row_ptr = np.arange(0, n_rows * n_groups + 1, n_groups)
        return sparse.csr_array((np.ones(len(columns)), columns, row_ptr), shape=self.shape)

    def toarray(self) -> NDArray[np.float64]:
        """The same matrix, dense."""
        return np.asarray(self.tocsr().toarray(), dtype=np.float64)


Block: TypeAlias = "NDArray[Any] | sparse.csr_array | OneHotMatrix"


class JoinedMatrix:
    """Blocks of columns side by side, each times a factor: what maps of features make.

    Parameters
    ----------
    blocks : sequence of ndarray, csr_array or OneHotMatrix
        All with the same rows.
    factors : sequence of float, optional
        By which each block counts; 1 by default.
    """

    dtype = np.dtype(np.float64)
    ndim = 2

    def __init__(self, blocks: Sequence[Block], factors: Sequence[float] | None = None) -> None:
        self.blocks = tuple(blocks)
        self.factors = tuple([1.0] * len(self.blocks) if factors is None else factors)
        self.starts = np.cumsum([0, *(block.shape[1] for block in self.blocks)])

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.blocks[0].shape[0], int(self.starts[-1])

    @property
    def row_size(self) -> float:
        """Elements that are kept of a row, on average."""
        n_rows = max(self.shape[0], 1)
        return sum(_n_kept(block) for block in self.blocks) / n_rows

    @property
    def nbytes(self) -> int:
        """Bytes of all blocks."""
        return sum(map(_n_bytes, self.blocks))

    def __getitem__(self, rows: Any) -> JoinedMatrix:
        return JoinedMatrix([block[rows] for block in self.blocks], self.factors)

    def __matmul__(self, v: NDArray[np.float64]) -> NDArray[np.float64]:
        scores = np.zeros(self.shape[0])
        for block, factor, part in zip(self.blocks, self.factors, self.split(v), strict=True):
            scores += factor * np.asarray(block @ part)
        return scores

    def split(self, v: NDArray[np.float64]) -> list[NDArray[np.float64]]:
        """The parts of a vector of weights that belong to each block."""
        return np.split(v, self.starts[1:-1])

    def tocsr(self) -> sparse.csr_array:
        """The same matrix in compressed rows."""
        parts = [
            factor * (block.tocsr() if isinstance(block, OneHotMatrix) else sparse.csr_array(block))
            for block, factor in zip(self.blocks, self.factors, strict=True)
        ]
        return sparse.csr_array(sparse.hstack(parts, format="csr"))

    def toarray(self) -> NDArray[np.float64]:
        """The same matrix, dense."""
        parts: list[Any] = [
            factor * (block if isinstance(block, np.ndarray) else block.toarray())
            for block, factor in zip(self.blocks, self.factors, strict=True)
        ]
        return np.hstack(parts, dtype=np.float64)


def _n_kept(block: Block) -> int:
    if isinstance(block, OneHotMatrix):
        return block.codes.size
    return int(block.size if isinstance(block, np.ndarray) else block.nnz)


def _n_bytes(block: Any) -> int:
    parts = [block.data, block.indices, block.indptr] if sparse.issparse(block) else [block]
    return sum(int(part.nbytes) for part in parts)
