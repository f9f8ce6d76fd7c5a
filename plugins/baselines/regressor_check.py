"""What must hold in a regressor from a file before it predicts.

skops makes only objects of types that it knows or that are named, but compiled trees follow the
indices in their arrays wherever these lead.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_regressor
from sklearn.ensemble._hist_gradient_boosting.predictor import TreePredictor
from sklearn.tree._tree import Tree

__all__ = ["check_regressor", "require_stored"]


def require_stored(file: Path) -> None:
    """Raise ValueError unless the members of a zip file are stored as they are.

    skops writes them so; compressed ones may expand to any size.
    """
    with zipfile.ZipFile(file) as archive:
        for member in archive.infolist():
            if member.compress_type != zipfile.ZIP_STORED:
                raise ValueError(f"{member.filename} is compressed")


def check_regressor(regressor: Any) -> None:
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
