"""``rankplug predict``: files of any format, batch by batch."""

import json
import shutil
import subprocess
import sys

import mlflow
import numpy as np
import pandas as pd
import polars
import pytest
from mlflow.exceptions import MlflowException
from pyarrow import csv

import rankplug.mlflow
from rankplug import LabelRanker, Ranker, RankingData, cli, load_model, read_data, write_data
from rankplug.io import prepare
from rankplug.io.predictions import predict_file
from rankplug.models.answers import ranks, top_k
from rankplug_plugins.tree_tron import TreeTron

# MLflow's own use of SQLAlchemy and pandas.
pytestmark = [
    pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy is deprecated"),
    pytest.mark.filterwarnings("ignore:Operation with range is deprecated"),
]

NAMES = ["age", "size", "price"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Files of the same data in several formats, and models of them."""
    folder = tmp_path_factory.mktemp("predict")
    rng = np.random.default_rng(0)
    X = np.round(rng.normal(size=(90, 3)), 2)
    qid = np.repeat([f"q{i}" for i in range(9)], [1, 30, 4, 5, 20, 7, 3, 10, 10])
    data = RankingData.from_arrays(X, np.clip(np.round(X[:, 0] + 1), 0, 3), qid)
    for name in ("data.txt.gz", "data.csv", "data.parquet"):
        write_data(data, folder / name)
    frame = pd.DataFrame(X, columns=NAMES).assign(qid=qid)
    frame[["price", "qid", "size", "age"]].to_csv(folder / "named.csv", index=False)
    Ranker().fit(X, data.relevance, qid=qid).model_.save(folder / "unnamed")
    model = Ranker().fit(frame[NAMES], data.relevance, qid=qid).model_
    rankplug.mlflow.save_model(model, folder / "named")
    classes = np.array(["red", "green", "blue"])[data.relevance.astype(int) % 3]
    LabelRanker().fit(X, classes).model_.save(folder / "labels")
    return folder, data, model.predict(frame[NAMES])


def table(file):
    return csv.read_csv(file).to_pandas()


def predict(folder, model, data, out, *options):
    arguments = ["predict", str(folder / model), str(folder / data), "-o", str(out), "--quiet"]
    return cli.main([*arguments, *options])


@pytest.mark.parametrize(
    ("model", "data"),
    [
        ("unnamed", "data.txt.gz"),
        ("unnamed", "data.csv"),
        ("unnamed", "data.parquet"),
        ("named", "named.csv"),
    ],
)
@pytest.mark.parametrize("batch_rows", ["7", "1000"])
def test_scores_are_those_of_the_model(folder, tmp_path, capsys, model, data, batch_rows):
    folder, expected, scores = folder
    out = tmp_path / "scores.csv"
    assert predict(folder, model, data, out, "--batch-rows", batch_rows) == 0
    assert capsys.readouterr().out == f"90 rows scored: {out}\n"
    written = table(out)
    assert list(written.columns) == ["qid", "score"]
    np.testing.assert_array_equal(written["score"], scores)
    np.testing.assert_array_equal(written["qid"], expected.qid)


@pytest.mark.parametrize("batch_rows", ["1", "4", "10", "33", "1000"])
def test_queries_that_cross_batches_are_ranked_as_a_whole(folder, tmp_path, batch_rows):
    folder, data, scores = folder
    out = tmp_path / "out.parquet"
    options = ("--batch-rows", batch_rows, "--output")
    assert predict(folder, "unnamed", "data.parquet", out, *options, "rank") == 0
    expected = ranks(scores, data.qid)
    pd.testing.assert_frame_equal(pd.read_parquet(out), expected, check_dtype=False)
    assert predict(folder, "unnamed", "data.txt.gz", out, *options, "top_k", "--k", "3") == 0
    expected = top_k(scores, data.qid, 3)
    pd.testing.assert_frame_equal(pd.read_parquet(out), expected, check_dtype=False)


def test_without_query_ids_the_file_is_one_query(folder, tmp_path):
    folder, *_ = folder
    (tmp_path / "data.csv").write_text("f0,f1,f2\n1,0,0\n3,0,0\n2,0,0\n")
    data, out = tmp_path / "data.csv", tmp_path / "out.csv"
    Ranker().fit(np.eye(3), [0, 1, 2], group=[3]).model_.save(tmp_path / "model")
    arguments = ("--output", "rank", "--batch-rows", "1")
    assert predict(tmp_path, "model", data, out, *arguments) == 0
    assert sorted(table(out)["rank"]) == [1, 2, 3]


@pytest.mark.parametrize("output", ["rank", "top_k"])
@pytest.mark.parametrize("name", ["data.csv", "data.txt"])
def test_ranks_of_a_model_of_several_queries_need_the_queries(
    folder, name, output, tmp_path, capsys
):
    folder, *_ = folder
    (tmp_path / "data.csv").write_text("f0,f1,f2\n1,0,0\n3,0,0\n2,0,0\n")
    (tmp_path / "data.txt").write_text("0 1:1\n0 1:3\n0 2:2 3:1\n")
    out = tmp_path / "out.csv"
    assert predict(folder, "unnamed", tmp_path / name, out, "--output", output) == 2
    needed = f"output='{output}' needs the queries, as the model was trained on several: give"
    assert needed in capsys.readouterr().err
    assert not out.exists()
    assert predict(folder, "unnamed", tmp_path / name, out) == 0


RATINGS = pd.DataFrame(
    {
        "film": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
        "year": [3, 1, 2, 6, 4, 5],
        "stars": [1, 2, 3, 1, 3, 2],
        "user": ["ann", "ann", "ann", "bob", "bob", "bob"],
    }
)


TRAININGS = {
    "pandas": lambda: RankingData.from_arrays(
        RATINGS[["film", "year"]], RATINGS["stars"], RATINGS["user"]
    ),
    "polars": lambda: RankingData.from_arrays(
        polars.from_pandas(RATINGS)[["film", "year"]],
        RATINGS["stars"].to_numpy(),
        polars.from_pandas(RATINGS)["user"],
    ),
    "file": lambda: read_data("train.csv", label="stars", qid="user"),
    "prepared": lambda: prepare(
        "train.csv", "prepared", label="stars", qid="user", progress=False
    ).data(),
}


@pytest.mark.parametrize("training", TRAININGS)
def test_the_model_knows_the_column_of_its_queries(training, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    RATINGS.to_csv("train.csv", index=False)
    model = TreeTron().solve(TRAININGS[training]()).model
    rankplug.mlflow.save_model(model, "model")
    test = RATINGS.drop(columns="stars")
    scores = model.predict(test)
    expected = top_k(scores, test["user"].to_numpy(), 2)
    for name in ("test.csv", "test.parquet"):
        write = test.to_parquet if name.endswith("parquet") else test.to_csv
        write(name, index=False)
        assert predict(tmp_path, "model", name, "out.csv", "--output", "top_k", "--k", "2") == 0
        assert table("out.csv").astype(expected.dtypes).equals(expected)
    served = mlflow.pyfunc.load_model("model")
    for frame in (test, test.rename(columns={"user": "qid"})):
        best = served.predict(frame, params={"output": "top_k", "k": 2})
        assert best.astype(expected.dtypes).equals(expected)
    assert served.metadata.signature.inputs.input_names() == ["film", "year", "user", "qid"]
    with pytest.raises(MlflowException, match="in a column 'user' or 'qid'; if all rows are one"):
        served.predict(test[["film", "year"]], params={"output": "top_k", "k": 2})
    assert served.predict(test[["film", "year"]]).tolist() == scores.tolist()
    capsys.readouterr()
    assert cli.main(["evaluate", "model", "train.csv", "--label", "stars", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["ndcg@10"]["n_queries"] == 2
    RATINGS.drop(columns="user").to_csv("without.csv", index=False)
    assert cli.main(["evaluate", "model", "without.csv", "--label", "stars"]) == 2
    assert "trained on several queries: name their column with --qid" in capsys.readouterr().err


def test_label_rankings(folder, tmp_path):
    folder, data, _ = folder
    out = tmp_path / "out.csv"
    model = rankplug.load_model(folder / "labels")
    scores = model.predict(data.X)
    assert predict(folder, "labels", "data.csv", out, "--batch-rows", "7") == 0
    written = table(out)
    assert list(written.columns) == ["blue", "green", "red"]
    np.testing.assert_array_equal(written, scores)
    assert predict(folder, "labels", "data.csv", out, "--output", "rank") == 0
    np.testing.assert_array_equal(table(out).to_numpy().argmin(axis=1), scores.argmax(axis=1))
    options = ("--output", "top_k", "--k", "1", "--batch-rows", "7")
    assert predict(folder, "labels", "data.csv", out, *options) == 0
    best = table(out)
    np.testing.assert_array_equal(best["row"], np.arange(90))
    np.testing.assert_array_equal(best["label"], model.labels[scores.argmax(axis=1)])


@pytest.mark.parametrize(
    ("model", "data", "out", "options", "message"),
    [
        ("gone", "data.csv", "o.csv", (), "gone: no such model: name a folder"),
        ("unnamed", "gone.csv", "o.csv", (), "gone.csv: no such file"),
        ("unnamed", "data.csv", "o.txt", (), "name a table to write"),
        ("unnamed", "data.csv", "o.xyz", (), "the name must end in"),
        ("unnamed", "data.csv", "o.csv", ("--k", "0"), "k=0 must be an integer"),
        ("unnamed", "data.csv", "o.csv", ("--batch-rows", "0"), "batch_rows=0"),
        ("unnamed", "data.csv", "o.csv", ("--qid", "query"), "no column 'query'"),
        ("named", "data.csv", "o.csv", (), "no column 'age', 'size', 'price'"),
        ("unnamed", "late.csv", "o.csv", ("--batch-rows", "1"), "line 4, column 'f2'"),
        ("unnamed", "mixed.csv", "o.csv", ("--output", "rank"), "query 'a' goes on after other"),
    ],
)
def test_a_mistake_is_one_message_and_leaves_no_file(
    folder, tmp_path, capsys, model, data, out, options, message
):
    folder, *_ = folder
    (folder / "late.csv").write_text("f0,f1,f2\n1,2,3\n1,2,3\n1,2,oh\n")
    (folder / "mixed.csv").write_text("f0,f1,f2,qid\n1,2,3,a\n1,2,3,b\n1,2,3,a\n")
    assert predict(folder, model, data, tmp_path / out, *options) == 2
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_registered_model_is_found_by_its_alias(
    folder, tmp_path, empty_store, monkeypatch, capsys
):
    """As ``rankplug run`` leaves them: in rankplug-output/mlflow.db, without any setting."""
    folder, _, scores = folder
    monkeypatch.chdir(tmp_path)
    # Which the command sets, and which are to be restored.
    monkeypatch.setattr("mlflow.tracking._tracking_service.utils._tracking_uri", None)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "")
    monkeypatch.delenv("MLFLOW_TRACKING_URI")
    (tmp_path / "rankplug-output").mkdir()
    shutil.copy(empty_store, tmp_path / "rankplug-output/mlflow.db")
    uri = f"sqlite:///{tmp_path}/rankplug-output/mlflow.db"
    client = mlflow.MlflowClient(uri)
    client.create_registered_model("search")
    client.create_model_version("search", (folder / "named").as_uri())
    client.set_registered_model_alias("search", "champion", "1")
    command = ["predict", "models:/search@champion", str(folder / "named.csv"), "--quiet"]
    assert cli.main([*command, "-o", "out.csv"]) == 0
    np.testing.assert_allclose(table("out.csv")["score"], scores)
    command[1] = "models:/search@challenger"
    assert cli.main([*command, "-o", "none.csv"]) == 2
    assert "error: model models:/search@challenger: " in capsys.readouterr().err


@pytest.mark.parametrize("command", ["predict", "evaluate"])
@pytest.mark.parametrize("model", ["unnamed", "labels"])
def test_saved_models_are_used_without_mlflow(folder, tmp_path, command, model):
    file = "data.csv"
    if model == "labels":
        file = "labelled.csv"
        rows = ["f0,f1,f2,colour", "1,2,3,red", "3,1,2,green", "0,1,0,blue"]
        (tmp_path / file).write_text("\n".join(rows))
    data = tmp_path / file if model == "labels" else folder[0] / file
    arguments = [command, str(folder[0] / model), str(data)]
    if command == "predict":
        arguments += ["-o", str(tmp_path / "out.csv"), "--quiet"]
    elif model == "labels":
        arguments += ["--label", "colour"]
    code = (
        "import sys\nfrom rankplug.cli import main\n"
        f"assert main({arguments!r}) == 0\nassert 'mlflow' not in sys.modules"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


# --- columns that name the rows ---


@pytest.fixture
def named(tmp_path):
    """A model, and rows with the ids of documents."""
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(
        {
            "doc": [f"d,{i:03}" for i in range(12)],
            "number": np.arange(12) + 10,
            "a": rng.normal(size=12),
            "b": rng.normal(size=12),
            "label": rng.integers(0, 3, 12),
            "qid": np.repeat([5, 6, 7], 4),
        }
    )
    frame.loc[3, "doc"] = None
    ranker = Ranker("tree-tron").fit(frame[["a", "b"]], frame["label"], qid=frame["qid"])
    ranker.model_.save(tmp_path / "model")
    ranker.model_.id_columns = ("doc", "elsewhere")
    ranker.model_.save(tmp_path / "knowing")
    return tmp_path, frame, ranker


@pytest.mark.parametrize("ending", ["csv", "parquet", "arrow", "tsv"])
@pytest.mark.parametrize("out_ending", ["csv", "parquet"])
@pytest.mark.parametrize("model", ["model", "knowing"])
@pytest.mark.parametrize("output", ["score", "rank", "top_k"])
def test_ids_stand_beside_the_predictions(named, ending, out_ending, model, output):
    folder, frame, ranker = named
    data, out = folder / f"data.{ending}", folder / f"out.{out_ending}"
    write = {"csv": "to_csv", "tsv": "to_csv", "parquet": "to_parquet", "arrow": "to_feather"}
    options = {"index": False} if ending in ("csv", "tsv") else {}
    options |= {"sep": "\t"} if ending == "tsv" else {}
    getattr(frame, write[ending])(data, **options)
    command = ["predict", str(folder / model), str(data), "-o", str(out), "--output", output]
    command += ["--k", "2", "--batch-rows", "5"]
    ids = ["doc"]
    if model == "model":
        command += ["--id", "doc", "--id", "number"]
        ids.append("number")
    assert cli.main(command) == 0
    found = pd.read_csv(out) if out_ending == "csv" else pd.read_parquet(out)
    own = {"score": ["qid", "score"], "rank": ["qid", "score", "rank"]}
    assert list(found) == ids + own.get(output, ["qid", "row", "score", "rank"])
    rows = found["row"] if output == "top_k" else np.arange(12)
    assert len(found) == (6 if output == "top_k" else 12)
    expected = frame.iloc[rows].reset_index(drop=True)
    for name in ids:
        shown = found[name].fillna("").astype(str).tolist()
        assert shown == expected[name].fillna("").astype(str).tolist()
    np.testing.assert_allclose(found["score"], ranker.predict(frame[["a", "b"]])[rows])


def test_ids_that_cannot_be_kept_are_named(named, capsys):
    folder, frame, _ = named
    frame.rename(columns={"number": "score"}).to_csv(folder / "data.csv", index=False)
    (folder / "data.txt").write_text("1 1:1 2:1\n")
    command = ["predict", str(folder / "model")]
    out = ["-o", str(folder / "out.csv")]
    assert cli.main([*command, str(folder / "data.csv"), *out, "--id", "dok"]) == 2
    assert "no column 'dok'; did you mean 'doc'?" in capsys.readouterr().err
    assert cli.main([*command, str(folder / "data.csv"), *out, "--id", "score"]) == 2
    assert "the output has a column 'score' of its own" in capsys.readouterr().err
    assert cli.main([*command, str(folder / "data.txt"), *out, "--id", "doc"]) == 2
    assert "svmlight text names no columns" in capsys.readouterr().err
    before = (folder / "data.csv").read_bytes()
    assert cli.main([*command, str(folder / "data.csv"), "-o", str(folder / "data.csv")]) == 2
    assert "predictions are not written over their data" in capsys.readouterr().err
    assert (folder / "data.csv").read_bytes() == before
    out = folder / "out.csv"
    assert not out.exists()
    model = load_model(folder / "model")
    predict_file(model, folder / "data.csv", out, ids="doc", progress=False)  # not of its letters
    assert "doc" in pd.read_csv(out)
