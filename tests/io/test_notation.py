"""How values are written in text: decimal marks, separators, and indices from 0 or from 1."""

import numpy as np
import pandas as pd
import pytest

import rankplug.mlflow
from rankplug import Ranker, load_model, make_solver, prepare, read_data, write_data
from rankplug.cli import main
from rankplug.exceptions import DataError, ParameterError
from rankplug.io import read_label_data, read_table
from rankplug.io.batches import read_batches
from rankplug.models import ScaledModel
from rankplug.recipe.schema import Files
from rankplug.runner.splits import _load

RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(
    {
        "label": np.tile([0, 1, 2], 10),
        "qid": np.repeat(np.arange(5), 6),
        "price": RNG.normal(size=30).round(3),
        "clicks": RNG.integers(0, 9, 30),
        "cheap": RNG.integers(0, 2, 30).astype(bool),
    }
)
FEATURES = FRAME[["price", "clicks", "cheap"]].to_numpy(float)


def whole(path, **options):
    return read_data(path, **options).X


def prepared(path, **options):
    folder = path.parent / "folder"
    return prepare(path, folder, overwrite=True, progress=False, **options).data().X


def recipe(path, **options):
    return _load(Files(path, path, **options))["test"].X


def in_batches(path, **options):
    names = ["price", "clicks", "cheap"]
    batches = read_batches(path, n_features=3, feature_names=names, batch_rows=7, **options)
    return np.concatenate([batch.X for batch in batches])


WAYS = pytest.mark.parametrize("read", [whole, prepared, recipe, in_batches])


@WAYS
@pytest.mark.parametrize("separator", [";", "\t", "|", " ", ":"])
@pytest.mark.parametrize("named", [True, False])
def test_decimal_commas(tmp_path, read, separator, named):
    file = tmp_path / "data.csv"
    FRAME.to_csv(file, index=False, sep=separator, decimal=",")
    if not named and separator in " :":
        return
    options = {"separator": separator} if named else {}
    np.testing.assert_array_equal(read(file, decimal=",", **options), FEATURES)


@WAYS
def test_a_comma_may_be_both_only_where_cells_are_quoted(tmp_path, read):
    file = tmp_path / "data.csv"
    FRAME.to_csv(file, index=False, sep=",", decimal=",", quoting=1)
    with pytest.raises(ParameterError, match="separator=',' is the decimal mark, too"):
        read(file, decimal=",", separator=",")


@WAYS
def test_the_other_mark_is_named_with_the_remedy(tmp_path, read):
    file = tmp_path / "data.csv"
    FRAME.to_csv(file, index=False, sep=";", decimal=",")
    with pytest.raises(DataError, match=r"line 2, column 'price'.*say decimal=',' \(--decimal ,\)"):
        read(file)
    FRAME.to_csv(file, index=False, sep=";")
    with pytest.raises(DataError, match=r"line 2, column 'price'.*say decimal='.'"):
        read(file, decimal=",")


@WAYS
@pytest.mark.parametrize(
    "wrong",
    [
        {"decimal": "x"},
        {"separator": ""},
        {"separator": ";;"},
        {"separator": "\n"},
        {"separator": "é"},
    ],
)
def test_what_can_be_no_notation(tmp_path, read, wrong):
    file = tmp_path / "data.csv"
    FRAME.to_csv(file, index=False)
    with pytest.raises(ParameterError, match="|".join(wrong)):
        read(file, **wrong)


@WAYS
def test_other_formats_have_none(tmp_path, read):
    file = tmp_path / "data.parquet"
    FRAME.to_parquet(file)
    with pytest.raises(ParameterError, match="decimal: not for parquet files"):
        read(file, decimal=",")


def test_whole_tables_and_label_ranking_have_decimal_commas(tmp_path):
    file = tmp_path / "data.csv"
    FRAME.to_csv(file, index=False, sep=";", decimal=",")
    assert read_table(file, decimal=",").column("price").to_pylist() == FRAME["price"].tolist()
    read = read_label_data(file, labels="qid", features=["price"], decimal=",")
    np.testing.assert_array_equal(read.X[:, 0], FRAME["price"])


def test_the_commands_take_decimal_commas(tmp_path, capsys):
    file, model = tmp_path / "data.csv", tmp_path / "model"
    FRAME.to_csv(file, index=False, sep=";", decimal=",")
    made = ["prepare", str(file), "-o", str(tmp_path / "made"), "--decimal", ",", "-q"]
    assert main(made) == 0
    data = read_data(tmp_path / "made")
    solver = make_solver("tree-tron")
    result = solver.solve(data)
    result.model.save(model)
    written = ["--decimal", ",", "--separator", ";"]
    assert main(["predict", str(model), str(file), "-o", str(tmp_path / "s.csv"), *written]) == 0
    scores = pd.read_csv(tmp_path / "s.csv")["score"]
    np.testing.assert_allclose(scores, result.model.predict(FEATURES), rtol=1e-12)
    assert main(["evaluate", str(model), str(file), *written]) == 0
    assert main(["evaluate", str(model), str(file)]) == 2
    assert "--decimal ," in capsys.readouterr().err


# --- indices ---


def zero_based(folder, name="train.txt"):
    """Text with indices from 0, and the features."""
    file = folder / name
    lines = [
        f"{label} qid:{query} " + " ".join(f"{j}:{value}" for j, value in enumerate(row))
        for label, query, row in zip(FRAME["label"], FRAME["qid"], FEATURES, strict=True)
    ]
    file.write_text("\n".join(lines) + "\n")
    return file


def fitted(data):
    return make_solver("tree-tron").solve(data).model


@pytest.mark.parametrize("way", ["whole", "prepared", "recipe", "folds", "scaled"])
def test_models_remember_indices_from_0(tmp_path, way):
    file = zero_based(tmp_path)
    if way == "whole":
        model = fitted(read_data(file, zero_based=True))
    elif way == "recipe":
        model = fitted(_load(Files(file, file, zero_based=True))["train"])
    elif way == "folds":
        model = fitted(read_data(file, zero_based=True).take([0, 2, 1]))
    else:
        scale = "standard" if way == "scaled" else "none"
        folder = prepare(file, tmp_path / "f", zero_based=True, scale=scale, progress=False)
        model = fitted(folder.data())
        model = model if way == "prepared" else ScaledModel(model, folder.data().scaling)
    assert model.zero_based
    model.save(tmp_path / "model")
    again = load_model(tmp_path / "model")
    assert again.zero_based
    rankplug.mlflow.save_model(again, tmp_path / "logged")
    expected = again.predict(FEATURES)
    for saved in ("model", "logged"):
        out = tmp_path / f"{saved}.csv"
        assert main(["predict", str(tmp_path / saved), str(file), "-o", str(out)]) == 0
        np.testing.assert_allclose(pd.read_csv(out)["score"], expected, rtol=1e-12)
        assert main(["evaluate", str(tmp_path / saved), str(file)]) == 0


def test_what_is_said_counts_more_than_what_is_remembered(tmp_path, capsys):
    model = fitted(read_data(zero_based(tmp_path), zero_based=True))
    model.save(tmp_path / "model")
    usual = tmp_path / "usual.txt"
    data = read_data(zero_based(tmp_path), zero_based=True)
    write_data(data, usual)
    command = ["predict", str(tmp_path / "model"), str(usual), "-o", str(tmp_path / "s.csv")]
    assert main(command) == 2
    assert "feature 3 is unseen in training" in capsys.readouterr().err
    assert main([*command, "--no-zero-based"]) == 0
    expected = model.predict(FEATURES)
    np.testing.assert_allclose(pd.read_csv(tmp_path / "s.csv")["score"], expected, rtol=1e-12)
    # The columns of a table have no indices.
    table = tmp_path / "data.csv"
    pd.DataFrame(FEATURES, columns=["f0", "f1", "f2"]).assign(qid=FRAME["qid"]).to_csv(
        table, index=False
    )
    out = str(tmp_path / "t.csv")
    assert main(["predict", str(tmp_path / "model"), str(table), "-o", out]) == 0


def test_other_files_are_read_like_the_training_data(tmp_path):
    file = zero_based(tmp_path)
    data = read_data(file, zero_based=True)
    again = read_data(file, like=data)
    assert again.zero_based
    np.testing.assert_array_equal(again.X, FEATURES)
    labels = read_label_data(_without_queries(file), zero_based=True)
    assert labels.zero_based
    assert read_label_data(_without_queries(file), like=labels).n_features == 3


def _without_queries(file):
    copy = file.with_name("labels.txt")
    text = file.read_text().splitlines()
    copy.write_text("\n".join(" ".join(w for w in line.split() if "qid" not in w) for line in text))
    return copy


def test_models_without_text_know_nothing_of_indices(tmp_path):
    model = Ranker("tree-tron").fit(FEATURES, FRAME["label"], qid=FRAME["qid"]).model_
    assert not model.zero_based
    model.save(tmp_path / "model")
    assert "zero_based" not in (tmp_path / "model" / "model.json").read_text()
