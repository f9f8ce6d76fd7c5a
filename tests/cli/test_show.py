"""The command show: what it reads of files, what it logs, and what it refuses."""

import base64
import gzip
import json
import re
import shutil
from pathlib import Path

import mlflow
import numpy as np
import pandas as pd
import pytest

import rankplug
from rankplug import prepare
from rankplug.cli import main
from rankplug.models import LabelLinearModel, LinearModel, load_model

N_ROWS = 24


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Where a command is run: a model of the columns a and b, and their table."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "doc": [f"d{row}" for row in range(N_ROWS)],
            "a": rng.normal(size=N_ROWS).round(3),
            "b": rng.normal(size=N_ROWS).round(3),
            "query": np.tile([f"q{q}" for q in range(4)], N_ROWS // 4),  # not together
            "grade": rng.integers(0, 3, N_ROWS),
        }
    )
    frame.to_csv("data.csv", index=False)
    model = LinearModel([1.0, -0.5], ["a", "b"])
    model.query_column, model.id_columns = "query", ("doc",)
    model.save("model")
    return frame


def content(file):
    packed = re.search(r'id="look-data">([^<]*)<', Path(file).read_text(encoding="utf-8"))[1]
    return json.loads(gzip.decompress(base64.b64decode(packed)))


def test_ids_labels_and_queries_of_a_table(folder, capsys):
    assert main(["show", "model", "data.csv", "--label", "grade"]) == 0
    assert capsys.readouterr().out == "4 queries: rankings.html\n"
    told = content("rankings.html")
    assert told["columns"] == ["doc"]
    first = told["queries"][0]
    rows = np.cumsum(first["rows"])
    own = folder.iloc[rows]
    assert set(own["query"]) == {first["id"]}
    assert first["texts"] == [own["doc"].tolist()]
    assert first["labels"] == own["grade"].tolist()
    scores = load_model("model").predict(own[["a", "b"]])
    assert np.argsort(first["ranks"][0]).tolist() == np.argsort(-scores).tolist()
    curves = told["entrants"][0]["curves"]
    assert {curve["feature"] for curve in curves} == {"a", "b"}


def test_two_models_of_other_columns_and_no_labels(folder):
    other = LinearModel([2.0], ["b"])
    other.query_column = "query"
    other.save("other/model")
    arguments = ["show", "model", "data.csv", "--against", "other/model", "-o", "out/page.html"]
    assert main([*arguments, "--display", "a", "--display", "doc"]) == 0
    told = content("out/page.html")
    assert [one["name"] for one in told["entrants"]] == ["model", "other/model"]
    assert told["grades"] is None
    assert told["columns"] == ["a", "doc"]
    assert set(told["features"]) == {"a", "b"}


def test_svmlight_text_has_labels_and_rows(folder, capsys):
    LinearModel([1.0, 2.0]).save("plain")
    with open("data.txt", "w") as stream:
        stream.write("1 qid:7 1:1 2:0\n0 qid:7 1:0.5\n2 qid:8 2:3\n")
    assert main(["show", "plain", "data.txt"]) == 0
    told = content("rankings.html")
    assert [query["id"] for query in told["queries"]] == ["7", "8"]
    assert told["queries"][0]["labels"] == [1, 0]

    assert main(["show", "plain", "data.txt", "--display", "title"]) == 2
    assert "--display: data.txt has no columns to show" in capsys.readouterr().err
    prepare("data.txt", "prepared", progress=False)
    assert main(["show", "plain", "prepared", "-o", "folder.html"]) == 0
    assert content("folder.html") == told


def test_models_that_know_other_queries_are_not_compared(folder, capsys):
    other = LinearModel([2.0], ["b"])
    other.query_column = "grade"
    other.save("other")
    assert main(["show", "model", "data.csv", "--against", "other"]) == 2
    assert "models know different query columns: name it by --qid" in capsys.readouterr().err
    assert main(["show", "model", "data.csv", "--against", "other", "--qid", "query"]) == 0


def test_a_column_of_text_among_the_features(folder):
    frame = folder.rename(columns={"query": "qid"}).assign(shop=np.where(folder.a > 0, "x", "y"))
    frame.to_parquet("data.parquet")
    columns = ["a", "shop"]
    ranker = rankplug.Ranker("xgboost-pairwise", n_estimators=3)
    ranker.fit(frame[columns].astype({"shop": "category"}), frame["grade"], qid=frame["qid"])
    ranker.model_.save("trees")
    assert main(["show", "trees", "data.parquet", "--label", "grade"]) == 0
    told = content("rankings.html")
    cells = [cell for query in told["queries"] for cell in query["cells"]]
    assert {"x", "y"} & {value for cell in cells for value in cell}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--label", "grad"], "no column 'grad'"),
        (["--display", "title"], "no column 'title'"),
        (["--label", "doc"], "column 'doc': relevance must be numbers"),
        (["--against", "nowhere"], "nowhere: no such model"),
        (["--qid", "group"], "'group'"),
    ],
)
def test_what_is_wrong_is_said(folder, capsys, arguments, message):
    assert main(["show", "model", "data.csv", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_labels_are_not_ranked_on_a_page(folder, capsys):
    LabelLinearModel(np.ones((3, 2))).save("labels")
    assert main(["show", "labels", "data.csv"]) == 2
    assert "the model orders labels" in capsys.readouterr().err


def test_page_and_tables_are_logged_to_a_run(folder, empty_store, capsys):
    shutil.copy(empty_store, "mlflow.db")
    # Absolute, as MLflow keeps the connections of an address that tests before may have had.
    uri = f"sqlite:///{Path.cwd() / 'mlflow.db'}"
    client = mlflow.MlflowClient(tracking_uri=uri)
    run = client.create_run("0").info.run_id
    log = ["--log-to", run, "--tracking-uri", uri]
    assert main(["show", "model", "data.csv", *log]) == 0
    for _ in range(2):  # replaced, not appended
        assert main(["explain", "model", "data.csv", "--query", "q1", *log]) == 0
    assert main(["explain", "model", "data.csv", "--above", "0", "--below", "4", *log]) == 0
    assert "explanation_0_4.json" in capsys.readouterr().out
    names = {one.path for one in client.list_artifacts(run)}
    assert names == {"rankings.html", "explanation_q1.json", "explanation_0_4.json"}
    table = client.load_table("0", "explanation_0_4.json", [run])
    scores = load_model("model").predict(folder[["a", "b"]])
    assert table["difference"].sum() == pytest.approx(scores[0] - scores[4])
    assert len(client.load_table("0", "explanation_q1.json", [run])) == N_ROWS // 4
    assert main(["show", "model", "data.csv", "--log-to", "0123", "--tracking-uri", uri]) == 2
    assert "MLflow run 0123" in capsys.readouterr().err
