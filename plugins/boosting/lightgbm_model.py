"""LightGBM's trained trees: they predict, and are saved in LightGBM's own text format."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rankplug.data import Matrix
from rankplug.exceptions import ModelFormatError
from rankplug.models import TREES, Contributions, TreeModel
from rankplug.system.cores import survive_forks
from rankplug_plugins.boosting.lightgbm_checks import check_lightgbm_text

_FILE = "model.txt"


class LightGBMModel(TreeModel):
    """Scores of LightGBM's boosted trees.

    Parameters
    ----------
    text : str
        The trees in LightGBM's format, as `lightgbm.Booster.model_to_string` writes them.
    """

    kind = "lightgbm"
    requires = ("lightgbm",)

    def __init__(self, text: str) -> None:
        import lightgbm

        # Always read from the text, so that a saved model is the same as one just trained.
        self.booster = lightgbm.Booster(model_str=text)
        self._text = text

    @property
    def n_features(self) -> int:
        """Number of features of a row."""
        return int(self.booster.num_feature())

    @property
    def takes_missing_values(self) -> bool:
        """Each split has learnt on which side they go."""
        return True

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return int(self.booster.num_trees())

    def feature_importances(self) -> NDArray[np.float64]:
        """Total gain of the splits that use each feature."""
        return np.asarray(self.booster.feature_importance("gain"), dtype=np.float64)

    def _predict(self, X: Matrix) -> NDArray[np.float64]:
        return self._predict_in_detail(X, raw_score=True).astype(np.float64, copy=False)

    def _predict_in_detail(self, X: Matrix, **what: bool) -> NDArray[Any]:
        rows: Any = sparse.csr_matrix(X) if sparse.issparse(X) else X
        survive_forks()
        found: Any = self.booster.predict(rows, **what)
        return np.asarray(found.toarray() if sparse.issparse(found) else found)

    def _contributions(self, X: Matrix) -> Contributions:
        found = self._predict_in_detail(X, pred_contrib=True)
        return Contributions(found[:, :-1], found[:, -1], TREES)

    @property
    def leaf_counts(self) -> NDArray[np.int64]:
        """Number of leaves of each tree, of shape (n_trees,)."""
        counts = re.findall(r"^num_leaves=(\d+)$", self._text, flags=re.MULTILINE)
        return np.array(counts, dtype=np.int64)

    @property
    def leaf_values(self) -> NDArray[np.float64]:
        """What each leaf adds to the score, of shape (sum of `leaf_counts`,)."""
        lines = re.findall(r"^leaf_value=(.+)$", self._text, flags=re.MULTILINE)
        return np.array(" ".join(lines).split(), dtype=np.float64)

    def find_leaves(self, X: Matrix) -> NDArray[np.integer[Any]]:
        """The leaf of each row in each tree, of shape (n_samples, n_trees)."""
        found = self._predict_in_detail(X, pred_leaf=True).astype(np.int64)
        return found.reshape(X.shape[0], -1)

    def with_leaf_values(self, values: NDArray[np.float64]) -> LightGBMModel:
        """The same trees with other values of their leaves."""
        import lightgbm

        booster = lightgbm.Booster(model_str=self._text)
        counts = self.leaf_counts
        trees, starts = np.repeat(np.arange(len(counts)), counts), np.cumsum(counts) - counts
        within = np.arange(len(values)) - starts[trees]
        for tree, leaf, value in zip(trees, within, values, strict=True):
            booster.set_leaf_output(int(tree), int(leaf), float(value))
        return LightGBMModel(booster.model_to_string())

    def _write(self, folder: Path) -> dict[str, Any]:
        (folder / _FILE).write_text(self._text, encoding="utf-8")
        return {}

    @classmethod
    def _read(cls, folder: Path, header: Mapping[str, Any]) -> LightGBMModel:
        from lightgbm.basic import LightGBMError

        try:
            text = (folder / _FILE).read_text(encoding="utf-8")
            check_lightgbm_text(text)
            return cls(text)
        except (OSError, ValueError, LightGBMError) as error:
            raise ModelFormatError(f"{folder / _FILE} cannot be read: {error}") from None
