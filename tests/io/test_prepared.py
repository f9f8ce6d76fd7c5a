"""A prepared folder stands for the files that it was made from, wherever data are used."""

import gzip
import os
import pickle
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import rankplug
from rankplug import RankingData, prepare, read_data, write_data
from rankplug.cli import main
from rankplug.data import fit_scaling
from rankplug.exceptions import DataError, ParameterError
from rankplug.io import open_prepared, svmlight, verify_prepared
from rankplug.io.batches import read_batches
from rankplug.io.prepared import inputs, npy, raw_rows, sealing
from rankplug.models import LinearModel, ScaledModel, predict_data
from rankplug.recipe.loader import load_recipe
from rankplug.runner import run


def dense(X):
    return X.toarray() if sparse.issparse(X) else np.asarray(X)


def assert_same(found, expected):
    """Equal to the last bit, but for the width of strings and zeros' signs."""
    assert sparse.issparse(found.X) == sparse.issparse(expected.X)
    assert found.X.dtype == expected.X.dtype
    assert found.X.shape == expected.X.shape
    if sparse.issparse(found.X):
        for name in ("data", "indices", "indptr"):
            one, other = getattr(found.X, name), getattr(expected.X, name)
            assert one.dtype == other.dtype
            np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(dense(found.X), dense(expected.X))
    names = ("relevance", "query_ptr", "query_ids", "query_weight", "document_weight", "order")
    for name in names:
        one, other = getattr(found, name), getattr(expected, name)
        assert (one is None) == (other is None), name
        if other is not None:
            assert one.dtype.kind == other.dtype.kind
            np.testing.assert_array_equal(one, other, err_msg=name)
    assert found.feature_names == expected.feature_names


def take_small_steps(patch, size):
    """Blocks, pieces and saves of so many bytes."""
    patch.setattr(os, "fsync", lambda descriptor: None)
    patch.setattr(svmlight, "_BLOCK", size)
    patch.setattr(inputs, "_CELLS_AT_ONCE", max(size // 20, 1))
    patch.setattr(npy, "_SAVE_BYTES", size)
    patch.setattr(sealing, "_BLOCK_ELEMENTS", max(size // 8, 1))


@st.composite
def frames(draw):
    """Rows of several files: scattered queries, integer or text ids, few or many zeros."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    n, d = draw(st.integers(1, 60)), draw(st.integers(1, 7))
    X = np.where(
        rng.random((n, d)) < draw(st.sampled_from([0.1, 0.5, 1.0])), rng.normal(size=(n, d)), 0
    )
    names = draw(st.sampled_from([["1", "2", "30"], ["007", "7", "x"], ["q 1", "é", "-3"]]))
    ids = np.array(names)[rng.integers(0, 3, n)]
    if draw(st.booleans()):
        ids = np.sort(ids)
    frame = pd.DataFrame(X, columns=[f"f{j}" for j in range(d)])
    frame["label"], frame["qid"] = rng.integers(0, 4, n), ids
    frame["weight"] = frame["qid"].map({name: float(i) for i, name in enumerate(names)})
    frame["own"] = rng.integers(0, 5, n) / 4.0
    cuts = np.sort(rng.integers(0, n + 1, draw(st.integers(0, 2))))
    return [part for part in np.split(np.arange(n), cuts) if len(part)], frame


def write_files(folder, rows, frame, kind):
    files = []
    for number, part in enumerate(rows):
        file = folder / f"{number}.{kind}"
        table = frame.iloc[part]
        if kind.startswith("svm"):
            text = "".join(svmlight_line(row, frame.columns[:-4]) for _, row in table.iterrows())
            data = text.encode()
            file.write_bytes(gzip.compress(data) if kind.endswith("gz") else data)
        elif kind.startswith("csv"):
            table.to_csv(file, index=False)
        elif kind == "parquet":
            table.to_parquet(file, row_group_size=7)
        else:
            table.reset_index(drop=True).to_feather(file)
        files.append(file)
    return files


def svmlight_line(row, names):
    features = [f"{j}:{row[name]!r}" for j, name in enumerate(names, 1) if row[name] != 0]
    return " ".join([str(row["label"]), f"qid:{row['qid'].replace(' ', '_')}", *features]) + "\n"


@settings(max_examples=40)
@given(
    frames(),
    st.sampled_from(["svm", "svm.gz", "csv", "csv.gz", "parquet", "feather"]),
    st.sampled_from([None, True, False]),
    st.sampled_from([None, "float32", "float64"]),
    st.booleans(),
    st.sampled_from([20, 300, 1 << 24]),
)
def test_the_folder_is_the_files(made, kind, dense, dtype, weighted, size):
    arguments = {"dense": dense, "dtype": dtype}
    if not kind.startswith("svm"):
        names = list(made[1].columns[:-4])
        arguments |= {"features": names, "weight": "weight" if weighted else None}
        arguments |= {"document_weight": "own"} if weighted else {}
    with TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        take_small_steps(patch, size)
        folder = Path(name)
        files = write_files(folder, *made, kind)
        if kind.startswith("svm") and not made[1].iloc[:, :-4].to_numpy().any():
            with pytest.raises(DataError, match="no features"):
                prepare(files, folder / "data", **arguments)
            return
        expected = read_data(files, **arguments)
        prepared = prepare(files, folder / "data", **arguments, shard_bytes=100)
        assert_same(read_data(folder / "data"), expected)
        assert {file.name for file in folder.iterdir()} == {"data", *(file.name for file in files)}
        assert prepared == verify_prepared(folder / "data")
        check_shards(prepared, expected)


@pytest.mark.parametrize("n_dense", [5, 35])
@pytest.mark.parametrize("first", ["dense", "sparse"])
@pytest.mark.parametrize("scattered", [False, True])
def test_rows_that_were_kept_in_both_forms(tmp_path, monkeypatch, n_dense, first, scattered):
    """What seemed dense or sparse at first was not, and rows came to have more features."""
    take_small_steps(monkeypatch, 60)
    monkeypatch.setattr(sealing, "_BLOCK_ELEMENTS", 100)
    rng = np.random.default_rng(0)
    thick = [[*range(1, 5 if k < 4 else 8)] for k in range(n_dense)]
    thin = [[1 + k % 7 + 3 * (k > 30)] for k in range(40 - n_dense)]
    lines = []
    for row, columns in enumerate(thick + thin if first == "dense" else thin + thick):
        query = row % 5 if scattered else row // 8
        values = " ".join(f"{j}:{rng.normal():.3f}" for j in columns)
        lines.append(f"{row % 3} qid:{query} {values}\n")
    (tmp_path / "data.svm").write_text("".join(lines))
    expected = read_data(tmp_path / "data.svm")
    assert sparse.issparse(expected.X) == (n_dense == 5)
    prepared = prepare(tmp_path / "data.svm", tmp_path / "data", shard_bytes=300, progress=False)
    assert_same(read_data(tmp_path / "data"), expected)
    check_shards(prepared, expected)


def check_shards(prepared, expected):
    position = 0
    for number, span in enumerate(prepared.shards):
        shard = prepared.shard(number)
        part = expected.take_queries(np.arange(*span.queries))
        assert span.rows == (position, position + shard.n_samples)
        np.testing.assert_array_equal(dense(shard.X), dense(part.X))
        names = ("relevance", "query_ptr", "query_ids", "query_weight", "document_weight")
        for name in names:
            np.testing.assert_array_equal(getattr(shard, name), getattr(part, name))
        position += shard.n_samples
    assert position == expected.n_samples


# --- opening ---


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 3)) * [1, 50, 0.1] + [0, 7, 1]
    y = np.clip(np.round(2 + X @ [1.0, 0.02, 0.0] + rng.normal(size=120) * 0.3), 0, 4)
    return RankingData.from_arrays(X, y, np.repeat(np.arange(12), 10), feature_names="abc")


@pytest.fixture(scope="module")
def files(data, tmp_path_factory):
    """Tables and prepared folders of the same data, one of them scaled."""
    folder = tmp_path_factory.mktemp("files")
    write_data(data, folder / "data.csv")
    write_data(data.take_queries([0, 1, 2]), folder / "test.csv")
    prepare(folder / "data.csv", folder / "plain")
    prepare(folder / "data.csv", folder / "scaled", scale="standard", shard_bytes=1000)
    prepare(folder / "test.csv", folder / "test")
    return folder


def test_features_stay_on_disk(files):
    found = read_data(files / "plain")
    assert isinstance(found.X, np.memmap)
    assert found.X.flags.c_contiguous
    assert not found.X.flags.writeable
    some = found.take_queries(np.arange(3, 7))
    assert isinstance(some.X, np.memmap)
    assert np.shares_memory(some.X, found.X)
    assert type(found.take_queries([3, 1]).X) is np.ndarray
    sparse_folder = prepare(files / "data.csv", files / "sparse", dense=False)
    whole = sparse_folder.data()
    for X in (whole.X, whole.take_queries([1, 2]).X, sparse_folder.shard(0).X):
        assert isinstance(X.data, np.memmap)
        assert isinstance(X.indices, np.memmap)
        assert X.data.filename == sparse_folder.path / "values.npy"


@pytest.mark.parametrize("scale", ["none", "maxabs"])
def test_indices_are_as_large_as_needed(files, tmp_path, monkeypatch, scale):
    """As with more than 2^31 values."""
    arguments = {"dense": False, "scale": scale}
    small = prepare(files / "data.csv", tmp_path / "small", **arguments).data()
    for module in (raw_rows, sealing):
        monkeypatch.setattr(module, "index_type", lambda *_: np.int64)
    large = prepare(files / "data.csv", tmp_path / "large", **arguments).data()
    verify_prepared(tmp_path / "large")
    assert small.X.indices.dtype == np.int32
    assert large.X.indices.dtype == large.X.indptr.dtype == np.int64
    np.testing.assert_array_equal(large.X.toarray(), small.X.toarray())


def test_arrays_are_ordinary_numpy_files(files, data):
    np.testing.assert_array_equal(np.load(files / "plain" / "features.npy"), data.X)


def test_an_open_folder_is_small_to_send(files):
    folder = open_prepared(files / "scaled")
    assert len(folder.shards) == 3
    assert len(pickle.dumps(folder)) < 5000
    assert pickle.loads(pickle.dumps(folder)) == folder
    assert folder.shard(2).scaling.equals(folder.scaling)
    with pytest.raises(DataError, match=r"no shard 3: .* has 3"):
        folder.shard(3)


def test_a_folder_takes_no_options_of_files(files):
    with pytest.raises(ParameterError, match="label, dtype: not for prepared files, leave it out"):
        read_data(files / "plain", label="x", dtype="float32")
    with pytest.raises(DataError, match="3 features, which are not the 2 of the training data"):
        read_data(files / "plain", like=RankingData.from_arrays([[0.0, 1]], [1]))
    assert read_data(files / "plain", like=read_data(files / "test.csv")).n_features == 3
    with pytest.raises(DataError, match="cannot be read: Is a directory"):
        prepare([files / "plain", files / "data.csv"], files / "new")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"dtype": "float16"}, "dtype='float16' .must be None or one of 'float32'"),
        ({"scale": "log", "shard_bytes": 0}, "scale='log' .*shard_bytes=0"),
        ({"n_features": 3}, "n_features: not for csv files"),
        ({"format": "svmlight", "label": "x"}, "label: not for svmlight files"),
        ({"dense": False, "scale": "standard"}, "would make sparse features dense"),
    ],
)
def test_arguments_that_do_not_fit(files, arguments, message):
    with pytest.raises(ParameterError, match=message):
        prepare(files / "data.csv", files / "new", **arguments)
    assert not (files / "new").exists()


@pytest.mark.parametrize(
    ("text", "arguments", "message"),
    [
        ("1 qid:1 9:1\n", {"scale": "minmax"}, "would make these sparse features dense"),
        ("1 qid:1 1:1e300\n", {"dtype": "float32"}, "rows 0 to 0: features too large for float32"),
        ("1 qid:1 3000000000:1\n", {}, "feature 3000000000 is too large to be prepared"),
        ("1 qid:1\n", {}, "no features, only relevance and ids"),
        ("# nothing\n", {}, "holds no rows"),
    ],
)
def test_data_that_cannot_be_prepared(tmp_path, text, arguments, message):
    (tmp_path / "data.txt").write_text(text)
    with pytest.raises(DataError, match=message):
        prepare(tmp_path / "data.txt", tmp_path / "data", **arguments)
    assert [file.name for file in tmp_path.iterdir()] == ["data.txt"]


def test_weights_and_ids_are_checked_over_all_files(tmp_path):
    one, other = tmp_path / "1.parquet", tmp_path / "2.parquet"
    frame = pd.DataFrame({"f": [1.0, 2.0], "label": [0, 1], "qid": [7, 7], "w": [1.0, 1.0]})
    frame.to_parquet(one)
    frame.assign(w=2.0).to_parquet(other)
    with pytest.raises(DataError, match="the weight varies within query 7"):
        prepare([one, other], tmp_path / "data", weight="w")
    frame.assign(w=-1.0).to_parquet(other)
    with pytest.raises(DataError, match="the weight of query 7 is negative"):
        prepare([other], tmp_path / "data", weight="w")
    frame.assign(qid="7").to_parquet(other)
    with pytest.raises(DataError, match="qid mixes values of types int, str"):
        read_data([one, other])
    with pytest.raises(DataError, match="qid mixes integers and strings over the files"):
        prepare([one, other], tmp_path / "data")
    (tmp_path / "1.txt").write_text("1 qid:1 1:1\n")
    (tmp_path / "2.txt").write_text("1 1:1\n")
    with pytest.raises(DataError, match=r"2\.txt: no qid, but the files before have a qid"):
        prepare([tmp_path / "1.txt", tmp_path / "2.txt"], tmp_path / "data")


@pytest.mark.parametrize("ids", [[1.0, 2.0, 1.0], pd.to_datetime(["2020", "2021", "2020"])])
def test_unusual_ids(tmp_path, ids):
    frame = pd.DataFrame({"f": [1.0, 2.0, 3.0], "label": [0, 1, 1], "qid": ids})
    frame.to_parquet(tmp_path / "data.parquet")
    prepare(tmp_path / "data.parquet", tmp_path / "data")
    assert_same(read_data(tmp_path / "data"), read_data(tmp_path / "data.parquet"))


# --- scaled folders, models of unscaled features ---


@pytest.mark.parametrize("scale", ["standard", "minmax", "maxabs"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_features_are_scaled_as_in_memory(files, data, tmp_path, scale, dtype):
    folder = prepare(files / "data.csv", tmp_path / "data", scale=scale, dtype=dtype)
    plain = read_data(files / "data.csv", dtype=dtype)
    expected = fit_scaling(plain.X, scale)
    assert folder.scaling.equals(expected)
    found = folder.data()
    np.testing.assert_array_equal(found.X, expected.apply(plain.X))
    np.testing.assert_allclose(found.scaling.undo(found.X), plain.X, rtol=1e-5, atol=1e-5)
    assert found.take_queries([2, 0]).scaling.equals(expected)


def test_sparse_features_are_scaled_by_their_largest_value(tmp_path):
    (tmp_path / "data.txt").write_text("1 qid:1 1:4\n0 qid:1 9:-2\n0 qid:2 1:2 9:1\n")
    prepare(tmp_path / "data.txt", tmp_path / "data", scale="maxabs")
    X = read_data(tmp_path / "data").X
    assert X.toarray()[:, [0, 8]].tolist() == [[1, 0], [0, -1], [0.5, 0.5]]
    restored = next(iter(read_batches(tmp_path / "data", n_features=9))).X
    assert restored.toarray()[:, [0, 8]].tolist() == [[4, 0], [0, -2], [2, 1]]


def test_models_score_scaled_and_unscaled_data_alike(files, data):
    scaled = read_data(files / "scaled")
    result = rankplug.make_solver("tree-tron").solve(scaled)
    model = ScaledModel(result.model, scaled.scaling)
    expected = model.predict(data.X)
    np.testing.assert_array_equal(predict_data(model, data), expected)
    np.testing.assert_array_equal(predict_data(model, scaled), expected)
    plain = LinearModel([1.0, 2.0, 3.0])
    np.testing.assert_allclose(predict_data(plain, scaled), plain.predict(data.X), rtol=1e-12)


RECIPE = """
data: {train: TRAIN, test: TEST}
metrics: [ndcg@10]
solvers: [{solver: tree-tron, params: {C: 1.0}}]
scale: SCALE
sanity: false
"""


def run_recipe(folder, train, test, scale="none", more=()):
    text = RECIPE.replace("TRAIN", train).replace("TEST", test).replace("SCALE", scale)
    (folder / "recipe.yaml").write_text(text)
    report = run(
        load_recipe(folder / "recipe.yaml", list(more)),
        output=folder / f"out {train} {test} {len(more)}",
        progress=False,
        resume=True,
    )
    (outcome,) = report.outcomes
    assert outcome.error is None
    return outcome


def test_a_recipe_trains_on_a_scaled_folder_a_model_of_unscaled_features(files, data):
    expected = run_recipe(files, "data.csv", "test.csv", "standard")
    for test in ("test.csv", "test", "scaled"):
        found = run_recipe(files, "scaled", test)
        np.testing.assert_array_equal(
            found.result.model.predict(data.X), expected.result.model.predict(data.X)
        )
        assert found.metrics["train"] == expected.metrics["train"]
        if test != "scaled":
            assert found.metrics["test"] == expected.metrics["test"]
    again = run_recipe(files, "plain", "test", "standard")
    assert again.metrics == expected.metrics


def test_folds_and_tuning_of_scaled_folders(files, data):
    folds = run_recipe(files, "scaled", "test", more=["compare={folds: 3}"])
    assert len(folds.repeats) == 3
    tuned = run_recipe(files, "scaled", "test", more=["tune={n_trials: 2}", "seed=1"])
    assert tuned.tuning.n_trials == 2
    scaled = read_data(files / "scaled")
    result = rankplug.tune("tree-tron", scaled, n_trials=2, folds=3, refit=True, progress=False)
    assert isinstance(result.best_result.model, ScaledModel)
    assert result.best_result.model.scaling.equals(scaled.scaling)


def test_nothing_is_scaled_twice(files):
    scaled, plain = read_data(files / "scaled"), read_data(files / "plain")
    with pytest.raises(DataError, match="scaled already when they were prepared: leave out scale"):
        rankplug.tune("tree-tron", scaled, n_trials=1, scale="standard")
    with pytest.raises(DataError, match="validation data were scaled when they were prepared, but"):
        rankplug.tune("tree-tron", plain, valid=scaled, n_trials=1)
    with pytest.raises(DataError, match="need splits that are scaled alike, but the training set"):
        run_recipe(files, "data.csv", "scaled", more=["compare={folds: 3}"])
    with pytest.raises(DataError, match="scaled otherwise than the training data"):
        fit_scaling(plain.X, "maxabs").of(scaled)


# --- the command line ---


def test_commands_take_folders(files, data, capsys):
    model = LinearModel([1.0, 0.5, 0.0], feature_names=["a", "b", "c"])
    model.save(files / "model")
    outputs = []
    for source in ("data.csv", "plain", "scaled"):
        out = files / f"{source}.scores.csv"
        assert main(["predict", str(files / "model"), str(files / source), "-o", str(out)]) == 0
        outputs.append(pd.read_csv(out))
        assert main(["evaluate", str(files / "model"), str(files / source), "--json"]) == 0
    for other in outputs[1:]:
        np.testing.assert_array_equal(other["qid"], outputs[0]["qid"])
        np.testing.assert_allclose(other["score"], outputs[0]["score"], rtol=1e-12)
    printed = capsys.readouterr().out
    assert printed.count('"ndcg@10"') == 3


def test_the_command(files, tmp_path, capsys):
    target = str(tmp_path / "new")
    command = ["prepare", str(files / "data.csv"), "-o", target, "--feature", "a", "--feature", "c"]
    assert main([*command, "--scale", "minmax", "--dtype", "float32"]) == 0
    text = "12 queries, 120 rows, 2 features, dense float32, scaled (minmax), 1 shards"
    assert text in capsys.readouterr().out
    assert main(["prepare", "--check", target]) == 0
    assert text in capsys.readouterr().out
    assert main(["prepare", "--check", target, "-o", target]) == 2
    assert "--check makes no folder: leave out -o" in capsys.readouterr().err
    assert main(command) == 2
    assert "--overwrite" in capsys.readouterr().err
    assert main([*command, "--overwrite", "--sparse"]) == 0
    assert "sparse float64" in capsys.readouterr().out
    assert main(["prepare", str(files / "data.csv")]) == 2
    assert "-o DIR" in capsys.readouterr().err
    assert main(["prepare", "--check", str(files)]) == 2
    assert "is not a prepared folder" in capsys.readouterr().err
