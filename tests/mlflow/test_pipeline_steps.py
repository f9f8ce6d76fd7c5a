"""Pipelines of scikit-learn's transformers and a ranker: saved without pickle, scores bit-equal."""

import json
import warnings

import mlflow
import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.compose import ColumnTransformer, make_column_selector, make_column_transformer
from sklearn.decomposition import PCA
from sklearn.feature_selection import SelectKBest, VarianceThreshold, f_regression
from sklearn.impute import KNNImputer, SimpleImputer
from sklearn.pipeline import FeatureUnion, make_pipeline, make_union
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    SplineTransformer,
    StandardScaler,
)

import rankplug.mlflow
from rankplug import Ranker, load_model, make_solver
from rankplug.exceptions import DataError, ParameterError
from rankplug.io.predictions import predict_file
from rankplug.models.pipelines import pipeline_model

pytestmark = [
    pytest.mark.usefixtures("no_pickle"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]

RNG = np.random.default_rng(0)
N = 60
X = RNG.normal(size=(N, 4)) * [1.0, 1e2, 1e-2, 1.0] + [0.0, 5.0, 1e2, 0.0]
Y = np.clip(np.round(X[:, 0] + X[:, 3]), 0, 3)
QID = np.repeat(np.arange(6), 10)
NEW = RNG.normal(size=(50, 4)) * [2.0, 3e2, 1e-1, 1.0] + [0.0, 5.0, 1e2, 0.0]


def with_holes(values, seed, mark=np.nan):
    holes = np.random.default_rng(seed).random(values.shape) < 0.2
    holes[:, 0] = False
    return np.where(holes, mark, values)


DENSE = {
    "robust": RobustScaler(),
    "robust center": RobustScaler(with_scaling=False),
    "robust scale": RobustScaler(with_centering=False, quantile_range=(10, 90)),
    "normalizer": Normalizer("l1"),
    "quantile": QuantileTransformer(n_quantiles=20),
    "quantile normal": QuantileTransformer(n_quantiles=20, output_distribution="normal"),
    "power": PowerTransformer(),
    "power alone": PowerTransformer(standardize=False),
    "bins": KBinsDiscretizer(4, encode="ordinal", quantile_method="averaged_inverted_cdf"),
    "bins one-hot": KBinsDiscretizer(3, quantile_method="averaged_inverted_cdf"),
    "bins dense": KBinsDiscretizer([2, 3, 4, 5], encode="onehot-dense", strategy="uniform"),
    "splines": SplineTransformer(4),
    "splines linear": SplineTransformer(3, degree=2, extrapolation="linear", include_bias=False),
    "splines continue": SplineTransformer(3, extrapolation="continue", knots="quantile"),
    "splines periodic": SplineTransformer(6, extrapolation="periodic"),
    "splines sparse": SplineTransformer(4, sparse_output=True),
    "polynomials": PolynomialFeatures(3),
    "interactions": PolynomialFeatures((2, 3), interaction_only=True, include_bias=False),
    "variance": VarianceThreshold(1e-3),
    "best": SelectKBest(f_regression, k=2),
    "imputer": SimpleImputer(),
    "identity": FunctionTransformer(),
    "union": make_union(StandardScaler(), PolynomialFeatures(2), "passthrough"),
    "weights": FeatureUnion(
        [("a", MinMaxScaler()), ("b", KBinsDiscretizer(3, strategy="uniform"))],
        transformer_weights={"a": 0.3},
    ),
    "positions": make_column_transformer((StandardScaler(), [2, 0]), (RobustScaler(), slice(1, 2))),
    "mask": make_column_transformer(
        (PolynomialFeatures(2), np.array([True, False, False, True])), remainder="passthrough"
    ),
    "one column": make_column_transformer((MaxAbsScaler(), [-1]), ("drop", [0])),
    "remainder": make_column_transformer(
        (make_pipeline(StandardScaler(), PolynomialFeatures(2)), [0, 1]), remainder=MinMaxScaler()
    ),
    "nested": make_column_transformer(
        (make_column_transformer((StandardScaler(), [1]), remainder="passthrough"), [3, 1]),
        ("passthrough", [0]),
    ),
}


def trained(*steps, X=X, y=Y, solver="tree-tron"):
    return make_pipeline(*steps, Ranker(solver)).fit(X, y, ranker__qid=QID)


def saved(pipeline, folder):
    rankplug.mlflow.save_model(pipeline, folder / "saved")
    return load_model(folder / "saved" / "model"), mlflow.pyfunc.load_model(str(folder / "saved"))


@pytest.mark.parametrize("step", DENSE.values(), ids=DENSE)
def test_scores_are_the_pipelines(step, tmp_path):
    pipeline = trained(step, MaxAbsScaler())
    native, served = saved(pipeline, tmp_path)
    for features in (NEW, NEW.astype(np.float32), np.asfortranarray(NEW), NEW[:1], NEW[::2]):
        kept = features.copy()
        try:
            expected = pipeline.predict(features.copy())
        except ValueError:  # scikit-learn's own trouble with float32
            with pytest.raises(DataError, match=r"refuses the features|not finite"):
                native.predict(features)
            continue
        np.testing.assert_array_equal(native.predict(features), expected)
        np.testing.assert_array_equal(served.predict(features), expected)
        np.testing.assert_array_equal(features, kept)
    assert not [path for path in tmp_path.rglob("*") if path.suffix in (".pkl", ".pickle")]


IMPUTERS = {
    "mean": (SimpleImputer(), np.nan),
    "median": (SimpleImputer(strategy="median"), np.nan),
    "mode": (SimpleImputer(strategy="most_frequent"), np.nan),
    "constant": (SimpleImputer(strategy="constant", fill_value=-7.5), np.nan),
    "zero": (SimpleImputer(strategy="constant"), np.nan),
    "indicator": (SimpleImputer(add_indicator=True), np.nan),
    "another mark": (SimpleImputer(missing_values=-1.0, add_indicator=True), -1.0),
    "kept": (SimpleImputer(keep_empty_features=True), np.nan),
}


@pytest.mark.parametrize("name", IMPUTERS)
@pytest.mark.parametrize("empty", [False, True])
def test_imputers(name, empty, tmp_path):
    imputer, mark = IMPUTERS[name]
    train, new = with_holes(X, 1, mark), with_holes(NEW, 2, mark)
    if empty:
        train[:, 2] = mark
    pipeline = trained(imputer, StandardScaler(), X=train)
    native, served = saved(pipeline, tmp_path)
    for features in (new, new.astype(np.float32), new[:3]):
        np.testing.assert_array_equal(native.predict(features), pipeline.predict(features))
        np.testing.assert_array_equal(served.predict(features), pipeline.predict(features))
    assert native.takes_missing_values == np.isnan(mark)


def test_sparse_features(tmp_path):
    rows = sparse.csr_array(X * (RNG.random(X.shape) < 0.5))
    rows.data[::9] = np.nan
    for number, steps in enumerate(
        [
            (SimpleImputer(), MaxAbsScaler()),
            (SimpleImputer(add_indicator=True), VarianceThreshold()),
            (SimpleImputer(strategy="median"), make_union(MaxAbsScaler(), "passthrough")),
            (make_column_transformer((SimpleImputer(), [0, 2]), (SimpleImputer(), [1])),),
            (SimpleImputer(), QuantileTransformer(n_quantiles=9, ignore_implicit_zeros=True)),
            (SimpleImputer(), RobustScaler(with_centering=False), PolynomialFeatures(2)),
        ]
    ):
        pipeline = trained(*steps, X=rows)
        (tmp_path / str(number)).mkdir()
        native, served = saved(pipeline, tmp_path / str(number))
        for features in (rows, sparse.csr_matrix(rows)):
            expected = pipeline.predict(features)
            np.testing.assert_allclose(native.predict(features), expected, rtol=1e-12, atol=1e-12)
            np.testing.assert_array_equal(served.predict(features), native.predict(features))


# ---- text columns, encoders, names ----


def shop(n=N, seed=3):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "price": rng.normal(20, 5, n),
            "clicks": rng.integers(0, 50, n),
            "brand": rng.choice(["acme", "bolt", "core", "dune"], n, p=[0.5, 0.3, 0.15, 0.05]),
            "size": rng.choice(["S", "M", "L"], n),
            "sold": rng.random(n) < 0.5,
            "rating": np.where(rng.random(n) < 0.3, np.nan, rng.integers(1, 6, n)),
            "zip": rng.choice(["10115", "80331"], n),
            "title": [f"thing {i}" for i in range(n)],
        }
    )
    frame.loc[frame.index[::7], "brand"] = None
    return frame


FRAME = shop()
GRADES = np.clip(FRAME["clicks"] // 15 + (FRAME["size"] == "L"), 0, 3).to_numpy()

ENCODERS = {
    "one-hot": OneHotEncoder(handle_unknown="ignore"),
    "dense": OneHotEncoder(handle_unknown="ignore", sparse_output=False),
    "dropped": OneHotEncoder(drop="first", handle_unknown="ignore"),
    "binary dropped": OneHotEncoder(drop="if_binary"),
    "rare": OneHotEncoder(min_frequency=10, handle_unknown="infrequent_if_exist"),
    "few": OneHotEncoder(max_categories=3, handle_unknown="infrequent_if_exist", drop="first"),
    "given": OneHotEncoder(
        categories=[["core", "bolt", "acme", "dune", None], ["S", "M", "L"]],
        handle_unknown="ignore",
    ),
    "ordinal": OrdinalEncoder(
        handle_unknown="use_encoded_value", unknown_value=-1, encoded_missing_value=-2
    ),
    "ordinal single": OrdinalEncoder(encoded_missing_value=-2, dtype=np.float32),
    "one-hot integers": OneHotEncoder(dtype=np.int8, handle_unknown="ignore"),
    "one-hot single": OneHotEncoder(dtype=np.float32, handle_unknown="ignore"),
    "ordinal rare": OrdinalEncoder(max_categories=3, encoded_missing_value=-2),
    "ordinal strict": OrdinalEncoder(encoded_missing_value=9),
}


def columns(encoder, remainder="drop"):
    numbers = make_pipeline(SimpleImputer(strategy="median", add_indicator=True), StandardScaler())
    return ColumnTransformer(
        [
            ("numbers", numbers, ["price", "clicks", "rating"]),
            ("words", encoder, ["brand", "size"]),
            ("plain", "passthrough", ["sold"]),
        ],
        remainder=remainder,
    )


@pytest.mark.parametrize("name", ENCODERS)
def test_text_columns_are_encoded(name, tmp_path):
    pipeline = trained(columns(ENCODERS[name]), X=FRAME, y=GRADES)
    native, served = saved(pipeline, tmp_path)
    new = shop(40, seed=4)
    expected = pipeline.predict(new)
    assert native.feature_names == ("price", "clicks", "brand", "size", "sold", "rating")
    tables = {
        "frame": new,
        "fewer columns": new[[*native.feature_names[::-1]]],
        "objects": new.astype(object),
        "nullable": new.convert_dtypes(),
        "categories": new.astype({"brand": "category", "size": "category"}),
        "polars": pl.from_pandas(new),
        "arrow": pl.from_pandas(new).to_arrow(),
    }
    for kind, table in tables.items():
        np.testing.assert_array_equal(native.predict(table), expected, err_msg=kind)
    np.testing.assert_array_equal(served.predict(new), expected)
    records = json.loads(new.to_json(orient="records", double_precision=15))
    np.testing.assert_allclose(served.predict(pd.DataFrame(records)), expected, atol=1e-9)
    new.to_csv(tmp_path / "new.csv", index=False)
    np.testing.assert_allclose(
        served.predict(pd.read_csv(tmp_path / "new.csv")), expected, atol=1e-9
    )
    other = new.assign(brand="unheard-of")
    if ENCODERS[name].handle_unknown == "error":
        with pytest.raises(DataError, match="'unheard-of' in column 0 is none of the categories"):
            native.predict(other)
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            np.testing.assert_array_equal(native.predict(other), pipeline.predict(other))


def test_text_where_numbers_belong_is_named(tmp_path):
    pipeline = trained(columns(ENCODERS["one-hot"]), X=FRAME, y=GRADES)
    native, served = saved(pipeline, tmp_path)
    with pytest.raises(DataError, match=r"not numbers: price \(text\), clicks \(text\)"):
        native.predict(FRAME.assign(price="dear", clicks="many"))
    with pytest.raises(DataError, match="missing feature columns: clicks, brand"):
        native.predict(FRAME.drop(columns=["brand", "clicks"]))
    with pytest.raises(DataError, match=r"infinity \(inf\) at row 0, column 0 \(price\)"):
        native.predict(FRAME.assign(price=np.inf))
    with pytest.raises(mlflow.exceptions.MlflowException, match="not numbers"):
        served.predict(FRAME.assign(price="dear"))


def test_columns_by_names_slices_masks_and_selectors(tmp_path):
    for number, (transformer, used) in enumerate(
        [
            (make_column_transformer((StandardScaler(), slice("price", "clicks"))), 2),
            (make_column_transformer((OneHotEncoder(), [2]), ("passthrough", ["price"])), 2),
            (
                make_column_transformer(
                    (OneHotEncoder(), make_column_selector(pattern="size|brand")),
                    (SimpleImputer(), make_column_selector(dtype_include=np.number)),
                ),
                5,
            ),
            (make_column_transformer((OneHotEncoder(), FRAME.columns == "size"), ("drop", [7])), 1),
            (
                make_column_transformer(
                    ("drop", ["title", "brand", "rating"]), (OrdinalEncoder(), ["size", "zip"]),
                    remainder="passthrough",
                ),
                5,
            ),
        ]
    ):  # fmt: skip
        for output in ("default", "pandas"):
            if output == "pandas":
                transformer.set_output(transform="pandas")
                if any(isinstance(one[1], OneHotEncoder) for one in transformer.transformers):
                    continue  # which pandas frames cannot hold as sparse
            pipeline = trained(transformer, X=FRAME, y=GRADES)
            folder = tmp_path / f"{number}-{output}"
            folder.mkdir()
            native, served = saved(pipeline, folder)
            assert native.n_features == used
            expected = pipeline.predict(FRAME)
            np.testing.assert_array_equal(native.predict(FRAME), expected)
            np.testing.assert_array_equal(served.predict(FRAME), expected)


def test_digits_that_a_file_makes_numbers_are_the_text_of_the_training(tmp_path):
    pipeline = trained(make_column_transformer((OneHotEncoder(), ["zip"])), X=FRAME, y=GRADES)
    native, _ = saved(pipeline, tmp_path)
    read = FRAME[["zip"]].astype(int)
    np.testing.assert_array_equal(native.predict(read), pipeline.predict(FRAME))


def test_categories_that_are_numbers_are_found_in_the_text_of_a_file(tmp_path):
    frame = FRAME.assign(number=np.arange(N) % 3, half=np.arange(N) % 4 / 2, flag=X[:, 0] > 0)
    frame = frame[["number", "half", "flag", "clicks"]]
    encoder = OneHotEncoder(handle_unknown="ignore")
    step = make_column_transformer((encoder, [*frame][:3]), remainder="passthrough")
    pipeline = trained(step, X=frame, y=GRADES)
    native = pipeline_model(pipeline, pipeline[-1].model_)
    frame.to_csv(tmp_path / "rows.csv", index=False)
    predict_file(native, tmp_path / "rows.csv", tmp_path / "scores.csv", progress=False)
    found = pd.read_csv(tmp_path / "scores.csv")["score"]
    np.testing.assert_allclose(found, pipeline.predict(frame), atol=1e-12)


def test_categories_that_a_pipeline_hands_on_are_those_of_its_model(tmp_path):
    frame = FRAME.astype({"brand": "category", "size": "category"})
    trees = make_solver("xgboost-pairwise", n_estimators=5, min_child_weight=0, n_threads=1)
    parts = [("passthrough", ["size", "brand"]), (SimpleImputer(), ["rating"])]
    encoder = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
    for more in ([], [(encoder, ["zip"])]):
        step = make_column_transformer(*more, *parts, verbose_feature_names_out=False)
        step.set_output(transform="pandas")
        pipeline = make_pipeline(step, Ranker(trees)).fit(frame, GRADES, ranker__qid=QID)
        native = pipeline_model(pipeline, pipeline[-1].model_)
        text = frame.astype({"brand": object, "size": object})
        for table in (frame, text, pl.from_pandas(frame)):
            np.testing.assert_array_equal(native.predict(table), pipeline.predict(frame))
        text.to_csv(tmp_path / "rows.csv", index=False)
        predict_file(native, tmp_path / "rows.csv", tmp_path / "scores.csv", progress=False)
        found = pd.read_csv(tmp_path / "scores.csv")["score"]
        np.testing.assert_allclose(found, pipeline.predict(frame), atol=1e-6)
    for one in saved(pipeline, tmp_path):
        np.testing.assert_array_equal(one.predict(text), pipeline.predict(frame))
    step = ColumnTransformer([("a", encoder, ["size"]), ("b", "passthrough", ["size"])])
    pipeline = make_pipeline(step.set_output(transform="pandas"), Ranker(trees))
    pipeline.fit(frame, GRADES, ranker__qid=QID)
    with pytest.raises(ParameterError, match=r"b__size \(.*or uses them twice: encode them"):
        pipeline_model(pipeline, pipeline[-1].model_)


def test_text_is_imputed_before_it_is_encoded(tmp_path):
    words = make_pipeline(
        SimpleImputer(strategy="constant", fill_value="none", missing_values=np.nan),
        OneHotEncoder(handle_unknown="ignore"),
    )
    modes = make_pipeline(SimpleImputer(strategy="most_frequent"), OrdinalEncoder())
    frame = FRAME.assign(brand=FRAME["brand"].astype(object).where(FRAME["brand"].notna(), np.nan))
    for number, step in enumerate((words, modes)):
        pipeline = trained(
            make_column_transformer((step, ["brand", "size"]), ("passthrough", ["clicks"])),
            X=frame,
            y=GRADES,
        )
        folder = tmp_path / str(number)
        folder.mkdir()
        native, _ = saved(pipeline, folder)
        np.testing.assert_array_equal(native.predict(frame), pipeline.predict(frame))
        np.testing.assert_array_equal(native.predict(FRAME), pipeline.predict(frame))


def test_arrays_of_objects_without_names(tmp_path):
    rows = FRAME[["price", "size"]].astype(object).to_numpy()
    step = make_column_transformer((OneHotEncoder(), [1]), (StandardScaler(), [0]))
    pipeline = trained(step, X=rows, y=GRADES)
    native, _ = saved(pipeline, tmp_path)
    np.testing.assert_array_equal(native.predict(rows), pipeline.predict(rows))
    np.testing.assert_array_equal(native.predict(rows.tolist()), pipeline.predict(rows))


def test_trees_behind_encoders_take_what_is_missing(tmp_path):
    trees = make_solver("xgboost-pairwise", n_estimators=5, n_threads=1)
    step = make_column_transformer(
        (OrdinalEncoder(), ["brand", "size"]), ("passthrough", ["rating", "clicks"])
    )
    pipeline = trained(step, X=FRAME, y=GRADES, solver=trees)
    native, served = saved(pipeline, tmp_path)
    assert native.takes_missing_values
    np.testing.assert_array_equal(native.predict(FRAME), pipeline.predict(FRAME))
    np.testing.assert_array_equal(served.predict(FRAME), pipeline.predict(FRAME))


def test_many_rows_are_transformed_a_block_at_a_time(monkeypatch):
    from rankplug.models import pipelines

    pipeline = trained(columns(ENCODERS["dense"]), X=FRAME, y=GRADES)
    model = pipeline_model(pipeline, pipeline[-1].model_)
    expected = model.predict(FRAME)
    monkeypatch.setattr(pipelines, "_BLOCK_ELEMENTS", 150)
    np.testing.assert_allclose(model.predict(FRAME), expected, atol=1e-12)


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (KNNImputer(), r"'knnimputer' \(KNNImputer\); those that can are"),
        (FunctionTransformer(np.log1p), r"'functiontransformer' \(FunctionTransformer\)"),
        (
            make_column_transformer((PCA(1), [0, 1]), (FunctionTransformer(np.abs), [2])),
            r"'columntransformer.pca' \(PCA\), 'columntransformer.functiontransformer'",
        ),
        (make_union(StandardScaler(), PCA(1)), r"'featureunion.pca' \(PCA\)"),
        (
            make_pipeline(make_column_transformer((make_pipeline(PCA(1)), [0, 1]))),
            r"'pipeline.columntransformer.pipeline.pca' \(PCA\)",
        ),
    ],
)
def test_steps_that_cannot_be_saved_are_named_wherever_they_are(step, message, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pipeline = trained(step, X=np.abs(X))
    with pytest.raises(ParameterError, match=message):
        rankplug.mlflow.save_model(pipeline, tmp_path / "saved")
    assert not list(tmp_path.iterdir())
