"""Pairs of adjacent levels, in both solvers of pairs, against listed ones."""

import dataclasses

import numpy as np
import pytest
from scipy import sparse

import rankplug
from rankplug.data import LabelRankingData, RankingData
from tests.oracles import (
    WEIGHTINGS,
    hinge_primal,
    listed_weights,
    minimise_squared_hinge,
    odd_weights,
    pair_differences,
    query_data,
    squared_hinge_primal,
)


def label_data(seed=0):
    rng = np.random.default_rng(seed)
    Y = rng.integers(0, 4, size=(20, 5)) * 0.7
    Y[rng.random(Y.shape) < 0.2] = np.nan
    Y[3], Y[4] = 1.0, np.nan
    return LabelRankingData.from_arrays(rng.normal(size=(20, 3)), Y)


def weighted():
    data = query_data(weighted=True)
    return data.with_facts(document_weight=np.cbrt(odd_weights(data.n_samples, 5)) + 0.1)


DATA = {"queries": query_data, "weighted": weighted, "labels": label_data}


@pytest.mark.parametrize("weighting", [{}, *WEIGHTINGS[2:4]], ids=str)
@pytest.mark.parametrize("reduction", ["sum", "mean", "query-mean"])
@pytest.mark.parametrize("make", DATA)
def test_minima_equal_those_of_listed_pairs(make, reduction, weighting):
    data, C = DATA[make](), 0.2 if reduction == "sum" else 5.0
    differences, _ = pair_differences(data, "adjacent")
    assert len(differences) < len(pair_differences(data)[0])
    weight = listed_weights(data, reduction, **weighting, pairs="adjacent")
    options = {"C": C, "reduction": reduction, "pairs": "adjacent", **weighting}
    result = rankplug.make_solver("tree-tron", tol=1e-9, **options).solve(data)
    w = result.model.coef.ravel()
    value, _ = squared_hinge_primal(differences, weight, C, w)
    _, best = minimise_squared_hinge(differences, weight, C)
    assert result.objective == pytest.approx(value, rel=1e-9)
    assert value == pytest.approx(best, rel=1e-7)
    plane = rankplug.make_solver("cutting-plane", tol=1e-5, **options).solve(data)
    value, _ = hinge_primal(differences, weight, C, plane.model.coef.ravel())
    assert plane.objective == pytest.approx(value, rel=1e-9)
    assert plane.status == "converged"


@pytest.mark.parametrize("kind", [sparse.csr_array, np.float32])
def test_any_features_and_orders_of_rows(kind):
    data = query_data()
    if kind is np.float32:
        rows = np.random.default_rng(0).permutation(data.n_samples)
        X, y, qid = data.X[rows].astype(np.float32), data.relevance[rows], data.qid[rows]
        other = RankingData.from_arrays(X, y, qid)
    else:
        other = dataclasses.replace(data, X=kind(data.X))
    solver = rankplug.make_solver("tree-tron", C=0.3, tol=1e-9, pairs="adjacent")
    expected, found = solver.solve(data), solver.solve(other)
    np.testing.assert_allclose(found.model.coef, expected.model.coef, rtol=1e-4)
    costs = [one.objective for one in rankplug.path(solver, other, [0.1, 0.3])]
    assert costs[1] == pytest.approx(found.objective, rel=1e-6)


def test_two_levels_have_adjacent_pairs_only():
    rng = np.random.default_rng(0)
    data = RankingData.from_arrays(
        rng.normal(size=(60, 4)), rng.integers(0, 2, 60), np.arange(60) % 5
    )
    for name in ("tree-tron", "cutting-plane"):
        results = [
            rankplug.make_solver(name, tol=1e-8, pairs=pairs).solve(data)
            for pairs in ("all", "adjacent")
        ]
        assert results[0].objective == pytest.approx(results[1].objective, rel=1e-7)
    space = rankplug.make_solver("tree-tron", pairs="adjacent").tuning_space(data)
    assert space["C"].low > 0
