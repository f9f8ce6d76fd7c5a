"""rankplug: exact convex rankers behind one interface, compared with XGBoost.

The public names are loaded on first use, so that ``import rankplug`` stays fast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rankplug.lazy import loader

__version__ = "0.1.0"

_HOME = {
    "LabelRanker": "label_ranker",
    "LabelRankingData": "data",
    "Ranker": "ranker",
    "RankingData": "data",
    "Solver": "solver",
    "SolverResult": "solver",
    "SolverTags": "solver",
    "TuneResult": "tuning",
    "list_solvers": "registry",
    "load_model": "models",
    "make_solver": "registry",
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
    "list_solvers",
    "load_model",
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
    from rankplug.io import prepare, read_data, read_label_data, write_data
    from rankplug.label_ranker import LabelRanker
    from rankplug.models import load_model
    from rankplug.ranker import Ranker
    from rankplug.registry import list_solvers, make_solver
    from rankplug.solver import Solver, SolverResult, SolverTags, path
    from rankplug.tuning import TuneResult, tune


__getattr__ = loader(__name__, _HOME)


def __dir__() -> list[str]:
    return sorted(__all__)
