"""scikit-learn estimators: `Ranker` for documents of queries, `LabelRanker` for labels."""

from rankplug.estimators.base import SolverEstimator
from rankplug.estimators.label_ranker import LabelRanker
from rankplug.estimators.ranker import Ranker

__all__ = ["LabelRanker", "Ranker", "SolverEstimator"]
