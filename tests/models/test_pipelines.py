"""Pipelines as models: what explains them, what they refuse, what a file of theirs cannot be."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.compose import make_column_transformer
from sklearn.feature_selection import SelectKBest, VarianceThreshold, f_regression
from sklearn.impute import SimpleImputer
from sklearn.pipeline import FeatureUnion, make_pipeline, make_union
from sklearn.preprocessing import (
    KBinsDiscretizer,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    StandardScaler,
)

from rankplug import Ranker, make_solver
from rankplug.exceptions import DataError, ModelFormatError, ParameterError
from rankplug.models import LinearModel, find_contributions
from rankplug.models.pipelines import PipelineModel, pipeline_model

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 4))
Y = np.clip(np.round(X[:, 0] + X[:, 3]), 0, 3)
QID = np.repeat(np.arange(6), 10)
WORDS = np.array([[word, number] for word, number in zip("abc" * 20, X[:, 0], strict=True)], object)
BINS = KBinsDiscretizer(3, encode="ordinal", strategy="uniform")


def trained(*steps, X=X, solver="tree-tron"):
    pipeline = make_pipeline(*steps, Ranker(solver)).fit(X, Y, ranker__qid=QID)
    return pipeline, pipeline_model(pipeline, pipeline[-1].model_)


@pytest.mark.parametrize(
    ("step", "method"),
    [
        (BINS, "weight times value"),
        (SelectKBest(f_regression, k=2), "weight times value"),
        (make_pipeline(VarianceThreshold(), StandardScaler()), "weight times value"),
        (make_union(StandardScaler(), "passthrough", "drop"), "weight times value"),
        (PolynomialFeatures(2), "sampled Shapley values"),
        (make_union(StandardScaler(), Normalizer()), "sampled Shapley values"),
    ],
    ids=lambda value: type(value).__name__ if hasattr(value, "fit") else value,
)
def test_contributions_of_the_columns_of_the_user_add_up(step, method):
    pipeline, model = trained(step)
    found = find_contributions(model, X[:6], n_permutations=4)
    assert found.method == method
    np.testing.assert_allclose(
        found.values.sum(axis=1) + found.constant, pipeline.predict(X[:6]), atol=1e-9
    )
    if isinstance(step, SelectKBest):
        assert not found.values[:, ~step.fit(X, Y).get_support()].any()
    with pytest.raises(ParameterError, match="n_permutations=1 must be an integer above 1"):
        find_contributions(model, X[:6], n_permutations=1)


def test_contributions_of_text_add_up():
    _, model = trained(
        make_column_transformer((OneHotEncoder(), [0]), (PolynomialFeatures(2), [1])), X=WORDS
    )
    found = find_contributions(model, WORDS[:6], n_permutations=4)
    total = found.values.sum(axis=1) + found.constant
    np.testing.assert_allclose(total, model.predict(WORDS[:6]), atol=1e-9)


@pytest.mark.parametrize(
    ("step", "rows", "message"),
    [
        (BINS, sparse.csr_array(X), "bins are made of dense features: pass X.toarray"),
        (
            make_column_transformer((SimpleImputer(), [0]), (BINS, [1, 2, 3])),
            np.full((2, 4), np.nan),
            r"missing values \(NaN\) have no bin: impute them before",
        ),
        (
            SimpleImputer(missing_values=0.0),
            sparse.csr_array(X),
            "zeros of sparse features cannot be imputed: pass X.toarray",
        ),
    ],
    ids=str,
)
def test_what_steps_refuse_is_said(step, rows, message):
    _, model = trained(step)
    with pytest.raises(DataError, match=message):
        model.predict(rows)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (np.array([["a", "dear"]], dtype=object), "'dear' is not a number"),
        (np.array([["a", 1.0, 2.0]], dtype=object), "X has 3 features, but the model is expect"),
        (np.empty((0, 2), dtype=object), "X has no rows"),
        (np.array([["z", 1.0]], dtype=object), "'z' in column 0 is none of the categories"),
    ],
)
def test_arrays_of_words_and_numbers_that_do_not_fit(rows, message):
    pipeline, model = trained(
        make_column_transformer((OneHotEncoder(), [0]), (StandardScaler(), [1])), X=WORDS
    )
    np.testing.assert_array_equal(model.predict(WORDS), pipeline.predict(WORDS))
    with pytest.raises(DataError, match=message):
        model.predict(rows)


@pytest.mark.parametrize("step", [OneHotEncoder(), OrdinalEncoder()])
@pytest.mark.parametrize("rows", [WORDS[:, [0]], np.arange(60)[:, None] % 3])
def test_an_encoder_may_come_first(step, rows):
    pipeline, model = trained(step, X=rows)
    np.testing.assert_array_equal(model.predict(rows), pipeline.predict(rows))
    frame = pd.DataFrame(rows, columns=["kind"])
    np.testing.assert_array_equal(model.predict(frame), pipeline.predict(rows))
    found = find_contributions(model, rows[:6])
    np.testing.assert_allclose(
        found.values[:, 0] + found.constant, pipeline.predict(rows[:6]), atol=1e-12
    )


def test_whole_numbers_and_single_categories_are_encoded():
    frame = pd.DataFrame({"size": np.arange(60) % 3, "kind": "only", "new": X[:, 1] > 0})
    step = make_column_transformer(
        (OneHotEncoder(drop="first", handle_unknown="ignore"), ["kind", "size"]),
        (OrdinalEncoder(), ["size", "new"]),
        (StandardScaler(), ["size", "new"]),
        remainder="passthrough",
    )
    pipeline, model = trained(step, X=frame)
    np.testing.assert_array_equal(model.predict(frame), pipeline.predict(frame))


def test_categories_of_columns_that_were_selected():
    codes = pd.Categorical(np.arange(60) % 3 * 10, categories=[0, 10, 20])
    frame = pd.DataFrame({"constant": 1.0, "a": X[:, 0], "kind": codes})
    solver = make_solver("xgboost-pairwise", n_estimators=3, n_threads=1)
    select = VarianceThreshold().set_output(transform="pandas")
    pipeline, model = trained(select, X=frame, solver=solver)
    assert dict(model.categories) == {2: (0, 10, 20)}
    np.testing.assert_array_equal(model.predict(frame), pipeline.predict(frame))


@pytest.mark.parametrize(
    ("step", "rows", "message"),
    [
        (
            OneHotEncoder(handle_unknown="ignore"),
            np.array([[None], [np.nan], ["x"]] * 20, dtype=object),
            r"'onehotencoder' \(OneHotEncoder\) cannot be saved: None and NaN are two categories",
        ),
        (
            make_pipeline(StandardScaler(), SimpleImputer(keep_empty_features=True)),
            np.column_stack((X[:, 0], np.full(60, np.nan))),
            "cannot be saved: what it has learnt is not finite: is a column without values",
        ),
    ],
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_fitted_steps_that_cannot_be_saved(step, rows, message):
    with pytest.raises(ParameterError, match=message):
        trained(step, X=rows)


def change_imputer(steps, arrays):
    steps[0]["params"]["statistics"][0] = []


def change_width(steps, arrays):
    steps[1]["n_in"] = 5


def change_weight(steps, arrays):
    steps[1]["parts"][0]["weight"] = "heavy"


def change_part(steps, arrays):
    steps[1]["parts"][0]["steps"][0]["params"] = None


def drop_parts(steps, arrays):
    steps[1]["parts"] = []


def change_columns(steps, arrays):
    arrays["1.0.columns"] = np.array([0.0, 1.0, 2.0, 9.0])


def shorten_columns(steps, arrays):
    arrays["1.0.columns"] = np.array([0.0, 1.0])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (change_imputer, "statistics that are neither numbers nor text"),
        (change_width, "5 columns side by side, not 4"),
        (change_weight, "the weight 'heavy'"),
        (change_part, "the description of the pipeline's steps is damaged"),
        (drop_parts, "0 columns"),
        (change_columns, "columns that do not exist"),
        (shorten_columns, "does not fit|damaged"),
    ],
)
def test_forged_steps_are_refused(tmp_path, change, message):
    union = FeatureUnion([("a", StandardScaler()), ("b", BINS)], transformer_weights={"a": 0.5})
    _, model = trained(SimpleImputer(), union)
    header = model._write(tmp_path)
    read = PipelineModel._read(tmp_path, header)
    np.testing.assert_array_equal(read.predict(X), model.predict(X))
    with np.load(tmp_path / "pipeline.npz") as file:
        arrays = dict(file)
    change(header["steps"], arrays)
    np.savez(tmp_path / "pipeline.npz", **arrays)
    with pytest.raises(ModelFormatError, match=message):
        PipelineModel._read(tmp_path, header)


def test_steps_of_a_part_that_take_other_columns_are_refused():
    parts = make_union(StandardScaler().fit(X), Normalizer().fit(X[:, :3]))
    with pytest.raises(ValueError, match=r"union\.normalizer takes 3 columns, not 4"):
        PipelineModel([("union", parts)], LinearModel(np.ones(7)))
