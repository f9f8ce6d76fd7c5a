"""Models that a stranger forged, digests made right: refused, or they predict and do no harm.

Each is loaded and predicts in a process of its own, as a fault of compiled code would end it.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import zipfile
from hashlib import sha256

import numpy as np
import pytest
import skops.io
from sklearn.ensemble import (
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
    RandomForestRegressor,
)
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures
from sklearn.svm import SVR

import rankplug
from tests.long import mutate_models

pytestmark = pytest.mark.long

rng = np.random.default_rng(0)
X, y = rng.normal(size=(60, 5)), rng.normal(size=60)

# Each folder in a fork, which has the libraries: what is said of it, or how the fork ended.
LOAD_AND_PREDICT = """
import os, resource, sys
import numpy as np
import lightgbm, skops.io, xgboost
import sklearn.ensemble, sklearn.linear_model, sklearn.pipeline, sklearn.svm
import rankplug
for folder in sys.argv[1:]:
    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
        try:
            scores = rankplug.load_model(folder).predict(np.ones((3, 5)))
        except rankplug.exceptions.ModelFormatError as error:
            print("refused:", error, flush=True)
        except BaseException as error:
            print("raw", repr(error), flush=True)
        else:
            print("scores", scores.shape, np.isfinite(scores).all(), flush=True)
        os._exit(0)
    code = os.waitpid(child, 0)[1]
    if code:
        print("ended by", code, flush=True)
"""


def sign(folder, **header):
    """Write the description with digests of the files, as an attacker would."""
    header = {"format": "rankplug-model", "schema_version": 1, "feature_names": None, **header}
    files = [file for file in sorted(folder.iterdir()) if file.name != "model.json"]
    header["files"] = {file.name: sha256(file.read_bytes()).hexdigest() for file in files}
    header.pop("sha256", None)
    header["sha256"] = sha256(json.dumps(header, sort_keys=True).encode()).hexdigest()
    (folder / "model.json").write_text(json.dumps(header))


def outcomes(*folders):
    """What is said of each folder when the model is loaded and predicts."""
    process = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", LOAD_AND_PREDICT, *map(str, folders)],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert process.returncode == 0, f"{process.returncode}: {process.stderr[-2000:]}"
    said = process.stdout.splitlines()
    assert len(said) == len(folders), process.stdout
    return said


def changed(regressor, **attributes):
    """A fitted regressor with other attributes."""
    regressor.fit(X, y)
    for name, value in attributes.items():
        setattr(regressor, name, value)
    return regressor


def many_trees_in_a_row():
    regressor = GradientBoostingRegressor(n_estimators=3).fit(X, y)
    trees = np.empty((1, 3000), dtype=object)
    trees[:] = regressor.estimators_[0, 0]
    return changed_after(regressor, estimators_=trees)


def changed_after(regressor, **attributes):
    regressor.__dict__.update(attributes)
    return regressor


def wide_polynomials():
    pipeline = make_pipeline(PolynomialFeatures(2), Ridge()).fit(X, y)
    pipeline[0]._n_out_full = 10**9
    return pipeline


# What a file of version 0.1 may hold, and what is said of it.
REGRESSORS = {
    "trees beside each other": (many_trees_in_a_row, "wrong shape"),
    "far support": (lambda: changed(SVR(), support_=np.zeros(5_000_000, np.int32)), "scores"),
    "no dual": (lambda: changed(SVR(), _dual_coef_=np.empty((1, 0))), "scores"),
    "no intercept": (lambda: changed(SVR(), _intercept_=np.empty(0)), "scores"),
    "few support vectors": (lambda: changed(SVR(), support_vectors_=X[:3]), "wrong shape"),
    "a kernel matrix": (lambda: changed(SVR(), kernel="precomputed"), "its kernel"),
    "wide polynomials": (wide_polynomials, "PolynomialFeatures is none of"),
    "many outputs": (
        lambda: changed(RandomForestRegressor(3), n_outputs_=10**10),
        "more than one number",
    ),
    "three weights a feature": (lambda: changed(Ridge(), coef_=np.ones((3, 5))), "wrong shape"),
    "no weights": (lambda: changed(Ridge(), coef_=None), "wrong shape"),
    "NaN": (lambda: changed(Ridge(), coef_=np.full(5, np.nan)), "NaN or infinity"),
    "text": (lambda: changed(Ridge(), intercept_="x"), "no number"),
    "a billion features": (lambda: changed(Ridge(), n_features_in_=10**12), "features"),
    "no trees": (lambda: changed(HistGradientBoostingRegressor(), _predictors=[[]]), "wrong shape"),
    "no baseline": (
        lambda: changed(HistGradientBoostingRegressor(), _baseline_prediction="x"),
        "no number",
    ),
}


def test_regressors_of_before(tmp_path):
    for attack, (make, _) in REGRESSORS.items():
        (tmp_path / attack).mkdir()
        skops.io.dump(make(), tmp_path / attack / "regressor.skops")
        sign(tmp_path / attack, kind="regressor", n_features=5, model={})
    said = outcomes(*(tmp_path / attack for attack in REGRESSORS))
    for (attack, (_, words)), one in zip(REGRESSORS.items(), said, strict=True):
        assert one == "scores (3,) True" or one.startswith("refused:"), f"{attack}: {one}"
        assert words in one, attack


def test_lists_within_lists_do_not_grow_beyond_the_file(tmp_path):
    """Each list names the one before a thousand times."""

    def node(loader, content, number):
        kind = {"__loader__": loader, "__class__": "list", "__module__": "builtins"}
        return {**kind, "content": content, "__id__": number}

    inner = node("JsonNode", "1", 1)
    for number in range(2, 8):
        again = {"__loader__": "CachedNode", "__id__": number - 1}
        inner = node("ListNode", [inner, *[again] * 999], number)
    array = {"__loader__": "NdArrayNode", "__class__": "ndarray", "__module__": "numpy"}
    array |= {"type": "json", "content": [inner] * 3, "shape": node("JsonNode", "[3000, 3000]", 9)}
    with zipfile.ZipFile(tmp_path / "regressor.skops", "w") as archive:
        archive.writestr("schema.json", json.dumps(array))
    sign(tmp_path, kind="regressor", n_features=5, model={})
    assert outcomes(tmp_path)[0].startswith("refused:")


@pytest.fixture(scope="module")
def solved():
    """Models that solvers of boosted trees find, by name."""
    documents = rankplug.RankingData.from_arrays(X, y > 0, np.repeat(np.arange(6), 10))
    labels = rankplug.LabelRankingData.from_arrays(X, rng.normal(size=(60, 3)))
    few = {"n_estimators": 2, "n_threads": 1}
    lightgbm = rankplug.make_solver("lightgbm-lambdarank", min_child_samples=2, **few)
    xgboost = rankplug.make_solver("xgboost-pairwise", **few)
    return {
        "lightgbm": lightgbm.solve(documents, random_state=0).model,
        "xgboost": xgboost.solve(labels, random_state=0).model,
    }


# What stands instead of a piece of LightGBM's text, and whether within each tree or once.
LIGHTGBM = {
    "parameters within trees": ("\nis_linear=0", "\n[num_threads: 100000]\nis_linear=0"),
    "other parameters": ("\nshrinkage=", "\n[min_gain_to_split: 0]\nshrinkage="),
    "no =": ("\nis_linear=0", "\nis_linear"),
    "an unknown key": ("\nis_linear=0", "\nis_linear=0\nnum_threads=100000"),
    "linear leaves": ("\nis_linear=0", "\nis_linear=0\nleaf_features=1 2"),
    "a blank line": ("\nleaf_value=", "\n\nleaf_value="),
    "an exponent": ("\nshrinkage=", "\nshrinkage=1e99999999999\nx="),
    "NaN": ("\nleaf_value=", "\nleaf_value=nan\nx="),
    "a large count": ("\nleaf_count=", "\nleaf_count=99999999999 "),
    "an unknown objective": (
        "\nobjective=lambdarank",
        "\nobjective=multiclass num_class:100000000",
    ),
    "a key of the head": ("\nfeature_infos=", "\naverage_output\nfeature_infos="),
}


def test_text_of_lightgbm(solved, tmp_path):
    """Its threads catch no error: each of the first ended the process."""
    for attack, (old, new) in LIGHTGBM.items():
        folder = tmp_path / attack
        solved["lightgbm"].save(folder)
        text = (folder / "model.txt").read_text()
        assert old in text, attack
        text = text.replace(old, new)
        trees = re.split(r"^(?=Tree=)", text.partition("end of trees")[0], flags=re.MULTILINE)[1:]
        sizes = " ".join(str(len(tree)) for tree in trees)
        (folder / "model.txt").write_text(
            re.sub(r"^tree_sizes=.*$", f"tree_sizes={sizes}", text, flags=re.MULTILINE)
        )
        sign(folder, kind="lightgbm", n_features=5, model={})
    said = outcomes(*(tmp_path / attack for attack in LIGHTGBM))
    for attack, one in zip(LIGHTGBM, said, strict=True):
        assert one.startswith("refused:"), f"{attack}: {one}"
        assert "cannot be right" in one or "it lacks" in one, f"not by rankplug, {attack}: {one}"


LABELS = ([[], 1, 2], [[1], [2], [3]], [], [{}, {}, {}], [None] * 3, "abc", [10**400])


def test_labels_of_xgboost(solved, tmp_path):
    folders = [tmp_path / str(number) for number in range(len(LABELS))]
    for folder, labels in zip(folders, LABELS, strict=True):
        solved["xgboost"].save(folder)
        sign(folder, kind="xgboost", n_features=5, model={"zeros": "missing", "labels": labels})
    for labels, one in zip(LABELS, outcomes(*folders), strict=True):
        assert one.startswith("refused:"), f"{labels}: {one}"


def test_random_forgeries_do_no_harm(capfd):
    """Models of every kind changed at random; by hand, a number and a seed can be given."""
    assert mutate_models.main(["--models", "240", "--seed", "1"]) == 0, capfd.readouterr().out
