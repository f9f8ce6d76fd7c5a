"""Fitted regressors of scikit-learn as arrays and numbers that rankplug itself predicts with.

A regressor is what it was fitted to: scalers of its features, and behind them a linear function,
a sum of kernels or trees. The same code reads living regressors and those of files of version 0.1
(`Part`), and believes nothing of either: every array's shape, type and values are checked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rankplug.kernels import Kernel
from rankplug.models import KernelModel, LinearModel, Model, TreeEnsemble
from rankplug_plugins.baselines.parts import (
    Part,
    attribute,
    count_features,
    kind_of,
    number,
    numbers,
    part_of,
)
from rankplug_plugins.baselines.tree_conversion import (
    boosted_histograms,
    boosted_trees,
    forest,
    single_tree,
)

_SAVED = (
    "scikit-learn's linear regressors, SVR, NuSVR and KernelRidge (kernels linear, rbf, poly), "
    "decision trees, forests, gradient boosting, and pipelines of one of them behind "
    "StandardScaler, RobustScaler, MinMaxScaler or MaxAbsScaler"
)


class UnknownRegressorError(ValueError):
    """A regressor, or a step before it, of a kind that has no form here."""


class Step(NamedTuple):
    """What a scaler does to features: an operation with one number each, or between two for all."""

    operation: str
    values: NDArray[Any]


class Converted(NamedTuple):
    """A regressor: ``link(model(steps(X)) + intercept)``; the link is "identity" or "log"."""

    steps: tuple[Step, ...]
    model: Model
    intercept: float = 0.0
    link: str = "identity"


def convert(regressor: Any) -> Converted:
    """The regressor as arrays and numbers.

    Raises
    ------
    ValueError
        If it is of another kind, is not fitted, or its parts do not fit together. (Or
        `DataError`, by the models that it consists of.)
    """
    *before, last = _flat_steps(regressor)
    part = part_of(last)
    kind = kind_of(part)
    if kind not in _REGRESSORS:
        raise UnknownRegressorError(f"{kind} is none of those that can be: {_SAVED}")
    n_features = count_features(part)
    steps = [step for scaler in before for step in _scaler_steps(part_of(scaler), n_features)]
    return _REGRESSORS[kind](part, n_features)._replace(steps=tuple(steps))


def _flat_steps(regressor: Any) -> Iterator[Any]:
    """The steps of pipelines within pipelines, or the regressor alone."""
    part = part_of(regressor)
    if kind_of(part) != "Pipeline":
        yield regressor
        return
    for step in attribute(part, "steps"):
        if not isinstance(step, list | tuple) or len(step) != 2:
            raise ValueError("a step of the pipeline is no pair")
        if step[1] not in (None, "passthrough"):
            yield from _flat_steps(step[1])


# Scalers

_Operations = tuple[tuple[str, str, str | None], ...]

# For each scaler: operation, attribute, and the parameter without which it is left out.
_SCALERS: dict[str, _Operations] = {
    "StandardScaler": (("subtract", "mean_", "with_mean"), ("divide", "scale_", "with_std")),
    "RobustScaler": (
        ("subtract", "center_", "with_centering"),
        ("divide", "scale_", "with_scaling"),
    ),
    "MinMaxScaler": (("multiply", "scale_", None), ("add", "min_", None)),
    "MaxAbsScaler": (("divide", "scale_", None),),
}


def _scaler_steps(part: Part, n_features: int) -> Iterator[Step]:
    kind = kind_of(part)
    if kind not in _SCALERS:
        raise UnknownRegressorError(f"the step {kind} is none of {', '.join(_SCALERS)}")
    for operation, name, unless in _SCALERS[kind]:
        if unless is not None and attribute(part, unless) is False:
            continue
        values = numbers(part, name, n_features)
        given = np.asarray(attribute(part, name))
        if given.dtype == np.float32:  # as scikit-learn keeps it: float32 features stay float32
            yield Step(operation, values.astype(np.float32))
        else:
            yield Step(operation, values)
    if part.state.get("clip", False) is not False:
        low, high = part.state.get("feature_range", (-1.0, 1.0))
        yield Step("clip", np.array([float(low), float(high)]))


# Regressors


def _linear(part: Part, n_features: int) -> Converted:
    coef = np.asarray(attribute(part, "coef_"))
    shape = (n_features,) if coef.ndim == 1 else (1, n_features)
    weights = numbers(part, "coef_", *shape).ravel()
    return Converted((), LinearModel(weights), number(part, "intercept_"))


def _log_linear(part: Part, n_features: int) -> Converted:
    return _linear(part, n_features)._replace(link="log")


def _support_vectors(part: Part, n_features: int) -> Converted:
    intercept = number(part, "intercept_")
    kernel = _kernel(part, "_gamma")
    support = attribute(part, "support_vectors_")
    if not sparse.issparse(support):
        support = numbers(part, "support_vectors_", -1, n_features)
    if support.shape[1] != n_features:
        raise ValueError("its support vectors have another number of features")
    if support.shape[0] == 0:
        return Converted((), LinearModel(np.zeros(n_features)), intercept)
    weights = numbers(part, "dual_coef_", 1, support.shape[0]).ravel()
    return Converted((), KernelModel(kernel, support, weights), intercept)


def _kernel_ridge(part: Part, n_features: int) -> Converted:
    support = attribute(part, "X_fit_")
    if not sparse.issparse(support):
        support = numbers(part, "X_fit_", -1, n_features)
    if support.shape[1] != n_features or support.shape[0] == 0:
        raise ValueError("its rows have another number of features")
    weights = np.asarray(attribute(part, "dual_coef_"))
    shape = (support.shape[0],) if weights.ndim == 1 else (support.shape[0], 1)
    weights = numbers(part, "dual_coef_", *shape).ravel()
    default = part.state.get("gamma", None) is None
    kernel = _kernel(part, None if default else "gamma", 1.0 / n_features)
    return Converted((), KernelModel(kernel, support, weights))


def _kernel(part: Part, gamma: str | None, default: float = 1.0) -> Kernel:
    name = {"polynomial": "poly"}.get(str(attribute(part, "kernel")), attribute(part, "kernel"))
    degree = number(part, "degree")
    if name not in ("linear", "rbf", "poly") or not 1 <= degree < 2**31 or degree % 1:
        raise ValueError(f"its kernel {name!r} is none of 'linear', 'rbf' and 'poly'")
    return Kernel(
        name, default if gamma is None else number(part, gamma), int(degree),
        number(part, "coef0"),
    )  # fmt: skip


def _trees(make: Callable[[Part, int], TreeEnsemble]) -> Callable[[Part, int], Converted]:
    return lambda part, n_features: Converted((), make(part, n_features))


# How the losses of boosted histograms turn sums of trees into predictions.
_LINKS = {
    **dict.fromkeys(("squared_error", "absolute_error", "quantile"), "identity"),
    **dict.fromkeys(("poisson", "gamma"), "log"),
}


def _boosted_histograms(part: Part, n_features: int) -> Converted:
    loss = attribute(part, "loss")
    if not isinstance(loss, str) or loss not in _LINKS:
        raise ValueError(f"its loss {loss!r} is none of {', '.join(_LINKS)}")
    return Converted((), boosted_histograms(part, n_features), link=_LINKS[loss])


_LINEAR = [
    "ARDRegression",
    "BayesianRidge",
    "ElasticNet",
    "ElasticNetCV",
    "HuberRegressor",
    "Lars",
    "LarsCV",
    "Lasso",
    "LassoCV",
    "LassoLars",
    "LassoLarsCV",
    "LassoLarsIC",
    "LinearRegression",
    "LinearSVR",
    "OrthogonalMatchingPursuit",
    "OrthogonalMatchingPursuitCV",
    "PassiveAggressiveRegressor",
    "QuantileRegressor",
    "Ridge",
    "RidgeCV",
    "SGDRegressor",
    "TheilSenRegressor",
]

_REGRESSORS: Mapping[str, Callable[[Part, int], Converted]] = {
    **dict.fromkeys(_LINEAR, _linear),
    **dict.fromkeys(("GammaRegressor", "PoissonRegressor"), _log_linear),
    **dict.fromkeys(("NuSVR", "SVR"), _support_vectors),
    "KernelRidge": _kernel_ridge,
    **dict.fromkeys(("DecisionTreeRegressor", "ExtraTreeRegressor"), _trees(single_tree)),
    **dict.fromkeys(("ExtraTreesRegressor", "RandomForestRegressor"), _trees(forest)),
    "GradientBoostingRegressor": _trees(boosted_trees),
    "HistGradientBoostingRegressor": _boosted_histograms,
}
