"""`rankplug.compare`: from a frame to a report, models, runs and a recipe."""

import shutil
from pathlib import Path

import dask.dataframe as dd
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import rankplug
from rankplug.exceptions import DataError, ParameterError, UnknownNameError
from rankplug.mlflow import comparing
from rankplug.recipe import load_recipe
from rankplug.report import REPORT_FILES
from rankplug.runner import Observer, run, turn

ROLES = {"label": "grade", "qid": "query_id"}
QUICK = {"solvers": ["tree-tron", "constant"], "progress": False}


def searches(n_queries=30, size=6):
    rng = np.random.default_rng(0)
    n = n_queries * size
    return pd.DataFrame(
        {
            "query_id": np.repeat([f"q{number}" for number in range(n_queries)], size),
            "doc_id": range(1000, 1000 + n),
            "title": "red shoes",
            "published": pd.date_range("2024-01-01", periods=n),
            "kind": pd.Categorical(rng.choice(["a", "b"], n)),
            "odd": [1, "x", None] * (n // 3),
            "price": rng.normal(size=n),
            "in_stock": pd.array(rng.random(n) < 0.5, "boolean"),
            "grade": rng.integers(0, 4, n),
        }
    )


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch, empty_store):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(turn, "measure", lambda model, data: {})
    monkeypatch.setitem(REPORT_FILES, "report.html", lambda report: "<!DOCTYPE html>")  # slow
    for name in ("out", "rankplug-output"):
        Path(name).mkdir()
        shutil.copy(empty_store, Path(name, "mlflow.db"))
    return tmp_path


def test_a_frame_is_enough(folder, capsys):
    frame = searches()
    report = rankplug.compare(frame, **ROLES, display="title", progress=False)
    assert set(report.test.shown["title"].to_pylist()) == {"red shoes"}
    names = ["tree-tron", "mapped", "xgboost-pairwise", "lightgbm-lambdarank"]
    assert [one.name for one in report.outcomes] == [*names, "constant", "single-feature"]
    assert {one.status for one in report.outcomes} == {"converged"}
    assert report.baseline == "xgboost-pairwise"
    lines = capsys.readouterr().out.splitlines()
    assert lines[1:7] == [
        "features: price, in_stock",
        "left out: doc_id (ids, which stand beside predictions)",
        "left out: title (text)",
        "left out: published (times)",
        "left out: kind (text)",
        "left out: odd (text, as 'x' is no number)",
    ]
    (output,) = Path("rankplug-output").glob("data-*")
    assert f"report: {output / 'report.html'}" in lines
    model = rankplug.load_model(output / "models" / "tree-tron" / "model")
    scores = report.outcomes[0].result.model.predict(frame)
    np.testing.assert_array_equal(model.predict(frame), scores)
    again = run(load_recipe(output / "recipe.yaml"), output="again", progress=False)
    assert again.digests["results"] == report.digests["results"]

    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=f"sqlite:///{output.parent.absolute()}/mlflow.db")
    runs = client.search_runs([one.experiment_id for one in client.search_experiments()])
    assert {one.info.run_name for one in runs} == {"data", *names, "constant", "single-feature"}


@pytest.fixture
def untracked(monkeypatch):
    """Neither runs nor models are written: that takes seconds."""

    class Tracker(Observer):
        def __init__(self, output, tracking_uri):
            self.tracking_uri = tracking_uri

    monkeypatch.setattr(comparing, "MlflowObserver", Tracker)
    monkeypatch.setattr(comparing.ModelsFolder, "solver_finished", lambda self, outcome: None)


def numbers(frame):
    return frame.drop(columns=["odd", "kind", "published"])


@pytest.mark.usefixtures("untracked")
def test_frames_of_any_library_give_the_same():
    frame = numbers(searches())
    expected = rankplug.compare(frame, **ROLES, **QUICK, output="out")
    for other in (
        pl.from_pandas(frame),
        pl.from_pandas(frame).lazy(),
        pa.Table.from_pandas(frame),
        pa.RecordBatch.from_pandas(frame),
        frame.set_index(frame["doc_id"].to_numpy()[::-1]),
        frame.convert_dtypes(dtype_backend="pyarrow"),
    ):
        report = rankplug.compare(other, **ROLES, **QUICK)
        assert report.digests["results"] == expected.digests["results"], type(other)


@pytest.mark.usefixtures("untracked")
def test_a_file_stays_where_it_is(folder):
    numbers(searches()).to_csv("mine.csv", index=False)
    rankplug.compare("mine.csv", **ROLES, **QUICK, output="out")
    assert load_recipe("out/recipe.yaml").data.file == folder / "mine.csv"
    assert not Path("out/data.parquet").exists()


def nothing_is_touched(call, *paths, error=ParameterError, match):
    before = [path.read_bytes() for path in paths]
    with pytest.raises(error, match=match):
        call()
    assert [path.read_bytes() for path in paths] == before


@pytest.mark.usefixtures("untracked")
def test_no_file_of_the_users_is_touched():
    mine = Path("out/data.parquet")
    numbers(searches()).to_parquet(mine)
    choices = {**ROLES, **QUICK, "output": "out"}
    # A mistake in what is asked of it.
    nothing_is_touched(
        lambda: rankplug.compare(mine, **choices, folds=99), mine, error=DataError, match="99 folds"
    )
    nothing_is_touched(lambda: rankplug.compare(searches(), **choices), mine, match="there already")
    other = Path("out/models/constant/MLmodel")
    other.parent.mkdir(parents=True)
    other.write_text("mine")
    nothing_is_touched(
        lambda: rankplug.compare(mine, **choices), mine, other, match="constant is there already"
    )
    shutil.rmtree("out/models")
    other = Path("out/best.yaml")
    other.write_text("mine")
    nothing_is_touched(
        lambda: rankplug.compare(mine, **choices, n_trials=1), mine, other, match="best.yaml"
    )
    other.unlink()
    rankplug.compare(mine, **choices)
    mine.write_text("of an earlier run")
    nothing_is_touched(
        lambda: rankplug.compare(searches(), **choices), mine, match="report of an earlier run"
    )


@pytest.mark.usefixtures("untracked")
def test_everything_can_be_chosen(capsys):
    solvers = {"weak": rankplug.Ranker("tree-tron", C=1e-4), "none": "constant"}
    report = rankplug.compare(
        searches(),
        **ROLES,
        drop=["in_stock"],
        solvers=solvers,
        metrics=["nDCG@5", "map"],
        baseline="none",
        folds=3,
        seed=7,
        name="mine",
        output="out",
        progress=False,
    )
    assert report.name == "mine"
    assert report.metrics == ("ndcg@5", "map")
    assert [one.name for one in report.outcomes][:2] == ["weak", "none"]
    assert (report.baseline, len(report.outcomes[0].repeats)) == ("none", 3)
    recipe = load_recipe("out/recipe.yaml")
    assert (recipe.seed, recipe.data.features) == (7, ("price",))
    assert recipe.solvers[0].params["C"] == 1e-4
    assert not Path("out/models").exists()
    one = {"solvers": "tree-tron", "metrics": "nDCG@5", "drop": "in_stock"}
    tuned = rankplug.compare(searches(), **ROLES, **one, n_trials=np.int64(2), progress=False)
    assert tuned.outcomes[0].tuning.n_trials == 2
    assert tuned.metrics == ("ndcg@5",)
    assert "- price\n" in tuned.recipe
    assert "in_stock" not in tuned.recipe
    assert tuned.baseline == "tree-tron"


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({}, DataError, "^which column holds the relevance of each row and its query"),
        ({"label": "grad", "qid": "query_id"}, DataError, "^no column 'grad'; did you mean"),
        ({**ROLES, "solvers": []}, ParameterError, "give one or more"),
        ({**ROLES, "solvers": ["tree-torn"]}, UnknownNameError, "did you mean 'tree-tron'"),
        ({**ROLES, "metrics": ["ndgc"]}, UnknownNameError, "did you mean"),
        ({**ROLES, "baseline": "x"}, UnknownNameError, "unknown baseline 'x'"),
        ({**ROLES, "name": "a/b"}, ParameterError, "must be of letters"),
        ({**ROLES, "name": "查" * 70}, ParameterError, "has 210 bytes: at most 200"),
        ({**ROLES, "drop": "pric"}, DataError, "no column 'pric'; did you mean 'price'"),
        ({**ROLES, "weight": 3}, DataError, "no column 3"),
        (
            {**ROLES, "folds": 1, "n_trials": 0, "seed": -1, "name": 3},
            ParameterError,
            r"^compare: name=3 \(must be text\); folds=1 \(must be None or an integer >= 2\); "
            r"n_trials=0 \(must be None or an integer >= 1\); seed=-1 \(must be an integer >= 0\)$",
        ),
        ({**ROLES, "folds": 99}, DataError, "99 folds need 99 queries"),
    ],
)
@pytest.mark.usefixtures("untracked")
def test_a_mistake_is_an_error_that_leaves_nothing(arguments, error, message):
    with pytest.raises(error, match=message):
        rankplug.compare(searches(), **arguments, progress=False)
    assert not any(Path("rankplug-output").glob("data-*"))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (np.eye(3), "data must be a table of pandas, polars or Arrow, or the path of a file, not"),
        (searches().iloc[:0], "the table has no rows"),
        (dd.from_pandas(numbers(searches()), npartitions=2), "use rankplug.dask.compare"),
        ("gone.csv", "gone.csv: no such file"),
    ],
)
def test_what_is_no_table_is_an_error(data, message):
    with pytest.raises(DataError, match=message):
        rankplug.compare(data, **ROLES)
