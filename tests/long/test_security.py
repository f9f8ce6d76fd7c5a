"""Attacks: what comes from strangers is refused with a reason, or does no harm.

Models, data files, recipes, project parameters, and names in reports. `tests/long/fuzz` goes on
from here with random inputs.
"""

import asyncio
import bz2
import gzip
import importlib
import json
import lzma
import os
import re
import shutil
import struct
import subprocess
import sys
import tracemalloc
import zipfile
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.tree._tree import Tree

import rankplug
from rankplug import load_model
from rankplug.cli import main
from rankplug.data import Scaling
from rankplug.exceptions import DataError, ModelFormatError, ParameterError, RecipeError
from rankplug.io.batches import read_batches
from rankplug.kernels import Kernel
from rankplug.models import KernelModel, LabelLinearModel, LinearModel, ScaledModel
from rankplug.models.pipelines import PipelineModel
from rankplug.recipe.loader import load_recipe
from rankplug_plugins.baselines.regressor_model import RegressorModel
from rankplug_plugins.boosting.file_checks import check_xgboost_json, ubjson_to_json
from rankplug_plugins.boosting.lightgbm_checks import check_lightgbm_text

X = np.array([[1.0, 2.0], [3.0, -4.0], [0.0, 1.0]])
LINEAR = LinearModel([1.0, -2.0], ["a", "b"])
MODELS = {
    "linear": LINEAR,
    "labels": LabelLinearModel([[1.0, 2.0], [3.0, 4.0]], ["x", "y"]),
    "kernel": KernelModel(Kernel("poly", 0.5, 2, 1.0), X, [1.0, 2.0, 3.0]),
    "sparse": KernelModel(Kernel("rbf", 0.5), sparse.csr_array(X), np.ones((3, 2)), [7, 8]),
    "scaled": ScaledModel(LINEAR, Scaling(np.ones(2), np.full(2, 0.5))),
    "pipeline": PipelineModel(
        [("a", StandardScaler().fit(X)), ("b", MinMaxScaler(clip=True).fit(X))], LINEAR
    ),
}


# Models


def npy(descr, shape, content=b"", order=False):
    """The bytes of an .npy file, whose parts need not agree."""
    header = f"{{'descr': {descr!r}, 'fortran_order': {order}, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + content


def members(file):
    """Names and bytes of the members of a zip file."""
    with zipfile.ZipFile(file) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def pack(file, contents, compression=zipfile.ZIP_STORED):
    """Write a zip file; contents are pairs of names and bytes."""
    with zipfile.ZipFile(file, "w", compression) as archive:
        for name, content in contents:
            archive.writestr(name, content)


def sign(folder):
    """Make all digests right, as an attacker would."""
    header = json.loads((folder / "model.json").read_text())
    header["files"] = {
        file.name: sha256(file.read_bytes()).hexdigest() for file in sorted(folder.glob("*.*z"))
    }
    write_header(folder, header)


def write_header(folder, header):
    """Write the header with its digest."""
    header.pop("sha256", None)
    content = json.dumps(header, sort_keys=True)
    header["sha256"] = sha256(content.encode()).hexdigest()
    (folder / "model.json").write_text(json.dumps(header))


@pytest.fixture
def saved(tmp_path):
    """Save one of the models: ``saved(name)`` is its folder."""

    def save(name):
        MODELS[name].save(tmp_path / name)
        return tmp_path / name

    return save


def refused(folder, words=None):
    """Loading is refused, and takes next to no memory."""
    tracemalloc.start()
    try:
        with pytest.raises(ModelFormatError, match=words):
            load_model(folder)
        assert tracemalloc.get_traced_memory()[1] < 20e6
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", MODELS)
def test_signing_again_is_the_attack_that_digests_do_not_stop(saved, name):
    folder = saved(name)
    sign(folder)
    np.testing.assert_array_equal(load_model(folder).predict(X), MODELS[name].predict(X))


HUGE = 10**12
ARRAYS = {
    "pickled objects": npy("|O", "(2,)", b"\x80\x04cos\nsystem\n(S'true'\ntR."),
    "declares a terabyte": npy("<f8", f"({HUGE},)", b"12345678"),
    "more than 64 bits count": npy("<f8", f"({HUGE}, {HUGE})"),
    "negative size": npy("<f8", "(-1,)"),
    "infinite size": npy("<f8", "(1e999,)"),
    "nothing, often": npy("<U0", f"({HUGE},)"),
    "NaN": npy("<f8", "(2,)", np.array([1, np.nan]).tobytes()),
    "infinity": npy("<f8", "(2,)", np.array([1, np.inf]).tobytes()),
    "text": npy("<U1", "(2,)", "ab".encode("utf-32-le")),
    "no characters": npy("<U1", "(2,)", b"\xff" * 8),
    "complex": npy("<c16", "(2,)", bytes(32)),
    "dates": npy("<M8[s]", "(2,)", bytes(16)),
    "bytes": npy("|S8", "(2,)", bytes(16)),
    "raw memory": npy("|V8", "(2,)", bytes(16)),
    "records": npy([("a", "<f8")], "(2,)", bytes(16)),
    "integers": npy("<i8", "(2,)", bytes(16)),
    "unknown type": npy("<f7", "(2,)", bytes(14)),
    "no array": b"coef",
    "empty": b"",
    "cut in the header": npy("<f8", "(2,)")[:40],
    "cut in the numbers": npy("<f8", "(2,)", bytes(15)),
    "something behind": npy("<f8", "(2,)", bytes(17)),
    "nested brackets": npy("<f8", "(" * 20_000 + "2,"),
    "an expression": npy("<f8", "(__import__('os').getpid(),)"),
    "three dimensions": npy("<f8", "(1, 1, 2)", bytes(16)),
    "no dimension": npy("<f8", "()", bytes(8)),
    "no features": npy("<f8", "(0,)"),
    "another version": b"\x93NUMPY\x02\x00" + npy("<f8", "(2,)", bytes(16))[8:],
}


@pytest.mark.parametrize("attack", ARRAYS)
@pytest.mark.parametrize(
    ("name", "file", "member"),
    [
        ("linear", "arrays.npz", "coef"),
        ("labels", "arrays.npz", "coef"),
        ("kernel", "arrays.npz", "dual_coef"),
        ("kernel", "arrays.npz", "support"),
        ("sparse", "arrays.npz", "data"),
        ("scaled", "scaling.npz", "factor"),
        ("pipeline", "pipeline.npz", "1.scale_"),
    ],
)
def test_arrays(saved, name, file, member, attack):
    folder = saved(name)
    arrays = members(folder / file)
    assert f"{member}.npy" in arrays
    pack(folder / file, (arrays | {f"{member}.npy": ARRAYS[attack]}).items())
    sign(folder)
    refused(folder)


@pytest.mark.parametrize(
    ("indices", "indptr"),
    [
        ([0, 2, 0, 1, 1], [0, 2, 4, 5]),  # a column that does not exist
        ([0, -1, 0, 1, 1], [0, 2, 4, 5]),
        ([0, 1, 0, 1, 1], [0, 2, 9, 5]),
        ([0, 1, 0, 1, 1], [0, 4, 2, 5]),
        ([0, 1, 0, 1, 1], [-2, 2, 4, 5]),
        ([0, 1, 0, 1, 1], [0, 2, 4, 2**40]),
        ([0.0, 1.0, 0.0, 1.0, 1.0], [0, 2, 4, 5]),
        ([0, 1, 0, 1, 1], [[0, 2], [4, 5]]),
        ([0, 1, 0, 1, 1], []),
        ([0, 1, 0, 1, 1], [0, 10**6, 10**6, 0]),
        ([0, 1, 0, 1, 1], [0, 1, 2, -(2**31) + 2]),
    ],
)
def test_sparse_matrices_that_reach_outside(saved, indices, indptr):
    folder = saved("sparse")
    with np.load(folder / "arrays.npz") as archive:
        arrays = dict(archive)
    assert arrays["indptr"].tolist() == [0, 2, 4, 5]
    index = np.array(indptr) if len(indptr) else np.array(indptr, dtype=np.int32)
    np.savez(folder / "arrays.npz", **arrays | {"indices": np.array(indices), "indptr": index})
    sign(folder)
    refused(folder)


def test_compressed_arrays_are_not_expanded(saved):
    folder = saved("linear")
    bomb = npy("<f8", "(1000000,)", bytes(8_000_000))
    for method in (zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
        pack(folder / "arrays.npz", [("coef.npy", bomb)], method)
        assert (folder / "arrays.npz").stat().st_size < 80_000
        sign(folder)
        refused(folder, "compressed, which saved models never are")


def test_members_that_are_there_twice(saved):
    folder = saved("linear")
    ((name, content),) = members(folder / "arrays.npz").items()
    with pytest.warns(UserWarning, match="Duplicate name"):
        pack(folder / "arrays.npz", [(name, content), (name, content)])
    sign(folder)
    refused(folder, r"2 members coef\.npy instead of one")


def test_other_members_are_not_looked_at(saved, tmp_path):
    folder = saved("linear")
    arrays = members(folder / "arrays.npz")
    more = {"../../evil.npy": b"x", "/evil.npy": b"x", "evil.npy": ARRAYS["pickled objects"]}
    pack(folder / "arrays.npz", (arrays | more).items())
    sign(folder)
    assert load_model(folder).predict(X).tolist() == LINEAR.predict(X).tolist()
    assert not list(tmp_path.parent.rglob("evil*"))


@pytest.mark.parametrize("field", ["size", "name", "method", "flags"])
def test_zip_headers_that_lie(saved, field):
    """The directory at the end of the file, against which the rest is read."""
    folder = saved("linear")
    content = bytearray((folder / "arrays.npz").read_bytes())
    entry = content.rindex(b"PK\x01\x02")
    if field == "size":
        content[entry + 20 : entry + 28] = struct.pack("<II", 2**31, 2**31)
    elif field == "name":
        content[entry + 46 : entry + 50] = b"cofe"
    elif field == "method":
        content[entry + 10 : entry + 12] = b"\x63\x00"
    else:
        content[entry + 8] |= 1  # encrypted
    (folder / "arrays.npz").write_bytes(content)
    sign(folder)
    refused(folder, r"arrays\.npz cannot be read")


@pytest.mark.parametrize("name", MODELS)
def test_truncated_anywhere(saved, name):
    folder = saved(name)
    for file in sorted(folder.iterdir()):
        content = file.read_bytes()
        for size in range(0, len(content) - 2, max(1, len(content) // 9)):
            file.write_bytes(content[:size])
            if file.name != "model.json":
                sign(folder)
            refused(folder)
        file.write_bytes(content)
        sign(folder)


HEADERS = {
    "linear": [
        {"n_features": 10**15},
        {"n_features": True},
        {"n_features": 0},
        {"n_features": -1},
        {"n_features": 2.0},
        {"kind": "os:system"},
        {"kind": "rankplug.models:LinearModel"},
        {"kind": "../linear"},
        {"kind": "kernel"},
        {"kind": "scaled"},
        {"kind": "pipeline"},
        {"feature_names": ["a", "\ud800"]},
        {"feature_names": [["a"], "b"]},
        {"files": {"arrays.npz": None}},
        {"files": {"x" * 5000: ""}},
        {"files": {"a\0b": ""}},
        {"files": {"": ""}},
        {"files": {".": ""}},
        {"files": {"../linear/arrays.npz": ""}},
        {"schema_version": "1"},
        {"schema_version": [1]},
    ],
    "kernel": [
        {"kernel": "__import__"},
        {"kernel": ["rbf"]},
        {"gamma": "nan"},
        {"gamma": True},
        {"gamma": [1.0]},
        {"degree": 2.5},
        {"degree": 0},
        {"coef0": None},
        {"sparse": "yes"},
        {"sparse": True},
        {"n_features": -1},
    ],
    "sparse": [{"n_features": 1}, {"n_features": 2**70}, {"n_features": "2"}, {"sparse": False}],
    "scaled": [
        {"kind": 3},
        {"kind": "nothing"},
        {"model": None},
        {"shifted": True, "kind": "scaled"},
        {"kind": "labels"},
    ],
    "pipeline": [
        {"steps": 3},
        {"steps": [3]},
        {"steps": {"a": 1}},
        {"steps": [{"name": "a", "scaler": "FunctionTransformer", "params": {}, "arrays": []}]},
        {"steps": [{"name": "a", "scaler": "StandardScaler", "params": {}, "arrays": []}]},
        *(
            {"steps": [{"name": "a", "scaler": "StandardScaler", "arrays": arrays} | params]}
            for arrays, params in [
                (["mean_", "scale_"], {"params": {"with_mean": "yes"}}),
                (["mean_", "scale_"], {"params": {"with_mean": 1}}),
                (["mean_", "scale_"], {"params": ["copy"]}),
                (["mean_", "scale_"], {"params": {"__class__": True}}),
                (["mean_", "__class__"], {"params": {}}),
                (["../../x"], {"params": {}}),
                (3, {"params": {}}),
            ]
        ),
    ],
}


@pytest.mark.parametrize(
    ("name", "change"), [(name, change) for name, all_ in HEADERS.items() for change in all_]
)
def test_headers(saved, name, change):
    folder = saved(name)
    header = json.loads((folder / "model.json").read_text())
    (header if name == "linear" else header["model"]).update(change)
    write_header(folder, header)
    refused(folder)


@pytest.mark.parametrize(
    "feature_range", [[0], [0, 1, 2], ["a", "b"], None, "ab", [0, None], {"a": 1}, [[0], [1]]]
)
def test_ranges_of_scalers(saved, feature_range):
    folder = saved("pipeline")
    header = json.loads((folder / "model.json").read_text())
    header["model"]["steps"][1]["params"]["feature_range"] = feature_range
    write_header(folder, header)
    refused(folder)


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        '{"a":' * 100_000,
        '{"format": "rankplug-model", "n_features": NaN}',
        '{"format": "rankplug-model", "n_features": -Infinity}',
        '{"format": "rankplug-model", "n_features": 1e999}',
        '{"format": "rankplug-model", "n_features": ' + "9" * 10_000 + "}",
        '{"format": "rankplug-model", "format": "rankplug-model"}',
        "\ufeff{}",
        '"\\ud800"',
        "",
    ],
    ids=lambda text: text[:50],
)
def test_json(saved, text):
    folder = saved("linear")
    (folder / "model.json").write_text(text, encoding="utf-8")
    refused(folder, r"model\.json")


def test_models_within_models_have_a_bottom(saved):
    folder = saved("scaled")
    header = json.loads((folder / "model.json").read_text())
    for _ in range(7):
        header["model"] = {"kind": "scaled", "model": header["model"], "shifted": True}
    write_header(folder, header)
    assert np.isfinite(load_model(folder).predict(X)).all()
    for depth in (1, 300):
        for _ in range(depth):
            header["model"] = {"kind": "scaled", "model": header["model"], "shifted": True}
        write_header(folder, header)
        refused(folder, "8 models within each other")


@pytest.mark.parametrize("file", ["model.json", "arrays.npz"])
def test_links_out_of_the_folder_are_not_followed(saved, tmp_path, file):
    folder = saved("linear")
    (folder / file).rename(tmp_path / "elsewhere")
    (folder / file).symlink_to(tmp_path / "elsewhere")
    refused(folder)
    (folder / file).unlink()
    (folder / file).symlink_to(folder / file)
    refused(folder)


@pytest.mark.parametrize("file", ["model.json", "arrays.npz"])
def test_what_is_no_file_is_not_waited_for(saved, file):
    folder = saved("linear")
    (folder / file).unlink()
    os.mkfifo(folder / file)
    refused(folder)
    (folder / file).unlink()
    (folder / file).mkdir()
    refused(folder)


def test_a_link_to_the_folder_is_the_folder(saved, tmp_path):
    (tmp_path / "link").symlink_to(saved("linear"))
    assert load_model(tmp_path / "link").n_features == 2


def test_weights_that_overflow_are_told_of(saved):
    folder = saved("linear")
    np.savez(folder / "arrays.npz", coef=[1e308, 1e308])
    sign(folder)
    model = load_model(folder)
    with pytest.raises(ValueError, match="not finite"):
        model.predict([[10.0, 10.0]])


# Data files


COMPRESS = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress}


@pytest.fixture
def small_limit(monkeypatch):
    """Bombs of a size that tests have time for."""
    monkeypatch.setattr("rankplug.io.compression._ALWAYS_EXPANDED", 1 << 16)


@pytest.mark.parametrize("compress", COMPRESS)
@pytest.mark.parametrize(
    "text",
    [
        b"1 1:1\n" + b"0" * (1 << 21),  # a line without an end
        b"1 1:1\n0 1:2\n" * (1 << 17),
        b"\n" * (1 << 21),
        b"label,f\n" + b"1,1\n" * (1 << 19),
        b"label,f\n1," + b"1" * (1 << 21),
        b'label,f\n1,"' + b"1" * (1 << 21),
    ],
    ids=["line", "rows", "blank", "csv", "cell", "quoted"],
)
def test_bombs(tmp_path, small_limit, compress, text):
    file = tmp_path / f"data.{'csv' if b'label' in text else 'txt'}.{compress}"
    file.write_bytes(COMPRESS[compress](text))
    assert file.stat().st_size < len(text) / 250
    words = r"data.* is not read, because it expands to more than 250 times.*decompress it first"
    with pytest.raises(DataError, match=words):
        rankplug.read_data(file)
    with pytest.raises(DataError, match=words):
        list(read_batches(file, n_features=1))
    with pytest.raises(DataError, match=words):
        rankplug.prepare(file, tmp_path / "prepared", progress=False)
    assert not (tmp_path / "prepared").exists()


@pytest.mark.parametrize("compress", COMPRESS)
def test_what_is_compressed_well_is_read(tmp_path, small_limit, compress):
    numbers = np.random.default_rng(0).integers(0, 1000, 30_000)
    text = b"".join(b"1 1:%d\n" % number for number in numbers)
    assert len(text) > 2 << 16
    file = tmp_path / "data.txt"
    file.write_bytes(COMPRESS[compress](text))
    assert rankplug.read_data(file).X.ravel().tolist() == numbers.tolist()


def test_a_parquet_file_of_one_number_over_and_over(tmp_path, monkeypatch):
    import pyarrow as pa
    from pyarrow import parquet

    column = np.zeros(1 << 20)
    file = tmp_path / "data.parquet"
    parquet.write_table(pa.table({"label": column, "f": column}), file)
    assert file.stat().st_size < 10_000
    monkeypatch.setattr("os.sysconf", lambda name: 4000)  # of 4000 bytes each
    with pytest.raises(DataError, match="take more than the 16,000,000 bytes of memory here"):
        rankplug.read_data(file)
    assert next(iter(read_batches(file, n_features=1, batch_rows=5))).X.tolist() == [[0.0]] * 5


# Recipes


EVIL = "<script>alert(1)</script>"
RECIPE = "data: {dataset: digits-retrieval}\nmetrics: [map]\nsolvers:\n- {solver: constant}\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("data: !!python/object/apply:os.system ['touch pwned']\n", "the tag"),
        ("data: !!python/name:os.system\n", "the tag"),
        ("data: !!int 1_0\n", "the tag"),
        ("data: !!bool maybe\n", "the tag"),
        ('data: !!bool "true\\n"\n', "the tag"),
        ("data: !!float nan\n", "the tag"),
        ("data: !!null 1\n", "the tag"),
        ("data: 1e999\n", "the number 1e999 is too large"),
        ("a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n", "anchors and aliases"),
        ("data: {<<: *a}\n", "anchors and aliases"),
        ("data: " + "[" * 5_000 + "\n", "nested too deeply"),
        ("data: " + "[" * 150 + "]" * 150 + "\n", "nested too deeply"),
        ("- " * 5_000 + "a\n", "nested too deeply"),
        ("data: 1\ndata: 2\n", "occurs twice"),
        ("data: {train: a, train: b}\n", "occurs twice"),
        ("seed: " + "9" * 5000 + "\n", "must be an integer"),
        ("name: ../../etc\n", "name: must be of letters"),
        ("name: /etc/x\n", "name: must be of letters"),
        ("name: ..\n", "name: must be of letters"),
        ("name: '$(touch pwned)'\n", "name: must be of letters"),
        ('name: "a\\nb"\n', "must be a line of text"),
        ("solvers: [{solver: 'os:system'}]\n", "unknown solver 'os:system'"),
        ("solvers: [{solver: rankplug_plugins.tree_tron}]\n", "unknown solver"),
        ("metrics: ['__import__(\"os\")']\n", "unknown metric"),
        ("data: {dataset: ../../secret}\n", "unknown data set"),
        ("data: {train: 'a\\0b', test: x}\n", "no such file"),
        ("data: {train: " + "x" * 300 + ", test: " + "y/" * 3000 + "}\n", "no such file"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_recipes(tmp_path, monkeypatch, text, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "r.yaml").write_text(text)
    with pytest.raises(RecipeError, match=re.escape(words)):
        load_recipe("r.yaml")
    assert [file.name for file in tmp_path.iterdir()] == ["r.yaml"]


@pytest.mark.parametrize(
    ("assignment", "words"),
    [
        ("name=../x", "must be of letters"),
        ("data.train=!!python/name:os.system", "the tag"),
        ("data=[" + "[" * 5_000, "nested too deeply"),
        ("seed=1e999", "the number 1e999 is too large"),
        (".".join("a" * 5_000) + "=1", "unknown key 'a'"),
        ("solvers.constant.params.__class__=1", "no parameter '__class__'"),
        ("solvers.9999999999999999999999.solver=x", "no entry"),
    ],
    ids=lambda value: value[:40],
)
def test_assignments(tmp_path, assignment, words):
    (tmp_path / "r.yaml").write_text(RECIPE)
    with pytest.raises(RecipeError, match=re.escape(words)):
        load_recipe(tmp_path / "r.yaml", [assignment])


@pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy")  # MLflow's
def test_names_of_solvers_are_no_paths(tmp_path, monkeypatch, empty_store):
    """Whatever solvers are called, files are written below the output folder, and no shell runs."""
    home = tmp_path / "home"
    (home / "in").mkdir(parents=True)
    monkeypatch.chdir(home)
    shutil.copy(empty_store, home / "mlflow.db")
    names = ["../../up", f"{tmp_path}/absolute", "$(touch pwned); `touch pwned`", EVIL]
    entries = "".join(f"- {{solver: constant, name: '{name}'}}\n" for name in names)
    recipe = home / "in" / "r.yaml"
    recipe.write_text(RECIPE + entries + "sanity: false\n")
    # Absolute, as MLflow keeps the connections of an address for tests that come later.
    arguments = ["--output", "in/out", "--tracking-uri", f"sqlite:///{home}/mlflow.db", "--quiet"]
    assert main(["run", str(recipe), *arguments]) == 0
    assert {file.name for file in tmp_path.iterdir()} == {"home"}
    assert {file.name for file in home.iterdir()} <= {"in", "mlflow.db", "mlartifacts"}
    assert {file.name for file in (home / "in").iterdir()} == {"r.yaml", "out"}
    page = (home / "in/out/report.html").read_text()
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    markdown = (home / "in/out/report.md").read_text()
    assert not re.search(r"(?<!\\)<script", markdown.partition("```")[0])


# MLflow projects


@pytest.mark.parametrize("entry_point", ["main", "train", "tune", "compare", "evaluate", "predict"])
@pytest.mark.parametrize(
    "value",
    ["x; touch pwned", "$(touch pwned)", "`touch pwned`", "'; touch pwned; '", "\ntouch pwned"],
)
def test_project_parameters_run_no_command(tmp_path, entry_point, value):
    from mlflow.projects.utils import load_project

    entry = load_project(str(Path(__file__).parents[2])).get_entry_point(entry_point)
    parameters = dict.fromkeys([*entry.parameters, value], value)
    if "data" in parameters:
        parameters["data"] = __file__
    program = tmp_path / "bin" / "rankplug"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\nprintf '%s\\0' \"$@\"\n")
    program.chmod(0o755)
    shell = subprocess.run(
        ["bash", "-c", entry.compute_command(parameters, None)],
        cwd=tmp_path,
        env={"PATH": f"{program.parent}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    arguments = shell.stdout.split("\0")
    assert arguments.count(value) == len(parameters) - ("data" in parameters)
    assert {file.name for file in tmp_path.iterdir()} == {"bin"}


# Served models


@pytest.fixture(scope="module")
def application(tmp_path_factory):
    """MLflow's scoring application with a limit of 1000 bytes."""
    from mlflow.pyfunc import scoring_server

    import rankplug.mlflow

    folder = tmp_path_factory.mktemp("served") / "model"
    rankplug.mlflow.save_model(LINEAR, folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RANKPLUG_MAX_REQUEST_MB", "0.001")
        patch.setenv(scoring_server._SERVER_MODEL_PATH, str(folder))
        patch.setattr(scoring_server, "invocations", scoring_server.invocations)
        patch.delitem(sys.modules, "mlflow.pyfunc.scoring_server.app", raising=False)
        application = importlib.import_module("mlflow.pyfunc.scoring_server.app").app
        patch.delitem(sys.modules, "mlflow.pyfunc.scoring_server.app")
        yield application


def answer(application, *chunks, length=None):
    """Status and text for a request whose body comes in pieces."""
    messages = [{"type": "http.request", "body": chunk, "more_body": True} for chunk in chunks]
    messages[-1]["more_body"] = False
    sent = []

    async def receive():
        return messages.pop(0) if messages else {"type": "http.disconnect"}

    async def send(message):
        sent.append(message)

    headers = [(b"content-type", b"application/json")]
    if length is not None:
        headers.append((b"content-length", length))
    scope = {"type": "http", "method": "POST", "path": "/invocations", "headers": headers}
    scope |= {"query_string": b"", "http_version": "1.1", "scheme": "http"}
    scope |= {"server": ("127.0.0.1", 1), "client": ("127.0.0.1", 2), "root_path": ""}
    asyncio.run(application(scope, receive, send))
    return sent[0]["status"], b"".join(part.get("body", b"") for part in sent).decode(), messages


def test_requests_that_are_too_long(application):
    rows = json.dumps({"dataframe_records": [{"a": 1.0, "b": 2.0}]}).encode()
    assert answer(application, rows)[:2] == (200, '{"predictions": [-3.0]}')
    assert answer(application, rows[:9], rows[9:])[:2] == (200, '{"predictions": [-3.0]}')
    status, text, left = answer(application, *[rows + b" " * 300] * 99)
    # Eight times the limit is thrown away, so that a client that goes on sending sees the answer.
    assert (status, len(left)) == (413, 96 - 24)
    assert "longer than 1,000 bytes: send fewer rows" in text
    status, _, left = answer(application, rows, length=b"1001")
    assert (status, len(left)) == (413, 0)
    assert answer(application, rows, length=b"-1")[0] == 200
    assert answer(application, b"[" * 900)[0] == 400


def test_the_server_listens_to_this_machine_only(monkeypatch, saved):
    from rankplug.cli import _parser

    assert _parser().parse_args(["serve", "x"]).host == "127.0.0.1"


@pytest.mark.parametrize("value", ["", "many", "0", "-1", "nan", "inf"])
def test_limits_that_are_none(monkeypatch, value):
    from rankplug.mlflow.serving import largest_request

    monkeypatch.setenv("RANKPLUG_MAX_REQUEST_MB", value)
    with pytest.raises(ParameterError, match="must be a number of megabytes above 0"):
        largest_request()


# Trees, which XGBoost, LightGBM and scikit-learn read


@pytest.fixture(scope="module")
def tree_files():
    """The trees of both libraries in their formats."""
    import lightgbm
    import xgboost

    rng = np.random.default_rng(0)
    features, y = rng.normal(size=(80, 3)), rng.integers(0, 3, 80)
    features[:, 2] = rng.integers(0, 9, 80)
    kinds = {"feature_types": ["q", "q", "c"], "enable_categorical": True}
    matrix = xgboost.DMatrix(features, y, **kinds)
    booster = xgboost.train({"max_depth": 3, "base_score": 0.0, "nthread": 1}, matrix, 2)
    params = {"verbose": -1, "num_threads": 1, "min_data_in_leaf": 1, "num_leaves": 5}
    trees = lightgbm.train(params, lightgbm.Dataset(features, y), 2)
    return booster, trees.model_to_string()


def test_trees_are_read(tree_files):
    booster, text = tree_files
    check_xgboost_json(booster.save_raw("json").decode())
    check_xgboost_json(ubjson_to_json(bytes(booster.save_raw("ubj"))))
    check_lightgbm_text(text)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("left_children", lambda array: array + 1000),
        ("left_children", lambda array: np.where(array > 0, 0, array)),  # back to the root
        ("right_children", lambda array: np.where(array > 0, 1, array)),  # two parents
        ("right_children", lambda array: -array),
        ("right_children", lambda array: array[:-1]),
        ("parents", lambda array: array * 0),
        ("split_indices", lambda array: array + 3),
        ("split_indices", lambda array: array - 2**30),
        ("split_type", lambda array: array + 1),
        ("split_type", lambda array: array * 0),  # its categories belong to nothing
        ("split_conditions", lambda array: array[:1]),
        ("default_left", lambda array: array[:0]),
        ("categories", lambda array: array - 1000),
        ("categories_nodes", lambda array: array + 1),
        ("categories_segments", lambda array: array + 10**6),
        ("categories_segments", lambda array: array - 1),
        ("categories_sizes", lambda array: array + 2**40),
        ("base_weights", None),
        ("num_nodes", "1"),
        ("num_nodes", "4000000000"),
        ("num_nodes", "-1"),
        ("num_trees", "3"),
        ("num_feature", "2"),
        ("num_feature", "99999999999"),
        ("num_class", "7"),
        ("base_score", "[]"),
        ("base_score", "[1,2]"),
        ("base_score", "nan"),
        ("tree_info", [0, 5]),
        ("iteration_indptr", [0, 9, 2]),
        ("iteration_indptr", []),
        ("trees", [1, 2]),
        ("name", "gblinear"),
        ("feature_types", ["q"]),
        ("id", 1),
        ("id", 0),
        ("left_children", lambda array: array.astype(float)),
        ("split_conditions", lambda array: array.astype(int)),
        ("default_left", lambda array: array.astype(bool)),
        ("num_nodes", "\u0661"),
    ],
)
def test_forged_trees_of_xgboost(tree_files, name, change):
    """Each of them would be memory of others that XGBoost reads."""

    def forge(value):
        if isinstance(value, dict):
            return {
                key: forged_part(part) if key == name else forge(part)
                for key, part in value.items()
            }
        return [forge(part) for part in value] if isinstance(value, list) else value

    def forged_part(part):
        return change(np.asarray(part)).tolist() if callable(change) else change

    content = json.loads(tree_files[0].save_raw("json"))
    forged = json.dumps(forge(content), ensure_ascii=False)
    assert forged != json.dumps(content)
    with pytest.raises(ValueError, match=r"cannot be right|it lacks"):
        check_xgboost_json(forged)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('{"learner"', ' {"learner"', "beginning"),
        ('{"learner"', '{ "learner"', "beginning"),
        ('"learner"', '"le\\u0061rner"', "escaped"),
        ('{"learner"', '{"learner":1,"learner"', "twice"),
        ('{"learner"', '{"x":' + "[" * 100 + "]" * 100 + ',"learner"', "depth"),
        ('{"learner"', '{"x":' + '{"x":' * 100 + "1" + "}" * 100 + ',"learner"', "depth"),
        ('{"learner"', '{"x":' + "[" * 10**6, "nested too deeply"),
        ('"id":', '"id":NaN,"ID":', "NaN"),
        ('{"learner"', "binf\x10\0\0\0", "Expecting value"),
    ],
    ids=lambda text: text[:40],
)
def test_json_that_xgboost_would_read_otherwise(tree_files, old, new, words):
    text = tree_files[0].save_raw("json").decode()
    assert old in text
    with pytest.raises(ValueError, match=words):
        check_xgboost_json(text.replace(old, new, 1))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"{}x",
        b"[" * 1000,
        b"[$d#L" + struct.pack(">q", 2**60),
        b"[$d#L" + struct.pack(">q", -1),
        b"[#L" + struct.pack(">q", 2**60),
        b"[$Z#L" + struct.pack(">q", 2**60),
        b"SL" + struct.pack(">q", 2**62) + b"x",
        b"SL" + struct.pack(">q", 1) + b"\xff",
        b"{" + 2 * (b"L" + struct.pack(">q", 1) + b"aT") + b"}",
        b"i",
        b"Q",
    ],
)
def test_binary_json_is_read_strictly(content):
    with pytest.raises(ValueError, match=r"cut off|behind|nested|type|missing|twice|codec"):
        ubjson_to_json(content)


@pytest.mark.parametrize(
    ("pattern", "replacement"),
    [
        (r"left_child=\S+", "left_child=1000"),
        (r"left_child=\S+", "left_child=0"),
        (r"right_child=\S+", "right_child=-2147483648"),
        (r"right_child=\S+", "right_child=1e3"),
        (r"split_feature=\d+", "split_feature=3"),
        (r"split_feature=\d+", "split_feature=-1"),
        (r"decision_type=\d+", "decision_type=1"),
        (r"decision_type=\d+", "decision_type=x"),
        (r"leaf_value=\S+ ", "leaf_value="),
        (r"leaf_value=\S+", "leaf_value=0x10"),
        (r"num_leaves=5", "num_leaves=6"),
        (r"num_leaves=5", "num_leaves=9999999999"),
        (r"num_leaves=5", "num_leaves=0"),
        (r"num_cat=0", "num_cat=1"),
        (r"is_linear=0", "is_linear=1"),
        (r"shrinkage=.*", "shrinkage="),
        (r"tree_sizes=\d+", "tree_sizes=1"),
        (r"tree_sizes=.*", "tree_sizes="),
        (r"max_feature_idx=2", "max_feature_idx=2000000000"),
        (r"max_feature_idx=2", "max_feature_idx=-1"),
        (r"num_class=1", "num_class=9"),
        (r"feature_infos=\S+ ", "feature_infos="),
        (r"feature_names=.*\n", ""),
        (r"end of trees", ""),
        (r"end of parameters", ""),
        (r"Tree=1", "Tree=7"),
        (r"\[boosting: .*\]", "[boosting: \0]"),
        (r"^tree", "three"),
    ],
)
def test_forged_trees_of_lightgbm(tree_files, pattern, replacement):
    forged = re.sub(pattern, replacement.replace("\\", r"\\"), tree_files[1], count=1)
    assert forged != tree_files[1]
    difference = len(forged) - len(tree_files[1])
    if "tree_sizes" not in pattern:  # what an attacker would do
        forged = re.sub(
            r"(?<=tree_sizes=)\d+", lambda size: str(int(size[0]) + difference), forged, count=1
        )
    with pytest.raises(ValueError, match=r"cannot be right|it lacks"):
        check_lightgbm_text(forged)


def forest():
    return RandomForestRegressor(3, max_depth=3, random_state=0).fit(*REGRESSION)


def histograms():
    return HistGradientBoostingRegressor(max_iter=3, min_samples_leaf=2).fit(*REGRESSION)


def forged_tree(regressor, **state):
    """Change what a compiled tree of the forest holds."""
    tree = regressor.estimators_[1].tree_
    nodes = tree.__getstate__()["nodes"].copy()
    for name, value in state.items():
        if name in nodes.dtype.names:
            nodes[name][0] = value
    forged = Tree(2, np.array([1]), 1)
    forged.__setstate__(
        tree.__getstate__()
        | {"nodes": nodes}
        | {name: value for name, value in state.items() if name not in nodes.dtype.names}
    )
    regressor.estimators_[1].tree_ = forged
    return regressor


def forged_predictor(regressor, name, value):
    """Change the root of a tree of the histogram's."""
    regressor._predictors[1][0].nodes[name][0] = value
    return regressor


REGRESSION = np.random.default_rng(0).normal(size=(60, 2)), np.random.default_rng(1).normal(size=60)
REGRESSORS = {
    "child that does not exist": lambda: forged_tree(forest(), left_child=10**6),
    "child before the root": lambda: forged_tree(forest(), right_child=-5),
    "a way back": lambda: forged_tree(forest(), right_child=0),
    "two parents": lambda: forged_tree(forest(), right_child=1),
    "feature that does not exist": lambda: forged_tree(forest(), feature=2),
    "feature before the first": lambda: forged_tree(forest(), feature=-9),
    "child of a predictor": lambda: forged_predictor(histograms(), "left", 10**6),
    "back in a predictor": lambda: forged_predictor(histograms(), "right", 0),
    "feature of a predictor": lambda: forged_predictor(histograms(), "feature_idx", 7),
    "categories of a predictor": lambda: forged_predictor(histograms(), "is_categorical", 1),
    "no regressor": lambda: LogisticRegression().fit(REGRESSION[0], REGRESSION[1] > 0),
    "not fitted": Ridge,
    "no estimator": lambda: {"n_features_in_": 2},
    "no number of features": lambda: Ridge().set_params(alpha=1.0),
}


@pytest.mark.parametrize("make", [forest, histograms])
def test_regressors_are_read(tmp_path, make):
    model = RegressorModel(make())
    model.save(tmp_path / "model")
    scores = load_model(tmp_path / "model").predict(REGRESSION[0])
    np.testing.assert_array_equal(scores, model.predict(REGRESSION[0]))


@pytest.mark.parametrize("attack", REGRESSORS)
def test_forged_regressors(tmp_path, attack):
    import skops.io

    RegressorModel(forest()).save(tmp_path / "model")
    skops.io.dump(REGRESSORS[attack](), tmp_path / "model" / "regressor.skops")
    header = json.loads((tmp_path / "model" / "model.json").read_text())
    content = (tmp_path / "model" / "regressor.skops").read_bytes()
    header["files"] = {"regressor.skops": sha256(content).hexdigest()}
    write_header(tmp_path / "model", header)
    with pytest.raises(ModelFormatError, match="cannot be read"):
        load_model(tmp_path / "model")


def test_compressed_regressors_are_not_expanded(tmp_path):
    import skops.io

    file = tmp_path / "model" / "regressor.skops"
    RegressorModel(forest()).save(tmp_path / "model")
    skops.io.dump(forest(), file)
    pack(file, [*members(file).items(), ("bomb", bytes(10**6))], zipfile.ZIP_DEFLATED)
    header = json.loads((tmp_path / "model" / "model.json").read_text())
    header["files"] = {file.name: sha256(file.read_bytes()).hexdigest()}
    write_header(tmp_path / "model", header)
    with pytest.raises(ModelFormatError, match="is compressed"):
        load_model(tmp_path / "model")


@pytest.mark.parametrize(
    "solver", ["tree-tron", "single-feature", "xgboost-pairwise", "lightgbm-all-pairs", "sopopo"]
)
def test_a_feature_that_is_far_away(tmp_path, solver):
    """One wrong index is no reason to allocate terabytes."""
    (tmp_path / "data.txt").write_text(f"1 qid:1 1:1\n0 qid:1 {2**40}:1\n")
    with pytest.raises(DataError, match=f"feature {2**40} is too large: renumber"):
        rankplug.read_data(tmp_path / "data.txt")
    X = sparse.csr_array(([1.0, 1.0], ([0, 1], [0, 2**40 - 1])), shape=(2, 2**40))
    data = rankplug.RankingData.from_arrays(X, [1, 0])
    assert data.n_features == 2**40
    with pytest.raises(DataError, match=r"1,099,511,627,776 features: .*memory does not hold"):
        rankplug.make_solver(solver).solve(data)


# What fuzzing has found in readers


def test_indices_of_more_than_62_bits(tmp_path):
    """The parser of blocks took what the parser of lines refuses."""
    file = tmp_path / "data.txt"
    file.write_text("1 4611686018427387904:1\n0 9223372036852387904:1\n")
    with pytest.raises(DataError, match="line 2: feature index 9223372036852387904 is too large"):
        rankplug.read_data(file)


def test_query_ids_with_blanks_of_other_scripts(tmp_path):
    """They are no blanks where the text is read, so they may be written."""
    file = tmp_path / "data.txt"
    file.write_text("1 qid:a\u00a0b 1:1\n0 qid:a\u2003b 1:2\n", encoding="utf-8")
    data = rankplug.read_data(file)
    assert data.query_ids.tolist() == ["a\u00a0b", "a\u2003b"]
    rankplug.io.write_data(data, tmp_path / "again.txt")
    assert rankplug.read_data(tmp_path / "again.txt").query_ids.tolist() == data.query_ids.tolist()
