"""Fitted regressors of scikit-learn as arrays and numbers that rankplug itself predicts with.

A regressor is what it was fitted to: scalers of its features, and behind them a linear function,
a sum of kernels or trees. The same code reads living regressors and those of files of version 0.1
(`Part`), and believes nothing of either: every array's shape, type and values are checked.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rankplug.kernels import Kernel
from rankplug.models import KernelModel, LinearModel, Model
from rankplug_plugins.baselines.skops_files import Part
from rankplug_plugins.baselines.tree_ensemble import TreeArrays, TreeEnsemble

__all__ = ["SAVED", "Converted", "Step", "convert"]

_MOST_FEATURES = 2**31


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
    part = _part(last)
    kind = _kind(part)
    if kind not in _REGRESSORS:
        raise ValueError(f"it is not safe to load: {kind} is none of {SAVED}")
    n_features = _n_features(part)
    steps = [step for scaler in before for step in _scaler_steps(_part(scaler), n_features)]
    return _REGRESSORS[kind](part, n_features)._replace(steps=tuple(steps))


def _flat_steps(regressor: Any) -> Iterator[Any]:
    """The steps of pipelines within pipelines, or the regressor alone."""
    part = _part(regressor)
    if _kind(part) != "Pipeline":
        yield regressor
        return
    for step in _attribute(part, "steps"):
        if not isinstance(step, list | tuple) or len(step) != 2:
            raise ValueError("a step of the pipeline is no pair")
        if step[1] not in (None, "passthrough"):
            yield from _flat_steps(step[1])


def _part(value: Any) -> Part:
    """An object's type and attributes."""
    if isinstance(value, Part):
        return value
    kind = type(value)
    name = f"{kind.__module__}.{kind.__qualname__}"
    if name == "sklearn.tree._tree.Tree":
        return Part(name, value.__getstate__())
    return Part(name, getattr(value, "__dict__", {}))


def _kind(part: Part) -> str:
    """The name of scikit-learn's class; of other packages with the module."""
    package, _, rest = part.name.partition(".")
    return rest.rpartition(".")[2] if package == "sklearn" else part.name


def _attribute(part: Part, name: str) -> Any:
    if name not in part.state:
        raise ValueError(f"{_kind(part)} has no {name}: it is not fitted")
    return part.state[name]


def _n_features(part: Part) -> int:
    count = _attribute(part, "n_features_in_")
    if not isinstance(count, int | np.integer) or isinstance(count, bool):
        raise ValueError("n_features_in_ is no number")
    if not 0 < count < _MOST_FEATURES:
        raise ValueError(f"{count} features")
    return int(count)


def _numbers(part: Part, name: str, *shape: int) -> NDArray[np.float64]:
    """A finite array of this shape, -1 for any length."""
    value = _attribute(part, name)
    array = value.toarray() if sparse.issparse(value) else np.asarray(value)
    fits = array.ndim == len(shape) and all(
        wanted in (-1, size) for wanted, size in zip(shape, array.shape, strict=True)
    )
    if not fits or array.dtype.kind not in "fiu":
        raise ValueError(f"{_kind(part)}.{name} has a wrong shape or type")
    array = array.astype(np.float64, order="C")
    if not np.isfinite(array).all():
        raise ValueError(f"{_kind(part)}.{name} holds NaN or infinity")
    return array


def _number(part: Part, name: str) -> float:
    """One finite number, by itself or in an array."""
    value = np.asarray(_attribute(part, name))
    if value.size != 1 or value.dtype.kind not in "fiu":
        raise ValueError(f"{_kind(part)}.{name} is no number")
    number = float(value.ravel()[0])
    if not math.isfinite(number):
        raise ValueError(f"{_kind(part)}.{name} is {number}")
    return number


def _require_one(part: Part, name: str) -> None:
    if part.state.get(name, 1) != 1 or isinstance(part.state.get(name), bool):
        raise ValueError(f"{_kind(part)} predicts more than one number for each row")


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
    kind = _kind(part)
    if kind not in _SCALERS:
        raise ValueError(f"the pipeline's step {kind} is none of {', '.join(_SCALERS)}")
    for operation, name, unless in _SCALERS[kind]:
        if unless is not None and _attribute(part, unless) is False:
            continue
        values = _numbers(part, name, n_features)
        given = np.asarray(_attribute(part, name))
        if given.dtype == np.float32:  # as scikit-learn keeps it: float32 features stay float32
            yield Step(operation, values.astype(np.float32))
        else:
            yield Step(operation, values)
    if part.state.get("clip", False) is not False:
        low, high = part.state.get("feature_range", (-1.0, 1.0))
        yield Step("clip", np.array([float(low), float(high)]))


# Regressors


def _linear(part: Part, n_features: int) -> Converted:
    coef = np.asarray(_attribute(part, "coef_"))
    shape = (n_features,) if coef.ndim == 1 else (1, n_features)
    weights = _numbers(part, "coef_", *shape).ravel()
    return Converted((), LinearModel(weights), _number(part, "intercept_"))


def _log_linear(part: Part, n_features: int) -> Converted:
    return _linear(part, n_features)._replace(link="log")


def _support_vectors(part: Part, n_features: int) -> Converted:
    intercept = _number(part, "intercept_")
    support = _attribute(part, "support_vectors_")
    if not sparse.issparse(support):
        support = _numbers(part, "support_vectors_", -1, n_features)
    if support.shape[1] != n_features:
        raise ValueError("its support vectors have another number of features")
    if support.shape[0] == 0:
        return Converted((), LinearModel(np.zeros(n_features)), intercept)
    weights = _numbers(part, "dual_coef_", 1, support.shape[0]).ravel()
    return Converted((), KernelModel(_kernel(part, "_gamma"), support, weights), intercept)


def _kernel_ridge(part: Part, n_features: int) -> Converted:
    support = _attribute(part, "X_fit_")
    if not sparse.issparse(support):
        support = _numbers(part, "X_fit_", -1, n_features)
    if support.shape[1] != n_features or support.shape[0] == 0:
        raise ValueError("its rows have another number of features")
    weights = np.asarray(_attribute(part, "dual_coef_"))
    shape = (support.shape[0],) if weights.ndim == 1 else (support.shape[0], 1)
    weights = _numbers(part, "dual_coef_", *shape).ravel()
    default = part.state.get("gamma", None) is None
    kernel = _kernel(part, None if default else "gamma", 1.0 / n_features)
    return Converted((), KernelModel(kernel, support, weights))


def _kernel(part: Part, gamma: str | None, default: float = 1.0) -> Kernel:
    name = {"polynomial": "poly"}.get(str(_attribute(part, "kernel")), _attribute(part, "kernel"))
    degree = _number(part, "degree")
    if name not in ("linear", "rbf", "poly") or not 1 <= degree < 2**31 or degree % 1:
        raise ValueError(f"its kernel {name!r} is none of 'linear', 'rbf' and 'poly'")
    return Kernel(
        name, default if gamma is None else _number(part, gamma), int(degree),
        _number(part, "coef0"),
    )  # fmt: skip


class _Nodes(NamedTuple):
    """A tree; the attributes are those of `TreeArrays`, and what importances need."""

    left: NDArray[np.int64]
    right: NDArray[np.int64]
    feature: NDArray[np.int64]
    threshold: NDArray[np.float64]
    value: NDArray[np.float64]


def _forest(part: Part, n_features: int) -> Converted:
    _require_one(part, "n_outputs_")
    return _tree_mean(_sequence(part, "estimators_"), n_features)


def _single_tree(part: Part, n_features: int) -> Converted:
    _require_one(part, "n_outputs_")
    return _tree_mean([part], n_features)


def _tree_mean(members: list[Any], n_features: int) -> Converted:
    trees = _trees_of(members)
    importances = [_importances(tree, n_features) for tree in trees if len(tree.state["nodes"]) > 1]
    normal = [one / np.sum(one) if np.sum(one) > 0.0 else one for one in importances]
    mean = _mean(normal, n_features)
    return Converted(
        (),
        TreeEnsemble(
            _stack([_compiled_nodes(tree) for tree in trees]),
            n_features,
            average=True,
            importances=mean if len(members) > 1 else (normal or [np.zeros(n_features)])[0],
        ),
    )


def _gradient_boosting(part: Part, n_features: int) -> Converted:
    _require_one(part, "n_trees_per_iteration_")
    trees = _trees_of(_sequence(part, "estimators_"))
    init = _attribute(part, "init_")
    if init == "zero":
        start = 0.0
    elif _kind(_part(init)) == "DummyRegressor":
        start = _number(_part(init), "constant_")
    else:
        raise ValueError("its init is neither 'zero' nor a constant")
    importances = [_importances(tree, n_features) for tree in trees if len(tree.state["nodes"]) > 1]
    return Converted(
        (),
        TreeEnsemble(
            _stack([_compiled_nodes(tree) for tree in trees]),
            n_features,
            start=start,
            scale=_number(part, "learning_rate"),
            importances=_mean(importances, n_features),
        ),
    )


def _hist_gradient_boosting(part: Part, n_features: int) -> Converted:
    _require_one(part, "n_trees_per_iteration_")
    links = {"squared_error": "identity", "absolute_error": "identity", "quantile": "identity"}
    links |= {"poisson": "log", "gamma": "log"}
    loss = _attribute(part, "loss")
    if not isinstance(loss, str) or loss not in links:
        raise ValueError(f"its loss {loss!r} is none of {', '.join(links)}")
    if part.state.get("_preprocessor") is not None:
        raise ValueError("it takes categorical features")
    predictors = [_part(tree) for tree in _sequence(part, "_predictors")]
    _require_distinct(predictors)
    model = TreeEnsemble(
        _stack([_histogram_nodes(one) for one in predictors]),
        n_features,
        start=_number(part, "_baseline_prediction"),
        float32=False,
    )
    return Converted((), model, link=links[loss])


def _sequence(part: Part, name: str) -> list[Any]:
    """The trees in a list, in a list of lists of one, or in an array of one column; none twice."""
    value = _attribute(part, name)
    if isinstance(value, np.ndarray):
        if value.dtype != object or value.ndim != 2 or value.shape[1] != 1:
            raise ValueError(f"{_kind(part)}.{name} has a wrong shape or type")
        value = value.ravel().tolist()
    if not isinstance(value, list) or not value:
        raise ValueError(f"{_kind(part)}.{name} holds no trees")
    if isinstance(value[0], list):
        if any(not isinstance(one, list) or len(one) != 1 for one in value):
            raise ValueError(f"{_kind(part)}.{name} has a wrong shape or type")
        value = [one[0] for one in value]
    return value


def _trees_of(members: list[Any]) -> list[Part]:
    """The compiled trees of fitted tree regressors."""
    trees = [_part(_attribute(_part(member), "tree_")) for member in members]
    _require_distinct(trees)
    return trees


def _require_distinct(trees: list[Part]) -> None:
    """Refuse nodes that are named again and again: together they may be larger than any memory."""
    if len({id(_attribute(tree, "nodes")) for tree in trees}) < len(trees):
        raise ValueError("it holds the same tree twice")


def _compiled_nodes(tree: Part) -> _Nodes:
    """Those of scikit-learn's `Tree`."""
    nodes, values = _attribute(tree, "nodes"), _attribute(tree, "values")
    numbers = isinstance(values, np.ndarray) and values.dtype.kind == "f"
    if not numbers or values.shape != (len(nodes), 1, 1):
        raise ValueError("a tree's values do not fit its nodes")
    if _attribute(tree, "node_count") != len(nodes):
        raise ValueError("a tree has more nodes than its arrays")
    left, right = _field(nodes, "left_child", "i"), _field(nodes, "right_child", "i")
    inner = left != -1
    feature = np.where(inner, _field(nodes, "feature", "i"), 0)
    threshold = np.where(inner, _field(nodes, "threshold", "f"), 0.0)
    return _Nodes(left, right, feature, threshold, values.astype(np.float64).ravel())


def _histogram_nodes(predictor: Part) -> _Nodes:
    """Those of scikit-learn's `TreePredictor`."""
    nodes = _attribute(predictor, "nodes")
    inner = _field(nodes, "is_leaf", "iu") == 0
    if np.any(_field(nodes, "is_categorical", "iu")[inner]):
        raise ValueError("a tree splits by categories")
    # The root is nobody's child: scikit-learn writes 0 for the children of leaves.
    left = np.where(inner, _field(nodes, "left", "iu"), -1)
    right = np.where(inner, _field(nodes, "right", "iu"), -1)
    feature = np.where(inner, _field(nodes, "feature_idx", "iu"), 0)
    threshold = np.where(inner, _field(nodes, "num_threshold", "f"), 0.0)
    return _Nodes(left, right, feature, threshold, _field(nodes, "value", "f"))


def _field(nodes: Any, name: str, kinds: str) -> NDArray[Any]:
    """A column of records of nodes, as int64 or float64."""
    if not isinstance(nodes, np.ndarray) or nodes.ndim != 1 or not nodes.dtype.names:
        raise ValueError("a tree's nodes are no records")
    if name not in nodes.dtype.names or len(nodes) == 0:
        raise ValueError(f"a tree's nodes have no {name}")
    column = nodes[name]
    if column.dtype.kind not in kinds or column.ndim != 1:
        raise ValueError(f"a tree's {name} is of a wrong type")
    return column.astype(np.float64 if kinds == "f" else np.int64)


def _stack(trees: list[_Nodes]) -> TreeArrays:
    sizes = np.array([len(tree.left) for tree in trees], dtype=np.int64)
    return TreeArrays(sizes, *(np.concatenate(column) for column in zip(*trees, strict=True)))


def _importances(tree: Part, n_features: int) -> NDArray[np.float64]:
    """How much each feature lowers the impurity, as scikit-learn sums it, for any root's weight."""
    nodes = tree.state["nodes"]
    left, right = _field(nodes, "left_child", "i"), _field(nodes, "right_child", "i")
    feature, inner = _field(nodes, "feature", "i"), np.flatnonzero(left != -1)
    ends = np.concatenate((left[inner], right[inner]))
    if np.any((ends < 0) | (ends >= len(nodes))):
        raise ValueError("a tree has children that do not exist or have two parents")
    if np.any((feature[inner] < 0) | (feature[inner] >= n_features)):
        raise ValueError("a tree splits by features that do not exist")
    weight = _field(nodes, "weighted_n_node_samples", "f")
    with np.errstate(all="ignore"):
        lost = weight * _field(nodes, "impurity", "f")
        gains = lost[inner] - lost[left[inner]] - lost[right[inner]]
        sums = np.zeros(n_features)
        np.add.at(sums, feature[inner], gains)
        sums /= weight[0]
    return sums


def _mean(importances: list[NDArray[np.float64]], n_features: int) -> NDArray[np.float64]:
    if not importances:
        return np.zeros(n_features)
    with np.errstate(all="ignore"):
        mean = np.mean(importances, axis=0, dtype=np.float64)
        total = np.sum(mean)
        return np.asarray(mean / total if total != 0 else mean)


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
    **dict.fromkeys(("DecisionTreeRegressor", "ExtraTreeRegressor"), _single_tree),
    **dict.fromkeys(("ExtraTreesRegressor", "RandomForestRegressor"), _forest),
    "GradientBoostingRegressor": _gradient_boosting,
    "HistGradientBoostingRegressor": _hist_gradient_boosting,
}

SAVED = (
    "scikit-learn's linear regressors, SVR, NuSVR and KernelRidge (kernels linear, rbf, poly), "
    "decision trees, forests, gradient boosting, and pipelines of one of them behind "
    "StandardScaler, RobustScaler, MinMaxScaler or MaxAbsScaler"
)
"""The regressors that can be saved, in words."""
