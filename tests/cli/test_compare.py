"""Repeated trainings: folds that never divide a query, and seeds."""

import csv
import sys
import types
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from rankplug import cli
from rankplug.data import LabelRankingData, RankingData
from rankplug.datasets import load
from rankplug.exceptions import DataError
from rankplug.metrics import evaluate, per_query
from rankplug.recipe import Compare, Dataset, Entry, Recipe
from rankplug.report import REPORT_FILES
from rankplug.runner import Observer, experiment, run, turn
from rankplug.runner.splits import make_folds

RECIPE = Recipe(
    "demo",
    Dataset("none"),
    metrics=("ndcg@10", "pairwise_accuracy"),
    solvers=(Entry("tree-tron", "weak", {"C": 1e-6}), Entry("tree-tron", "strong", {"C": 1.0})),
    seed=3,
    baseline="weak",
    sanity=False,
)


def ranking_data(seed, ids, size=6, **values):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(len(ids) * size, 3))
    y = np.clip(np.round(X[:, 0] + X[:, 1] + 1), 0, 3)
    return RankingData.from_arrays(X, y, np.repeat(ids, size), **values)


SPLITS = {
    "train": ranking_data(0, range(12)),
    "valid": ranking_data(1, range(12, 16)),
    "test": ranking_data(2, range(16, 20)),
}


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Small data, and nothing slow."""
    monkeypatch.setattr(experiment, "load_splits", lambda recipe: SPLITS)
    monkeypatch.setattr(turn, "measure", lambda model, data: {})
    monkeypatch.setitem(REPORT_FILES, "report.html", lambda report: "<!DOCTYPE html>")


# Folds


def rows_of(data):
    return {tuple(row) for row in data.X}


@given(st.integers(2, 7), st.integers(0, 10**6), st.booleans())
@settings(max_examples=20, deadline=None)
def test_every_query_is_tested_once_and_never_divided(n, seed, with_valid):
    splits = SPLITS if with_valid else {"train": SPLITS["train"], "test": SPLITS["test"]}
    if n == 2 and with_valid:
        n = 3
    folds = make_folds(splits, n, seed)
    tested = []
    for fold in range(n):
        parts = folds.splits(fold)
        assert list(parts) == (["train", "valid", "test"] if with_valid else ["train", "test"])
        ids = [set(part.query_ids) for part in parts.values()]
        assert (
            sum(map(len, ids)) == len(set.union(*ids)) == sum(d.n_queries for d in splits.values())
        )
        for part in parts.values():
            assert set(np.diff(part.query_ptr)) == {6}
        tested += list(parts["test"].query_ids)
    assert sorted(tested) == sorted(set(tested))
    assert folds.tested().query_ids.tolist() == tested
    assert rows_of(folds.tested()) == set.union(*map(rows_of, splits.values()))


def test_folds_are_of_similar_size_and_depend_on_the_seed():
    folds = [make_folds(SPLITS, 6, seed) for seed in (0, 0, 1)]
    assert sorted(np.bincount(folds[0].fold)) == [3, 3, 3, 3, 4, 4]
    np.testing.assert_array_equal(folds[0].fold, folds[1].fold)
    assert not np.array_equal(folds[0].fold, folds[2].fold)


def test_rows_keep_their_relevance_and_weight():
    weight = np.repeat(np.arange(1.0, 13.0), 6)
    splits = {
        "train": ranking_data(0, range(12), sample_weight=weight, feature_names=["a", "b", "c"]),
        "test": ranking_data(2, range(16, 20)),
    }
    folds = make_folds(splits, 4, 0)
    assert folds.data.feature_names == ("a", "b", "c")
    for fold in range(4):
        for part in folds.splits(fold).values():
            expected = np.clip(np.round(part.X[:, 0] + part.X[:, 1] + 1), 0, 3)
            np.testing.assert_array_equal(part.relevance, expected)
            known = [one + 1.0 if one < 12 else 1.0 for one in part.query_ids]
            assert part.query_weight.tolist() == known


def test_the_same_id_in_two_splits_stays_in_one_fold_but_is_two_queries():
    splits = {"train": ranking_data(0, range(1, 9)), "test": ranking_data(1, range(1, 5))}
    folds = make_folds(splits, 4, 0)
    assert folds.data.n_queries == 12
    fold = dict(zip(folds.data.query_ids.tolist(), folds.fold.tolist(), strict=True))
    for one in range(1, 5):
        assert fold[f"train/{one}"] == fold[f"test/{one}"]


def test_sparse_features_stay_sparse():
    splits = {split: replace(data, X=sparse.csr_array(data.X)) for split, data in SPLITS.items()}
    folds = make_folds(splits, 3, 0)
    dense = make_folds(SPLITS, 3, 0)
    for split, part in folds.splits(1).items():
        assert isinstance(part.X, sparse.csr_array)
        np.testing.assert_array_equal(part.X.toarray(), dense.splits(1)[split].X)


def test_label_ranking_is_divided_by_instance():
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(30, 2)), rng.permuted(np.tile(np.arange(4.0), (30, 1)), axis=1)
    splits = {
        "train": LabelRankingData.from_arrays(X[:20], Y[:20]),
        "test": LabelRankingData.from_arrays(X[20:], Y[20:]),
    }
    folds = make_folds(splits, 3, 0)
    assert [folds.splits(fold)["test"].n_samples for fold in range(3)] == [10, 10, 10]
    assert rows_of(folds.tested()) == {tuple(row) for row in X}
    known = {tuple(row): tuple(y) for row, y in zip(X, Y, strict=True)}
    part = folds.splits(0)["train"]
    assert all(known[tuple(x)] == tuple(y) for x, y in zip(part.X, part.relevance, strict=True))


def test_too_few_queries_are_an_error():
    one = RankingData.from_arrays(np.eye(4), [0, 1, 2, 3])
    with pytest.raises(
        DataError, match=r"5 folds need 5 queries or more, but there are 1: .*seeds"
    ):
        make_folds({"train": one, "test": one}, 5, 0)
    with pytest.raises(DataError, match="2 folds leave nothing for training"):
        make_folds(SPLITS, 2, 0)
    labels = LabelRankingData.from_arrays(np.eye(2), [0, 1])
    with pytest.raises(DataError, match="5 folds need 5 instances or more, but there are 4"):
        make_folds({"train": labels, "test": labels}, 5, 0)


# Runs


class Recorder(Observer):
    def __init__(self):
        self.told = []

    def solver_started(self, name, solver):
        self.told.append(name)

    def training_started(self, name, part, solver):
        self.told.append(part)


def by_folds(n=4, **values):
    return replace(RECIPE, compare=Compare(folds=n), **values)


def test_scores_of_all_folds_are_those_of_models_that_have_not_seen_the_query(tmp_path):
    recorder = Recorder()
    report = run(by_folds(scale="standard"), observer=recorder, output=tmp_path / "out")
    parts = [f"fold {number}" for number in range(1, 5)]
    assert recorder.told == ["weak", *parts, "strong", *parts]
    folds = make_folds(SPLITS, 4, RECIPE.seed)
    test = folds.tested()
    assert report.query_ids.tolist() == test.query_ids.tolist()
    assert sorted(report.query_ids) == list(range(20))
    assert report.test.X.tolist() == test.X.tolist()
    for outcome, entry in zip(report.outcomes, RECIPE.solvers, strict=True):
        scores = [expected_scores(folds.splits(fold), entry.params["C"]) for fold in range(4)]
        np.testing.assert_allclose(outcome.scores, np.concatenate(scores), rtol=1e-6, atol=1e-9)
        arguments = test.relevance, outcome.scores, test.qid, list(RECIPE.metrics)
        assert outcome.metrics["test"] == evaluate(*arguments)
        for metric, values in per_query(*arguments).items():
            np.testing.assert_array_equal(outcome.per_query[metric], values)
        assert len(outcome.repeats) == 4
        assert outcome.repeats[1]["ndcg@10"] == pytest.approx(
            np.mean([outcome.per_query["ndcg@10"][i] for i in range(5, 10)])
        )
        assert outcome.status == "converged"
        assert outcome.metrics["train"]["ndcg@10"] > 0
    assert report.splits["test"] == "20 queries, 120 rows, 3 features, tested in 4 folds"
    assert report.splits["train"].endswith("(fold 1 of 4)")


def expected_scores(splits, C):
    """By scikit-learn's scaler, fitted on the training part of the fold."""
    from sklearn.preprocessing import StandardScaler

    from rankplug import make_solver

    scaler = StandardScaler().fit(splits["train"].X)
    train = replace(splits["train"], X=scaler.transform(splits["train"].X))
    model = make_solver("tree-tron", C=C).solve(train).model
    return model.predict(scaler.transform(splits["test"].X))


def test_label_ranking_is_tested_by_instance(tmp_path, monkeypatch):
    parts = load("wine")
    splits = {"train": parts.train, "valid": parts.valid, "test": parts.test}
    monkeypatch.setattr(experiment, "load_splits", lambda recipe: splits)
    report = run(by_folds(3, metrics=("kendall_tau", "top1_error")), output=tmp_path / "out")
    n = sum(data.n_samples for data in splits.values())
    for outcome in report.outcomes:
        assert outcome.scores.shape == (n, 3)
        assert outcome.per_query["kendall_tau"].shape == (n,)
        assert outcome.score("top1_error") == pytest.approx(
            np.mean(outcome.scores.argmax(axis=1) != report.test.relevance.argmax(axis=1))
        )


def test_the_same_recipe_and_seed_give_the_same_numbers_and_digests(tmp_path):
    reports = [run(by_folds(), output=tmp_path / name) for name in "ab"]
    assert reports[0].digests == reports[1].digests
    texts = [(tmp_path / name / "per_query.csv").read_text() for name in "ab"]
    assert texts[0] == texts[1]
    other = run(by_folds(seed=4), output=tmp_path / "c")
    assert other.digests["results"] != reports[0].digests["results"]
    assert other.digests["train data"] == reports[0].digests["train data"]


def test_a_planted_difference_is_found(tmp_path):
    report = run(by_folds(), output=tmp_path / "out")
    (comparison,) = report.comparisons
    assert (comparison.name, comparison.baseline, comparison.n_queries) == ("strong", "weak", 20)
    values = [outcome.per_query["ndcg@10"] for outcome in report.outcomes]
    assert comparison.difference == pytest.approx(np.mean(values[1] - values[0]))


def test_seeds_repeat_on_the_splits_of_the_recipe(tmp_path):
    solvers = (
        Entry("tree-tron", "exact", {"C": 1e-2}),
        Entry("xgboost-pairwise", "trees", {"n_estimators": 3, "subsample": 0.5, "n_threads": 1}),
    )
    recorder = Recorder()
    recipe = replace(RECIPE, solvers=solvers, baseline=None, compare=Compare(seeds=(0, 5)))
    report = run(recipe, observer=recorder, output=tmp_path / "out")
    assert recorder.told == ["exact", "seed 0", "seed 5", "trees", "seed 0", "seed 5"]
    assert report.query_ids.tolist() == [16, 17, 18, 19]
    exact, trees = report.outcomes
    assert exact.repeats[0] == exact.repeats[1] == exact.metrics["test"]
    values = [repeat["ndcg@10"] for repeat in trees.repeats]
    assert values[0] != values[1]
    assert trees.metrics["test"]["ndcg@10"] == pytest.approx(np.mean(values))
    assert np.mean(trees.per_query["ndcg@10"]) == pytest.approx(np.mean(values))
    single = run(replace(recipe, compare=None, seed=5), output=tmp_path / "single")
    assert single.outcomes[1].metrics["test"] == trees.repeats[1]
    assert report.digests["seed"] == "0, 5"


def test_a_solver_that_fails_in_a_fold_fails(tmp_path, monkeypatch):
    calls = []

    def train(*arguments):
        calls.append(arguments)
        if len(calls) == 3:
            raise DataError("no preference pair")
        return original(*arguments)

    original = turn.train
    monkeypatch.setattr(turn, "train", train)
    report = run(by_folds(), output=tmp_path / "out")
    assert [outcome.status for outcome in report.outcomes] == ["failed", "converged"]
    assert report.outcomes[0].error == "no preference pair"


def test_data_that_cannot_be_folded_are_an_error_before_anything_is_written(tmp_path):
    with pytest.raises(DataError, match="21 folds need 21 queries"):
        run(by_folds(21), output=tmp_path / "out")
    assert not (tmp_path / "out").exists()


# The command


@pytest.fixture
def command(tmp_path, monkeypatch):
    """``rankplug compare`` of a recipe file in the working directory, without tracking."""

    class Tracker(Observer):
        is_complete = True

        def __init__(self, output, tracking_uri, *, spool=False):
            self.tracking_uri = tracking_uri

    store, tracking = types.ModuleType("store"), types.ModuleType("tracking")
    store.resolve_tracking_uri = lambda folder, uri: "http://here"
    tracking.MlflowObserver = Tracker
    monkeypatch.setitem(sys.modules, "rankplug.mlflow", types.ModuleType("rankplug.mlflow"))
    monkeypatch.setitem(sys.modules, "rankplug.mlflow.store", store)
    monkeypatch.setitem(sys.modules, "rankplug.mlflow.tracking", tracking)
    monkeypatch.setenv("OMP_WAIT_POLICY", "PASSIVE")
    monkeypatch.chdir(tmp_path)
    text = replace(RECIPE, data=Dataset("wine"), baseline=None).to_yaml()
    Path("demo.yaml").write_text(text)
    return lambda *options: cli.main(["compare", "demo.yaml", "--output", "out", *options])


def rows(name):
    return list(csv.DictReader(Path("out", name).open()))


def test_by_default_there_are_five_folds(command, capsys):
    assert command("--baseline", "weak") == 0
    out = capsys.readouterr().out
    assert "vs weak" in out or "weak" in out
    assert len(rows("per_query.csv")) == 2 * 20
    assert "compare:\n  folds: 5\n" in Path("out/recipe.yaml").read_text()


def test_folds_and_seeds_can_be_chosen(command):
    assert command("--baseline", "weak", "--folds", "3") == 0
    assert "compare:\n  folds: 3\n" in Path("out/recipe.yaml").read_text()
    text = Path("demo.yaml").read_text()
    Path("demo.yaml").write_text(text + "compare: {folds: 2}\n")  # which an option overrules
    options = "--baseline", "weak", "--seeds", "2", "--resume"
    assert command(*options) == 0
    assert "  seeds:\n  - 3\n  - 4\n" in Path("out/recipe.yaml").read_text()
    assert len(rows("per_query.csv")) == 2 * 4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "no baseline to compare with: --baseline NAME"),
        (["--baseline", "week"], "--set baseline: no solver of the name 'week'; did you"),
        (["--baseline", "weak", "--folds", "1"], "--set compare.folds: must be an integer >= 2"),
        (
            ["--baseline", "weak", "--seeds", "1" + "0" * 15],
            "--seeds 1000000000000000: at most 1000",
        ),
        (["--baseline", "weak", "--seeds", "1"], "--set compare.seeds: one seed repeats nothing"),
        (["--baseline", "weak", "--folds", "99"], "99 folds need 99 queries"),
    ],
)
def test_a_mistake_is_one_message(command, capsys, options, message):
    assert command(*options) == 2
    assert message in capsys.readouterr().err
