"""An open prepared folder: its data as a whole or shard by shard, and a check of every byte."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankplug.data import Matrix, RankingData, Scaling, row_slice
from rankplug.data.arrays import csr_of_parts
from rankplug.exceptions import DataError
from rankplug.io.prepared.manifest import Manifest, ShardSpan, read_manifest
from rankplug.io.prepared.npy import Bar, Digests, map_array


@dataclass(frozen=True)
class PreparedFolder:
    """A prepared folder; small, and made to be sent to other processes that see the same files.

    Attributes
    ----------
    path : Path
        Absolute.
    manifest : Manifest
    """

    path: Path
    manifest: Manifest

    @property
    def shards(self) -> Sequence[ShardSpan]:
        """Runs of whole queries of about equal size that cover all data in order."""
        return self.manifest.shards

    @property
    def scaling(self) -> Scaling | None:
        """How the features were scaled."""
        if self.manifest.scale == "none":
            return None
        shift = self._array("shift") if "shift" in self.manifest.arrays else None
        return Scaling(shift, self._array("factor"))

    def data(self) -> RankingData:
        """All data; features stay on disk until they are used.

        `X` is a read-only `np.memmap`, or a `csr_array` of such.

        Raises
        ------
        DataError
            If a file is missing or not of the size that the manifest says.
        """
        manifest, query_ptr = self.manifest, self._array("query_ptr")
        ends = query_ptr[0] == 0 and query_ptr[-1] == manifest.n_samples
        if not ends or np.any(query_ptr[1:] <= query_ptr[:-1]):
            raise DataError(f"{self.path / 'query_ptr.npy'} is damaged: prepare the data again")
        data = RankingData(
            self._features(),
            self._array("relevance"),
            query_ptr,
            self._array("query_ids"),
            self._array("query_weight") if "query_weight" in manifest.arrays else None,
            manifest.feature_names,
            self._array("order") if "order" in manifest.arrays else None,
            self.scaling,
            manifest.arguments.get("qid"),
            zero_based=bool(manifest.arguments.get("zero_based", False)),
            document_weight=(
                self._array("document_weight") if "document_weight" in manifest.arrays else None
            ),
        )
        return data.noting_missing(manifest.missing)

    def shard(self, number: int) -> RankingData:
        """The data of one shard, as `data`; rows and queries are counted from its own first.

        Raises
        ------
        DataError
            If there is no such shard, or as `data`.
        """
        if not 0 <= number < len(self.shards):
            raise DataError(f"no shard {number}: {self.path} has {len(self.shards)}")
        data, span = self.data(), self.shards[number]
        queries, rows = slice(*span.queries), slice(*span.rows)
        if data.query_ptr[list(span.queries)].tolist() != list(span.rows):
            raise DataError(f"{self.path / 'query_ptr.npy'} is damaged: prepare the data again")
        part = RankingData(
            row_slice(data.X, rows),
            data.relevance[rows],
            data.query_ptr[queries.start : queries.stop + 1] - span.rows[0],
            data.query_ids[queries],
            None if data.query_weight is None else data.query_weight[queries],
            data.feature_names,
            scaling=data.scaling,
            query_column=data.query_column,
            zero_based=data.zero_based,
            document_weight=None if data.document_weight is None else data.document_weight[rows],
        )
        return part if self.manifest.missing else part.noting_missing(False)

    def map(self, name: str) -> NDArray[Any]:
        """An array of the manifest, mapped."""
        array = self.manifest.arrays[name]
        return map_array(self.path / f"{name}.npy", array.dtype, array.shape)

    def _array(self, name: str) -> NDArray[Any]:
        """The array as an ordinary one; its memory is the file all the same."""
        return self.map(name).view(np.ndarray)

    def _features(self) -> Matrix:
        if self.manifest.layout == "dense":
            return self.map("features")
        row_ptr = self._array("row_ptr")
        if row_ptr[0] != 0 or row_ptr[-1] != self.manifest.n_values:
            raise DataError(f"{self.path / 'row_ptr.npy'} is damaged: prepare the data again")
        values, columns = self.map("values"), self.map("columns")
        return csr_of_parts(values, columns, row_ptr, self.manifest.n_features)


def is_folder(path: object) -> bool:
    """Whether this names one folder, so that it is not a file of data."""
    return isinstance(path, str | os.PathLike) and os.path.isdir(path)


def open_prepared(path: str | os.PathLike[str]) -> PreparedFolder:
    """Open a folder that `rankplug.prepare` has made.

    The manifest is checked, as are type, shape and size of each array when it is used, but not
    every byte: `rankplug.io.verify_prepared` does that.

    Raises
    ------
    DataError
        If it is no prepared folder, or its manifest is damaged, changed or of another version.
    """
    folder = Path(path).absolute()
    return PreparedFolder(folder, read_manifest(folder))


def verify_prepared(path: str | os.PathLike[str], *, progress: bool = True) -> PreparedFolder:
    """Read a prepared folder as a whole and compare it with the digests in its manifest.

    Parameters
    ----------
    path : path
    progress : bool
        Show a progress bar if standard error is a terminal or a notebook's.

    Raises
    ------
    DataError
        If anything is missing, damaged, or no valid data; names every array at fault.
    """
    folder = open_prepared(path)
    folder.data()  # types, shapes and sizes
    types = {name: (one.dtype, one.shape) for name, one in folder.manifest.arrays.items()}
    with Bar("checking", "B", Digests.n_bytes(types), shown=progress) as bar:
        digests = Digests(folder.path, types, bar)
        found = [*_find_other_digests(folder, digests), *_find_invalid(folder)]
    if found:
        raise DataError(f"{folder.path} is damaged: {'; '.join(found)}: prepare the data again")
    return folder


def _find_other_digests(folder: PreparedFolder, digests: Digests) -> Iterator[str]:
    for name, array in folder.manifest.arrays.items():
        if array.sha256 is not None and digests.whole(name) != array.sha256:
            yield f"{name}.npy is not as it was written"
    for number, shard in enumerate(folder.shards):
        for name, digest in shard.sha256.items():
            if digests.part(name, *shard.values) != digest:
                yield f"shard {number} of {name}.npy is not as it was written"


def _find_invalid(folder: PreparedFolder) -> Iterator[str]:
    """What may be wrong in a folder whose digests were made to fit."""
    for number in range(len(folder.shards)):
        data = folder.shard(number)
        X: Any = data.X
        values = X if isinstance(X, np.ndarray) else X.data
        wrong = np.isinf(values) if folder.manifest.missing else ~np.isfinite(values)
        if wrong.any() or not np.isfinite(data.relevance).all():
            yield f"shard {number} holds values that are not finite"
        weight = data.document_weight
        if weight is not None and not (np.isfinite(weight) & (weight >= 0)).all():
            yield f"shard {number} holds weights of rows that cannot be"
        if values is not X and not _is_canonical(X):
            yield f"the indices of shard {number} are not those of a sparse matrix"


def _is_canonical(X: Any) -> bool:
    """Whether columns ascend within each row, and there are such columns."""
    row_ptr, columns = X.indptr, X.indices
    if np.any(row_ptr[1:] < row_ptr[:-1]) or not row_ptr[0] == 0 <= row_ptr[-1] == len(columns):
        return False
    if np.any((columns < 0) | (columns >= X.shape[1])):
        return False
    descending = columns[1:] <= columns[:-1]
    first_of_rows = row_ptr[1:-1]
    inner = (first_of_rows > 0) & (first_of_rows < len(columns))
    descending[first_of_rows[inner] - 1] = False
    return not descending.any()
