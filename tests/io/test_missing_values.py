"""Missing values of features: the same scores from every way in, and clear words where not."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import feather, parquet
from scipy import sparse
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, StandardScaler

from rankplug import Ranker, cli, load_model, make_solver, prepare, read_data
from rankplug.data import LabelRankingData, RankingData, fit_scaling, fit_scaling_to_blocks
from rankplug.exceptions import DataError
from rankplug.io import verify_prepared, write_data
from rankplug.io.predictions import predict_file
from rankplug.models import ScaledModel

N = 60
NAMES = ["price", "rating", "clicks", "in_stock"]
TREES = {
    name: make_solver(name, n_estimators=5, n_threads=1)
    for name in ("xgboost-pairwise", "xgboost-all-pairs", "lightgbm-all-pairs")
}
TREES["pointwise"] = make_solver("pointwise", regressor="hist-gradient-boosting", n_estimators=5)
TREES["forest"] = make_solver("pointwise", regressor="random-forest", n_estimators=5)
TREES["constant"] = make_solver("constant")


def rows():
    """Features with holes, grades and query ids."""
    rng = np.random.default_rng(0)
    X = np.column_stack(
        [rng.normal(size=N), rng.integers(1, 6, N), rng.integers(0, 9, N), rng.random(N) < 0.5]
    ).astype(float)
    X[rng.random(X.shape) < 0.3] = np.nan
    y = np.clip(np.round(np.nan_to_num(X[:, 0]) + np.isnan(X[:, 1])), 0, 3)
    return X, y, np.repeat(np.arange(N // 10), 10)


X, Y, QID = rows()
FRAME = pd.DataFrame(X, columns=NAMES)


def nullable():
    return FRAME.astype(
        {"price": "Float64", "rating": "Int64", "clicks": "Int32", "in_stock": "boolean"}
    )


def with_none():
    return pl.DataFrame(FRAME.to_dict("list"), strict=False).with_columns(pl.all().fill_nan(None))


TABLES = {
    "pandas": FRAME,
    "nullable": nullable(),
    "objects": FRAME.astype(object).where(FRAME.notna(), None),
    "NA": FRAME.astype(object).where(FRAME.notna(), pd.NA),
    "Arrow types": FRAME.convert_dtypes(dtype_backend="pyarrow"),
    "polars": with_none(),
    "arrow": with_none().to_arrow(),
    "dense": X,
    "list": X.tolist(),
    "float32 frame": FRAME.astype("float32").astype("float64"),
}


@pytest.mark.parametrize("kind", TABLES)
def test_every_table_says_what_is_missing_alike(kind):
    given = TABLES[kind]
    data = RankingData.from_arrays(given, Y, QID)
    assert data.has_missing
    np.testing.assert_allclose(data.X, X, rtol=1e-6)
    expected = np.isnan(X).sum(axis=0)
    np.testing.assert_array_equal(data.count_missing(), expected)
    labels = LabelRankingData.from_arrays(given, np.column_stack([Y, -Y]))
    np.testing.assert_array_equal(labels.count_missing(), expected)
    ranker = Ranker(TREES["xgboost-pairwise"], random_state=0).fit(given, Y, qid=QID)
    scores = ranker.predict(given)
    if kind != "float32 frame":
        direct = Ranker(TREES["xgboost-pairwise"], random_state=0).fit(X, Y, qid=QID)
        np.testing.assert_array_equal(scores, direct.predict(X))
    assert np.isfinite(ranker.score(given, Y, qid=QID))


@pytest.mark.parametrize("name", TREES)
def test_estimators_take_what_is_missing_and_saved_models_do(tmp_path, name):
    ranker = Ranker(TREES[name], random_state=0).fit(FRAME, Y, qid=QID)
    assert ranker.__sklearn_tags__().input_tags.allow_nan
    scores = ranker.predict(FRAME)
    assert np.isfinite(scores).all()
    if name != "constant":
        assert len(np.unique(scores)) > 3
    ranker.model_.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    for table in (FRAME, nullable(), with_none(), with_none().to_arrow()):
        np.testing.assert_array_equal(loaded.predict(table), scores)
    empty = pd.DataFrame({name: [None] for name in NAMES})
    assert np.isfinite(loaded.predict(empty)).all()
    with pytest.raises(DataError, match=r"infinity \(inf\) at row 0, column 0 \(price\)"):
        loaded.predict(FRAME.assign(price=np.inf))


@pytest.mark.parametrize("regressor", ["random-forest", "hist-gradient-boosting"])
def test_trees_of_scikit_learn_send_what_is_missing_where_scikit_learn_does(regressor):
    solver = make_solver("pointwise", regressor=regressor, n_estimators=7, min_samples_leaf=2)
    data = RankingData.from_arrays(X, Y, QID)
    model = solver.solve(data, random_state=3).model
    fitted = solver._make_regressor(regressor).set_params(
        random_state=int(np.random.default_rng(3).integers(2**31 - 1))
    )
    fitted.fit(X, Y)
    np.testing.assert_allclose(model.predict(X), fitted.predict(X), rtol=0, atol=1e-12)


def test_solvers_that_take_none_say_which_columns_and_what_to_do(tmp_path):
    counts = np.isnan(X).sum(axis=0)
    told = ", ".join(f"{name} ({count})" for name, count in zip(NAMES, counts, strict=True))
    for solver in ("tree-tron", "toppush", "single-feature", "pointwise", "linear-then-boost"):
        with pytest.raises(DataError) as caught:
            Ranker(solver).fit(FRAME, Y, qid=QID)
        message = str(caught.value)
        assert f"{counts.sum()} missing values (NaN): {told}" in message
        assert "make_pipeline(SimpleImputer(), StandardScaler(), Ranker(...))" in message
    assert not Ranker().__sklearn_tags__().input_tags.allow_nan
    complete = Ranker().fit(FRAME.fillna(0), Y, qid=QID)
    with pytest.raises(DataError, match=r"X contains NaN at row \d+, column \d \(\w+\): fill in"):
        complete.predict(FRAME)


def test_validation_data_may_have_holes_where_training_data_may():
    early = make_solver("xgboost-pairwise", n_estimators=5, early_stopping_rounds=2, n_threads=1)
    Ranker(early).fit(FRAME, Y, qid=QID, eval_set=(FRAME, Y), eval_qid=QID)
    whole = FRAME.fillna(0)
    with pytest.raises(DataError, match=r"'validation_0' that are watched hold .* missing"):
        Ranker("tree-tron").fit(whole, Y, qid=QID, eval_set=(FRAME, Y), eval_qid=QID)
    linear = make_solver("linear-then-boost", n_estimators=5, early_stopping_rounds=2)
    with pytest.raises(DataError, match=r"validation data hold .* missing values"):
        Ranker(linear).fit(whole, Y, qid=QID, eval_set=(FRAME, Y), eval_qid=QID)


def test_sparse_features_may_hold_what_is_missing():
    matrix = sparse.csr_array(X)
    data = RankingData.from_arrays(matrix, Y, QID)
    np.testing.assert_array_equal(data.count_missing(), np.isnan(X).sum(axis=0))
    for name in ("xgboost-pairwise", "lightgbm-all-pairs", "pointwise", "constant"):
        scores = Ranker(TREES[name], random_state=0).fit(matrix, Y, qid=QID).predict(matrix)
        dense = Ranker(TREES[name], random_state=0).fit(X, Y, qid=QID).predict(X)
        np.testing.assert_array_equal(scores, dense)
    with pytest.raises(DataError, match=r"dense features only: pass X\.toarray"):
        Ranker(TREES["forest"]).fit(matrix, Y, qid=QID)


def test_zeros_and_what_is_missing_are_told_apart_where_asked():
    """What is missing ranks above zeros, which rank above ones."""
    values = np.tile([np.nan, 0.0, 1.0], 20)[:, None]
    y, qid = np.tile([2, 1, 0], 20), np.repeat(np.arange(20), 3)
    solver = make_solver("xgboost-pairwise", zeros="value", n_estimators=10, n_threads=1)
    scores = Ranker(solver).fit(values, y, qid=qid).predict(values[:3])
    assert scores[0] > scores[1] > scores[2]
    solver.set_params(zeros="missing")
    scores = Ranker(solver).fit(values, y, qid=qid).predict(values[:3])
    assert scores[0] == scores[1] > scores[2]


# ---- files ----


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The same rows in every format."""
    folder = tmp_path_factory.mktemp("files")
    table = FRAME.assign(label=Y, qid=QID)
    table.to_csv(folder / "rows.csv", index=False)
    table.to_csv(folder / "rows.tsv", index=False, sep="\t", na_rep="NA")
    table.to_csv(folder / "rows.csv.gz", index=False, na_rep="null")
    arrow = pa.Table.from_pandas(nullable().assign(label=Y, qid=QID), preserve_index=False)
    parquet.write_table(arrow, folder / "rows.parquet")
    feather.write_feather(arrow, folder / "rows.feather")
    lines = [
        f"{y:g} qid:{q} " + " ".join(f"{j}:{v!r}" for j, v in enumerate(x.tolist(), 1))
        for x, y, q in zip(X, Y, QID, strict=True)
    ]
    (folder / "rows.txt").write_text("\n".join(lines) + "\n")
    return folder


FILES = ["rows.csv", "rows.tsv", "rows.csv.gz", "rows.parquet", "rows.feather", "rows.txt"]


@pytest.mark.parametrize("name", FILES)
def test_files_are_read_prepared_and_predicted_with_holes(files, tmp_path, name):
    data = read_data(files / name)
    assert vars(data)["has_missing"]  # nobody looks at the features again
    np.testing.assert_array_equal(data.X, X)
    prepare(files / name, tmp_path / "folder", progress=False)
    verify_prepared(tmp_path / "folder", progress=False)
    folder = read_data(tmp_path / "folder")
    assert vars(folder)["has_missing"]
    np.testing.assert_array_equal(folder.X, X)
    result = TREES["xgboost-pairwise"].solve(data, random_state=0)
    scores = TREES["xgboost-pairwise"].solve(folder, random_state=0).model.predict(X)
    np.testing.assert_array_equal(scores, result.model.predict(X))
    predict_file(result.model, files / name, tmp_path / "out.csv", batch_rows=7, progress=False)
    np.testing.assert_array_equal(pd.read_csv(tmp_path / "out.csv")["score"], scores)
    with pytest.raises(DataError, match=r"tree-tron takes no missing values.*SimpleImputer"):
        make_solver("tree-tron").solve(folder)


@pytest.mark.parametrize("name", ["rows.csv", "rows.parquet", "rows.txt"])
@pytest.mark.parametrize("dense", [True, False])
def test_prepared_folders_scale_what_is_there(files, tmp_path, name, dense):
    prepare(files / name, tmp_path / "folder", scale="maxabs", dense=dense, progress=False)
    folder = read_data(tmp_path / "folder")
    expected = fit_scaling(X, "maxabs").apply(X)
    found = folder.X if dense else folder.X.toarray()
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(folder.count_missing(), np.isnan(X).sum(axis=0))
    assert np.isfinite(TREES["lightgbm-all-pairs"].solve(folder).model.predict(folder.X)).all()


def test_folders_without_holes_say_nothing_of_them(tmp_path):
    file = tmp_path / "rows.csv"
    FRAME.fillna(0).assign(label=Y, qid=QID).to_csv(file, index=False)
    folder = prepare(file, tmp_path / "folder", progress=False)
    assert '"missing"' not in (folder.path / "manifest.json").read_text()
    assert not vars(folder.data())["has_missing"]
    features = np.load(folder.path / "features.npy")
    features[3, 1] = np.nan
    np.save(folder.path / "features.npy", features)
    with pytest.raises(DataError, match="shard 0 holds values that are not finite"):
        verify_prepared(folder.path, progress=False)


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".arrow", ".txt"])
def test_what_is_written_is_read_again_with_its_holes(tmp_path, suffix):
    data = RankingData.from_arrays(FRAME, Y, QID)
    write_data(data, tmp_path / f"rows{suffix}")
    np.testing.assert_array_equal(read_data(tmp_path / f"rows{suffix}").X, X)


def test_the_command_predicts_a_file_with_empty_cells(files, tmp_path, capsys):
    ranker = Ranker(TREES["xgboost-pairwise"], random_state=0).fit(FRAME, Y, qid=QID)
    ranker.model_.save(tmp_path / "model")
    out = str(tmp_path / "scores.csv")
    assert (
        cli.main(["predict", str(tmp_path / "model"), str(files / "rows.csv"), "--out", out]) == 0
    )
    np.testing.assert_array_equal(pd.read_csv(out)["score"], ranker.predict(FRAME))
    linear = Ranker().fit(FRAME.fillna(0), Y, qid=QID)
    linear.model_.save(tmp_path / "linear")
    with pytest.raises(DataError, match=r"X contains NaN at row \d+, column \d \(\w+\): fill in"):
        predict_file(linear.model_, files / "rows.csv", tmp_path / "no.csv", progress=False)


# ---- scaling ----


SCALERS = {"standard": StandardScaler, "minmax": MinMaxScaler, "maxabs": MaxAbsScaler}


@pytest.mark.parametrize("scale", SCALERS)
def test_scaling_leaves_holes_as_they_are_and_learns_from_the_rest(scale):
    scaling = fit_scaling(X, scale)
    np.testing.assert_allclose(scaling.apply(X), SCALERS[scale]().fit_transform(X), atol=1e-12)
    data = scaling.of(RankingData.from_arrays(X, Y, QID))
    assert vars(data)["has_missing"]
    trees = TREES["xgboost-pairwise"].solve(data).model
    assert ScaledModel(trees, scaling).takes_missing_values
    np.testing.assert_array_equal(ScaledModel(trees, scaling).predict(X), trees.predict(data.X))


@pytest.mark.parametrize("scale", SCALERS)
def test_columns_without_a_value_keep_their_scale(scale):
    late = np.r_[np.full(N - 9, np.nan), np.arange(9.0)]
    holes = np.column_stack([X, np.full(N, np.nan), late, late[::-1]])
    blocks = [holes[begin : begin + 10] for begin in range(0, N, 10)]
    scaling = fit_scaling_to_blocks(blocks, scale)
    assert scaling.factor[4] == 1.0
    assert scaling.shift is None or scaling.shift[4] == 0.0
    known = [0, 1, 2, 3, 5, 6]
    expected = fit_scaling(holes[:, known], scale)
    np.testing.assert_allclose(scaling.factor[known], expected.factor)
    if scaling.shift is not None:
        np.testing.assert_allclose(scaling.shift[known], expected.shift)
    if scale == "maxabs":
        given = fit_scaling_to_blocks(map(sparse.csr_array, blocks), scale)
        np.testing.assert_array_equal(given.factor, scaling.factor)


def test_relevance_weights_and_ids_are_never_missing():
    for name, y, given in (
        ("relevance", np.where(Y == 0, np.nan, Y), {}),
        ("sample_weight", Y, {"sample_weight": np.where(QID == 1, np.nan, 1.0)}),
    ):
        with pytest.raises(DataError, match=rf"{name}.* contains nan"):
            Ranker(TREES["constant"]).fit(X, y, qid=QID, **given)
    with pytest.raises(DataError, match="qid is missing"):
        Ranker(TREES["constant"]).fit(X, Y, qid=[None, *QID[1:]])


def test_relevance_in_files_is_never_missing(tmp_path):
    for text, message in (
        ("label,qid,x\n1,1,2\n,1,3\n", "line 3, column 'label': empty"),
        ("label,qid,x,w\n1,1,2,1\n0,1,3,\n", "line 3, column 'w': empty"),
    ):
        (tmp_path / "rows.csv").write_text(text)
        weight = "w" if ",w" in text else None
        with pytest.raises(DataError, match=message):
            read_data(tmp_path / "rows.csv", weight=weight)
