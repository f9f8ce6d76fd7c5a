"""Formats of other systems by name, and `export` and `import_model`, which write and read them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rankplug.display import Listing
from rankplug.exceptions import (
    DataError,
    ModelFormatError,
    ParameterError,
    SolverUnavailableError,
    UnknownNameError,
)
from rankplug.exchange.boosters import (
    native_lightgbm,
    native_xgboost,
    read_lightgbm,
    read_xgboost,
    write_lightgbm,
    write_xgboost,
)
from rankplug.exchange.code import write_python, write_sql
from rankplug.exchange.describing import describe
from rankplug.exchange.form import Form
from rankplug.exchange.onnx_format import write_onnx
from rankplug.exchange.search_engines import (
    write_elasticsearch,
    write_opensearch,
    write_ranklib,
    write_solr,
)
from rankplug.exchange.vespa import write_vespa, write_vespa_lightgbm, write_vespa_xgboost
from rankplug.exchange.weights import (
    Read,
    read_liblinear,
    read_svmrank,
    write_liblinear,
    write_svmrank,
)
from rankplug.io import replacing
from rankplug.models import Model
from rankplug.system.plugins import find_missing

_MOST_BYTES = 2**31
"""Of a file that is read: models of that size exist nowhere, and memory ends somewhere."""

_LINEAR, _TREES, _RAMPS, _KERNELS = "linear terms", "trees", "ramps", "kernels"


@dataclass(frozen=True)
class _Format:
    """How a format is written and read, and what it can say."""

    name: str
    summary: str
    holds: tuple[str, ...]
    write: Callable[[Form], tuple[str | bytes, tuple[str, ...]]]
    native: Callable[[Model], tuple[str, tuple[str, ...]] | None] | None = None
    read: Callable[[bytes], Read] | None = None
    requires: tuple[str, ...] = ()


@dataclass(frozen=True)
class FormatInfo:
    """A format of another system: what it holds, and whether it can be written and read here."""

    name: str
    holds: tuple[str, ...]
    writes: bool
    reads: bool
    summary: str
    reason: str | None


def _of_text(read: Callable[[str], Read]) -> Callable[[bytes], Read]:
    def decode(content: bytes) -> Read:
        try:
            return read(content.decode("utf-8").replace("\r\n", "\n"))
        except UnicodeDecodeError:
            raise ModelFormatError("it is no text") from None

    return decode


_BOTH = (_LINEAR, _TREES)
_CODE = (_LINEAR, _RAMPS, _TREES)

_FORMATS: Mapping[str, _Format] = {
    one.name: one
    for one in (
        _Format(
            "elasticsearch-ltr",
            "Elasticsearch's plugin LTR: model/linear, or model/xgboost+json",
            _BOTH,
            write_elasticsearch,
        ),
        _Format(
            "liblinear",
            "a model file of LIBLINEAR",
            (_LINEAR,),
            write_liblinear,
            read=_of_text(read_liblinear),
        ),
        _Format(
            "lightgbm",
            "LightGBM's text, as Booster(model_file=...) reads it",
            (_TREES,),
            write_lightgbm,
            native_lightgbm,
            read_lightgbm,
            ("lightgbm",),
        ),
        _Format(
            "onnx",
            "a graph for onnxruntime, and MLflow's onnx flavor",
            (_LINEAR, _RAMPS, _TREES, _KERNELS),
            write_onnx,
            requires=("onnx",),
        ),
        _Format(
            "opensearch-ltr",
            "OpenSearch's plugin LTR: model/linear, or model/xgboost+json",
            _BOTH,
            write_opensearch,
        ),
        _Format("python", "a module with a function, without dependencies", _CODE, write_python),
        _Format("ranklib", "a model file of RankLib", _BOTH, write_ranklib),
        _Format("solr-ltr", "a model for Solr's model store", _BOTH, write_solr),
        _Format("sql", "an expression that scores a row in a database", _CODE, write_sql),
        _Format(
            "svmrank",
            "a model file of SVMrank or SVM-light",
            (_LINEAR, _KERNELS),
            write_svmrank,
            read=_of_text(read_svmrank),
        ),
        _Format("vespa", "a ranking expression of Vespa's", _CODE, write_vespa),
        _Format(
            "vespa-lightgbm",
            "trees as Vespa's lightgbm() reads them",
            (_TREES,),
            write_vespa_lightgbm,
        ),
        _Format(
            "vespa-xgboost", "trees as Vespa's xgboost() reads them", (_TREES,), write_vespa_xgboost
        ),
        _Format(
            "xgboost",
            "XGBoost's JSON, as Booster(model_file=...) reads it",
            (_TREES,),
            write_xgboost,
            native_xgboost,
            read_xgboost,
        ),
    )
}


def list_formats() -> list[FormatInfo]:
    """All formats of other systems, sorted by name; those that cannot be used here say why."""
    found = [
        FormatInfo(
            one.name, one.holds, True, one.read is not None, one.summary, find_missing(one.requires)
        )
        for one in _FORMATS.values()
    ]
    return Listing(found, ("name", "holds", "reads", "summary", "reason"))


def _find(name: str) -> _Format:
    if name not in _FORMATS:
        raise UnknownNameError("format", name, _FORMATS)
    missing = find_missing(_FORMATS[name].requires)
    if missing is not None:
        raise SolverUnavailableError(f"the format {name} {missing}")
    return _FORMATS[name]


def export(model: Model, file: str | os.PathLike[str], to: str) -> list[str]:
    """Write a model in the format of another system.

    Parameters
    ----------
    model : Model
        Of one score. Scalings and pipelines of scalers become part of what is written.
    file : path
        Appears whole or not at all; an earlier one of that name is replaced.
    to : str
        One of `list_formats`.

    Returns
    -------
    list of str
        What the format cannot say, or who uses the file should know.

    Raises
    ------
    UnknownNameError, SolverUnavailableError
        If there is no such format, or a package is missing that it needs.
    ParameterError
        If the format cannot say what the model computes; the message names those that can.
    """
    form = _find(to)
    try:
        content, notes = _written(model, form)
    except RecursionError:
        raise ParameterError(
            f"a tree of the model is too deep for {to}: export it to onnx, python, lightgbm or "
            "xgboost"
        ) from None
    with replacing(Path(file)) as stream:
        stream.write(content.encode() if isinstance(content, str) else content)
    return list(notes)


def _written(model: Model, form: _Format) -> tuple[str | bytes, tuple[str, ...]]:
    if form.native is not None and model.n_labels is None:
        found = form.native(model)
        if found is not None:
            return found
    described = describe(model)
    beyond = described.parts - set(form.holds)
    if beyond:
        able = [one.name for one in _FORMATS.values() if described.parts <= set(one.holds)]
        raise ParameterError(
            f"{form.name} has no {' and no '.join(sorted(beyond))}, of which this model is a sum; "
            f"{', '.join(able)} can say it"
        )
    content, notes = form.write(described)
    return content, (*described.notes, *notes)


def import_model(
    file: str | os.PathLike[str],
    format: str,  # noqa: A002
    *,
    feature_names: Any = None,
) -> tuple[Model, list[str]]:
    """Read a model file of another system, with every check that saved models go through.

    Parameters
    ----------
    file : path
    format : str
        One of those of `list_formats` that are read.
    feature_names : sequence of str, optional
        Instead of those that the file has.

    Returns
    -------
    model : Model
    notes : list of str
        What has become of parts of the file that a ranking model does not have.

    Raises
    ------
    ModelFormatError
        If the file is no such model, or one of a kind that has no single score.
    UnknownNameError, SolverUnavailableError, ParameterError
        If there is no such format, a package is missing that it needs, or it is only written.
    OSError
        If the file cannot be read.
    """
    known = _find(format)
    if known.read is None:
        able = [one.name for one in _FORMATS.values() if one.read is not None]
        raise ParameterError(f"{format} is written only; {', '.join(able)} are read")
    path = Path(file)
    if path.stat().st_size > _MOST_BYTES:
        raise ModelFormatError(f"{path}: files of more than 2 GB are not read")
    try:
        model, notes = known.read(path.read_bytes())
    except ModelFormatError as error:
        raise ModelFormatError(f"{path}: {error}") from None
    if feature_names is not None:
        names = tuple(map(str, feature_names))
        if len(names) != model.n_features:
            raise DataError(f"{len(names)} names for {model.n_features} features")
        model.feature_names = names
    return model, list(notes)
