"""Steps of pipelines by scikit-learn's own arithmetic, on objects made again of checked numbers.

Such an object is made by its public parameters and attributes only, or fitted anew to numbers that
fix what it learns (the knots of splines, the powers of polynomials): the scores are those of the
pipeline to the last bit, and no other version's private attributes are relied on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import comb
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.preprocessing import (
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    PolynomialFeatures,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    SplineTransformer,
    StandardScaler,
)
from typing_extensions import override

from rankplug.models.steps import MOST_COLUMNS, Arrays, Params, Step, as_numbers, require
from rankplug.parameters import Choice, Integer, Parameter, Real

_TRUTH = Choice((True, False))
_LARGEST_DEGREE = 25  # of polynomials and splines, beyond which neither makes sense in float64


class _Range(Parameter):
    """Two ascending numbers; JSON has no tuples."""

    def accepts(self, value: Any) -> bool:
        number = Real()
        pair = isinstance(value, list | tuple) and len(value) == 2
        return pair and all(map(number.accepts, value)) and value[0] < value[1]


class _Degree(Parameter):
    """A degree, or the least and the largest."""

    def accepts(self, value: Any) -> bool:
        number = Integer(0, _LARGEST_DEGREE)
        pair = isinstance(value, list | tuple) and len(value) == 2
        return number.accepts(value) or (pair and all(map(number.accepts, value)))


@dataclass(frozen=True)
class _Kind:
    """A class of scikit-learn's: its parameters that matter, and the shapes of its arrays.

    A shape has "n" for the columns, and any other letter for a number that is the same in all
    arrays. `unless` names the parameter without which an array may be missing, which is None
    then. `finish` completes an object; `width` says how many columns it makes.
    """

    make: type
    params: Mapping[str, Parameter]
    shapes: Mapping[str, str]
    unless: Mapping[str, str]
    finish: Callable[[Any, Arrays, int], Any]
    width: Callable[[Mapping[str, Any], Arrays, int], int] = lambda _params, _arrays, n: n


def _set(scaler: Any, arrays: Arrays, _n: int) -> Any:
    """Fitted attributes, as public as the parameters."""
    for name, values in arrays.items():
        setattr(scaler, name, values)
    return scaler


def _set_quantiles(scaler: Any, arrays: Arrays, n: int) -> Any:
    references = arrays["references_"]
    within = np.all((references >= 0) & (references <= 1) & (np.diff(references, prepend=0) >= 0))
    require(bool(within and len(references)), "references_")
    require(bool(np.all(np.diff(arrays["quantiles_"], axis=0) >= 0)), "quantiles_")
    scaler.n_quantiles_ = len(references)
    return _set(scaler, arrays, n)


def _fit_powers(scaler: Any, _arrays: Arrays, n: int) -> Any:
    return scaler.fit(np.zeros((1, n)))


def _count_powers(params: Mapping[str, Any], _arrays: Arrays, n: int) -> int:
    """The number of products of the columns, before they are listed."""
    degree = params["degree"]
    low, high = (0, degree) if isinstance(degree, int) else map(int, degree)
    require(low <= high, "degree")
    size = comb if params["interaction_only"] else (lambda n, k: comb(n + k - 1, k))
    sizes = [size(n, k) for k in range(max(low, 1), high + 1)]
    return sum(sizes) + int(params["include_bias"] and low == 0)


def _fit_splines(scaler: Any, arrays: Arrays, _n: int) -> Any:
    knots = arrays["knots"]
    require(len(knots) >= 2 and bool(np.all(np.diff(knots, axis=0) > 0)), "knots")
    return scaler.set_params(knots=knots).fit(knots)


def _count_splines(params: Mapping[str, Any], arrays: Arrays, n: int) -> int:
    n_knots, degree = len(arrays["knots"]), params["degree"]
    periodic = params["extrapolation"] == "periodic"
    require(not periodic or n_knots > degree, "degree")
    each = n_knots - 1 if periodic else n_knots + degree - 1
    return n * (each - (not params["include_bias"]))


_KINDS: Mapping[str, _Kind] = {
    "StandardScaler": _Kind(
        StandardScaler,
        {"with_mean": _TRUTH, "with_std": _TRUTH},
        {"mean_": "n", "scale_": "n"},
        {"mean_": "with_mean", "scale_": "with_std"},
        _set,
    ),
    "MinMaxScaler": _Kind(
        MinMaxScaler, {"feature_range": _Range(), "clip": _TRUTH},
        {"min_": "n", "scale_": "n"}, {}, _set,
    ),
    "MaxAbsScaler": _Kind(MaxAbsScaler, {"clip": _TRUTH}, {"scale_": "n"}, {}, _set),
    "RobustScaler": _Kind(
        RobustScaler,
        {"with_centering": _TRUTH, "with_scaling": _TRUTH},
        {"center_": "n", "scale_": "n"},
        {"center_": "with_centering", "scale_": "with_scaling"},
        _set,
    ),
    "Normalizer": _Kind(Normalizer, {"norm": Choice(("l1", "l2", "max"))}, {}, {}, _set),
    "QuantileTransformer": _Kind(
        QuantileTransformer,
        {"output_distribution": Choice(("uniform", "normal")), "ignore_implicit_zeros": _TRUTH},
        {"quantiles_": "qn", "references_": "q"},
        {},
        _set_quantiles,
    ),
    "PowerTransformer": _Kind(
        PowerTransformer,
        {"method": Choice(("yeo-johnson", "box-cox")), "standardize": Choice((False,))},
        {"lambdas_": "n"},
        {},
        _set,
    ),
    "PolynomialFeatures": _Kind(
        PolynomialFeatures,
        {"degree": _Degree(), "interaction_only": _TRUTH, "include_bias": _TRUTH},
        {},
        {},
        _fit_powers,
        _count_powers,
    ),
    "SplineTransformer": _Kind(
        SplineTransformer,
        {
            "degree": Integer(0, _LARGEST_DEGREE),
            "extrapolation": Choice(("error", "constant", "linear", "continue", "periodic")),
            "include_bias": _TRUTH,
            "sparse_output": _TRUTH,
            "handle_missing": Choice(("error", "zeros")),
        },
        {"knots": "kn"},
        {},
        _fit_splines,
        _count_splines,
    ),
}  # fmt: skip

SCIKIT_KINDS = tuple(_KINDS)
"""The names of the classes."""


class ScikitStep(Step):
    """A step of scikit-learn's, made of its parameters and arrays.

    Parameters
    ----------
    kind : str
        One of `SCIKIT_KINDS`.
    params : mapping
        Those that are left out are scikit-learn's defaults.
    arrays : dict of ndarray

    Raises
    ------
    ValueError, TypeError, KeyError
        If parameters or arrays are missing, or do not fit together.
    """

    kind: str  # type: ignore[misc]

    def __init__(self, kind: str, params: Mapping[str, Any], arrays: Arrays, n_in: int) -> None:
        known = _KINDS[kind]
        wrong = [
            name for name, value in params.items()
            if name not in known.params or not known.params[name].accepts(value)
        ]  # fmt: skip
        if wrong:
            raise ValueError(f"parameters {', '.join(wrong)}")
        given = {key: tuple(v) if isinstance(v, list) else v for key, v in params.items()}
        made = known.make(**given)
        _check_shapes(known, made.get_params(), arrays, n_in)
        self.kind, self.n_in = kind, n_in
        self._params, self._arrays = dict(params), arrays
        self.n_out = known.width(made.get_params(), arrays, n_in)
        require(0 < self.n_out <= MOST_COLUMNS, f"{self.n_out} columns")
        attributes: dict[str, Any] = {**dict.fromkeys(known.unless), **arrays}
        self._scikit = known.finish(made, attributes, n_in)
        self._scikit.n_features_in_ = n_in

    @property
    @override
    def takes_missing(self) -> bool | None:
        """Splines may have values for them; polynomials and the like refuse them."""
        if self.kind == "SplineTransformer":
            return self._params.get("handle_missing") == "zeros"
        return False if self.kind in ("PolynomialFeatures", "Normalizer") else None

    @override
    def origins(self) -> NDArray[np.int64] | None:
        """Splines are one column behind the other; products and norms are of several."""
        if self.kind in ("PolynomialFeatures", "Normalizer"):
            return None
        return np.repeat(np.arange(self.n_in), self.n_out // self.n_in)

    @override
    def apply(self, X: Any) -> Any:
        made = self._scikit.transform(as_numbers(X))
        return sparse.csr_array(made) if sparse.issparse(made) else made

    @override
    def write(self) -> tuple[Params, Arrays]:
        return self._params, self._arrays

    @classmethod
    @override
    def read(cls, kind: str, params: Mapping[str, Any], arrays: Arrays, n_in: int) -> Self:
        return cls(kind, params, arrays, n_in)


def scikit_step(fitted: Any) -> ScikitStep:
    """The step of a fitted object of one of these classes; raises as `ScikitStep`."""
    kind = type(fitted).__name__
    known, has = _KINDS[kind], fitted.get_params()
    params = {name: _plain(has[name]) for name in known.params if name in has}
    arrays = {name: getattr(fitted, name, None) for name in known.shapes}
    if kind == "PowerTransformer":
        params["standardize"] = False  # which is a step of its own
    if kind == "SplineTransformer":
        degree = params["degree"]
        arrays["knots"] = np.column_stack(
            [one.t[degree : len(one.t) - degree] for one in fitted.bsplines_]
        )
    there = {name: np.asarray(one) for name, one in arrays.items() if one is not None}
    if not all(np.isfinite(values).all() for values in there.values()):
        raise ValueError("what it has learnt is not finite: is a column without values?")
    return ScikitStep(kind, params, there, int(fitted.n_features_in_))


def _plain(value: Any) -> Any:
    """A parameter as JSON has it."""
    return np.asarray(value).tolist() if isinstance(value, tuple | np.generic) else value


def _check_shapes(known: _Kind, params: Mapping[str, Any], arrays: Arrays, n_in: int) -> None:
    unused = {name for name, param in known.unless.items() if not params[param]}
    require(set(known.shapes) - unused <= set(arrays) <= set(known.shapes), f"{[*arrays]}")
    sizes = {"n": n_in}
    for name, array in arrays.items():
        expected = tuple(sizes.get(letter, -1) for letter in known.shapes[name])
        if array.ndim != len(expected) or any(
            wanted not in (-1, size) for wanted, size in zip(expected, array.shape, strict=True)
        ):
            raise ShapeError(name, n_in)
        sizes |= dict(zip(known.shapes[name], array.shape, strict=True))


class ShapeError(ValueError):
    """An array that is not of the shape that so many columns need."""

    def __init__(self, name: str, n_in: int) -> None:
        super().__init__(f"{name} does not fit {n_in} features")
