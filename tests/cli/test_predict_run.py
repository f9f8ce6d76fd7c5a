"""``rankplug predict -o x.run``: runs in TREC's format, to the figures of trec_eval."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from rankplug import LabelRanker, Ranker, cli
from rankplug.io import read_run, write_qrels


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(120, 2)), columns=["a", "b"])
    table["query"] = np.repeat([f"q{i}" for i in range(12)], 10)
    table["docno"] = [f"doc-{i}" for i in range(120)]
    table["grade"] = np.digitize(table["a"] + rng.normal(size=120), [0, 1])
    table.to_csv(folder / "test.csv", index=False)
    table.rename(columns={"docno": "page"}).to_csv(folder / "pages.csv", index=False)
    table.drop(columns="docno").to_csv(folder / "nameless.csv", index=False)
    holes = table.assign(docno=pd.array([*range(17), None, *range(102)], dtype="Int64"))
    holes.to_parquet(folder / "holes.parquet")
    mixed = table.sample(frac=1, random_state=0)
    mixed.to_csv(folder / "mixed.csv", index=False)
    ranker = Ranker().fit(table[["a", "b"]], table["grade"], qid=table["query"])
    ranker.model_.save(folder / "model")
    LabelRanker().fit(table[["a", "b"]], table["grade"]).model_.save(folder / "labels")
    write_qrels(
        pd.DataFrame(
            {"query_id": table["query"], "doc_id": table["docno"], "relevance": table["grade"]}
        ),
        folder / "qrels.txt",
    )
    return folder, table.assign(score=ranker.predict(table[["a", "b"]]))


def predict(folder, data, out, *options, model="model"):
    arguments = ["predict", str(folder / model), str(folder / data), "-o", str(folder / out)]
    return cli.main([*arguments, "--quiet", *options])


@pytest.mark.parametrize("batch", ["7", "1000"])
@pytest.mark.parametrize(
    ("data", "options"), [("test.csv", []), ("pages.csv", ["--id", "page"])]
)  # fmt: skip
def test_a_run_has_the_documents_by_score(folder, data, options, batch):
    folder, table = folder
    options = ["--qid", "query", "--batch-rows", batch, *options]
    assert predict(folder, data, "out/mine.run.gz", *options) == 0
    run = read_run(folder / "out" / "mine.run.gz")
    expected = table.sort_values(["query", "score"], ascending=[True, False])
    order = expected["query"].str[1:].astype(int).argsort(kind="stable").to_numpy()
    assert run["doc_id"].tolist() == expected["docno"].iloc[order].tolist()
    assert run["query_id"].unique().tolist() == [f"q{i}" for i in range(12)]
    # BLAS may take the sums of small batches in another order than those of the table.
    rtol = 0.0 if batch == "1000" else 1e-13
    np.testing.assert_allclose(run["score"], expected["score"].iloc[order], rtol=rtol)


def test_the_best_rows_make_a_run(folder):
    folder, table = folder
    options = ["--qid", "query", "--output", "top_k", "--k", "3"]
    assert predict(folder, "test.csv", "best.run", *options) == 0
    run = read_run(folder / "best.run")
    best = table.sort_values("score", ascending=False).groupby("query").head(3)
    assert set(run["doc_id"]) == set(best["docno"])


def test_a_run_is_measured_as_its_model_is(folder, capsys):
    folder, _ = folder
    assert predict(folder, "test.csv", "mine.run", "--qid", "query") == 0
    capsys.readouterr()
    metrics = ["--metric", "nDCG@5,AP,RR,P@3,R@5,hit@1[empty=0]", "--json"]
    model = ["evaluate", str(folder / "model"), str(folder / "test.csv")]
    assert cli.main([*model, "--label", "grade", "--qid", "query", *metrics]) == 0
    by_model = json.loads(capsys.readouterr().out)
    files = ["--qrels", str(folder / "qrels.txt"), "--run", str(folder / "mine.run")]
    assert cli.main(["evaluate", *files, *metrics]) == 0
    assert json.loads(capsys.readouterr().out) == by_model


@pytest.mark.parametrize(
    ("data", "model", "options", "message"),
    [
        ("nameless.csv", "model", ["--qid", "query"], "name the column of their ids with --id"),
        ("test.csv", "model", ["--qid", "query", "--id", "docno", "--id", "a"], "one id for each"),
        ("test.csv", "labels", ["--id", "docno"], "take a model that ranks documents"),
        ("test.csv", "model", ["--qid", "query", "--id", "query"], "stands twice"),
        (
            "holes.parquet",
            "model",
            ["--qid", "query", "--batch-rows", "7"],
            "missing (None or NaN) at row 17",
        ),
        ("mixed.csv", "model", ["--qid", "query"], "goes on after other queries"),
        ("test.csv", "model", ["--qid", "query", "--id", "pge"], "pge"),
    ],
)
def test_what_cannot_be_a_run_is_an_error_and_leaves_no_file(
    folder, capsys, data, model, options, message
):
    folder, _ = folder
    assert predict(folder, data, "wrong.run", *options, model=model) == 2
    assert message in capsys.readouterr().err
    assert not (folder / "wrong.run").exists()


def test_the_name_says_what_is_written(folder, capsys):
    folder, _ = folder
    assert predict(folder, "test.csv", "first.run.csv", "--qid", "query") == 0
    assert list(pd.read_csv(folder / "first.run.csv")) == ["qid", "score"]
    for name in ("x.run.zip", "x.csv.lzma", "x.parquet.ZIP"):
        assert predict(folder, "test.csv", name, "--qid", "query") == 2
        assert "read but not written, end the name in one of .gz, " in capsys.readouterr().err
        assert not (folder / name).exists()
