"""What a study costs beyond training, and a score beyond its product: before and after a change.

`benchmarks.checkouts` says how two versions are compared.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

import rankplug
from rankplug.datasets import load
from rankplug.models import Model, linear_model
from rankplug.parameters import Positive
from rankplug.solver import Data, Monitor, SearchSpace, Solver, SolverResult, SolverTags

if TYPE_CHECKING:
    from benchmarks.checkouts import Measurement

_ROOT = Path(__file__).parents[1]


class LearnsNothing(Solver):
    """Weights that come of the parameters at once: all that a trial takes is the study's.

    Parameters
    ----------
    C, phase : float
    """

    name = "learns-nothing"
    tags = SolverTags(tasks=("query-document",), problem="none", reference="none")

    C: Positive = 1.0
    phase: Positive = 1.0

    def tuning_space(self, data: Data | None = None) -> SearchSpace:
        """Both, by their logarithms."""
        from optuna.distributions import FloatDistribution

        return {name: FloatDistribution(1e-3, 1e3, log=True) for name in ("C", "phase")}

    def _solve(
        self, data: Data, init: Model | None, monitor: Monitor, rng: np.random.Generator
    ) -> SolverResult:
        j = np.arange(data.n_features)
        w = np.cos(j) + self.C * np.sin(j * self.phase)
        return SolverResult(linear_model(w, data), "converged", 0.0, 0.0, n_iter=1, n_passes=0.0)


def tuning_overhead(tiny: bool, rounds: int) -> Iterator[dict[str, Any]]:
    """Medians over the rounds of the median over trials, or of the fastest of many calls."""
    from benchmarks.checkouts import measure_in_turn  # which the other version may not have

    found: dict[tuple[str, ...], list[Mapping[str, float]]] = {}
    commits = {}
    for version, commit, measured in measure_in_turn(__file__, tiny, rounds):
        commits[version] = commit
        for names, timing in measured:
            found.setdefault((*names.values(), version), []).append(timing)
    for what, how, version in sorted(found):
        timings = found[what, how, version]
        medians = {key: median(timing[key] for timing in timings) for key in timings[0]}
        least = {f"least_{key}": min(timing[key] for timing in timings) for key in timings[0]}
        shared = {"what": what, "how": how, "version": version, "of_commit": commits[version]}
        yield {**shared, "runs": len(timings), **medians, **least, "n_threads": 1}


def _measure_here(tiny: bool) -> Iterator[Measurement]:
    data = load("digits-retrieval", n_queries=12 if tiny else 60).train
    n_trials = 3 if tiny else 40
    for how in ("in memory", "in memory, pruned", "logged", "logged, pruned"):
        for number in (2, n_trials):  # the first study of a kind imports what it needs
            timing = _time_trials(data, number, how)
        yield {"what": "a trial of five folds", "how": how}, timing
    rows, relevance, qid = data.X, data.relevance, data.qid
    ranker = rankplug.Ranker("tree-tron", n_threads=1).fit(rows, relevance, qid=qid)
    one = np.array(rows[:1])
    number = 20 if tiny else 2000
    for how, predict in (("model", ranker.model_.predict), ("Ranker", ranker.predict)):
        runs = [_time_calls(partial(predict, one), number) for _ in range(7)]
        wall, cpu = np.min(runs, axis=0)
        timing = {"wall_ms": float(wall), "cpu_ms": float(cpu)}
        yield {"what": "a score of one row", "how": how}, timing


def _time_calls(call: Callable[[], Any], number: int) -> tuple[float, float]:
    """Milliseconds of a call, the mean of several."""
    before = time.perf_counter(), time.process_time()
    for _ in range(number):
        call()
    after = time.perf_counter(), time.process_time()
    return 1e3 * (after[0] - before[0]) / number, 1e3 * (after[1] - before[1]) / number


def _time_trials(data: Data, n_trials: int, how: str) -> dict[str, float]:
    """Milliseconds from the end of a trial to the end of the next one."""
    ends: list[tuple[float, float]] = []
    with tempfile.TemporaryDirectory(dir=_ROOT) as folder:  # a disk, where /tmp may be memory
        options: dict[str, Any] = {}
        if how.startswith("logged"):
            from rankplug.mlflow.study import MlflowTuneObserver

            options = {"storage": Path(folder), "observer": MlflowTuneObserver(folder)}
        rankplug.tune(
            LearnsNothing(),
            data,
            n_trials=n_trials,
            pruner="wilcoxon" if how.endswith("pruned") else None,
            progress=False,
            callbacks=[lambda *_: ends.append((time.perf_counter(), time.process_time()))],
            **options,
        )
    wall, cpu = 1e3 * np.median(np.diff(ends, axis=0), axis=0)
    return {"wall_ms": float(wall), "cpu_ms": float(cpu)}


if __name__ == "__main__":
    measured = list(_measure_here("--tiny" in sys.argv))
    print(json.dumps({"package": rankplug.__file__, "rows": measured}))
