"""Recipes that learn from clicks: of logs in files, and of simulated users."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from rankplug.clicks import simulate_clicks
from rankplug.datasets import load
from rankplug.exceptions import DataError
from rankplug.recipe import parse_recipe
from rankplug.report import REPORT_FILES
from rankplug.runner import DataLines, load_splits, run, turn

LISTS = "{solver: xgboost-ndcg, learn_from: lists, params: {n_estimators: 3}}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("logs")
    parts = load("digits-retrieval", n_queries=15, docs_per_query=20)
    for split, n_sessions in (("train", 600), ("test", 200)):
        data = getattr(parts, split)
        log = simulate_clicks(data, n_sessions, n_positions=4, n_rankers=4)
        rows = {
            "query": data.qid[log.row], "id": log.row, "rank": log.position,
            "clicked": log.click.astype(int), "session": log.session,
        }  # fmt: skip
        names = [f"pixel_{j}" for j in range(8, 40)]
        features = pd.DataFrame(data.X[log.row][:, 8:40], columns=names)
        pd.concat([pd.DataFrame(rows), features], axis=1).to_parquet(folder / split)
    deeper = pd.concat([pd.DataFrame(rows), features], axis=1)
    deeper.assign(rank=deeper["rank"] + 1).to_parquet(folder / "deeper")
    deeper[deeper["query"].isin(deeper["query"].unique()[:2])].to_parquet(
        folder / "two", index=False
    )
    (folder / "folder").mkdir()
    judged = pd.DataFrame(data.X[:, 8:40], columns=names)
    judged.assign(query=data.qid, grade=data.relevance).to_csv(folder / "judged.csv", index=False)
    return folder


def recipe(folder, data, *solvers, more=""):
    text = (
        f"data: {data}\nclicks: {{document: id, position: rank, click: clicked, session: session, "
        f"clip: 0.1}}\nsanity: false\nsolvers: [{', '.join(solvers or [LISTS])}]\n{more}"
    )
    return parse_recipe(text, "logs", "logs.yaml", Path(folder))


def test_logs_are_learned_from_and_measured_on(folder, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(turn, "measure", lambda model, data: {})
    monkeypatch.setitem(REPORT_FILES, "report.html", lambda report: "<!DOCTYPE html>")  # slow
    asked = recipe(
        folder, "{train: train, test: test, qid: query}",
        LISTS, LISTS.replace("xgboost-ndcg", "xgboost-ndcg, name: again"),
        "{solver: tree-tron, learn_from: relevance}",
    )  # fmt: skip
    report = run(asked, output=tmp_path / "out", progress=False, observer=DataLines())
    assert [one.error for one in report.failed] == []
    first, again, _ = report.outcomes
    assert first.metrics == again.metrics
    assert report.metrics == ("snips_dcg@10", "ips_dcg@10", "average_rank")
    assert all(0 < one.metrics["test"]["snips_dcg@10"] <= 1 for one in report.outcomes)
    said = capsys.readouterr()
    assert "in 600 lists of the training set" in said.out + said.err
    assert "clicks of equal weight" in said.out + said.err
    written = (tmp_path / "out" / "recipe.yaml").read_text()
    again = parse_recipe(written, "logs", "again.yaml", tmp_path)
    assert (again.clicks, again.solvers) == (asked.clicks, asked.solvers)


def test_the_test_set_may_be_judged(folder):
    splits = load_splits(
        recipe(folder, "{train: train, test: judged.csv, qid: query, label: grade}")
    )
    assert set(np.unique(splits["test"].relevance)) == {0.0, 1.0}
    assert splits["test"].feature_names == splits["train"].feature_names
    assert splits["test"].n_features == 32


def test_one_log_is_split_by_query(folder):
    splits = load_splits(recipe(folder, "{file: train, qid: query, drop: [pixel_9]}"))
    assert [splits[one].n_queries for one in ("train", "valid", "test")] == [9, 3, 3]
    assert splits["train"].n_features == 31
    chosen = "{file: train, qid: query, features: [pixel_9, pixel_8]}"
    assert load_splits(recipe(folder, chosen))["train"].feature_names == ("pixel_9", "pixel_8")
    assert all(one.relevance.max() > 0 for one in splits.values())


@pytest.mark.parametrize(
    ("data", "more", "message"),
    [
        ("{train: train, test: test}", "", "train: no column 'qid'"),
        ("{train: judged.csv, test: test, qid: query}", "", "judged.csv: no column 'id'"),
        ("{file: two, qid: query}", "", "2 queries cannot be split into training, validation and"),
        ("{train: folder, test: test, qid: query}", "", "logs of clicks are files, not prepared"),
        (
            "{train: train, test: deeper, qid: query}",
            "",
            r"test set: \d+ clicks at positions without a propensity \(5\)",
        ),
        (
            "{train: train, test: test, qid: query}",
            "compare: {folds: 3}",
            "folds are for graded data, not for logs of clicks",
        ),
    ],
)
def test_what_logs_cannot_be(folder, tmp_path, data, more, message):
    with pytest.raises(DataError, match=message):
        run(recipe(folder, data, more=more), output=tmp_path / "out", progress=False)


def test_clicks_are_on_documents(tmp_path):
    text = "data: {dataset: wine}\nclicks: {}\nsolvers: [tree-tron]\n"
    with pytest.raises(DataError, match="clicks are on documents of queries, not on labels"):
        run(parse_recipe(text, "x", "x", tmp_path), output=tmp_path / "out", progress=False)
