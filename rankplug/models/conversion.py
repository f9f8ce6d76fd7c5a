"""Fitted transformers of scikit-learn as steps that are saved without pickle."""

from __future__ import annotations

import numbers
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.compose import ColumnTransformer
from sklearn.feature_selection import SelectorMixin
from sklearn.impute import SimpleImputer
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    OneHotEncoder,
    OrdinalEncoder,
    PowerTransformer,
)

from rankplug.data import tables
from rankplug.models.encoding import EncodeStep
from rankplug.models.scikit_steps import SCIKIT_KINDS, scikit_step
from rankplug.models.step_trees import NamedStep, ParallelStep, Part
from rankplug.models.steps import BinStep, ImputeStep, SelectStep

_OWN = (SimpleImputer, OneHotEncoder, OrdinalEncoder, KBinsDiscretizer)
SAVED = (
    f"{', '.join(SCIKIT_KINDS)}, {', '.join(one.__name__ for one in _OWN)}, selections of columns "
    "(VarianceThreshold, SelectKBest, ...), ColumnTransformer, FeatureUnion and Pipeline of these, "
    "and 'passthrough'"
)
"""What can be saved, for messages."""


def find_unknown(name: str, step: Any) -> Iterator[str]:
    """The transformers that are none of those that can be saved, in words."""
    if _is_nothing(step) or _is_known(step):
        return
    inner = _inner(step)
    if inner is None:
        yield f"{name!r} ({type(step).__name__})"
        return
    for more, one in inner:
        yield from find_unknown(f"{name}.{more}", one)


def _inner(step: Any) -> list[tuple[str, Any]] | None:
    """The transformers within one that is nothing but these; None for any other.

    A subclass may transform in another way.
    """
    if type(step) is Pipeline:
        return list(step.steps)
    if type(step) is FeatureUnion:
        return list(step.transformer_list)
    if type(step) is ColumnTransformer:
        fitted = getattr(step, "transformers_", step.transformers)
        return [(name, one) for name, one, columns in fitted]
    return None


def _is_nothing(step: Any) -> bool:
    """Whether it is left out, or hands on what it gets."""
    if step is None or (isinstance(step, str) and step in ("passthrough", "drop")):
        return True
    return type(step) is FunctionTransformer and step.func is None and step.inverse_func is None


def _is_known(step: Any) -> bool:
    kind, of_scikit = type(step), type(step).__module__.startswith("sklearn.")
    if kind in _OWN:
        return True
    return of_scikit and (kind.__name__ in SCIKIT_KINDS or isinstance(step, SelectorMixin))


def convert_step(name: str, step: Any, n_in: int) -> list[NamedStep]:
    """A fitted transformer of so many columns as steps.

    Raises
    ------
    ValueError
        If it is set in a way that has no form here.
    """
    if _is_nothing(step):
        return []
    if type(step) is Pipeline:
        return convert_chain(step.steps, n_in, f"{name}.")
    if type(step) is FeatureUnion:
        return [NamedStep(name, _union(step, n_in, name))]
    if type(step) is ColumnTransformer:
        return [NamedStep(name, _columns(step, name))]
    if type(step) is SimpleImputer:
        return [NamedStep(name, _imputer(step))]
    if type(step) in (OneHotEncoder, OrdinalEncoder):
        return [NamedStep(name, _encoder(step))]
    if type(step) is KBinsDiscretizer:
        return _bins(name, step)
    if isinstance(step, SelectorMixin):
        chosen = np.flatnonzero(step.get_support())
        return [NamedStep(name, SelectStep(int(step.n_features_in_), chosen))]
    made = [NamedStep(name, scikit_step(step))]
    if type(step) is PowerTransformer and step.standardize:
        made.append(NamedStep(name, scikit_step(step._scaler)))
    return made


def convert_chain(steps: Sequence[tuple[str, Any]], n_in: int, prefix: str = "") -> list[NamedStep]:
    """Fitted transformers one after the other as steps."""
    found: list[NamedStep] = []
    for name, step in steps:
        found += convert_step(prefix + name, step, found[-1].step.n_out if found else n_in)
    return found


def _union(step: FeatureUnion, n_in: int, name: str) -> ParallelStep:
    weights, parts = step.transformer_weights or {}, []
    for one, transformer in step.transformer_list:
        if not (isinstance(transformer, str) and transformer == "drop"):
            inner = convert_step(f"{name}.{one}", transformer, n_in)
            parts.append(Part(np.arange(n_in), inner, float(weights.get(one, 1.0))))
    return ParallelStep(n_in, tuple(parts))


def _columns(step: ColumnTransformer, name: str) -> ParallelStep:
    n_in, weights, parts = int(step.n_features_in_), step.transformer_weights or {}, []
    known = getattr(step, "feature_names_in_", None)
    names = None if known is None else [str(one) for one in known]
    for one, transformer, columns in step.transformers_:
        chosen = positions(columns, names, n_in)
        if len(chosen) and not (isinstance(transformer, str) and transformer == "drop"):
            inner = convert_step(f"{name}.{one}", transformer, len(chosen))
            parts.append(Part(chosen, inner, float(weights.get(one, 1.0))))
    return ParallelStep(n_in, tuple(parts), bool(step.sparse_output_))


def positions(columns: Any, names: Sequence[str] | None, n: int) -> NDArray[np.int64]:
    """The columns that a ColumnTransformer has chosen by names, positions, a slice or a mask."""
    if isinstance(columns, slice):
        start, stop = columns.start, columns.stop
        if isinstance(start, str) or isinstance(stop, str):
            assert names is not None
            first = 0 if start is None else names.index(start)
            last = n if stop is None else names.index(stop) + 1  # by names the end is included
            return np.arange(n)[first : last : columns.step]
        return np.arange(n)[columns]
    one = isinstance(columns, str | numbers.Integral) and not isinstance(columns, bool)
    given = np.asarray([columns] if one else list(columns))
    if given.dtype.kind == "b":
        return np.flatnonzero(given)
    if given.dtype.kind in "UOT":
        assert names is not None
        return np.array([names.index(str(name)) for name in given], dtype=np.int64)
    return np.arange(n)[given.astype(np.int64)]


def _imputer(step: SimpleImputer) -> ImputeStep:
    statistics = [_value(one) for one in step.statistics_]
    if step.keep_empty_features and step.statistics_.dtype.kind == "f":
        # A column of nothing but NaN has a statistic all the same, but for constants of NaN.
        statistics = [0.0 if one is None else one for one in statistics]
    indicator = step.indicator_
    indicated = np.array([] if indicator is None else indicator.features_, dtype=np.int64)
    return ImputeStep(tuple(statistics), _value(step.missing_values), indicated)


def _encoder(step: OneHotEncoder | OrdinalEncoder) -> EncodeStep:
    one_hot = type(step) is OneHotEncoder
    categories = [tuple(map(_value, values)) for values in step.categories_]
    for values in categories:
        if len(set(values)) < len(values):
            raise ValueError("None and NaN are two categories of it: make them one")
    # What it makes of each category, and of another one.
    n_in = len(categories)
    codes, unknown = [], []
    first = [values[0] for values in step.categories_]
    widths = np.ones(n_in, dtype=np.int64)
    if one_hot:
        widths = np.array([_width(step, j) for j in range(n_in)], dtype=np.int64)
    ends = np.cumsum(widths)
    for j, values in enumerate(step.categories_):
        rows = np.empty((len(values), n_in), dtype=object)
        rows[:] = np.array(first, dtype=object)
        rows[:, j] = values
        made = step.transform(rows)
        dense = made.toarray() if hasattr(made, "toarray") else np.asarray(made)
        own = dense[:, ends[j] - widths[j] : ends[j]] if one_hot else dense[:, j]
        codes.append(_places(own) if one_hot else own.astype(np.float64))
        unknown.append(_unknown(step, j, codes[-1]))
    sparse_output = one_hot and bool(step.sparse_output)
    return EncodeStep(
        type(step).__name__, tuple(categories), np.concatenate(codes), widths, tuple(unknown),
        sparse_output,
        "float32" if np.dtype(step.dtype) == np.float32 else "float64",
    )  # fmt: skip


def _width(step: OneHotEncoder, j: int) -> int:
    """How many columns a column becomes."""
    size = len(step.categories_[j])
    rare = getattr(step, "infrequent_categories_", None)
    if rare is not None and rare[j] is not None:
        size -= len(rare[j]) - 1
    dropped = step.drop_idx_ is not None and step.drop_idx_[j] is not None
    return size - dropped


def _places(rows: NDArray[Any]) -> NDArray[np.float64]:
    """Where the 1 is in each row, -1 for none."""
    if rows.shape[1] == 0:
        return np.full(len(rows), -1.0)
    return np.where(rows.any(axis=1), rows.argmax(axis=1), -1).astype(np.float64)


def _unknown(step: Any, j: int, codes: NDArray[np.float64]) -> float | None:
    """What becomes of a value that is no category; None if it is refused."""
    how = step.handle_unknown
    if how == "error":
        return None
    if how == "use_encoded_value":
        return float(step.unknown_value)
    rare = getattr(step, "infrequent_categories_", None)
    if how in ("infrequent_if_exist", "warn") and rare is not None and rare[j] is not None:
        values = list(step.categories_[j])
        return float(codes[values.index(rare[j][0])])
    return -1.0


def _bins(name: str, step: KBinsDiscretizer) -> list[NamedStep]:
    edges = tuple(np.asarray(one, dtype=np.float64)[1:-1] for one in step.bin_edges_)
    made = [NamedStep(name, BinStep(edges))]
    if step.encode == "ordinal":
        return made
    sizes = [int(n) for n in step.n_bins_]
    codes = np.concatenate([np.arange(n, dtype=np.float64) for n in sizes])
    one_hot = EncodeStep(
        "OneHotEncoder",
        tuple(tuple(range(n)) for n in sizes),
        codes,
        np.array(sizes, dtype=np.int64),
        (-1.0,) * len(sizes),
        step.encode == "onehot",
        "same",
    )
    return [*made, NamedStep(name, one_hot)]


def _value(value: Any) -> Any:
    """A category or a statistic as JSON has it; None for what is missing."""
    if tables.is_missing(value):
        return None
    return value.item() if isinstance(value, np.generic) else value
