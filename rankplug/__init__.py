"""rankplug: exact convex rankers behind one interface, compared with XGBoost.

The public names are loaded on first use, so that ``import rankplug`` stays fast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rankplug.system.lazy import loader

__version__ = "0.2.0"

_HOME = {
    "LabelRanker": "estimators",
    "LabelRankingData": "data",
    "Ranker": "estimators",
    "RankingData": "data",
    "Solver": "solver",
    "SolverResult": "solver",
    "SolverTags": "solver",
    "TuneResult": "tuning",
    "compare": "mlflow",
    "list_maps": "maps",
    "list_solvers": "solver",
    "load_model": "models",
    "make_map": "maps",
    "make_solver": "solver",
    "path": "solver",
    "prepare": "io",
    "read_data": "io",
    "read_label_data": "io",
    "tune": "tuning",
    "write_data": "io",
}

__all__ = [
    "LabelRanker",
    "LabelRankingData",
    "Ranker",
    "RankingData",
    "Solver",
    "SolverResult",
    "SolverTags",
    "TuneResult",
    "__version__",
    "compare",
    "list_maps",
    "list_solvers",
    "load_model",
    "make_map",
    "make_solver",
    "path",
    "prepare",
    "read_data",
    "read_label_data",
    "tune",
    "write_data",
]

if TYPE_CHECKING:
    from rankplug.data import LabelRankingData, RankingData
    from rankplug.estimators import LabelRanker, Ranker
    from rankplug.io import prepare, read_data, read_label_data, write_data
    from rankplug.maps import list_maps, make_map
    from rankplug.mlflow import compare
    from rankplug.models import load_model
    from rankplug.solver import Solver, SolverResult, SolverTags, list_solvers, make_solver, path
    from rankplug.tuning import TuneResult, tune


__getattr__ = loader(__name__, _HOME)


def __dir__() -> list[str]:
    return sorted(__all__)
