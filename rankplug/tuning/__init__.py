"""Tuning with Optuna: any solver, any metric, by query, resumable.

>>> import rankplug
>>> from rankplug.datasets import load
>>> data = load("digits-retrieval", n_queries=20).train
>>> result = rankplug.tune("tree-tron", data, metric="map", n_trials=3, folds=2)
>>> len(result.trials)
3
"""

from rankplug.tuning.observers import StudyInfo, TuneObserver, TuneProgress
from rankplug.tuning.records import (
    Cost,
    PathStep,
    TrialRecord,
    TrialState,
    TrialStep,
    TuneResult,
)
from rankplug.tuning.space import Space, read_space
from rankplug.tuning.training import Trainer
from rankplug.tuning.tuner import Pruner, Sampler, tune

__all__ = [
    "Cost",
    "PathStep",
    "Pruner",
    "Sampler",
    "Space",
    "StudyInfo",
    "Trainer",
    "TrialRecord",
    "TrialState",
    "TrialStep",
    "TuneObserver",
    "TuneProgress",
    "TuneResult",
    "read_space",
    "tune",
]
