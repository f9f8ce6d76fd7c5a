"""Tuning: an equal number of trials for every solver, and a whole C path in one trial."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone

import rankplug
from rankplug.data import RankingData
from rankplug.datasets import load
from rankplug.metrics import evaluate
from rankplug.objectives import pairwise_c
from rankplug.tuning import TuneResult, tune

METRICS = ("ndcg@10", "map", "pairwise_accuracy")

# What is not searched. The tolerance leaves room for a large C; the other decompositions are for
# relevance without noise, and a large C would take epochs without end.
SOLVERS: dict[str, dict[str, Any]] = {
    "tree-tron": {"tol": 1e-4, "n_threads": 1},
    "cutting-plane": {"n_threads": 1},
    "larank": {},
    "sopopo": {"decomposition": "all-pairs", "max_epochs": 100},
    "toppush": {},
    "xgboost-pairwise": {"n_threads": 1},
}
PATHS = ("tree-tron", "cutting-plane")


@dataclass(frozen=True)
class Splits:
    name: str
    train: RankingData
    valid: RankingData
    test: RankingData


def tuning(tiny: bool, _rounds: int) -> Iterator[dict[str, Any]]:
    """The same number of trials for each solver, scored on validation data."""
    n_trials = 2 if tiny else 30
    for splits in _problems(tiny):
        for metric in ("ndcg@10", "pairwise_accuracy"):
            for name, params in SOLVERS.items():
                solver = rankplug.make_solver(name, **params)
                options = {"metric": metric, "valid": splits.valid, "n_trials": n_trials}
                result, seconds = _timed(solver, splits, **options)
                yield {"data": splits.name, "tuned_on": metric, **_row(result, seconds, splits)}


def tuning_path(tiny: bool, _rounds: int) -> Iterator[dict[str, Any]]:
    """C paths in one trial against a trial for each C, in five folds without pruning.

    "path": 8 or 16 values; "trials": the same 16 values, each from nothing; "plain": those
    without a preconditioner; "tpe": as many trials as in `tuning`, wherever TPE wants them.
    """
    few, many, n_trials = (2, 3, 2) if tiny else (8, 16, 30)
    for splits in _problems(tiny):
        for name in PATHS:
            solver = rankplug.make_solver(name, **SOLVERS[name])
            plain = clone(solver).set_params(preconditioner="none")
            own = pairwise_c(splits.train)
            values = np.geomspace(own.low, own.high, many).tolist()
            ways: dict[str, tuple[rankplug.Solver, dict[str, Any]]] = {
                f"path-{few}": (solver, {"path": few, "n_trials": 1}),
                f"path-{many}": (solver, {"path": many, "n_trials": 1}),
                f"trials-{many}": (solver, {"space": {"C": values}, "sampler": "grid"}),
                f"plain-{many}": (plain, {"space": {"C": values}, "sampler": "grid"}),
                f"tpe-{n_trials}": (solver, {"n_trials": n_trials}),
            }
            for way, (chosen, options) in ways.items():
                options |= {"metric": "pairwise_accuracy", "folds": 5, "pruner": None}
                result, seconds = _timed(chosen, splits, **options)
                yield {"data": splits.name, "way": way, **_row(result, seconds, splits)}


def _problems(tiny: bool) -> Iterator[Splits]:
    root = os.environ.get("RANKPLUG_DATA")
    if tiny:
        made = load("digits-retrieval", n_queries=12)
        yield Splits("digits-retrieval", made.train, made.valid, made.test)
    elif root is not None:
        folder = Path(root, "letor4_mq2008", "Fold1")
        train = rankplug.read_data(folder / "train.txt.gz", dense=True)
        valid, test = (
            rankplug.read_data(folder / f"{part}.txt.gz", like=train) for part in ("vali", "test")
        )
        yield Splits("mq2008", train, valid, test)


def _timed(solver: rankplug.Solver, splits: Splits, **options: Any) -> tuple[TuneResult, float]:
    started = time.perf_counter()
    result = tune(solver, splits.train, refit=True, progress=False, **options)
    return result, time.perf_counter() - started


def _row(result: TuneResult, seconds: float, splits: Splits) -> dict[str, Any]:
    assert result.best_result is not None
    test = splits.test
    scores = result.best_result.model.predict(test.X)
    metrics = evaluate(test.relevance, scores, test.qid, METRICS)
    counts = result.counts
    return {
        "solver": result.best_solver.name,
        "n_trials": len(result.trials),
        "pruned": counts.get("pruned", 0),
        "failed": counts.get("failed", 0),
        "held_out": result.best_value,
        **{f"test_{name}": value for name, value in metrics.items()},
        "tuning_s": seconds,
        "training_s": result.seconds,
        "n_passes": result.n_passes,
        "params": "; ".join(f"{name}={value}" for name, value in result.best_params.items()),
        "n_threads": 1,
    }
