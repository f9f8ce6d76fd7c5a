"""Reading files: `read_data` and `read_label_data` make checked data of them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy import sparse

from rankplug.data import (
    Categories,
    LabelRankingData,
    Matrix,
    RankingData,
    read_preferences,
    relevance_of_ranks,
    tables,
)
from rankplug.exceptions import DataError, ParameterError
from rankplug.io.columns import DEFAULT_QID, Known, label_roles, query_roles, read_columns
from rankplug.io.companions import Companions, find_companions, refuse_companions
from rankplug.io.files import InputFile, Notation, Paths, input_files, refuse_unfit
from rankplug.io.prepared import is_folder, open_prepared
from rankplug.io.shortage import names_shortage
from rankplug.io.svmlight import read_svmlight
from rankplug.parameters import Choice, Integer, Optional, check_parameters

_FLOAT_TYPES = ("float32", "float64", np.float32, np.float64)


@names_shortage
def read_data(
    path: Paths,
    *,
    format: str | None = None,  # noqa: A002
    label: str | None = None,
    qid: str | None = None,
    weight: str | None = None,
    document_weight: str | None = None,
    features: Sequence[str] | None = None,
    shown: Sequence[str] | None = None,
    n_features: int | None = None,
    zero_based: bool | None = None,
    separator: str | None = None,
    decimal: Literal[".", ","] | None = None,
    like: RankingData | None = None,
    dense: bool | None = None,
    dtype: DTypeLike | None = None,
) -> RankingData:
    """Read documents with graded relevance from a file, or open a prepared folder of them.

    LETOR/svmlight text has lines ``relevance qid:ID index:value ... # comment`` with ascending
    indices from 1; features that a line leaves out are 0. CSV files have a header. Text may be
    compressed (gzip, bzip2, xz, zstd, or a ZIP archive of one file), UTF-8, or UTF-16 and UTF-32
    with a byte order mark; a line has 32 MB at most. Without query ids all rows are one query; ids
    that are written as plain integers become integers, others strings.

    Beside text, ``NAME.query`` (LightGBM) or ``NAME.group`` (XGBoost) holds the number of rows of
    each query, ``NAME.weight`` the weight of each row, or of each query. They are used, and a
    `DataWarning` says so.

    Parameters
    ----------
    path : path, or several
        Several files are read as one: rows with the same query id become one query, whichever
        files they stand in. A folder that `rankplug.prepare` has made is opened as it is, and
        takes no other argument but `like`: its features stay on disk until they are used.
    format : "svmlight", "csv", "parquet" or "arrow", optional
        Found out from the content and the name if omitted.
    label, qid, weight : str, optional
        Columns of a table that hold relevance ("label" if omitted), query id ("qid" if omitted
        and there is one) and query weight (none if omitted).
    document_weight : str, optional
        Column of a table that holds a weight for each row, as of `RankingData.from_arrays`.
    features : sequence of str, optional
        Columns of a table that hold features; all others if omitted.
    shown : sequence of str, optional
        Columns of a table that describe the rows, such as a title, whatever they hold: reports
        show them. They are features, too, unless `features` says otherwise.
    n_features : int, optional
        Number of features of svmlight text; the largest index if omitted.
    zero_based : bool, optional
        Whether the indices of svmlight text begin at 0, as scikit-learn, LightGBM and XGBoost
        write them; as in `like` if omitted, or else from 1. Models remember it.
    separator : str, optional
        The character between the cells of CSV; found in the header if omitted.
    decimal : "." or ",", optional
        The decimal mark of CSV; a point if omitted.
    like : RankingData, optional
        Data read before, for training: the new data get the same features in the same order
        and form (dense or sparse, float32 or float64), 0 where svmlight text has none.
    dense : bool, optional
        Whether features become an array or CSR; if omitted, svmlight text is dense when it
        writes at least half of the values, and tables are. Zeros are not stored in CSR.
    dtype : float32 or float64, optional
        Of the features; float64 if omitted, but float32 columns of Parquet and Arrow stay so.

    Raises
    ------
    DataError
        If a file is missing, empty, damaged or malformed, or holds values that are missing or
        infinite, or features that `like` does not have; names file, line or row, and column.
    ParameterError
        If an argument does not fit the format.
    """
    given = {name: value for name, value in locals().items() if name not in ("path", "like")}
    if is_folder(path):
        refuse_unfit("prepared", **{**given, "zero_based": zero_based or None})
        return _open_like(cast("str | os.PathLike[str]", path), like)
    form = _Form.of(n_features, like, dense, dtype)
    files, format_, notation = _open_files(path, format, like, zero_based, separator, decimal)
    if format_ == "svmlight":
        of_tables = ("label", "qid", "weight", "document_weight", "features", "shown")
        refuse_unfit(format_, **{name: given[name] for name in of_tables})
        companions = find_companions(files, format_)
        X, relevance, ids, weights = form.read_text(files, companions)
        data = _ranking_data(companions, X, relevance, ids, weights, form.feature_names)
        ids_column = None if ids is None else DEFAULT_QID
        return data.with_facts(query_column=ids_column, zero_based=bool(notation.zero_based))
    refuse_unfit(format_, n_features=n_features)
    names = ("label", "qid", "weight", "document_weight")
    named: dict[str, Any] = {name: given[name] for name in names}
    like_names = form.feature_names
    choose = partial(
        query_roles, **named, features=features, like=like_names, shown=tables.listed(shown or ())
    )
    companions = find_companions(files, format_)
    roles, columns = read_columns(files, format_, choose, form.dtype, form.known, companions)
    data = _ranking_data(
        companions,
        form.shape(columns.features),
        columns.relevance[:, 0],
        columns.ids,
        columns.weight,
        columns.names,
        columns.categories,
        columns.document_weight,
    )
    ids_column = roles.ids or (None if columns.ids is None else DEFAULT_QID)
    kept = columns.kept
    if kept is not None and data.order is not None:
        kept = kept.take(data.order)
    return data.with_facts(query_column=ids_column, shown=kept)


@names_shortage
def read_label_data(
    path: Paths,
    *,
    format: str | None = None,  # noqa: A002
    labels: str | Sequence[str] | None = None,
    ranks: bool | None = None,
    orders: bool | None = None,
    features: Sequence[str] | None = None,
    n_features: int | None = None,
    zero_based: bool | None = None,
    separator: str | None = None,
    decimal: Literal[".", ","] | None = None,
    like: LabelRankingData | None = None,
    dense: bool | None = None,
    dtype: DTypeLike | None = None,
) -> LabelRankingData:
    """Read instances with a class, or with a relevance or rank for each label, from a file.

    Parameters
    ----------
    path, format, features, n_features, zero_based, separator, decimal, dense, dtype
        As for `read_data`.
    labels : str or sequence of str
        Of a table: the column that holds the class, or the order of names, such as ``a>b=c``; or
        one column for each label. Of svmlight text: None, the first number of a line is the class.
    ranks : bool, optional
        Whether the label columns hold ranks from 1, the best; relevance is the number of labels
        minus the rank. Missing values mean that the label is not compared. If it is not said, they
        hold relevance, and a `DataWarning` tells when it looks like ranks.
    orders : bool, optional
        Whether the one column holds orders of names; if it is not said, texts that all have the
        form ``a>b`` do. Labels that an order does not name are not compared.
    like : LabelRankingData, optional
        Data read before, for training: the new data get the same features and classes.

    Raises
    ------
    DataError
        As `read_data`; also if a class is not in `like`, or a rank not between 1 and the number
        of labels.
    ParameterError
        If an argument does not fit the format.
    """
    form = _Form.of(n_features, like, dense, dtype)
    files, format_, notation = _open_files(path, format, like, zero_based, separator, decimal)
    refuse_companions(files, format_)
    where = ", ".join(map(str, files))
    if format_ == "svmlight":
        refuse_unfit(
            format_, labels=labels, ranks=ranks or None, orders=orders or None, features=features
        )
        X, values, ids, _ = form.read_text(files, [Companions(file) for file in files])
        if ids is not None:
            raise DataError(f"{where}: query ids are for read_data, which reads ranking data")
        data = _class_data(where, X, _whole(values), form, like, orders=False)
        return data.with_facts(zero_based=bool(notation.zero_based))
    if labels is None:
        raise ParameterError("name the class column, labels='...', or columns, labels=['...']")
    if orders and not isinstance(labels, str):
        raise ParameterError("orders=True needs the name of the column of orders: labels='...'")
    refuse_unfit(format_, n_features=n_features)
    choose = partial(label_roles, labels=labels, features=features, like=form.feature_names)
    roles, columns = read_columns(files, format_, choose, form.dtype, form.known)
    form = replace(form, feature_names=columns.names, categories=columns.categories)
    X = form.shape(columns.features)
    if columns.ids is not None:
        return _class_data(where, X, columns.ids, form, like, orders=orders)
    relevance = columns.relevance
    if ranks:
        relevance = relevance_of_ranks(relevance, where, roles.relevance)
    return LabelRankingData.from_arrays(
        X,
        relevance,
        labels=roles.relevance,
        ranks=None if ranks is None else False,
        feature_names=columns.names,
        categories=columns.categories,
    )


@dataclass(frozen=True)
class _Form:
    """What the features shall look like; None leaves it to the file."""

    n_features: int | None
    feature_names: Sequence[str] | None
    dense: bool | None
    dtype: DTypeLike | None
    categories: Categories | None = None

    @property
    def known(self) -> Known:
        """The features of the data that these are to be like."""
        return Known(self.feature_names, self.categories)

    @classmethod
    def of(
        cls,
        n_features: int | None,
        like: RankingData | LabelRankingData | None,
        dense: bool | None,
        dtype: DTypeLike | None,
    ) -> _Form:
        check_parameters(
            "reading data",
            {
                "n_features": Optional(Integer(1, most=2**31 - 1)),
                "dense": Optional(Choice((True, False))),
            },
            {"n_features": n_features, "dense": dense},
        )
        if dtype is not None and dtype not in _FLOAT_TYPES:
            raise ParameterError(f"dtype={dtype!r} must be 'float32' or 'float64'")
        if like is None:
            return cls(n_features, None, dense, dtype)
        if not isinstance(like, RankingData | LabelRankingData):
            raise ParameterError("like must be data read before, RankingData or LabelRankingData")
        if n_features not in (None, like.n_features):
            raise ParameterError(
                f"n_features={n_features} but the data of like have {like.n_features}"
            )
        return cls(
            like.n_features,
            like.feature_names,
            not sparse.issparse(like.X) if dense is None else dense,
            like.X.dtype if dtype is None else dtype,
            like.categories,
        )

    def read_text(
        self, files: Sequence[InputFile], companions: Sequence[Companions]
    ) -> tuple[Matrix, NDArray[np.float64], NDArray[Any] | None, NDArray[np.float64] | None]:
        dtype = np.float64 if self.dtype is None else self.dtype
        form: dict[str, Any] = {"n_features": self.n_features, "dense": self.dense, "dtype": dtype}
        return read_svmlight(files, companions, **form)

    def shape(self, features: NDArray[Any]) -> Matrix:
        if self.n_features not in (None, features.shape[1]):
            raise DataError(
                f"{features.shape[1]} feature columns, but the data of like have "
                f"{self.n_features}: name them with features=[...]"
            )
        return sparse.csr_array(features) if self.dense is False else features


def _open_files(
    path: Paths,
    format_: str | None,
    like: RankingData | LabelRankingData | None,
    zero_based: bool | None,
    separator: str | None,
    decimal: Literal[".", ","] | None,
) -> tuple[list[InputFile], str, Notation]:
    """The files and how they are written: from 0 like the training data if it is not said."""
    said = Notation(zero_based, separator, decimal)
    files, known = input_files(path, format_, said)
    if zero_based is None and like is not None and known == "svmlight":
        said = replace(said, zero_based=like.zero_based)
        files = [InputFile(file.path, said) for file in files]
    return files, known, said


def _ranking_data(
    companions: Sequence[Companions],
    X: Matrix,
    relevance: NDArray[np.float64],
    ids: NDArray[Any] | None,
    weight: NDArray[np.float64] | None,
    feature_names: Sequence[str] | None,
    categories: Categories | None = None,
    document_weight: NDArray[np.float64] | None = None,
) -> RankingData:
    told = [str(one.weights_file) for one in companions if one.weights_file is not None]
    try:
        return RankingData.from_arrays(
            X,
            relevance,
            ids,
            sample_weight=weight,
            document_weight=document_weight,
            feature_names=feature_names,
            categories=categories,
        )
    except DataError as error:
        raise DataError(f"{', '.join(told)}: {error}" if told else str(error)) from None


def _open_like(path: str | os.PathLike[str], like: RankingData | None) -> RankingData:
    data = open_prepared(path).data()
    if like is not None and (data.n_features, data.feature_names) != (
        like.n_features,
        like.feature_names,
    ):
        raise DataError(
            f"{path} holds {data.n_features} features, which are not the {like.n_features} of the "
            "training data: prepare it with the same n_features, or the same columns as features"
        )
    return data


def _class_data(
    where: str,
    X: Matrix,
    classes: NDArray[Any],
    form: _Form,
    like: LabelRankingData | None,
    *,
    orders: bool | None,
) -> LabelRankingData:
    try:
        read = read_preferences(classes, orders=orders)
        if like is not None:
            known = like.labels
            if read.are_classes:
                if classes.dtype.kind != known.dtype.kind:
                    classes, known = classes.astype(np.str_), known.astype(np.str_)
                unseen = np.setdiff1d(classes, known)
                if unseen.size:
                    raise DataError(f"classes unseen in training: {', '.join(map(str, unseen))}")
            read = read_preferences(classes, known=known, orders=not read.are_classes)
    except DataError as error:
        raise DataError(f"{where}: {error}") from None
    return LabelRankingData.from_arrays(
        X,
        read.relevance,
        labels=read.labels if like is None else like.labels,
        ranks=False,
        feature_names=form.feature_names,
        categories=form.categories,
    )


def _whole(values: NDArray[np.float64]) -> NDArray[Any]:
    """Integers if all values are whole numbers."""
    whole = np.abs(values) < 2**53
    whole &= values == np.rint(values)
    return values.astype(np.int64) if whole.all() else values
