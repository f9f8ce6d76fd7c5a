"""Propensities, weighed clicks as data, and the simulator that shows them right."""

import numpy as np
import pandas as pd
import pytest

from rankplug import make_solver
from rankplug.clicks import ClickLog, estimate_propensities, simulate_clicks, weigh_clicks
from rankplug.data import RankingData
from rankplug.datasets import load
from rankplug.exceptions import DataError, DataWarning, ParameterError, UnknownNameError
from rankplug.metrics import evaluate


@pytest.fixture(scope="module")
def graded():
    return load("digits-retrieval", n_queries=30, docs_per_query=20).train


def counted(cells):
    """A log of one query from (document, position, shown, clicked)."""
    rows = [
        (0, document, position, int(i < clicked), float(document))
        for document, position, shown, clicked in cells
        for i in range(shown)
    ]
    return ClickLog.from_table(
        pd.DataFrame(rows, columns=["qid", "document", "position", "click", "x"])
    )


@pytest.mark.parametrize("method", ["interventions", "em"])
def test_rates_that_fit_exactly_give_the_exact_propensities(method):
    # p = 1, 1/2, 1/4; documents of relevance 0.8, 0.4 and 0.4; one that tells nothing.
    log = counted(
        [(0, 1, 50, 40), (0, 2, 50, 20), (1, 2, 40, 8), (1, 3, 40, 4), (2, 1, 20, 8), (2, 3, 20, 2),
         (3, 3, 99, 1)]
    )  # fmt: skip
    values = estimate_propensities(log, method).values
    np.testing.assert_allclose(values, [1, 0.5, 0.25], rtol=2e-3)


def test_positions_that_nothing_joins_to_the_first_have_none():
    cells = [(0, 1, 50, 40), (0, 2, 50, 20), (1, 3, 40, 8), (1, 4, 40, 4)]
    for method in ("interventions", "em"):
        propensities = estimate_propensities(counted(cells), method)
        assert np.isnan(propensities.values).tolist() == [False, False, True, True]
    with pytest.raises(DataError, match=r"12 clicks at positions without a propensity \(3, 4\)"):
        weigh_clicks(counted(cells), propensities)
    for method in ("interventions", "em"):
        with pytest.raises(DataError, match="shown, and clicked, at the first and at another"):
            estimate_propensities(counted(cells[2:]), method)
    with pytest.raises(DataError, match="no document was clicked"):
        estimate_propensities(counted([(0, 1, 3, 0)]))
    with pytest.raises(UnknownNameError, match="did you mean 'interventions'"):
        estimate_propensities(counted(cells), "intervention")


def test_random_lists_without_a_click_at_the_first_position_tell_nothing():
    table = pd.DataFrame(
        {"qid": 0, "document": [0, 1], "position": [1, 2], "click": [0, 1], "x": [0.0, 1.0],
         "random": 1}
    )  # fmt: skip
    log = ClickLog.from_table(table, randomised="random")
    with pytest.raises(DataError, match="nothing was clicked at the first position of the lists"):
        estimate_propensities(log, "randomised")


def test_a_model_that_has_not_converged_says_so(monkeypatch):
    monkeypatch.setattr("rankplug.clicks.position_model._MOST_STEPS", 2)
    log = counted([(0, 1, 50, 40), (0, 2, 50, 20), (1, 2, 40, 8), (1, 3, 40, 4)])
    with pytest.warns(DataWarning, match="not converged in 2 steps: its propensities still change"):
        values = estimate_propensities(log, "em").values
    assert values[0] == 1.0
    assert 0.25 < values[1] < 0.75


@pytest.mark.parametrize(
    ("method", "options", "within"),
    [
        ("interventions", {}, 0.1),
        ("interventions", {"eta": 2.0}, 0.2),
        ("interventions", {"randomised": 0.3}, 0.1),
        ("randomised", {"randomised": 1.0}, 0.1),
        ("em", {}, 0.2),
    ],
)
def test_propensities_of_simulated_users_are_found(graded, method, options, within):
    options = {"eta": 1.0, "noise": 0.3, "n_rankers": 4, **options}
    log = simulate_clicks(graded, 60_000, n_positions=6, seed=3, **options)
    truth = np.arange(1.0, 7) ** -options["eta"]
    np.testing.assert_allclose(estimate_propensities(log, method).values, truth, rtol=within)


def test_a_simulation_is_that_of_its_seed_and_its_users(graded):
    options = {"n_positions": 5, "noise": 0.2, "trust": 0.5, "randomised": 1.0}
    log, same, other = (simulate_clicks(graded, 20_000, seed=s, **options) for s in (0, 0, 1))
    assert np.array_equal(log.click, same.click)
    assert np.array_equal(log.row, same.row)
    assert not np.array_equal(log.row, other.row)
    assert log.n_sessions.sum() == 20_000
    for position in range(1, 6):
        for relevance in (0, 1):
            chosen = (log.position == position) & (graded.relevance[log.row] == relevance)
            noise = 0.2 + 0.8 * 0.5 / position
            chance = (noise + (1 - noise) * relevance) / position
            error = np.sqrt(0.25 / np.count_nonzero(chosen))
            assert abs(log.click[chosen].mean() - chance) < 5 * error
    ordered = simulate_clicks(graded, 50, n_positions=99, scores=-np.arange(graded.n_samples))
    assert np.array_equal(ordered.row[:20] - ordered.row[0], np.arange(20))
    with pytest.raises(ParameterError, match="eta"):
        simulate_clicks(graded, eta=-1)
    with pytest.raises(DataError, match="one for each row"):
        simulate_clicks(graded, scores=[1.0, 2.0])
    flat = RankingData.from_arrays([[1.0], [2.0]], [0, 0])
    with pytest.raises(DataError, match="relevance from 0"):
        simulate_clicks(flat)


def test_clicks_are_weighed_clipped_and_counted():
    log = counted([(0, 1, 4, 2), (0, 3, 4, 1), (1, 2, 4, 1), (2, 3, 4, 0)])
    weighed = weigh_clicks(log, [1, 0.5, 0.1])
    assert weighed.document_weight.tolist() == [12.0, 2.0, 0.0]
    assert weighed.effective_sample_size == pytest.approx(14**2 / (1 + 1 + 100 + 4))
    clipped = weigh_clicks(log, {1: 2, 2: 1, 3: 0.2}, clip=0.25)
    assert clipped.document_weight.tolist() == [6.0, 2.0, 0.0]
    assert clipped.n_clipped == 1
    assert "4 clicks, 1 clipped" in repr(clipped)
    unclipped = weigh_clicks(log, "none")
    assert (unclipped.effective_sample_size, unclipped.n_clipped) == (4, 0)
    with pytest.raises(DataError, match="no document was clicked: there is nothing to weigh"):
        weigh_clicks(counted([(0, 1, 3, 0)]), [1.0])
    for wrong, message in (
        ([1, 0], "position 2 is 0"),
        ({2: 1.0}, "one for each position"),
        ({0: 1.0}, "whole numbers from 1"),
        ([[1.0]], "one for each position"),
        ([1, np.nan], "nan"),
    ):
        with pytest.raises(DataError, match=message):
            weigh_clicks(log, wrong)
    with pytest.raises(ParameterError, match="clip"):
        weigh_clicks(log, "none", clip=2.0)


def test_training_data_hold_the_pairs_of_propensity_svm_rank():
    log = counted([(0, 1, 4, 2), (0, 3, 4, 1), (1, 2, 4, 1), (2, 3, 4, 0)])
    weighed = weigh_clicks(log, [1, 0.5, 0.1])
    data = weighed.to_training()
    names, found = data.X[:, 0], {}
    for i, j in np.argwhere(data.relevance[:, None] > data.relevance):
        pair = (int(names[i]), int(names[j]))
        found[pair] = found.get(pair, 0) + data.document_weight[i]
    # Each click above all other candidates; with itself a document has no loss to lose.
    assert {pair: w for pair, w in found.items() if pair[0] != pair[1]} == {
        (0, 1): 12, (0, 2): 12, (1, 0): 2, (1, 2): 2,
    }  # fmt: skip
    many = weigh_clicks(counted([(0, 1, 400, 200), (1, 2, 400, 100)]), "none").to_training()
    assert many.n_samples == 4


def test_lightgbm_learns_what_each_position_adds(graded):
    log = simulate_clicks(graded, 500, n_positions=6, eta=2.0, seed=1)
    lists = log.to_sessions()
    options = {"n_estimators": 5, "n_threads": 1}
    solver = make_solver("lightgbm-lambdarank", unbiased=True, **options)
    plain = make_solver("lightgbm-lambdarank", **options)
    scores = [one.solve(lists).model.predict(graded.X) for one in (solver, plain)]
    assert not np.array_equal(*scores)
    with pytest.raises(ParameterError, match="unbiased=True is for objective='lambdarank'"):
        make_solver("lightgbm-lambdarank", unbiased=True, objective="rank_xendcg").solve(lists)


def test_what_is_learned_from_weighted_clicks_is_what_relevance_teaches():
    parts = load("digits-retrieval", n_queries=100, docs_per_query=20)
    log = simulate_clicks(parts.train, 50_000, n_positions=20, seed=2)
    ndcg = {}
    for name, data in (
        ("naive", weigh_clicks(log, "none").to_training()),
        ("weighted", weigh_clicks(log, "interventions").to_training()),
        ("relevance", parts.train),
    ):
        model = make_solver("tree-tron", C=10.0, reduction="mean").solve(data).model
        test = parts.test
        ndcg[name] = evaluate(test.relevance, model.predict(test.X), test.qid, "ndcg@10")["ndcg@10"]
    assert ndcg["naive"] < ndcg["relevance"] - 0.03
    assert ndcg["weighted"] > ndcg["relevance"] - 0.02


def test_the_solution_is_that_of_the_pairs_of_all_clicks():
    """Of Propensity SVM-Rank, whose pairs are listed here click by click."""
    rng = np.random.default_rng(0)
    data = RankingData.from_arrays(
        rng.normal(size=(12, 3)), np.resize([0, 1], 12), [0] * 6 + [1] * 6
    )
    log = simulate_clicks(data, 200, n_positions=6, noise=0.4)
    propensities = np.arange(1.0, 7) ** -1
    training = weigh_clicks(log, propensities).to_training()
    w = make_solver("tree-tron", C=0.01, tol=1e-10).solve(training).model.coef
    gradient = np.array(w)
    for row, position, click in zip(log.row, log.position, log.click, strict=True):
        for other in np.flatnonzero(data.row_query == data.row_query[row]):
            difference = data.X[row] - data.X[other]
            if click and other != row:
                slack = max(0.0, 1 - difference @ w)
                gradient -= 0.01 * 2 / propensities[position - 1] * slack * difference
    assert np.abs(gradient).max() < 1e-6


def test_metrics_of_a_ranking_are_those_of_the_rates_at_which_users_who_look_click(graded):
    log = simulate_clicks(graded, 100_000, noise=0.1, n_positions=20, randomised=1.0, seed=1)
    weighed = weigh_clicks(log, "randomised")
    scores = graded.X @ np.linspace(-1, 1, graded.n_features)
    found = weighed.evaluate(scores, ["ips_dcg@10", "snips_dcg@10", "average_rank"])
    rate = RankingData.from_arrays(graded.X, 0.1 + 0.9 * graded.relevance, graded.qid)
    truth = evaluate(rate.relevance, scores, rate.qid, list(found))
    for name, one in found.items():
        assert one["value"] == pytest.approx(truth[name], rel=0.03)
        assert one["low"] < one["value"] < one["high"]
        assert one["n_queries"] == graded.n_queries
