"""Model files of other systems become models, and hostile ones are refused."""

import json
import os
import re

import numpy as np
import pytest

import rankplug
from rankplug import cli
from rankplug.exceptions import DataError, ModelFormatError, ParameterError
from rankplug.exchange import export, import_model, list_formats
from rankplug.kernels import Kernel
from rankplug.models import KernelModel, LinearModel, ScaledModel
from tests.exchange.evaluators import EVALUATORS
from tests.exchange.test_export import (
    COEF,
    DUAL,
    HOLES,
    NAMES,
    SHIFTED,
    SUPPORT,
    make_rows,
    make_trees,
    model_of,
)

X = make_rows(seed=1)
READ = ["liblinear", "svmrank", "xgboost", "lightgbm"]


def test_what_is_read():
    assert {one.name for one in list_formats() if one.reads} == set(READ)
    with pytest.raises(ParameterError, match="written only; liblinear"):
        import_model("x", "sql")
    with pytest.raises(FileNotFoundError):
        import_model("missing", "liblinear")


def test_sizes_and_names_that_do_not_fit_are_refused(tmp_path):
    file = tmp_path / "model"
    file.write_text(LIBLINEAR)
    with pytest.raises(DataError, match="2 names for 3 features"):
        import_model(file, "liblinear", feature_names=["a", "b"])
    os.truncate(file, (2 << 30) + 1)
    with pytest.raises(ModelFormatError, match="files of more than 2 GB are not read"):
        import_model(file, "liblinear")


@pytest.mark.parametrize(("labels", "sign"), [("3 5", -1.0), ("5 3", 1.0)])
def test_the_larger_label_is_best(labels, sign, read):
    text = LIBLINEAR.replace("L2LOSS_SVR", "L2LOSS_SVC").replace(
        "nr_feat", f"label {labels}\nnr_feat"
    )
    model, notes = read(text, "liblinear")
    assert (sign * model.coef).tolist() == [1.0, 2.5e-3, -1.0]
    assert bool(notes) == (sign < 0)


ROUND = {
    "liblinear": LinearModel(COEF),
    "liblinear with a bias": ScaledModel(LinearModel(COEF + 1), SHIFTED),
    "svmrank": LinearModel(COEF),
    "svmrank rbf": KernelModel(Kernel("rbf", 0.25), SUPPORT, DUAL),
    "svmrank poly": KernelModel(Kernel("poly", 0.001, 2, 0.5), SUPPORT, DUAL),
    "xgboost": make_trees(),
    "lightgbm": make_trees(),
}


@pytest.mark.parametrize("case", ROUND)
def test_round_trips(case, tmp_path):
    model, name = ROUND[case], case.split()[0]
    pytest.importorskip("lightgbm") if name == "lightgbm" else None
    export(model, tmp_path / "file", name)
    found, notes = import_model(tmp_path / "file", name, feature_names=NAMES)
    found.save(tmp_path / "saved")
    loaded = rankplug.load_model(tmp_path / "saved")
    assert loaded.feature_names == NAMES
    expected, scores = model.predict(X), loaded.predict(X)
    if "bias" in case:
        assert re.search(r"the bias adds -?\d+\.?\d* to all scores", notes[0])
        scores = scores + np.median(expected - scores)
    scale = np.abs(expected).max()
    assert np.abs(scores - expected).max() <= (1e-6 if name == "xgboost" else 1e-9) * scale


def test_a_file_of_liblinear(tmp_path):
    """Its own library: what it trains is read, what is written it predicts with."""
    linear = pytest.importorskip("liblinear.liblinearutil")
    y = np.where(X[:, 1] >= X[0, 1], 3, 5)  # scores are those of the first label that it meets
    rows = [dict(enumerate(row.tolist(), start=1)) for row in X]
    for options, sign in (("-s 2 -B 1 -q", -1.0), ("-s 11 -q", 1.0)):
        trained = linear.train(y.tolist(), rows, options)
        linear.save_model(str(tmp_path / "model"), trained)
        model, notes = import_model(tmp_path / "model", "liblinear")
        _, _, decisions = linear.predict([0] * len(X), rows, trained, "-q")
        scores, decisions = model.predict(X), sign * np.ravel(decisions)
        assert np.allclose(scores - scores[0], decisions - decisions[0])
        assert ("turned, so that 5 is best" in notes[0]) if sign < 0 else not notes
    written = ScaledModel(LinearModel(COEF + 1), SHIFTED)
    export(written, tmp_path / "written", "liblinear")
    loaded = linear.load_model(str(tmp_path / "written"))
    scores, _, _ = linear.predict([0] * len(X), rows, loaded, "-q")
    assert np.allclose(scores, written.predict(X), rtol=1e-12)


@pytest.mark.parametrize("suffix", ["json", "ubj"])
def test_a_file_of_xgboost(suffix, tmp_path, capsys):
    """By the command; names, ties with thresholds, zeros and holes are those of the library."""
    xgboost = pytest.importorskip("xgboost")
    matrix = xgboost.DMatrix(HOLES, label=np.nan_to_num(HOLES[:, 1]), feature_names=[*NAMES])
    params = {"max_depth": 3, "nthread": 1, "objective": "reg:squarederror"}
    booster = xgboost.train(params, matrix, 4)
    booster.set_attr(best_iteration="2")
    file = tmp_path / f"model.{suffix}"
    booster.save_model(file)
    out = str(tmp_path / "model")
    assert cli.main(["import", str(file), "--from", "xgboost", "-o", out]) == 0
    said = capsys.readouterr().out
    assert "a model of kind xgboost of 4 features" in said
    assert "note: all 4 rounds count, also those after the best iteration, 2" in said
    model = rankplug.load_model(out)
    assert model.feature_names == NAMES
    assert np.array_equal(model.predict(HOLES), booster.predict(matrix))
    assert cli.main(["export", out, "-o", str(tmp_path / "x.py"), "--to", "python"]) == 0
    space = {}
    exec((tmp_path / "x.py").read_text(), space)
    assert np.allclose([space["score"](row) for row in HOLES], model.predict(HOLES), rtol=1e-5)


def test_objectives_that_transform_scores_are_said(tmp_path):
    xgboost = pytest.importorskip("xgboost")
    params = {"objective": "binary:logistic", "max_depth": 2, "nthread": 1}
    booster = xgboost.train(params, xgboost.DMatrix(X, X[:, 1] > 0), 2)
    booster.save_model(tmp_path / "model.json")
    model, _ = import_model(tmp_path / "model.json", "xgboost", feature_names=NAMES)
    notes = export(model, tmp_path / "model.py", "python")
    assert any("before the transformation that the objective binary:logistic" in n for n in notes)
    text = (tmp_path / "model.py").read_text(encoding="utf-8")
    margins = booster.predict(xgboost.DMatrix(X), output_margin=True)
    np.testing.assert_allclose(EVALUATORS["python"](text, X, NAMES), margins, atol=1e-5)


def test_a_tree_of_lightgbm_may_be_a_single_leaf(tmp_path):
    lightgbm = pytest.importorskip("lightgbm")
    data = lightgbm.Dataset(X, X[:, 1] + 3.0, free_raw_data=False)
    params = {"min_data_in_leaf": 10_000, "verbose": -1, "num_threads": 1}
    booster = lightgbm.train(params, data, 1)
    booster.save_model(tmp_path / "model.txt")
    model, _ = import_model(tmp_path / "model.txt", "lightgbm")
    assert model.feature_names is None  # LightGBM's own names, Column_0 and so on, are none
    export(model, tmp_path / "model.py", "python")
    text = (tmp_path / "model.py").read_text(encoding="utf-8")
    found = EVALUATORS["python"](text, X, ["x0", "x1", "x2", "x3"])
    np.testing.assert_allclose(found, booster.predict(X))
    export(model, tmp_path / "again.txt", "lightgbm")
    again = lightgbm.Booster(model_file=str(tmp_path / "again.txt"))
    np.testing.assert_array_equal(again.predict(X), booster.predict(X))


def test_a_file_of_lightgbm(tmp_path):
    lightgbm = pytest.importorskip("lightgbm")
    data = lightgbm.Dataset(HOLES, np.nan_to_num(HOLES[:, 1]), feature_name=["a", "b", "c", "d"])
    params = {"min_data_in_leaf": 2, "verbose": -1, "num_threads": 1, "objective": "regression"}
    booster = lightgbm.train(params, data, 3)
    booster.save_model(tmp_path / "model")
    model, notes = import_model(tmp_path / "model", "lightgbm")
    assert model.feature_names == ("a", "b", "c", "d")
    assert not notes
    assert np.array_equal(model.predict(HOLES), booster.predict(HOLES))


def test_the_commands(tmp_path, capsys):
    model = model_of("scaled")
    model.save(tmp_path / "saved")
    out = tmp_path / "model.txt"
    assert cli.main(["export", str(tmp_path / "saved"), "-o", str(out), "--to", "liblinear"]) == 0
    said = capsys.readouterr().out
    assert f"liblinear: {out}" in said
    assert "note: features are numbers, in their order: 1 is 'a b'" in said
    (tmp_path / "names").write_text("\n".join(NAMES), encoding="utf-8")
    arguments = ["import", str(out), "--from", "liblinear", "--names", str(tmp_path / "names")]
    assert cli.main([*arguments, "-o", str(tmp_path / "again")]) == 0
    assert rankplug.load_model(tmp_path / "again").feature_names == NAMES
    (tmp_path / "names").write_bytes(b"gr\xf6\xdfe\n")
    assert cli.main([*arguments, "-o", str(tmp_path / "no")]) == 2
    assert f"{tmp_path / 'names'} is no text in UTF-8" in capsys.readouterr().err
    (tmp_path / "names").write_text("\n".join(NAMES), encoding="utf-8")
    out.write_text("solver_type MCSVM_CS\n")
    assert cli.main([*arguments, "-o", str(tmp_path / "no")]) == 2
    assert f"error: {out}: no model of LIBLINEAR" in capsys.readouterr().err
    assert not (tmp_path / "no").exists()
    with pytest.raises(SystemExit):
        cli.main(["export", "--help"])
    said = capsys.readouterr().out
    assert {one.name for one in list_formats()} <= set(re.findall(r"[a-z]+(?:-[a-z]+)*", said))


LIBLINEAR = "solver_type L2R_L2LOSS_SVR\nnr_class 2\nnr_feature 3\nbias -1\nw\n1\n2.5e-3\n-1 \n"
SVMRANK = """\
SVM-light Version V6.20
0 # kernel type
3 # kernel parameter -d
1 # kernel parameter -g
1 # kernel parameter -s
1 # kernel parameter -r
empty# kernel parameter -u
4 # highest feature index
12 # number of training documents
3 # number of support vectors plus 1
0.5 # threshold b, each following line is a SV (starting with alpha*y)
1 1:-0.5 3:2 #
-2 2:0.25 #
"""


@pytest.fixture
def read(tmp_path):
    def read(content, name):
        file = tmp_path / "hostile"
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
        return import_model(file, name)

    return read


def test_a_file_of_svmrank(read):
    model, notes = read(SVMRANK.replace("\n", "\r\n"), "svmrank")
    assert model.coef.tolist() == [-0.5, -0.5, 2.0, 0.0]
    assert "the threshold takes 0.5 off" in notes[0]


HOSTILE = {
    "empty": ("liblinear", "", "no line 'w'"),
    "bytes": ("liblinear", b"\xff\xfe\x00", "no text"),
    "more features": ("liblinear", LIBLINEAR.replace("nr_feature 3", "nr_feature 4"), "3 weights"),
    "many": ("liblinear", LIBLINEAR.replace("nr_feature 3", "nr_feature 2147483647"), "3 weights"),
    "negative": ("liblinear", LIBLINEAR.replace("nr_feature 3", "nr_feature -3"), "nr_feature"),
    "nan": ("liblinear", LIBLINEAR.replace("2.5e-3", "nan"), "'nan' is no number"),
    "huge": ("liblinear", LIBLINEAR.replace("2.5e-3", "1e999"), "too large"),
    "classes": ("liblinear", LIBLINEAR.replace("nr_class 2", "nr_class 7"), "7 classes"),
    "twice": ("liblinear", LIBLINEAR.replace("bias -1", "bias -1\nbias -1"), "its lines are"),
    "unknown": ("liblinear", LIBLINEAR.replace("bias -1", "bias -1\nrho 3"), "its lines are"),
    "labels": ("liblinear", LIBLINEAR.replace("L2LOSS_SVR", "L2LOSS_SVC"), "two labels"),
    "digits": ("liblinear", LIBLINEAR.replace("2.5e-3", "\u0663"), "is no number"),
    "cut off": ("svmrank", SVMRANK[:200], "ends before"),
    "index": ("svmrank", SVMRANK.replace("3:2", "5:2"), "do not ascend"),
    "order": ("svmrank", SVMRANK.replace("3:2", "1:2"), "do not ascend"),
    "features": ("svmrank", SVMRANK.replace("4 # high", "4000000000 # high"), "4000000000 f"),
    "vectors": ("svmrank", SVMRANK.replace("3 # number", "9 # number"), "2 support vectors"),
    "kernel": ("svmrank", SVMRANK.replace("0 # kernel", "4 # kernel"), "type 4"),
    "degree": ("svmrank", SVMRANK.replace("0 # kernel", "1 # kernel").replace("3 # kernel", "-3 # "
               "kernel"), "degree -3"),
    "overflow": ("svmrank", SVMRANK.replace("3:2", "3:1e300").replace("\n1 1", "\n1e300 1"),
                 "a weight is too large"),
    "words": ("svmrank", SVMRANK.replace("3:2", "qid:2"), "support vector 1 is"),
    "alone": ("svmrank", "\n".join(SVMRANK.splitlines()[:11]).replace("0 # kernel", "2 # kernel")
              .replace("3 # number", "1 # number"), "no model of SVMrank"),
    "no trees": ("xgboost", "{}", "cannot|lacks|beginning"),
    "no json": ("xgboost", "not a model", "no model of xgboost"),
    "nothing": ("lightgbm", "tree\n", "no model of lightgbm"),
}  # fmt: skip


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_files_are_refused(case, read):
    name, content, message = HOSTILE[case]
    pytest.importorskip("lightgbm") if name == "lightgbm" else None
    with pytest.raises(ModelFormatError, match=message):
        read(content, name)


def test_children_that_xgboost_would_look_for_elsewhere(read, tmp_path):
    export(make_trees(), tmp_path / "model", "xgboost")
    content = json.loads((tmp_path / "model").read_text())
    tree = content["learner"]["gradient_booster"]["model"]["trees"][0]
    tree["left_children"][0], tree["right_children"][0] = 2, 1
    with pytest.raises(ModelFormatError, match="children cannot be right"):
        read(json.dumps(content, separators=(",", ":")), "xgboost")


@pytest.mark.parametrize("name", READ)
def test_random_changes(name, read, tmp_path):
    """Refused, or a model that scores or refuses; nothing else, and no crash."""
    if name in ("xgboost", "lightgbm"):
        pytest.importorskip(name)
        export(make_trees(), tmp_path / "model", name)
        content = (tmp_path / "model").read_bytes()
    else:
        content = (LIBLINEAR if name == "liblinear" else SVMRANK).encode()
    rng = np.random.default_rng(0)
    tokens = [b"-1", b"99999999999", b"nan", b"1e999", b"", b"\0", b"[", b":", b"\n", b" ", b"{"]
    outcomes = []
    for _ in range(60):
        changed = content
        for _ in range(rng.integers(1, 4)):
            place, length = rng.integers(len(changed)), rng.integers(0, 4)
            token = tokens[rng.integers(len(tokens))]
            changed = changed[:place] + token + changed[place + length :]
        try:
            model, _ = read(changed, name)
            scores = model.predict(np.linspace(-1, 1, 2 * model.n_features).reshape(2, -1))
            assert np.isfinite(scores).all()
            outcomes.append("scored")
        except (ModelFormatError, DataError):
            outcomes.append("refused")
    assert {"refused"} <= set(outcomes)


def test_ranklib_data_are_svmlight_text(tmp_path):
    """Its files of data: comments behind rows, features from 1, missing ones left out."""
    text = "3 qid:1 1:1 2:0.5 # doc-a\n0 qid:1 2:-1e-3 #doc-b\n1 qid:2 1:2 3:7 # x y\n"
    (tmp_path / "train.txt").write_text(text)
    data = rankplug.read_data(tmp_path / "train.txt")
    dense = np.asarray(data.X.toarray() if hasattr(data.X, "toarray") else data.X)
    assert dense.tolist() == [[1, 0.5, 0], [0, -1e-3, 0], [2, 0, 7]]
    assert data.relevance.tolist() == [3, 0, 1]
