"""Layers: what scaling, imputing and choosing of columns do to features, one number at a time.

A form of the columns behind a layer becomes a form of the features before it: weights and knots
by arithmetic, thresholds of trees to the last bit (`rankplug.exchange.floats.pull_back`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankplug.data import Scaling
from rankplug.exceptions import ParameterError
from rankplug.exchange.floats import pull_back
from rankplug.exchange.form import Columns, Expansion, Floats, Form, Ints, Ramps, Terms, Trees

_OPERATIONS: Mapping[str, Any] = {
    "subtract": np.subtract, "divide": np.divide, "multiply": np.multiply, "add": np.add,
}  # fmt: skip
_FILL = "fill"


@dataclass(frozen=True, eq=False)
class Layer:
    """Columns, each an increasing function of one feature.

    Attributes
    ----------
    feature : int64 ndarray of shape (n_columns,)
    operations : sequence of (str, float64 ndarray of shape (n_columns,))
        In their order: "subtract", "divide", "multiply", "add", or "fill", which replaces what is
        missing unless it is given NaN.
    """

    feature: Ints
    operations: tuple[tuple[str, Floats], ...] = ()

    def then(self, other: Layer) -> Layer:
        """Both, one after the other."""
        own = tuple((name, values[other.feature]) for name, values in self.operations)
        return Layer(self.feature[other.feature], own + other.operations)

    def apply(self, values: Floats, columns: Ints) -> Floats:
        """What becomes of values of the features of these columns."""
        for name, numbers in self.operations:
            if name == _FILL:
                values = np.where(np.isnan(values), numbers[columns], values)
            else:
                values = _OPERATIONS[name](values, numbers[columns])
        return values

    def of_missing(self, columns: Ints) -> Floats:
        """What a missing feature becomes; NaN if it stays missing."""
        return self.apply(np.full(len(columns), np.nan), columns)

    def affine(self, columns: Ints) -> tuple[Floats, Floats]:
        """Shift and factor of ``(x - shift) * factor``; raises `ParameterError` if none rises."""
        shift, factor = np.zeros(len(self.feature)), np.ones(len(self.feature))
        with np.errstate(all="ignore"):
            for name, values in self.operations:
                if name == "subtract":
                    shift = shift + values / factor
                elif name == "add":
                    shift = shift - values / factor
                elif name == "multiply":
                    factor = factor * values
                elif name == "divide":
                    factor = factor / values
        shift, factor = shift[columns], factor[columns]
        if not (np.isfinite(shift).all() and np.isfinite(factor).all() and np.all(factor > 0)):
            raise ParameterError(
                "features are scaled by numbers that are not positive, or beyond floating point: "
                "such a model cannot be exported"
            )
        return shift, factor


def of_scaling(scaling: Scaling) -> Layer:
    """The layer of the scaling (and imputing) of a `ScaledModel`."""
    operations = [(_FILL, scaling.fill), ("subtract", scaling.shift), ("multiply", scaling.factor)]
    given = tuple((name, values) for name, values in operations if values is not None)
    return Layer(np.arange(len(scaling.factor)), given)


def of_steps(steps: Sequence[Any], n_in: int) -> Layer:
    """The layer of the steps of a `PipelineModel`; raises `ParameterError` if one is no layer."""
    layer = Layer(np.arange(n_in))
    for named in steps:
        layer = layer.then(_of_step(named.name, named.step))
    return layer


def _of_step(name: str, step: Any) -> Layer:
    if step.kind == "columns":
        return Layer(np.asarray(step.columns))
    if step.kind == "parallel":
        parts = [_of_part(part) for part in step.parts]
        return _side_by_side(parts)
    every = np.arange(step.n_in)
    if step.kind == "SimpleImputer":
        fill = step.statistics
        numbers = all(isinstance(one, int | float) for one in fill)
        if step.missing is None and numbers and not len(step.indicated):
            return Layer(every, ((_FILL, np.array(fill, dtype=np.float64)),))
    elif step.kind in _SCALERS:
        params, arrays = step.write()
        if not params.get("clip"):
            known = _SCALERS[step.kind]
            return Layer(every, tuple((op, arrays[key]) for op, key in known if key in arrays))
    raise ParameterError(
        f"the pipeline's step {name!r} ({step.kind}) cannot be exported: scalers that do not clip, "
        "imputing of numbers by numbers and choosing of columns can. Export the model behind it, "
        "and let the other system do the step"
    )


_SCALERS = {
    "StandardScaler": (("subtract", "mean_"), ("divide", "scale_")),
    "RobustScaler": (("subtract", "center_"), ("divide", "scale_")),
    "MinMaxScaler": (("multiply", "scale_"), ("add", "min_")),
    "MaxAbsScaler": (("divide", "scale_"),),
}


def _of_part(part: Any) -> Layer:
    layer = Layer(np.asarray(part.columns)).then(of_steps(part.steps, len(part.columns)))
    if part.weight == 1.0:
        return layer
    weight = np.full(len(layer.feature), float(part.weight))
    return replace(layer, operations=(*layer.operations, ("multiply", weight)))


def _side_by_side(parts: Sequence[Layer]) -> Layer:
    """Columns of several layers; each operation is one that changes nothing for the others."""
    nothing = {"subtract": 0.0, "add": 0.0, "multiply": 1.0, "divide": 1.0, _FILL: np.nan}
    sizes = [len(part.feature) for part in parts]
    operations = []
    for k, part in enumerate(parts):
        for name, values in part.operations:
            columns = [np.full(size, nothing[name]) for size in sizes]
            columns[k] = values
            operations.append((name, np.concatenate(columns)))
    return Layer(np.concatenate([part.feature for part in parts]), tuple(operations))


def behind(layer: Layer, form: Form, names: tuple[str, ...], takes_missing: bool) -> Form:
    """The form of the features before a layer of one of the columns behind it."""
    return Form(
        names,
        form.constant,
        _terms(form.terms, layer),
        _ramps(form.ramps, layer),
        _trees(form.trees, layer),
        tuple(_expansion(one, layer) for one in form.expansions),
        takes_missing,
        form.notes,
    )


def _filled(layer: Layer, columns: Ints, missing: Floats, known: Any) -> Floats:
    """What a part adds for a missing feature: as before, or as for the value that fills it."""
    values = layer.of_missing(columns)
    return np.where(np.isnan(values), missing, known(values))


def _terms(terms: Terms, layer: Layer) -> Terms:
    columns = terms.feature
    shift, factor = layer.affine(columns)
    missing = _filled(layer, columns, terms.missing, lambda y: terms.weight * (y - terms.shift))
    back = shift + terms.shift / factor
    return Terms(layer.feature[columns], terms.weight * factor, back, missing)


def _ramps(ramps: Ramps, layer: Layer) -> Ramps:
    columns = ramps.feature
    shift, factor = layer.affine(columns)

    def known(values: Floats) -> Floats:
        part = np.clip((values - ramps.low) / (ramps.high - ramps.low), 0.0, 1.0)
        return np.asarray(ramps.weight * part)

    missing = _filled(layer, columns, ramps.missing, known)
    low, high = shift + ramps.low / factor, shift + ramps.high / factor
    return Ramps(layer.feature[columns], low, high, ramps.weight, missing)


def _trees(trees: Trees, layer: Layer) -> Trees:
    inner = np.flatnonzero(~trees.is_leaf)
    if not len(inner):
        return trees
    columns, old = trees.feature[inner], trees.threshold[inner]
    shift, factor = layer.affine(columns)

    def function(values: Floats) -> Floats:
        return layer.apply(values, columns)

    threshold, special = trees.threshold.copy(), trees.special.copy()
    bounded = np.isfinite(old)
    threshold[inner] = np.where(bounded, pull_back(np.where(bounded, old, 0.0), function), old)
    special[inner] = shift + trees.special[inner] / factor
    values = layer.of_missing(columns)
    goes_left: NDArray[np.bool_] = np.where(
        np.isnan(values) | (values == trees.special[inner]),
        trees.missing_left[inner],
        values <= old,
    )
    missing_left, feature = trees.missing_left.copy(), trees.feature.copy()
    # What fills a missing feature goes where that value goes; the special one, as it did.
    odd = ~np.isnan(special[inner]) & (goes_left != trees.missing_left[inner])
    agrees = trees.missing_left[inner] == (special[inner] <= threshold[inner])
    if np.any(odd & ~agrees):
        raise ParameterError(
            "trees to which zeros are missing, behind an imputing, cannot be exported: train them "
            "with zeros='value'"
        )
    special[inner] = np.where(odd, np.nan, special[inner])
    missing_left[inner] = goes_left
    feature[inner] = layer.feature[columns]
    return trees._replace(
        feature=feature, threshold=threshold, missing_left=missing_left, special=special
    )


def _expansion(one: Expansion, layer: Layer) -> Expansion:
    columns = one.columns.feature
    shift, factor = layer.affine(columns)
    values = layer.of_missing(columns)
    fill = values / factor + shift
    inner = one.columns
    before = np.where(np.isnan(inner.fill), fill, inner.fill / factor + shift)
    return one._replace(
        columns=Columns(
            layer.feature[columns],
            shift + inner.shift / factor,
            factor * inner.factor,
            np.where(np.isnan(fill), before, fill),
        )
    )
