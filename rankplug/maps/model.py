"""`MappedModel`: a model of mapped features, with the map, as one model of the features."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankplug.data import Matrix, row_blocks
from rankplug.exceptions import ModelFormatError, ParameterError
from rankplug.maps.joined import FittedJoin, pack, unpack
from rankplug.models import Contributions, LinearModel, Model, TreeModel, WrappedModel, model_class

_BLOCK_ELEMENTS = 1 << 22  # of features mapped at once: 32 MB of float64


class MappedModel(WrappedModel):
    """Scores features by a model of what a map makes of them.

    Parameters
    ----------
    map : FittedJoin
    model : Model
        Of as many features as the map makes columns.
    """

    kind = "mapped"

    def __init__(self, map: FittedJoin, model: Model) -> None:  # noqa: A002 - as in "mapped"
        super().__init__(model)
        self.map = map
        self.requires = tuple(dict.fromkeys((*map.requires, *model.requires)))

    @property
    def n_features(self) -> int:
        """Number of features of a row, before they are mapped."""
        return self.map.n_features

    @property
    def takes_missing_values(self) -> bool:
        """If the map does."""
        return self.map.takes_missing_values

    def column_names(self) -> list[str]:
        """Names of the columns that the model within weighs."""
        names = self.feature_names or [f"x{j}" for j in range(self.n_features)]
        return self.map.column_names(names)

    def to_xgboost(self) -> Any:
        """The trees as an `xgboost.Booster`, with the weights of the leaves as their values.

        Its margins are the scores, up to a constant and rounding to float32.

        Raises
        ------
        ParameterError
            If the map is not the leaves of XGBoost's trees alone.
        """
        return self._refitted_trees("xgboost").booster

    def to_lightgbm(self) -> Any:
        """The trees as a `lightgbm.Booster`, with the weights of the leaves as their values.

        Its raw scores are the scores, up to a constant.

        Raises
        ------
        ParameterError
            If the map is not the leaves of LightGBM's trees alone.
        """
        return self._refitted_trees("lightgbm").booster

    def _refitted_trees(self, kind: str) -> Any:
        others, trees = self.map.parts[1:], getattr(self.map.parts[0], "trees", None)
        if not isinstance(trees, TreeModel) or trees.kind != kind or others:
            raise ParameterError(
                f"only a model of the leaves of {kind} alone can be written as its trees: train "
                f"it with map={{'leaves': {{'trees': ...}}}}; this one is of "
                f"{' + '.join(one.kind for one in self.map.parts)}"
            )
        if not isinstance(self.model, LinearModel):
            raise ParameterError("only weights of one score can be the values of leaves")
        return trees.with_weights(self.map.factors[0] * self.model.coef)[0]

    def _predict(self, X: Matrix) -> NDArray[np.float64]:
        blocks = [X[rows] for rows in row_blocks(X, _BLOCK_ELEMENTS)]
        return np.concatenate([self._predict_block(block) for block in blocks])

    def _predict_block(self, X: Matrix) -> NDArray[np.float64]:
        mapped = self.map._transform(X)
        if isinstance(self.model, LinearModel):
            scores: NDArray[np.float64] = mapped @ self.model.coef
            return scores
        return self.model._predict(mapped.tocsr())

    def _contributions(self, X: Matrix) -> Contributions | None:
        if not isinstance(self.model, LinearModel):
            return None
        found = []
        for part, weights in self.map.split_weights(self.model.coef):
            of_part = part.contributions(X, weights)
            if of_part is None:
                return None
            found.append(of_part)
        return sum(found[1:], found[0])

    def _write(self, folder: Path) -> dict[str, Any]:
        content = pack(self.model, folder, "model")
        return {
            "map": self.map._write(folder),
            "kind": self.model.kind,
            "model": content["header"],
            "files": content["files"],
        }

    @classmethod
    def _read(cls, folder: Path, header: Mapping[str, Any]) -> MappedModel:
        kind, of_map = header.get("kind"), header.get("map")
        if not isinstance(kind, str) or not isinstance(of_map, dict):
            raise ModelFormatError(f"{folder}: the header does not describe the map and the model")
        fitted = FittedJoin._read(folder, of_map)
        content = {"files": header.get("files"), "header": header.get("model")}
        model = unpack(model_class(kind, folder), folder, "model", content)
        if model.n_features != fitted.n_columns:
            raise ModelFormatError(
                f"{folder}: a model of {model.n_features} features, but {fitted.n_columns} columns"
            )
        return cls(fitted, model)
