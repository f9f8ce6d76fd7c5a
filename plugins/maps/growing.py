"""Trees that regress the relevance: forests of scikit-learn, boosted trees of XGBoost."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import ExtraTreesRegressor, RandomForestRegressor

from rankplug.data import largest_stored, to_dense, with_short_indices
from rankplug.exceptions import DataError
from rankplug.maps import Fitting
from rankplug.models import TreeArrays, TreeEnsemble

_FORESTS = {"random-forest": RandomForestRegressor, "extra-trees": ExtraTreesRegressor}
_BOOSTED = "xgboost-regression"
REGRESSORS = (*_FORESTS, _BOOSTED)
"""Names of what grows trees on the relevance of documents, or on that of all labels at once."""

_LARGEST_FLOAT32 = float(np.finfo(np.float32).max)
_MOST_DENSE = 2**28  # features of sparse rows that become dense: 2 GB of float64


def grow_trees(name: str, fitting: Fitting, n_trees: int, min_rows: int) -> TreeEnsemble:
    """Trees that are fitted to the relevance; what their leaves say is left out.

    Parameters
    ----------
    name : str
        One of `REGRESSORS`.
    fitting : Fitting
    n_trees : int
    min_rows : int
        Rows in a leaf, at least.

    Raises
    ------
    DataError
        If features are too large for float32, or too many to be dense.
    """
    data = fitting.data
    if largest_stored(data.X) > _LARGEST_FLOAT32:
        raise DataError(
            "the features are too large for forests, which compare them as float32: they must "
            "be below 3.4e38; scale the features"
        )
    grow = _boost if name == _BOOSTED else partial(_grow_forest, _FORESTS[name])
    seed = int(fitting.rng.integers(2**31))
    return TreeEnsemble(grow(data, _targets(data), n_trees, min_rows, seed), data.n_features)


def _targets(data: Any) -> NDArray[np.float64]:
    """The relevance; a label without one gets the mean of the instance's others."""
    y: NDArray[np.float64] = data.relevance
    if y.ndim == 1:
        return y
    known = ~np.isnan(y)
    count = np.maximum(known.sum(axis=1, keepdims=True), 1)
    mean = np.where(known, y, 0.0).sum(axis=1, keepdims=True) / count
    return np.where(known, y, mean)


def _grow_forest(
    kind: Any, data: Any, y: NDArray[np.float64], n_trees: int, min_rows: int, seed: int
) -> TreeArrays:
    forest = kind(
        n_estimators=n_trees,
        min_samples_leaf=min_rows,
        max_features=1.0 / 3.0,  # Breiman's for regression
        random_state=seed,
    )
    forest.fit(with_short_indices(data.X, "a forest"), y, sample_weight=_weights(data))
    trees = [one.tree_ for one in forest.estimators_]
    return _arrays(
        [tree.children_left for tree in trees],
        [tree.children_right for tree in trees],
        [tree.feature for tree in trees],
        [tree.threshold for tree in trees],
        [tree.missing_go_to_left for tree in trees],
    )


def _weights(data: Any) -> NDArray[np.float64] | None:
    """What each row counts: the weight of its query times its own; None without any."""
    given = (getattr(data, name, None) for name in ("row_weight", "document_weight"))
    found = [weight for weight in given if weight is not None]
    return np.prod(found, axis=0) if found else None


def _boost(data: Any, y: NDArray[np.float64], n_trees: int, min_rows: int, seed: int) -> TreeArrays:
    """Boosting with one tree a round for all labels, whose leaves hold vectors."""
    import xgboost

    if data.X.shape[0] * data.X.shape[1] > _MOST_DENSE and not isinstance(data.X, np.ndarray):
        raise DataError(
            f"{_BOOSTED} takes dense features, and these are too many: take 'random-forest'"
        )
    params = {
        "objective": "reg:squarederror",
        "multi_strategy": "multi_output_tree",
        "tree_method": "hist",
        "learning_rate": 0.1,
        "max_depth": 6,
        "min_child_weight": min_rows,
        "nthread": 1,
        "seed": seed,
    }
    rows = xgboost.DMatrix(to_dense(data.X), y, weight=_weights(data), nthread=1)
    booster = xgboost.train(params, rows, n_trees)
    content = json.loads(booster.save_raw("json"))
    trees = content["learner"]["gradient_booster"]["model"]["trees"]
    # XGBoost's rows go left below a threshold of float32, ours up to it.
    below = [
        np.nextafter(np.array(tree["split_conditions"], np.float32), np.float32(-np.inf))
        for tree in trees
    ]
    return _arrays(
        [tree["left_children"] for tree in trees],
        [tree["right_children"] for tree in trees],
        [tree["split_indices"] for tree in trees],
        below,
        [tree["default_left"] for tree in trees],
    )


def _arrays(
    left: list[Any],
    right: list[Any],
    feature: list[Any],
    threshold: list[Any],
    missing_left: list[Any],
) -> TreeArrays:
    """The lists of nodes of all trees as one; what stands at leaves is cleared."""
    sizes = np.array([len(one) for one in left], dtype=np.int64)
    inner = np.concatenate(left) != -1
    return TreeArrays(
        sizes,
        np.concatenate(left).astype(np.int64),
        np.where(inner, np.concatenate(right), -1).astype(np.int64),
        np.where(inner, np.concatenate(feature), 0).astype(np.int64),
        np.where(inner, np.concatenate(threshold), 0.0).astype(np.float64),
        np.zeros(len(inner)),
        np.concatenate(missing_left).astype(bool),
    )
