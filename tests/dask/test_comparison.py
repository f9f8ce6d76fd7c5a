"""The head-to-head: solvers of rankplug and XGBoost on the same partitions, in one report."""

import numpy as np
import pandas as pd
import pytest

import rankplug
from rankplug import datasets
from rankplug.exceptions import DataError, DataWarning, ParameterError, UnknownNameError
from rankplug.metrics import per_query
from rankplug.report import write_report

pytest.importorskip("distributed")
pytest.importorskip("xgboost")

import dask.array as da
import dask.dataframe as dd

import rankplug.dask

METRICS = ("ndcg@10", "pairwise_accuracy")
SPLITS = datasets.load("digits-retrieval", n_queries=60)
SOLVERS = {
    "linear": rankplug.make_solver("tree-tron", C=1e-4, tol=1e-6),
    "cutting-plane": rankplug.make_solver("cutting-plane", C=1e-3, tol=0.05),
    "trees": rankplug.make_solver("xgboost-pairwise", n_estimators=8, max_depth=3),
}


def on_cluster(client, data, n_partitions=3, **changed):
    size = -(-data.n_samples // n_partitions)
    arrays = {"y": data.relevance, "qid": data.qid, **changed}
    parts = {name: da.from_array(values, size) for name, values in arrays.items()}
    X = da.from_array(data.X, (size, -1))
    return rankplug.dask.ClusterData.from_collections(X, **parts, client=client)


@pytest.fixture(scope="module")
def train(client):
    with on_cluster(client, SPLITS.train) as data:
        yield data


@pytest.fixture(scope="module")
def test(client):
    with on_cluster(client, SPLITS.test, 2) as data:
        yield data


@pytest.fixture(scope="module")
def report(train, test):
    solvers = {**SOLVERS, "refused": "larank"}
    return rankplug.dask.compare(solvers, train, test, metrics=METRICS, baseline="trees")


def test_every_query_has_the_metric_of_the_models_scores(report):
    data = SPLITS.test
    place = {query: i for i, query in enumerate(data.query_ids.tolist())}
    order = [place[query] for query in report.query_ids.tolist()]
    assert sorted(order) == list(range(data.n_queries))
    for outcome in report.succeeded:
        scores = outcome.result.model.predict(data.X)
        expected = per_query(data.relevance, scores, data.qid, METRICS)
        for metric in METRICS:
            assert np.array_equal(
                outcome.per_query[metric], expected[metric][order], equal_nan=True
            )


def test_collections_are_compared_as_data_on_the_cluster(near_client, report, tmp_path):
    def collections(data, n):
        names = [f"f{j}" for j in range(data.n_features)]
        table = pd.DataFrame(data.X, columns=names).assign(y=data.relevance, qid=data.qid)
        table = dd.from_pandas(table, npartitions=n)
        return table[names], table["y"], table["qid"]

    def folder(data, name):
        rankplug.write_data(data, tmp_path / f"{name}.txt")
        return rankplug.prepare(tmp_path / f"{name}.txt", tmp_path / name).path

    options = {"metrics": METRICS, "client": near_client}
    linear = {"linear": SOLVERS["linear"]}
    X, y, qid = collections(SPLITS.test, 2)
    train = collections(SPLITS.train, 3)
    folders = folder(SPLITS.train, "train"), folder(SPLITS.test, "test")
    for splits in ((train, (X.assign(qid=qid), y)), folders):
        there = rankplug.dask.compare(linear, *splits, **options)
        for metric in METRICS:
            expected = report.outcomes[0].metrics["test"][metric]
            assert there.outcomes[0].metrics["test"][metric] == pytest.approx(expected)
    with pytest.raises(ParameterError, match=r"test must be \(X, y, qid\) or"):
        rankplug.dask.compare(linear, train, X, **options)
    with pytest.warns(DataWarning, match="ranked as one query"):
        rankplug.dask.compare(linear, train, collections(SPLITS.test, 1)[:2], **options)


@pytest.mark.parametrize("name", ["linear", "cutting-plane"])
def test_solvers_find_what_they_find_on_one_machine(report, name):
    outcome = next(one for one in report.outcomes if one.name == name)
    alone = SOLVERS[name].solve(SPLITS.train)
    assert outcome.status == "converged"
    assert outcome.result.objective == pytest.approx(alone.objective, rel=1e-6)


def test_xgboost_is_what_its_own_dask_estimator_makes_of_the_partitions(client, train, report):
    from xgboost.dask import DaskXGBRanker

    arrays = train.to_arrays()
    own = DaskXGBRanker(
        objective="rank:pairwise",
        allow_group_split=True,
        n_estimators=8,
        max_depth=3,
        learning_rate=0.3,
        tree_method="hist",
        missing=0.0,
        max_bin=256,
    )
    own.client = client
    with client.as_current():
        own.fit(arrays.X, arrays.y, qid=arrays.qid)
    (outcome,) = (one for one in report.outcomes if one.name == "trees")
    X = SPLITS.test.X
    expected = own.get_booster().inplace_predict(X, missing=0.0, predict_type="margin")
    assert np.allclose(outcome.result.model.predict(X), expected, atol=1e-5)
    assert outcome.result.n_iter == 8


def test_a_solver_that_cannot_is_an_outcome_with_the_reason(report):
    (failed,) = report.failed
    assert failed.name == "refused"
    assert "larank needs all rows" in failed.error


def test_the_report_has_its_tests_and_files(report, tmp_path):
    assert {one.name for one in report.comparisons} == {"linear", "cutting-plane"}
    assert {one.baseline for one in report.comparisons} == {"trees"}
    assert 0 < report.comparisons[0].p_holm <= 1
    write_report(report, tmp_path)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "3 partitions" in page
    lines = (tmp_path / "per_query.csv").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 1 + 3 * SPLITS.test.n_queries


def test_only_vectors_of_queries_come_here(test, monkeypatch):
    from rankplug.models import LinearModel

    came = []
    gather = type(test).map

    def watched(self, *arguments):
        came.extend(gather(self, *arguments))
        return came[-self.n_partitions :]

    monkeypatch.setattr(type(test), "map", watched)
    from rankplug.dask.comparison import _measure

    _measure(LinearModel(np.zeros(test.n_features)), test, METRICS)
    lengths = [len(array) for part in came for one in part.values() for array in one]
    assert sum(lengths) == 2 * len(METRICS) * test.n_queries


@pytest.mark.parametrize(
    ("solvers", "options", "error", "message"),
    [
        ([], {}, ParameterError, "one or more"),
        (["tree-tron", "tree-tron"], {}, ParameterError, "a name of its own"),
        (["tree-tronn"], {}, UnknownNameError, "did you mean 'tree-tron'"),
        (["tree-tron"], {"metrics": ["ndgc"]}, UnknownNameError, "did you mean 'ndcg'"),
        (["tree-tron"], {"baseline": "trees"}, UnknownNameError, "baseline 'trees'"),
    ],
)
def test_wrong_arguments(train, test, solvers, options, error, message):
    with pytest.raises(error, match=message):
        rankplug.dask.compare(solvers, train, test, **options)


def test_data_that_do_not_fit(client, train):
    narrow = rankplug.RankingData.from_arrays(SPLITS.test.X[:, :3], SPLITS.test.relevance)
    with (
        on_cluster(client, narrow, 1) as other,
        pytest.raises(DataError, match="3 features, which are not the"),
    ):
        rankplug.dask.compare(["tree-tron"], train, other)


def test_parameters_of_xgboost_go_to_the_cluster(client, train):
    names = [f"params__{name}" for name in ("max_delta_step", "interaction_constraints")]
    plain = rankplug.make_solver("xgboost-pairwise", n_estimators=4, zeros="value")
    given = rankplug.make_solver(
        "xgboost-pairwise", n_estimators=4, zeros="value",
        **dict(zip(names, (0.01, [[0]]), strict=True)),
    )  # fmt: skip
    X = SPLITS.test.X
    scores = [solver.solve(train).model.predict(X) for solver in (plain, given)]
    assert np.abs(scores[1]).max() < np.abs(scores[0]).max() / 2
    with pytest.raises(ParameterError, match="'hist'"):
        rankplug.make_solver("xgboost-pairwise", params={"tree_method": "exact"}).solve(train)


def test_what_solvers_cannot_do_on_a_cluster(client, train):
    for name in ("xgboost-pairwise", "tree-tron"):
        stopping = rankplug.make_solver(name, early_stopping_rounds=3)
        with pytest.raises(ParameterError, match="cannot be used on a cluster"):
            stopping.solve(train)
    adjacent = rankplug.make_solver("cutting-plane", pairs="adjacent")
    with pytest.raises(ParameterError, match="pairs='adjacent' is for data on one machine"):
        adjacent.solve(train)
    with (
        on_cluster(client, SPLITS.train, sample_weight=np.ones(SPLITS.train.n_samples)) as weighted,
        pytest.raises(DataError, match="no weights of queries"),
    ):
        SOLVERS["trees"].solve(weighted)
    with pytest.raises(DataError, match="rank:map"):
        rankplug.make_solver("xgboost-pairwise", objective="rank:map").solve(
            train.transform(_with_grades)
        )


def _with_grades(data):
    from dataclasses import replace

    return replace(data, relevance=2.0 + data.relevance)
