"""Boosting all pairs, and from a linear start, against the libraries' own ranking objectives."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import rankplug
from rankplug import datasets
from rankplug.data import RankingData, fit_scaling
from rankplug.exceptions import ConvergenceWarning
from rankplug.metrics import per_query
from rankplug.report.statistics import compare
from rankplug.solver import SolverResult

Row = dict[str, Any]
Values = dict[str, NDArray[np.float64]]

BASELINE = "xgboost rank:pairwise"
CHILD, PARENTS = "linear-then-boost", ("tree-tron", "xgboost-all-pairs")
_METRICS = ("ndcg@10", "map", "pairwise_accuracy")
_ALL = 2**31 - 1  # pairs of a row: at least as many as any query has
_TREES = {"n_estimators": 200, "early_stopping_rounds": 20, "n_threads": 1}


@dataclass(frozen=True)
class Entrant:
    """A solver of the table, with what is fixed; the rest is drawn from its search space."""

    solver: str
    fixed: Mapping[str, Any] = field(default_factory=dict)

    maps: str = ""
    """Maps beside the leaves of these trees, or instead, under "tree-tron"."""

    @property
    def is_boosted(self) -> bool:
        return self.solver not in ("tree-tron", "single-feature", "mapped")

    def make(self, **params: Any) -> Any:
        solver = rankplug.make_solver(self.solver, **{**params, **self.fixed})
        if not self.maps or self.solver == "mapped":
            return solver
        # Trees with the parameters drawn; C is chosen on the validation data.
        maps = {"leaves": {"trees": solver}, self.maps: {}}
        return rankplug.make_solver("mapped", map=maps)


ENTRANTS = {
    BASELINE: Entrant("xgboost-pairwise", {"zeros": "value"}),
    "xgboost rank:pairwise, all pairs": Entrant(
        "xgboost-pairwise", {"zeros": "value", "pair_method": "topk", "num_pair_per_sample": _ALL}
    ),
    "xgboost rank:ndcg": Entrant("xgboost-ndcg", {"zeros": "value"}),
    "lightgbm lambdarank": Entrant("lightgbm-lambdarank"),
    "lightgbm rank_xendcg": Entrant("lightgbm-lambdarank", {"objective": "rank_xendcg"}),
    "xgboost-all-pairs": Entrant("xgboost-all-pairs", {"zeros": "value"}),
    "xgboost-all-pairs, logistic": Entrant(
        "xgboost-all-pairs", {"zeros": "value", "loss": "logistic"}
    ),
    "lightgbm-all-pairs": Entrant("lightgbm-all-pairs"),
    "linear-then-boost": Entrant("linear-then-boost", {"zeros": "value"}),
    "tree-tron": Entrant("tree-tron", {"n_threads": 1}),
    "mapped: leaves of rank:pairwise + identity": Entrant(
        "xgboost-pairwise", {"zeros": "value"}, "identity"
    ),
    "mapped: leaves of lambdarank + identity": Entrant("lightgbm-lambdarank", {}, "identity"),
    "mapped: splines": Entrant("mapped", {"map": "splines", "C": None}, "splines"),
    "single-feature": Entrant("single-feature"),
}


@dataclass(frozen=True)
class Fold:
    """Training, validation and test queries, features standardised on the first."""

    train: RankingData
    valid: RankingData
    test: RankingData


def boosting(tiny: bool, _rounds: int) -> Iterator[Row]:
    """All entrants on all sets: test metrics, differences from the baseline, seconds a round.

    `RANKPLUG_BOOSTING_SETS` names the sets, all by default, `RANKPLUG_BOOSTING_ENTRANTS` words of
    the entrants' names.
    """
    chosen = os.environ.get("RANKPLUG_BOOSTING_SETS", "").split()
    entrants = _chosen_entrants()
    for name, folds in sets_of_folds(tiny).items():
        if not chosen or name in chosen:
            n_trials = 2 if tiny else 5
            yield from _table(name, [fold() for fold in folds], entrants, n_trials)


def _chosen_entrants() -> list[str]:
    """Those whose names hold one of the words in `RANKPLUG_BOOSTING_ENTRANTS`, and the baseline."""
    words = os.environ.get("RANKPLUG_BOOSTING_ENTRANTS", "").split()
    return [
        name for name in ENTRANTS if name == BASELINE or not words or any(w in name for w in words)
    ]


def _table(name: str, folds: list[Fold], entrants: list[str], n_trials: int) -> Iterator[Row]:
    """One row an entrant; the test queries of all folds are pooled."""
    found: dict[str, Values] = {}
    costs: dict[str, Row] = {}
    for entrant in entrants:
        started = time.perf_counter()
        parts = [_tested(ENTRANTS[entrant], fold, n_trials, seed=i) for i, fold in enumerate(folds)]
        found[entrant] = {m: np.concatenate([part[m] for part in parts]) for m in _METRICS}
        costs[entrant] = {
            "trials": n_trials * len(folds),
            "tuning_s": time.perf_counter() - started,
            "round_cpu_s": _seconds_a_round(ENTRANTS[entrant], folds[0].train),
        }
    for metric in _METRICS:
        values = {entrant: of_metric[metric] for entrant, of_metric in found.items()}
        common = {"data": name, "folds": len(folds), "metric": metric}
        for entrant, per_test_query in values.items():
            mean = {"entrant": entrant, "mean": float(np.nanmean(per_test_query))}
            yield {**common, **mean, **costs[entrant]}
        yield from ({**common, **row} for row in _comparisons(values, metric))


def _comparisons(values: Values, metric: str) -> Iterator[Row]:
    """All entrants against the baseline, and the linear start against both its parents."""
    child = {CHILD: values[CHILD]} if CHILD in values else {}
    tables = [(values, BASELINE)] if BASELINE in values else []
    tables += [({p: values[p], **child}, p) for p in PARENTS if child and p in values]
    for compared, against in tables:
        yield from comparison_rows(compared, against, metric)


def comparison_rows(values: Values, against: str, metric: str) -> Iterator[Row]:
    """The differences of all entrants from one of them."""
    for one in compare(values, against, metric):
        yield {
            "entrant": one.name,
            "against": against,
            "difference": one.difference,
            "low": one.low,
            "high": one.high,
            "p_holm": one.p_holm,
            "verdict": one.verdict,
            "n_queries": one.n_queries,
        }


def _tested(entrant: Entrant, fold: Fold, n_trials: int, seed: int) -> Values:
    """Test values of each query, at the parameters whose validation NDCG@10 is the highest."""
    trials = [_fitted(entrant, fold, params) for params in _draws(entrant, fold, n_trials, seed)]
    quality = [_ndcg(result, fold.valid) for result in trials]
    model = trials[int(np.argmax(quality))].model
    test, scores = fold.test, model.predict(fold.test.X)
    graded = per_query(test.relevance, scores, test.qid, ["ndcg@10", "pairwise_accuracy"])
    return {**graded, **per_query(test.relevance > 0, scores, test.qid, "map")}


def _draws(entrant: Entrant, fold: Fold, n_trials: int, seed: int) -> list[dict[str, Any]]:
    """Random points of the solver's search space, but for the rounds, which stop early."""
    from optuna import create_study, logging
    from optuna.samplers import RandomSampler

    logging.set_verbosity(logging.WARNING)
    space = rankplug.make_solver(entrant.solver, **entrant.fixed).tuning_space(fold.train)
    space = {k: v for k, v in space.items() if k not in (*entrant.fixed, "n_estimators")}
    study = create_study(sampler=RandomSampler(seed=seed))
    return [study.ask(space).params for _ in range(n_trials if space else 1)]


def _fitted(entrant: Entrant, fold: Fold, params: dict[str, Any]) -> SolverResult:
    shape = _TREES if entrant.is_boosted else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        solver = entrant.make(**{**params, **shape})
        return solver.solve(fold.train, valid=fold.valid, random_state=0)


def _ndcg(result: SolverResult, data: RankingData) -> float:
    scores = result.model.predict(data.X)
    return float(np.nanmean(per_query(data.relevance, scores, data.qid, "ndcg@10")["ndcg@10"]))


def _seconds_a_round(entrant: Entrant, train: RankingData) -> float | str:
    """Median CPU time of 60 rounds of trees of up to 32 leaves, on one thread."""
    if not entrant.is_boosted or entrant.maps:
        return ""
    leaves = {"num_leaves": 32} if entrant.solver.startswith("lightgbm") else {"max_depth": 5}
    solver = entrant.make(n_estimators=60, learning_rate=0.1, n_threads=1, **leaves)
    ends: list[float] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        solver.solve(train, random_state=0, callback=lambda _: ends.append(time.thread_time()))
    return float(np.median(np.diff(ends)))


# --- data -------------------------------------------------------------------------------------


def sets_of_folds(tiny: bool) -> dict[str, list[Callable[[], Fold]]]:
    """The sets of `RANKPLUG_DATA` and a synthetic one, their folds made when they are called."""
    if tiny:
        return {"web-search": [partial(_web_search, 40, 10)]}
    found: dict[str, list[Callable[[], Fold]]] = {}
    if "RANKPLUG_DATA" in os.environ:
        folder = Path(os.environ["RANKPLUG_DATA"])
        letor = "S{}.txt.gz"
        for name, pattern in (
            ("mq2008", f"letor4_mq2008/{letor}"),
            ("ohsumed", f"letor3_ohsumed/{letor}"),
            ("clueweb09", "webis_clueweb09/Fold{}.test.txt.gz"),
        ):
            files = [folder / pattern.format(i) for i in range(1, 6)]
            found[name] = [partial(_letor_fold, files, first) for first in range(5)]
        for name, pattern in (
            ("lightgbm-example", "lightgbm_lambdarank/{}.txt.gz"),
            ("mslr-head", "mslr_web10k_sample/fold1.{}.5k.txt.gz"),
        ):
            files = [folder / pattern.format(part) for part in ("train", "test")]
            found[name] = [partial(_train_and_test, *files)]
    return {**found, "web-search": [partial(_web_search, 600, 60)]}


def _letor_fold(files: list[Path], first: int) -> Fold:
    """LETOR's folds: three parts to train, the next to validate, the last to test."""
    order = [files[(first + i) % 5] for i in range(5)]
    train = rankplug.read_data(order[:3], dense=True)
    return _standardised(
        train, *(rankplug.read_data(file, like=train, dense=True) for file in order[3:])
    )


def _train_and_test(train_file: Path, test_file: Path) -> Fold:
    """Every fifth query of the training file validates."""
    data = rankplug.read_data(train_file, dense=True)
    held_out = np.arange(data.n_queries) % 5 == 4
    train, valid = (data.take_queries(np.flatnonzero(part)) for part in (~held_out, held_out))
    return _standardised(train, valid, rankplug.read_data(test_file, like=data, dense=True))


def _web_search(n_queries: int, docs_per_query: int) -> Fold:
    made = datasets.load("web-search", n_queries=n_queries, docs_per_query=docs_per_query)
    return _standardised(made.train, made.valid, made.test)


def _standardised(*parts: RankingData) -> Fold:
    scaling = fit_scaling(parts[0].X, "standard")
    assert scaling is not None
    return Fold(*(scaling.of(part) for part in parts))
