"""Baselines that every ranker should beat: regressions of the relevance, and sanity rankers."""

from rankplug_plugins.baselines.regressor_model import RegressorModel
from rankplug_plugins.baselines.solvers import Constant, Pointwise, SingleFeature

__all__ = ["Constant", "Pointwise", "RegressorModel", "SingleFeature"]
