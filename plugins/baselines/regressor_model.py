"""A fitted regressor of scikit-learn as a model: saved by skops, not pickled.

skops makes only objects of types that it knows or that are named, but compiled trees follow the
indices in their arrays wherever these lead: they are checked before a regressor predicts.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import is_regressor
from sklearn.ensemble._hist_gradient_boosting.predictor import TreePredictor
from sklearn.tree._tree import Tree
from sklearn.utils import get_tags

from rankplug.data import Matrix
from rankplug.exceptions import DataError, ModelFormatError
from rankplug.models import Model
from rankplug.system.cores import survive_forks

__all__ = ["RegressorModel", "convert_features"]

_FILE = "regressor.skops"

# Compiled trees of scikit-learn, which skops does not count as safe by itself, because a forged
# file could make them read wrong memory; `_check_regressor` looks at them before they predict.
_TRUSTED = [
    "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
    "sklearn.tree._tree.Tree",
]


class RegressorModel(Model):
    """Scores that a scikit-learn regressor predicts.

    Parameters
    ----------
    regressor : fitted scikit-learn regressor
        It can be saved if it consists of what skops takes for safe and scikit-learn's trees.
    """

    kind = "regressor"
    requires = ("skops",)

    def __init__(self, regressor: Any) -> None:
        self.regressor = regressor

    @property
    def n_features(self) -> int:
        """Number of features of a row."""
        return int(self.regressor.n_features_in_)

    def feature_importances(self) -> NDArray[np.float64] | None:
        """The regressor's own, if it has them."""
        importances = getattr(self.regressor, "feature_importances_", None)
        return None if importances is None else np.asarray(importances, dtype=np.float64)

    def _predict(self, X: Matrix) -> NDArray[np.float64]:
        survive_forks()
        try:
            scores = self.regressor.predict(convert_features(self.regressor, X))
        except (OverflowError, ValueError) as error:
            raise DataError(
                f"{type(self.regressor).__name__} refuses the features: {error}"
            ) from None
        return np.asarray(scores, dtype=np.float64).reshape(-1)

    def _write(self, folder: Path) -> dict[str, Any]:
        import skops.io

        try:
            _check_regressor(self.regressor)
        except ValueError as error:
            raise DataError(
                f"this {type(self.regressor).__name__} cannot be saved: {error}"
            ) from None
        skops.io.dump(self.regressor, folder / _FILE)
        unknown = set(skops.io.get_untrusted_types(file=folder / _FILE)) - set(_TRUSTED)
        if unknown:
            raise DataError(
                f"a {type(self.regressor).__name__} cannot be saved without pickling "
                f"{', '.join(sorted(unknown))}: use another regressor"
            )
        return {}

    @classmethod
    def _read(cls, folder: Path, header: Mapping[str, Any]) -> RegressorModel:
        import skops.io
        from skops.io.exceptions import UntrustedTypesFoundException

        try:
            _require_stored(folder / _FILE)
            regressor = skops.io.load(folder / _FILE, trusted=_TRUSTED)
            _check_regressor(regressor)
            return cls(regressor)
        except UntrustedTypesFoundException as error:
            raise ModelFormatError(f"{folder / _FILE} is not safe to load: {error}") from None
        except Exception as error:  # whatever a damaged file makes scikit-learn raise
            raise ModelFormatError(
                f"{folder / _FILE} cannot be read: {type(error).__name__}: {error}"
            ) from None


def convert_features(regressor: Any, X: Matrix) -> Any:
    """Bring the features into a form that the regressor takes."""
    matrix: Any = X
    if not sparse.issparse(matrix):
        return matrix
    if not get_tags(regressor).input_tags.sparse:
        return matrix.toarray()
    # Made of its parts, the matrix has 32-bit indices wherever they are large enough: some
    # regressors take no others.
    return sparse.csr_matrix((matrix.data, matrix.indices, matrix.indptr), shape=matrix.shape)


def _require_stored(file: Path) -> None:
    """Raise ValueError unless the members of a zip file are stored as they are.

    skops writes them so; compressed ones may expand to any size.
    """
    with zipfile.ZipFile(file) as archive:
        for member in archive.infolist():
            if member.compress_type != zipfile.ZIP_STORED:
                raise ValueError(f"{member.filename} is compressed")


def _check_regressor(regressor: Any) -> None:
    """Raise ValueError if it is no fitted regressor, or a tree in it leads out of its arrays."""
    n_features = getattr(regressor, "n_features_in_", None)
    if not (is_regressor(regressor) and isinstance(n_features, int) and n_features > 0):
        raise ValueError("it holds no fitted regressor")
    for part in _parts(regressor):
        if isinstance(part, Tree):
            _check_tree(part, n_features)
        elif isinstance(part, TreePredictor):
            _check_predictor(part, n_features)


def _parts(root: Any) -> Iterator[Any]:
    """Everything that the object is made of, itself included."""
    seen: set[int] = set()
    found = [root]
    while found:
        part = found.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        yield part
        if isinstance(part, dict):
            found.extend(part.values())
        elif isinstance(part, list | tuple | set):
            found.extend(part)
        elif isinstance(part, np.ndarray):
            found.extend(part.flat if part.dtype == object else ())
        else:
            found.extend(getattr(part, "__dict__", {}).values())


def _check_tree(tree: Tree, n_features: int) -> None:
    if not 0 < tree.node_count <= tree.capacity:
        raise ValueError("a tree has more nodes than its arrays")
    inner = tree.children_left != -1
    _check_nodes(tree.children_left, tree.children_right, inner, tree.feature, n_features)


def _check_predictor(predictor: TreePredictor, n_features: int) -> None:
    nodes = predictor.nodes
    inner = nodes["is_leaf"] == 0
    if len(nodes) == 0 or np.any(nodes["is_categorical"][inner]):
        raise ValueError("a tree has no nodes, or splits by categories")
    left, right = (nodes[side].astype(np.int64) for side in ("left", "right"))
    _check_nodes(left, right, inner, nodes["feature_idx"], n_features)


def _check_nodes(
    left: NDArray[Any],
    right: NDArray[Any],
    inner: NDArray[np.bool_],
    feature: NDArray[Any],
    n_features: int,
) -> None:
    """Each node is the child of one at most, the root of none: there is no way back or out."""
    children = np.concatenate((left[inner], right[inner]))
    once = len(np.unique(children)) == len(children)
    if not once or np.any((children <= 0) | (children >= len(left))):
        raise ValueError("a tree has children that do not exist or have two parents")
    if np.any((feature[inner] < 0) | (feature[inner] >= n_features)):
        raise ValueError("a tree splits by features that do not exist")
