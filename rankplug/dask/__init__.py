"""Training on a Dask cluster: rows stay on the workers, vectors of weights travel.

``from rankplug.dask import Ranker`` needs ``pip install 'rankplug[dask]'``. The public names are
loaded on first use: workers, which know others of this package, need not wait for them.
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import TYPE_CHECKING, Any

if importlib.util.find_spec("distributed") is None:
    raise ImportError("rankplug.dask needs Dask: pip install 'rankplug[dask]'")

_HOME = {
    "ClusterArrays": "arrays",
    "ClusterData": "data",
    "Ranker": "ranker",
    "compare": "comparison",
    "tune": "tuning",
}

__all__ = ["ClusterArrays", "ClusterData", "Ranker", "compare", "tune"]

if TYPE_CHECKING:
    from rankplug.dask.arrays import ClusterArrays
    from rankplug.dask.comparison import compare
    from rankplug.dask.data import ClusterData
    from rankplug.dask.ranker import Ranker
    from rankplug.dask.tuning import tune


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'rankplug.dask' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"rankplug.dask.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
