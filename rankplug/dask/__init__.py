"""Training on a Dask cluster: rows stay on the workers, vectors of weights travel.

``from rankplug.dask import Ranker`` needs ``pip install 'rankplug[dask]'``. The public names are
loaded on first use: workers, which know others of this package, need not wait for them.
"""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

from rankplug.system.lazy import loader

if importlib.util.find_spec("distributed") is None:
    raise ImportError("rankplug.dask needs Dask: pip install 'rankplug[dask]'")

_HOME = {
    "ClusterArrays": "data",
    "ClusterData": "data",
    "Ranker": "ranker",
    "compare": "comparison",
    "tune": "tuning",
}

__all__ = ["ClusterArrays", "ClusterData", "Ranker", "compare", "tune"]

if TYPE_CHECKING:
    from rankplug.dask.comparison import compare
    from rankplug.dask.data import ClusterArrays, ClusterData
    from rankplug.dask.ranker import Ranker
    from rankplug.dask.tuning import tune


__getattr__ = loader(__name__, _HOME)


def __dir__() -> list[str]:
    return sorted(__all__)
