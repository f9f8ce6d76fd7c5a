"""LightGBM's trained trees: they predict, and are saved in LightGBM's own text format."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rankplug.data import Matrix
from rankplug.exceptions import ModelFormatError
from rankplug.models import Model
from rankplug.system.cores import survive_forks
from rankplug_plugins.boosting.lightgbm_checks import check_lightgbm_text

_FILE = "model.txt"


class LightGBMModel(Model):
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
        rows: Any = sparse.csr_matrix(X) if sparse.issparse(X) else X
        survive_forks()
        return np.asarray(self.booster.predict(rows, raw_score=True), dtype=np.float64)

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
