"""Clicks of users who look at the top only: what weighting them gives back, and propensities.

Joachims, Swaminathan and Schnabel, Unbiased learning-to-rank with biased feedback, WSDM 2017, have
the protocol: users are simulated on judged documents of which they see a ranking that knows little,
and what is learned from their clicks is measured on the judgements of other queries.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

import rankplug
from rankplug import datasets
from rankplug.clicks import ClickLog, Propensities, estimate_propensities, simulate_clicks
from rankplug.clicks import weigh_clicks as weigh
from rankplug.data import RankingData
from rankplug.metrics import measure_data

Row = dict[str, Any]

_SETS: Mapping[str, Mapping[str, int]] = {
    "digits-retrieval": {"n_queries": 1000, "docs_per_query": 20},
    "web-search": {"n_queries": 1000, "docs_per_query": 20, "n_features": 50},
}
_TINY = {"n_queries": 30, "docs_per_query": 20}
_ETAS = (1.0, 1.5, 2.0)
_POSITIONS = 1_000  # all documents of every list: what is never shown, no weight brings back
_FIRST = 10  # positions whose propensities are looked at
_CS = tuple(np.logspace(-1.0, 3.0, 5))
_CLIPS = (None, 0.02, 0.1)
_TREES = {"n_estimators": 100, "n_threads": 1}
_OWN = {
    "xgboost-ndcg": {"params": {"lambdarank_unbiased": True}},
    "lightgbm-lambdarank": {"unbiased": True},
}


@dataclass(frozen=True)
class _Trained:
    """The best of several solves by validation data, and its NDCG@10 on the test part."""

    valid: float
    test: float
    settings: str
    seconds: float


def clicks(tiny: bool, rounds: int) -> Iterator[Row]:
    """NDCG@10 of linear rankers by severity of the bias, a row for each seed."""
    etas, n_sessions = (_ETAS[:1], 2_000) if tiny else (_ETAS, 100_000)
    for (name, sizes), eta, seed in product(_SETS.items(), etas, range(rounds)):
        parts = datasets.load(name, seed=seed, **(_TINY if tiny else sizes))
        log, facts = _simulated(name, parts.train, n_sessions, eta, seed)
        started = time.perf_counter()
        estimated = estimate_propensities(log)
        facts["estimate_s"] = time.perf_counter() - started
        truth = np.arange(1.0, log.n_positions + 1) ** -eta
        facts["propensity_error"] = _worst(estimated, truth)
        known = log.up_to(_last_known(estimated))
        naive = _best(parts, {"": weigh(log, "none").to_training()}, _linear())
        full = _best(parts, {"": parts.train}, _linear())
        exact = Propensities.given(truth)
        entrants = {
            "naive": naive,
            "weighted": _best(parts, _weighted(known, estimated), _linear()),
            "weighted, true propensities": _best(parts, _weighted(log, exact), _linear()),
            "full information": full,
        }
        for method, one in entrants.items():
            yield _row(facts, method, one, naive, full)


def clicks_trees(tiny: bool, rounds: int) -> Iterator[Row]:
    """The libraries' own models of position bias, on lists of a fifth of the sessions."""
    n_sessions = 500 if tiny else 20_000
    for seed in range(1 if tiny else min(rounds, 3)):
        name = "digits-retrieval"
        parts = datasets.load(name, seed=seed, **(_TINY if tiny else _SETS[name]))
        log, facts = _simulated(name, parts.train, n_sessions, 1.0, seed)
        lists = {"": log.to_sessions()}
        for library, own in _OWN.items():
            trees = {**_TREES, "n_estimators": 2} if tiny else _TREES
            plain = {"": rankplug.make_solver(library, **trees)}
            unbiased = {"": rankplug.make_solver(library, **trees, **own)}
            naive, full = _best(parts, lists, plain), _best(parts, {"": parts.train}, plain)
            yield _row(facts, f"{library}, naive", naive, naive, full)
            yield _row(facts, f"{library}, its own", _best(parts, lists, unbiased), naive, full)
            yield _row(facts, f"{library}, full information", full, naive, full)
        naive = _best(parts, {"": weigh(log, "none").to_training()}, _linear())
        full = _best(parts, {"": parts.train}, _linear())
        weighted = _best(parts, _weighted(log, estimate_propensities(log)), _linear())
        for method, one in (("naive", naive), ("weighted", weighted), ("full information", full)):
            yield _row(facts, f"tree-tron, {method}", one, naive, full)


def _simulated(
    name: str, train: RankingData, n_sessions: int, eta: float, seed: int
) -> tuple[ClickLog, Row]:
    log = simulate_clicks(train, n_sessions, n_positions=_POSITIONS, eta=eta, seed=seed)
    facts = {
        "data": name,
        "eta": eta,
        "n_sessions": n_sessions,
        "seed": seed,
        "n_clicks": int(log.click.sum()),
    }
    return log, facts


def _weighted(log: ClickLog, propensities: Propensities) -> dict[str, RankingData]:
    """Training data by how propensities are clipped."""
    return {
        "" if clip is None else f"clip {clip:g}": weigh(log, propensities, clip=clip).to_training()
        for clip in _CLIPS
    }


def _linear() -> dict[str, Any]:
    """The linear ranker by its C."""
    return {
        f"C {C:g}": rankplug.make_solver("tree-tron", C=C, reduction="mean", n_threads=1)
        for C in _CS
    }


def _best(parts: Any, forms: Mapping[str, RankingData], solvers: Mapping[str, Any]) -> _Trained:
    """The best by the NDCG@10 of the validation part; seconds are those of that solve."""
    found = []
    for (form, data), (setting, solver) in product(forms.items(), solvers.items()):
        started = time.perf_counter()
        model = solver.solve(data, random_state=0).model
        seconds = time.perf_counter() - started
        valid, test = (
            measure_data(part, model.predict(part.X), "ndcg@10")["ndcg@10"].mean()
            for part in (parts.valid, parts.test)
        )
        found.append(_Trained(valid, test, " ".join(filter(None, (form, setting))), seconds))
    return max(found, key=lambda one: one.valid)


def _row(facts: Row, method: str, one: _Trained, naive: _Trained, full: _Trained) -> Row:
    return {
        **facts,
        "method": method,
        "chosen": one.settings,
        "ndcg@10": one.test,
        "recovered": (one.test - naive.test) / (full.test - naive.test),
        "fit_s": one.seconds,
    }


def _worst(estimated: Propensities, truth: Any) -> float:
    """The largest relative error of the first positions."""
    return float(np.abs(estimated.values / truth - 1)[:_FIRST].max())


def _last_known(estimated: Propensities) -> int:
    """The last position above which all have a propensity."""
    unknown = np.flatnonzero(np.isnan(estimated.values))
    return int(unknown[0]) if unknown.size else len(estimated.values)
