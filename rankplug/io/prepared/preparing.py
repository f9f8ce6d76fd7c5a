"""Preparing files of any size: `prepare` makes a folder of mapped arrays in bounded memory.

It reads the rows and notes their queries (`inputs`, `raw_rows`, `queries`), arranges and seals them
(`sealing`), and saves its state on the way (`job`).
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from rankplug.data import ScaleName, tables
from rankplug.exceptions import DataError, ParameterError
from rankplug.io.columns import common_roles, query_roles
from rankplug.io.files import FORMATS, InputFile, Notation, Paths, input_files, refuse_unfit
from rankplug.io.prepared.folder import PreparedFolder, open_prepared
from rankplug.io.prepared.inputs import Input, TableInput, TextInput
from rankplug.io.prepared.job import (
    Arguments,
    Job,
    State,
    clear,
    partial_folder,
    partial_of,
    publish,
    remove,
    require_replaceable,
    sources_of,
)
from rankplug.io.prepared.npy import GrowingFiles
from rankplug.io.prepared.queries import QueryLog, read_order
from rankplug.io.prepared.raw_rows import RawRows, append_piece
from rankplug.io.prepared.sealing import arrange, needs_arranging, seal
from rankplug.io.shortage import is_shortage, names_shortage_of_preparation
from rankplug.parameters import Choice, Integer, Optional, check_parameters

_SHARD_BYTES = 1 << 27  # 128 MB: some of them fit into the memory of any worker

_ARGUMENTS = {
    "format": Optional(Choice(FORMATS)),
    "n_features": Optional(Integer(1, most=2**31 - 1)),
    "dense": Optional(Choice((True, False))),
    "dtype": Optional(Choice(("float32", "float64"))),
    "scale": Choice(get_args(ScaleName)),
    "shard_bytes": Integer(1, most=2**62),
    "overwrite": Choice((True, False)),
}


@names_shortage_of_preparation
def prepare(
    paths: Paths,
    output: str | os.PathLike[str],
    *,
    format: str | None = None,  # noqa: A002
    label: str | None = None,
    qid: str | None = None,
    weight: str | None = None,
    document_weight: str | None = None,
    features: Sequence[str] | None = None,
    n_features: int | None = None,
    zero_based: bool = False,
    separator: str | None = None,
    decimal: Literal[".", ","] | None = None,
    dense: bool | None = None,
    dtype: Literal["float32", "float64"] | None = None,
    scale: ScaleName = "none",
    shard_bytes: int = _SHARD_BYTES,
    overwrite: bool = False,
    progress: bool = True,
) -> PreparedFolder:
    """Read files of any size once, into a folder of arrays that are mapped instead of read.

    `rankplug.read_data` opens the folder in milliseconds and gives the same data as of the files
    themselves, scaled if that is asked for; features stay on disk until they are used.

    Work is done in a hidden folder ``.NAME.partial`` beside the output. If it is interrupted, even
    killed, the same call goes on where the last one ended; it begins again if files or arguments
    have changed since. The output appears whole or not at all. A call that finds its work done
    already does nothing.

    Parameters
    ----------
    paths : path, or several
        LETOR/svmlight text or CSV, both also compressed, Parquet or Arrow, as for
        `rankplug.read_data`. Rows of a query may stand anywhere; queries are in order of first
        appearance.
    output : path
        The folder to make.
    format, label, qid, weight, document_weight, features, n_features
        As for `rankplug.read_data`.
    zero_based, separator, decimal, dense, dtype
        As for `rankplug.read_data`.
    scale : "none", "standard", "minmax" or "maxabs"
        Scaling of each feature, as in a recipe; the folder keeps it, and models trained from the
        folder by a recipe or `rankplug.tune` take features that are not scaled.
    shard_bytes : int
        About how large a shard is, a run of whole queries.
    overwrite : bool
        Replace a prepared folder of other data.
    progress : bool
        Show progress bars if standard error is a terminal or a notebook's.

    Returns
    -------
    PreparedFolder

    Raises
    ------
    DataError
        As `rankplug.read_data`; also if the disk is full (what is done is kept), another process
        prepares the same folder, or scaling would make sparse features dense.
    ParameterError
        If an argument does not fit, or something else stands where the folder is to appear.

    Notes
    -----
    Memory: about 100 MB for a block of input and its rows, 150 bytes for each query, and 100 bytes
    for each run of consecutive rows of one query, of which there are as many as queries where the
    input is sorted. Disk: where rows move, are scaled, or are better kept in another form than it
    seemed at first, they are written twice, and the work takes twice the space.
    """
    check_parameters("prepare", _ARGUMENTS, locals())
    files, format_ = input_files(paths, format, Notation(zero_based, separator, decimal))
    arguments = Arguments(
        format=format_,
        label=label,
        qid=qid,
        weight=weight,
        features=None if features is None else tables.listed(features),
        n_features=None if n_features is None else int(n_features),
        dense=dense,
        dtype=dtype,
        scale=scale,
        shard_bytes=int(shard_bytes),
        zero_based=zero_based,
        separator=separator,
        decimal=decimal,
        document_weight=document_weight,
    )
    _require_fitting(arguments)
    target = Path(os.path.abspath(output))
    sources = sources_of(files, format_)
    if not overwrite and (done := _find_done(target, arguments, sources)) is not None:
        return done
    require_replaceable(target, overwrite=overwrite)
    input_ = _open_input(files, arguments)
    with _disk_errors_in_words(target), partial_folder(target) as folder:
        job = Job(folder, arguments, files, sources, progress)
        try:
            publish(_carry_out(job, _resume_or_begin(job), input_), target)
        except BaseException as error:
            if not job.has_saved_rows or _comes_again(error):
                remove(folder)
            raise
        remove(folder)
    return open_prepared(target)


def _require_fitting(arguments: Arguments) -> None:
    """Raise `ParameterError` if arguments do not fit the format or each other."""
    columns = ("label", "qid", "weight", "document_weight", "features")
    unfit = columns if arguments.format == "svmlight" else ("n_features",)
    refuse_unfit(arguments.format, **{name: getattr(arguments, name) for name in unfit})
    scale = arguments.scale
    if arguments.dense is False and scale in ("standard", "minmax"):
        raise ParameterError(
            f"scale={scale!r} would make sparse features dense: use 'maxabs' or 'none'"
        )


def _find_done(
    target: Path, arguments: Arguments, sources: tuple[dict[str, Any], ...]
) -> PreparedFolder | None:
    """The folder, if it holds just what is asked for."""
    try:
        folder = open_prepared(target)
    except DataError:
        return None
    manifest = folder.manifest
    if manifest.sources != sources or manifest.arguments != arguments.as_json():
        return None
    if partial_of(target).exists():  # killed between its last two steps
        with partial_folder(target) as left:
            remove(left)
    return folder


def _open_input(files: Sequence[InputFile], arguments: Arguments) -> Input:
    dtype = None if arguments.dtype is None else np.dtype(arguments.dtype)
    if arguments.format == "svmlight":
        return TextInput(
            files, dtype or np.dtype(np.float64), arguments.dense, arguments.n_features
        )
    names = ("label", "qid", "weight", "document_weight", "features")
    choose = partial(query_roles, **{name: getattr(arguments, name) for name in names}, like=None)
    roles = common_roles(files, arguments.format, choose)
    return TableInput(files, dtype, arguments.dense, arguments.format, roles)


def _resume_or_begin(job: Job) -> State:
    """Where to go on, or the beginning, with an empty folder."""
    state = job.load()
    if state is not None:
        return state
    if job.has_state:
        warnings.warn(
            f"{job.folder} was made from other files or with other arguments: beginning again",
            RuntimeWarning,
            stacklevel=4,
        )
        clear(job.folder)
    return job.save(State())


def _carry_out(job: Job, state: State, input_: Input) -> Path:
    """Do what is left to do; returns the complete folder, still in its hidden place."""
    if state.phase == "read":
        state = _read(job, state, input_)
    n_features = input_.n_features or state.position.width
    dense = state.position.looks_dense if input_.dense is None else input_.dense
    raw = RawRows(job.folder, state, input_.dtype, "dense" if dense else "sparse", n_features)
    order = read_order(job.folder, written=input_.written_ids)
    if state.phase == "arrange":
        if needs_arranging(raw, order, job.arguments.scale):
            state = arrange(job, state, raw, order)
        else:
            state = job.save(replace(state, phase="seal"))
    weighted = job.arguments.weight is not None or input_.weighted
    return seal(job, state, raw, order, input_.feature_names, weighted=weighted)


def _read(job: Job, state: State, input_: Input) -> State:
    """Read the input from where the state says to its end."""
    sizes = [source["size"] for source in job.sources[: len(job.files)]]
    with (
        GrowingFiles(job.folder, state.sizes) as files,
        job.bar("reading", "B", sum(sizes), sum(sizes[: state.position.file])) as bar,
    ):
        log = QueryLog(job.folder, files)
        for piece in input_.pieces(state.position):
            log.add(piece.ids, piece.weight, len(piece.relevance))
            state = append_piece(files, state, piece)
            _require_scalable(job.arguments.scale, input_, state)
            number = state.position.file
            bar.move_to(sum(sizes[:number]) + int(piece.read * sizes[number]))
            if files.should_be_saved:
                state = job.save(state, files)
        where = ", ".join(map(str, job.files))
        if sources_of(job.files, job.arguments.format) != job.sources:
            raise DataError(f"{where}: changed while being read: prepare the data again")
        if not (input_.n_features or state.position.width):
            raise DataError(f"{where}: no features, only relevance and ids")
        return job.save(replace(state, phase="arrange"), files)


def _require_scalable(scale: ScaleName, input_: Input, state: State) -> None:
    """Raise `DataError` as soon as it shows that features would have to be kept sparse."""
    dense = state.position.looks_dense if input_.dense is None else input_.dense
    if scale in ("standard", "minmax") and not dense:
        raise DataError(
            f"scale {scale} would make these sparse features dense: use maxabs or none, or "
            "ask for dense ones (dense=True, --dense)"
        )


def _comes_again(error: BaseException) -> bool:
    """Whether the same call fails again: wrong data stay wrong, a full disk may have room again."""
    return isinstance(error, DataError) and not isinstance(error.__cause__, OSError | MemoryError)


@contextmanager
def _disk_errors_in_words(target: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if is_shortage(error):
            raise
        kept = f"; the same call goes on with what is done, kept in {partial_of(target)}"
        raise DataError(
            f"{target} cannot be written: {error.strerror or error}"
            f"{kept if partial_of(target).exists() else ''}"
        ) from error
