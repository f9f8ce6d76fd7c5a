"""XGBoost's trained trees: they predict, and are saved in XGBoost's own JSON format."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rankplug.data import Matrix
from rankplug.exceptions import DataError, ModelFormatError
from rankplug.models import TREES, Contributions, TreeModel, check_labels
from rankplug.system.cores import survive_forks
from rankplug_plugins.boosting.file_checks import check_xgboost_json, finite_json, ubjson_to_json
from rankplug_plugins.boosting.xgboost_matrices import label_rows, missing_value, rows_per_block

_FILE = "trees.json"
_UBJSON_FILE = "model.ubj"  # of version 0.1


class XGBoostModel(TreeModel):
    """Scores of boosted trees.

    Parameters
    ----------
    booster : xgboost.Booster
        Its trees all count: cut it to its best iteration before.
    zeros : "missing" or "value"
        How zeros were treated in training.
    labels : array-like of shape (n_labels,), optional
        For label ranking: the names of the labels. The booster's last feature is then the
        label's position + 1, as a category.
    """

    kind = "xgboost"
    requires = ("xgboost",)

    def __init__(self, booster: Any, zeros: str = "missing", labels: Any = None) -> None:
        self.booster = booster
        self.zeros = zeros
        self.labels = None if labels is None else check_labels(labels, len(labels))

    @property
    def n_features(self) -> int:
        """Number of features of a row."""
        return int(self.booster.num_features()) - (self.labels is not None)

    @property
    def n_labels(self) -> int | None:
        """Number of labels; None if the model ranks documents."""
        return None if self.labels is None else len(self.labels)

    @property
    def takes_missing_values(self) -> bool:
        """Each split has learnt on which side they go."""
        return True

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return int(self.booster.num_boosted_rounds())

    def unnamed_booster(self) -> Any:
        """A copy without names of features, to which trees are added by columns without names."""
        booster = self.booster.copy()
        booster.feature_names = None
        return booster

    def feature_importances(self) -> NDArray[np.float64]:
        """Total gain of the splits that use each feature."""
        gain = self.booster.get_score(importance_type="total_gain")
        names = self.booster.feature_names or [f"f{i}" for i in range(self.n_features)]
        return np.array([gain.get(name, 0.0) for name in names[: self.n_features]])

    def _predict(self, X: Matrix) -> NDArray[np.float64]:
        if self.labels is None:
            return self._margins(X)
        n_samples, n_labels = X.shape[0], len(self.labels)
        scores = np.empty((n_samples, n_labels))
        step = rows_per_block(self.n_features, n_labels)
        for start in range(0, n_samples, step):
            instances = np.arange(start, min(start + step, n_samples))
            every_label = np.tile(np.arange(n_labels), len(instances))
            rows = label_rows(X, np.repeat(instances, n_labels), every_label)
            scores[instances] = self._margins(rows).reshape(-1, n_labels)
        return scores

    def _margins(self, rows: Matrix) -> NDArray[np.float64]:
        survive_forks()
        margins = self.booster.inplace_predict(
            self._convert_rows(rows), predict_type="margin", missing=missing_value(self.zeros)
        )
        return np.asarray(margins, dtype=np.float64)

    def _convert_rows(self, rows: Any) -> Any:
        """Bring the rows into a form that XGBoost reads as the training did."""
        if not sparse.issparse(rows):
            return rows
        # XGBoost takes absent entries as missing; and it knows csr_matrix, not csr_array.
        return rows.toarray() if self.zeros == "value" else sparse.csr_matrix(rows)

    @property
    def leaf_counts(self) -> NDArray[np.int64]:
        """Number of leaves of each tree, of shape (n_trees,)."""
        return np.array([leaf.sum() for leaf in self._is_leaf], dtype=np.int64)

    @property
    def leaf_values(self) -> NDArray[np.float64]:
        """What each leaf adds to the score, of shape (sum of `leaf_counts`,)."""
        content = json.loads(self.booster.save_raw("json"))
        values = zip(_trees(content), self._is_leaf, strict=True)
        return np.concatenate([np.array(t["split_conditions"])[leaf] for t, leaf in values])

    def find_leaves(self, X: Matrix) -> NDArray[np.integer[Any]]:
        """The leaf of each row in each tree, of shape (n_samples, n_trees)."""
        nodes = self._predict_in_detail(X, pred_leaf=True).astype(np.int64)
        leaves = nodes.reshape(X.shape[0], -1)
        for t, number in enumerate(self._leaf_numbers):
            leaves[:, t] = number[leaves[:, t]]
        return leaves

    def with_leaf_values(self, values: NDArray[np.float64]) -> XGBoostModel:
        """The same trees with other values of their leaves, added to XGBoost's base score."""
        import xgboost

        content = json.loads(self.booster.save_raw("json"))
        start = 0
        for tree, leaf in zip(_trees(content), self._is_leaf, strict=True):
            conditions = np.array(tree["split_conditions"])
            conditions[leaf] = values[start : start + leaf.sum()]
            tree["split_conditions"] = tree["base_weights"] = conditions.tolist()
            start += leaf.sum()
        booster = xgboost.Booster(model_file=bytearray(json.dumps(content).encode()))
        return XGBoostModel(booster, self.zeros, self.labels)

    @cached_property
    def _leaf_numbers(self) -> list[NDArray[np.int64]]:
        """Of each node that is a leaf, which one of its tree it is."""
        return [np.cumsum(leaf) - 1 for leaf in self._is_leaf]

    @cached_property
    def _is_leaf(self) -> list[NDArray[np.bool_]]:
        """Which nodes of each tree are leaves; found once."""
        content = json.loads(self.booster.save_raw("json"))
        return [np.array(tree["left_children"]) == -1 for tree in _trees(content)]

    def _contributions(self, X: Matrix) -> Contributions:
        found = self._predict_in_detail(X, pred_contribs=True).astype(np.float64)
        return Contributions(found[:, :-1], found[:, -1], TREES)

    def _predict_in_detail(self, X: Matrix, **what: bool) -> NDArray[Any]:
        import xgboost

        try:
            rows = xgboost.DMatrix(self._convert_rows(X), missing=missing_value(self.zeros))
        except xgboost.core.XGBoostError as error:
            raise DataError(
                "the features are too large for XGBoost, which keeps them as float32: they must "
                "be below 3.4e38"
            ) from error
        # The columns have been compared already, and the matrix has no names.
        return np.asarray(self.booster.predict(rows, validate_features=False, **what))

    def _write(self, folder: Path) -> dict[str, Any]:
        text = finite_json(self.booster.save_raw("json").decode())
        (folder / _FILE).write_text(text, encoding="utf-8")
        labels = None if self.labels is None else self.labels.tolist()
        return {"zeros": self.zeros, "labels": labels}

    @classmethod
    def _read(cls, folder: Path, header: Mapping[str, Any]) -> XGBoostModel:
        import xgboost

        file = folder / (_UBJSON_FILE if (folder / _UBJSON_FILE).exists() else _FILE)
        try:
            content = file.read_bytes()
            text = content.decode() if file.name == _FILE else ubjson_to_json(content)
            check_xgboost_json(text)
            booster = xgboost.Booster(model_file=bytearray(text.encode()))
        except (OSError, ValueError, xgboost.core.XGBoostError) as error:
            reason = str(error).splitlines()[0]
            raise ModelFormatError(f"{file} cannot be read: {reason}") from None
        zeros, labels = header.get("zeros"), header.get("labels", "missing")
        fits = labels is None or (isinstance(labels, list) and len(labels) > 0)
        if zeros not in ("missing", "value") or not fits:
            raise ModelFormatError(f"{folder}: zeros or labels are missing from the description")
        return cls(booster, zeros, labels)


def _trees(content: Any) -> list[dict[str, Any]]:
    """The trees in XGBoost's JSON of a model."""
    trees: list[dict[str, Any]] = content["learner"]["gradient_booster"]["model"]["trees"]
    return trees
