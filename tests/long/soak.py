"""Long runs: that nothing grows, and that kills lose nothing. Not a part of the test suite.

    python tests/long/soak.py rounds 60      # fits of every solver, tunings, reports, requests
    python tests/long/soak.py kills 50       # kills of a tuning study at random moments

A round is one fit of each solver, a tuning of three trials, a report with all its files, a saved
and loaded model, and 200 requests to the function that MLflow's scoring server calls. After each
the process's memory, file descriptors and threads are measured; beyond the second round, which
warms up, they must not grow by more than stated below. The last results are in tests/long/soak.md.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
import tempfile
import threading
import time
import warnings
from collections import Counter
from pathlib import Path

import numpy as np

import rankplug
from rankplug.mlflow.pyfunc import ScoringModel
from rankplug.models import load_model
from rankplug.recipe.loader import load_recipe
from rankplug.runner import run
from rankplug.tuning import tune

SLACK_MB = 25.0
"""How much memory may grow after warming up, whatever the number of rounds."""

FEW = {"n_estimators": 5, "max_iter": 30, "max_epochs": 10, "epochs": 5}
N_REQUESTS = 200

RECIPE = """
name: soak
data: {dataset: wine}
metrics: [kendall_tau]
sanity: false
solvers: [{solver: tree-tron}, {solver: sopopo, params: {max_epochs: 10}}]
"""


def arrays(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(600, 8))
    y = np.clip(np.round(X[:, 0] + rng.normal(size=600)) + 2, 0, 4)
    return X, y, np.repeat(np.arange(60), 10)


def fits(number, counts):
    """Every solver of query-document data, on new data each time."""
    data = rankplug.RankingData.from_arrays(*arrays(number))
    for info in rankplug.list_solvers():
        if "query-document" not in info.tasks:
            continue
        solver = rankplug.make_solver(info.name)
        known = solver.get_params(deep=False)
        solver.set_params(**{key: value for key, value in FEW.items() if key in known})
        solver.solve(data, random_state=0).model.predict(data.X)
        counts["fits"] += 1


def tuning(number, folder, counts):
    """A study in a journal of its own."""
    data = rankplug.RankingData.from_arrays(*arrays(number))
    options = {"n_trials": 3, "folds": 2, "progress": False}
    result = tune("tree-tron", data, storage=folder / f"study-{number}", **options)
    counts["trials"] += len(result.trials)


def report(number, folder, counts):
    """A recipe's report with figures."""
    recipe = folder / "soak.yaml"
    recipe.write_text(RECIPE)
    run(load_recipe(str(recipe)), progress=False, output=folder / f"report-{number}")
    counts["reports"] += 1


def requests(number, folder, counts):
    """Rows to scores as a server does it, from a saved model."""
    X, y, qid = arrays(number)
    ranker = rankplug.Ranker().fit(X, y, qid=qid)
    ranker.model_.save(folder / f"model-{number}")
    model = ScoringModel(load_model(folder / f"model-{number}"))
    for _ in range(N_REQUESTS):
        model.predict(X[:50])
    counts["requests"] += N_REQUESTS


def measure():
    """Memory in MB, open files and threads of this process."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    files = len(os.listdir("/proc/self/fd"))
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20, files, threading.active_count()


def soak(n_rounds, *, seconds=float("inf"), with_reports=True, tell=print):
    """Run rounds, for so long at most: what grew since the second one, and what was done."""
    counts: Counter[str] = Counter()
    measured = []
    started = time.perf_counter()
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as name:
        warnings.simplefilter("ignore")
        folder = Path(name)
        for number in range(n_rounds):
            fits(number, counts)
            tuning(number, folder, counts)
            if with_reports:
                report(number, folder, counts)
            requests(number, folder, counts)
            measured.append(measure())
            megabytes, files, threads = measured[-1]
            if time.perf_counter() - started > seconds:
                break
            tell(f"round {number}: {megabytes:.1f} MB, {files} files, {threads} threads")
    warm = measured[min(1, len(measured) - 1)]
    grown = [last - first for first, last in zip(warm, measured[-1], strict=True)]
    return grown, counts


def kills(n_kills):
    """Kill a study; the checks are those of the test suite."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tuning"))
    from test_storage import kill_at_any_moment

    with tempfile.TemporaryDirectory() as folder:
        kill_at_any_moment(Path(folder), most_kills=n_kills, n_trials=5 * n_kills)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("what", choices=["rounds", "kills"])
    parser.add_argument("number", type=int)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="end after so many")
    args = parser.parse_args()
    started = time.perf_counter()
    if args.what == "kills":
        kills(args.number)
        print(f"{args.number} kills, no trial lost, changed or repeated")
    else:
        (megabytes, files, threads), counts = soak(args.number, seconds=args.seconds)
        done = ", ".join(f"{number} {what}" for what, number in counts.items())
        print(f"{done}; grown by {megabytes:.1f} MB, {files} files, {threads} threads")
        if megabytes > SLACK_MB or files > 0 or threads > 0:
            sys.exit("something grows")
    print(f"in {time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main()
