import hashlib
import json
import re
import subprocess
import sys
import zipfile
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from scipy import sparse

from rankplug import RankingData, load_model, make_solver
from rankplug.data import Scaling
from rankplug.exceptions import DataError, ModelFormatError
from rankplug.models import SCHEMA_VERSION, LabelLinearModel, LinearModel, scaled_model

NAMES = ("BM25", "größe", "ページ", 'quo"te', "a/b")
finite = st.floats(allow_nan=False, allow_infinity=False)


@pytest.fixture
def coef():
    return np.random.default_rng(0).normal(size=5)


@pytest.fixture
def folder(tmp_path, coef):
    """A saved model with feature names."""
    LinearModel(coef, NAMES).save(tmp_path / "model")
    return tmp_path / "model"


def edit_header(folder, **changes):
    header = json.loads((folder / "model.json").read_text(encoding="utf-8"))
    header.update(changes)
    (folder / "model.json").write_text(json.dumps(header), encoding="utf-8")


def sign(folder):
    """Make the header's digests right again after a change of the files."""
    digest = hashlib.sha256((folder / "arrays.npz").read_bytes()).hexdigest()
    edit_header(folder, files={"arrays.npz": digest})


# Prediction


def test_linear_scores(coef):
    X = np.random.default_rng(1).normal(size=(7, 5))
    model = LinearModel(coef)
    np.testing.assert_array_equal(model.predict(X), X @ coef)
    np.testing.assert_allclose(model.predict(sparse.csr_array(X)), X @ coef, rtol=1e-12)
    assert model.predict(X.astype(np.float32)).dtype == np.float64
    assert (model.n_features, model.n_labels) == (5, None)


def test_label_scores():
    rng = np.random.default_rng(1)
    X, coef = rng.normal(size=(7, 5)), rng.normal(size=(3, 5))
    model = LabelLinearModel(coef)
    np.testing.assert_array_equal(model.predict(X), X @ coef.T)
    np.testing.assert_allclose(model.predict(sparse.csr_array(X)), X @ coef.T, rtol=1e-12)
    assert (model.n_features, model.n_labels) == (5, 3)
    assert model.labels.tolist() == [0, 1, 2]


def test_columns_of_tables_are_matched_by_name():
    model = LinearModel([1.0, 10.0], ["a", "b"])
    table = pd.DataFrame({"qid": [7, 8], "b": [1.0, 2.0], "a": [3.0, 4.0]})
    assert model.predict(table).tolist() == [13.0, 24.0]
    assert LinearModel([1.0, 10.0]).predict(table[["a", "b"]]).tolist() == [13.0, 24.0]
    with pytest.raises(DataError, match="missing feature columns: b"):
        model.predict(table[["a"]])


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.ones((2, 4)), "X has 4 features, but the model is expecting 5"),
        (np.ones(5), "1 dimension"),
        (np.full((2, 5), np.nan), "NaN at row 0, column 0"),
        (np.full((2, 5), np.inf), "infinity"),
        ([["a"] * 5], "must hold numbers"),
        (np.ones((0, 5)), "no rows"),
    ],
)
def test_wrong_features(coef, X, message):
    with pytest.raises(DataError, match=message):
        LinearModel(coef).predict(X)


def test_the_model_keeps_its_own_copy(coef):
    model = LinearModel(coef)
    coef[:] = 0
    assert model.coef.any()


def test_large_coefficients_can_be_handed_over(tmp_path):
    coef = np.random.default_rng(0).normal(size=(5, 3)).T
    model = LabelLinearModel(coef, copy=False)
    assert np.shares_memory(model.coef, coef)
    model.save(tmp_path / "model")
    X = np.eye(5)
    np.testing.assert_array_equal(load_model(tmp_path / "model").predict(X), model.predict(X))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: LinearModel([[1.0]]), "coef has 2 dimensions instead of 1"),
        (lambda: LinearModel([np.nan]), "coef holds NaN or infinity"),
        (lambda: LinearModel(["a"]), "coef must hold numbers"),
        (lambda: LinearModel([1.0], ["a", "b"]), "2 feature names for 1 features"),
        (lambda: LabelLinearModel([1.0]), "coef has 1 dimensions instead of 2"),
        (lambda: LabelLinearModel([[1.0]], ["a", "b"]), "1 rows of coef but labels of shape"),
        (lambda: LabelLinearModel([[1.0], [2.0]], np.array(["a", 1], object)), "labels must be"),
        (lambda: LabelLinearModel([[1.0]], [None]), "labels must be"),
        (lambda: LabelLinearModel([[1.0]], ["\udcff"]), "characters that are no text"),
    ],
)
def test_wrong_models(make, message):
    with pytest.raises(DataError, match=message):
        make()


# Saving and loading


@given(coef=arrays(np.float64, array_shapes(max_dims=1), elements=finite), named=st.booleans())
def test_linear_models_survive_to_the_bit(tmp_path_factory, coef, named):
    path = tmp_path_factory.mktemp("models") / "model"
    names = [f"f{j}" for j in range(len(coef))] if named else None
    LinearModel(coef, names).save(path)
    loaded = load_model(path)
    assert isinstance(loaded, LinearModel)
    assert loaded.coef.tobytes() == coef.tobytes()
    assert loaded.feature_names == (tuple(names) if named else None)


@pytest.mark.parametrize(
    "labels",
    [
        [10, -3, 2],
        np.array([1, 2, 3], dtype=np.uint8),
        [0.5, 1.5, -2.0],
        ["ä", "long name", "日本"],
        np.array(["a", "bcd", "e"], dtype=object),
        np.array([3, 1, 2], dtype=object),
        [True, False, True],
        None,
    ],
)
def test_label_models_survive_to_the_bit(tmp_path, labels):
    model = LabelLinearModel(np.random.default_rng(0).normal(size=(3, 5)), labels, NAMES)
    model.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert isinstance(loaded, LabelLinearModel)
    assert loaded.coef.tobytes() == model.coef.tobytes()
    assert loaded.labels.dtype == model.labels.dtype
    assert loaded.labels.tolist() == model.labels.tolist()
    assert labels is None or loaded.labels.tolist() == list(labels)
    assert loaded.feature_names == NAMES


def test_feature_names_survive(folder):
    assert load_model(folder).feature_names == NAMES
    assert load_model(str(folder)).feature_names == NAMES


def test_the_columns_of_ids_are_remembered(tmp_path, coef):
    """From the data through training, scaling and the file."""
    rng = np.random.default_rng(0)
    data = RankingData.from_arrays(rng.normal(size=(9, 2)), range(9), np.repeat([0, 1, 2], 3))
    data = replace(data, id_columns=("doc_id", "url"))
    kept = RankingData.stack([data.take([1]), data.take([0, 2])])
    model = make_solver("tree-tron").solve(kept).model
    scaled = scaled_model(model, Scaling(None, np.ones(2)))
    scaled.save(tmp_path / "model")
    assert load_model(tmp_path / "model").id_columns == ("doc_id", "url")
    LinearModel(coef).save(tmp_path / "other")
    assert load_model(tmp_path / "other").id_columns == ()
    assert "id_columns" not in json.loads((tmp_path / "other" / "model.json").read_text())


def test_a_loaded_model_can_be_saved(folder, tmp_path):
    load_model(folder).save(tmp_path / "again")
    for file in ("model.json", "arrays.npz"):
        assert (tmp_path / "again" / file).exists()
    assert load_model(tmp_path / "again").coef.tobytes() == load_model(folder).coef.tobytes()


def test_no_pickle_inside(folder):
    with zipfile.ZipFile(folder / "arrays.npz") as archive:
        assert archive.namelist() == ["coef.npy"]
        assert b"'descr': '<f8'" in archive.read("coef.npy")


def test_pickled_arrays_are_refused(folder):
    np.savez(folder / "arrays.npz", coef=np.array([print], dtype=object))
    sign(folder)
    with pytest.raises(ModelFormatError, match=r"cannot be read: coef\.npy is no array of numbers"):
        load_model(folder)


def test_core_kinds_load_without_plugins(folder):
    script = f"""
import sys
sys.modules["rankplug_plugins"] = None
import importlib.metadata
importlib.metadata.entry_points = lambda **_: ()
import rankplug
print(rankplug.load_model({str(folder)!r}).n_features)
"""
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert result.stdout.strip() == "5", result.stderr


def test_saving_into_an_empty_folder(tmp_path, coef):
    (tmp_path / "empty").mkdir()
    LinearModel(coef).save(tmp_path / "empty")
    assert load_model(tmp_path / "empty").n_features == 5
    LinearModel(coef).save(tmp_path / "deep" / "er" / "model")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["deep", "empty"]


@pytest.mark.parametrize("occupied", ["folder", "file"])
def test_nothing_is_overwritten_and_nothing_left_behind(tmp_path, coef, occupied):
    target = tmp_path / "model"
    if occupied == "folder":
        target.mkdir()
        (target / "precious").write_text("data")
    else:
        target.write_text("data")
    with pytest.raises(FileExistsError, match="exists already: name a new folder"):
        LinearModel(coef).save(target)
    assert list(tmp_path.iterdir()) == [target]
    assert (target / "precious").read_text() == "data" if occupied == "folder" else target.is_file()


def test_a_failed_save_leaves_nothing_behind(tmp_path, coef):
    class Unsaved(LinearModel):
        def _write(self, folder):
            super()._write(folder)
            raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        Unsaved(coef).save(tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


# Damaged, strange and malicious models


@pytest.mark.parametrize("size", [0, 10, 300])
def test_truncated_files(folder, size):
    content = (folder / "arrays.npz").read_bytes()
    (folder / "arrays.npz").write_bytes(content[:size])
    with pytest.raises(ModelFormatError, match=r"arrays\.npz was altered or truncated"):
        load_model(folder)
    sign(folder)  # even if the header agrees
    with pytest.raises(ModelFormatError, match=r"arrays\.npz cannot be read"):
        load_model(folder)


def test_an_altered_byte(folder):
    content = bytearray((folder / "arrays.npz").read_bytes())
    content[len(content) // 2] ^= 1
    (folder / "arrays.npz").write_bytes(content)
    with pytest.raises(ModelFormatError, match="altered or truncated"):
        load_model(folder)


def test_a_missing_file(folder):
    (folder / "arrays.npz").unlink()
    with pytest.raises(ModelFormatError, match=r"file arrays\.npz is missing"):
        load_model(folder)


@pytest.mark.parametrize(
    "save", [lambda file, coef: np.savez(file, other=coef), lambda file, coef: np.save(file, coef)]
)
def test_other_arrays(folder, coef, save):
    with (folder / "arrays.npz").open("wb") as file:
        save(file, coef)
    sign(folder)
    with pytest.raises(ModelFormatError, match=r"arrays\.npz cannot be read"):
        load_model(folder)


@pytest.mark.parametrize(
    "wrong", [np.ones((2, 2)), np.full(5, np.nan), np.array(["a"] * 5), np.ones(5, np.longdouble)]
)
def test_wrong_arrays(folder, wrong):
    np.savez(folder / "arrays.npz", coef=wrong)
    sign(folder)
    with pytest.raises(ModelFormatError, match=str(folder)):
        load_model(folder)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": "other"}, "does not describe a rankplug model"),
        ({"schema_version": SCHEMA_VERSION + 1}, "load the model with the version of rankplug"),
        ({"schema_version": None}, "schema version None"),
        ({"kind": "linaer"}, "no installed package reads models of kind 'linaer'; did you mean"),
        ({"kind": 3}, "kind missing or of a wrong type"),
        ({"n_features": 6}, "6 feature"),
        ({"n_features": "5", "model": []}, "n_features, model missing or of a wrong type"),
        ({"id_columns": ["a", 1]}, "id_columns"),
        ({"query_column": 3}, "query_column missing or of a wrong type"),
        ({"query_column": "\ud800"}, "query_column missing or of a wrong type"),
        ({"zero_based": 1}, "zero_based missing or of a wrong type"),
        ({"feature_names": ["a"]}, "1 feature names for 5 features"),
        ({"feature_names": "abcde"}, "feature_names missing or of a wrong type"),
        ({"feature_names": [1, 2, 3, 4, 5]}, "feature_names missing or of a wrong type"),
        ({"files": {"arrays.npz": 0}}, "altered or truncated"),
        ({"files": {"../secret": ""}}, "files must lie in the model's folder"),
        ({"files": {"/etc/passwd": ""}}, "files must lie in the model's folder"),
        ({"files": {"..": ""}}, r"file \.\. is missing"),
    ],
)
def test_strange_headers(folder, changes, message):
    edit_header(folder, **changes)
    with pytest.raises(ModelFormatError, match=message):
        load_model(folder)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b"\xff\xfe", b"{}"])
def test_unreadable_headers(folder, content):
    (folder / "model.json").write_bytes(content)
    with pytest.raises(ModelFormatError, match=r"model\.json"):
        load_model(folder)


def test_no_model_at_all(tmp_path):
    (tmp_path / "file").write_text("data")
    for path in (tmp_path, tmp_path / "nowhere", tmp_path / "file"):
        with pytest.raises(ModelFormatError, match="holds no rankplug model"):
            load_model(path)


def test_models_in_a_folder_of_other_things_are_named(tmp_path):
    one = tmp_path / "models" / "a"
    LinearModel([1.0]).save(one)
    with pytest.raises(ModelFormatError, match=f"but in {re.escape(str(one))}: name that"):
        load_model(tmp_path)
    for name in ("model", "b", "c"):
        LinearModel([1.0]).save(tmp_path / name)
    with pytest.raises(ModelFormatError, match=r"b, .*c, .*model, \.\.\.: name one of these"):
        load_model(tmp_path)


@pytest.mark.parametrize(
    ("target", "message"),
    [("there_is_no:Model", "cannot be imported: ModuleNotFoundError"), ("json:dumps", "no Model")],
)
def test_kinds_whose_package_is_broken(folder, tmp_path, monkeypatch, target, message):
    metadata = tmp_path / "broken-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(
        f"[rankplug.models]\nbroken = {target}\nlinear = {target}\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert load_model(folder).n_features == 5  # nobody takes over a core kind
    edit_header(folder, kind="broken")
    with pytest.raises(ModelFormatError, match=message):
        load_model(folder)


@pytest.mark.parametrize("dtype", ["f8", "f4", ">f8"])
def test_checks_at_a_glance_change_neither_answers_nor_refusals(coef, dtype):
    """Of arrays as most requests hold; squares that overflow prove nothing of finite numbers."""
    model = LinearModel(coef)
    rows = np.random.default_rng(1).normal(size=(3, 5)).astype(dtype)
    large = rows * np.float64(1e30)
    for X in (rows, large.astype(dtype), np.asfortranarray(rows)):
        expected = model.predict([list(map(float, row)) for row in X])
        np.testing.assert_allclose(model.predict(X), expected, rtol=1e-14)
    for value, kind in ((np.nan, "NaN"), (np.inf, "infinity"), (-np.inf, "infinity")):
        wrong = rows.copy()
        wrong[1, 2] = value
        with pytest.raises(DataError, match=f"{kind}.* at row 1, column 2"):
            model.predict(wrong)
    with pytest.raises(DataError, match="score of row 0 is not finite"):
        LinearModel(np.full(5, 1e300)).predict(np.full((1, 5), 1e30).astype(dtype))
