"""Tuning with Optuna: any solver, any metric, by query, resumable.

>>> import rankplug
>>> from rankplug.datasets import load
>>> data = load("digits-retrieval", n_queries=20).train
>>> result = rankplug.tune("tree-tron", data, metric="map", n_trials=3, folds=2)
>>> len(result.trials)
3
"""

from rankplug.tuning.evaluation import FoldResult, Stopped, Trainer, TuningTask, train_here
from rankplug.tuning.records import (
    JOURNAL,
    Cost,
    PathStep,
    Pruner,
    Sampler,
    StudyInfo,
    TrialRecord,
    TrialState,
    TrialStep,
    TuneObserver,
    TuneProgress,
    TuneResult,
    plain,
)
from rankplug.tuning.space import Space, read_space
from rankplug.tuning.tuner import tune

__all__ = [
    "JOURNAL",
    "Cost",
    "FoldResult",
    "PathStep",
    "Pruner",
    "Sampler",
    "Space",
    "Stopped",
    "StudyInfo",
    "Trainer",
    "TrialRecord",
    "TrialState",
    "TrialStep",
    "TuneObserver",
    "TuneProgress",
    "TuneResult",
    "TuningTask",
    "plain",
    "read_space",
    "train_here",
    "tune",
]
