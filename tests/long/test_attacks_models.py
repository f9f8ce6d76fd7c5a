"""Every kind of model under hostile features: by itself, as a pyfunc, and served."""

import inspect
import json

import mlflow
import numpy as np
import pandas as pd
import pytest
from attacks import BASE, assert_refused, available_solvers, cheap, documents, quietly
from mlflow.exceptions import MlflowException
from mlflow.pyfunc import scoring_server
from scipy import sparse
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import rankplug.mlflow
from rankplug import Ranker
from rankplug.data import fit_scaling
from rankplug.mlflow import serving
from rankplug.models import ScaledModel, load_model
from rankplug.models.pipelines import pipeline_model

pytestmark = [
    pytest.mark.usefixtures("no_hang"),
    pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy is deprecated"),
]

NAMES = ["a", "b c", "é", "d"]
KERNELS = {"larank": {"kernel": "rbf", "epochs": 5}}


def trained():
    """A model of every kind, and of both tasks where a kind has both."""
    models = {}
    for info in available_solvers():
        for task in info.tasks:
            inputs = BASE[task]()
            frame = inputs.but(X=pd.DataFrame(inputs.X, columns=NAMES))
            solver = cheap(info.name, **KERNELS.get(info.name, {}))
            if info.name == "pointwise":
                solver.set_params(regressor="random-forest")
            model = quietly(solver.solve, frame.data(), random_state=0).model
            models.setdefault((model.kind, task), model)
    inputs = documents()
    scaling = fit_scaling(inputs.X, "standard")
    linear = models["linear", "query-document"]
    models["scaled", "query-document"] = ScaledModel(linear, scaling)
    pipe = make_pipeline(StandardScaler(), Ranker(cheap("tree-tron")))
    pipe.fit(pd.DataFrame(inputs.X, columns=NAMES), inputs.y, ranker__qid=inputs.qid)
    models["pipeline", "query-document"] = pipeline_model(pipe, pipe[-1].model_)
    return {f"{kind}-{task}": model for (kind, task), model in models.items()}


MODELS = trained()
X = documents().X[:6]
FRAME = pd.DataFrame(X, columns=NAMES)
REFUSES_SPARSE = ("scaled-query-document", "pipeline-query-document")


def test_every_kind_is_here():
    kinds = {model.kind for model in MODELS.values()}
    assert kinds >= {"linear", "label-linear", "kernel", "scaled", "pipeline", "regressor"}


FORMS = {
    "float32": X.astype(np.float32),
    "float16": X.astype(np.float16),
    "Fortran": np.asfortranarray(X),
    "strided": np.repeat(X, 2, axis=1)[:, ::2],
    "lists": X.tolist(),
    "objects": X.astype(object),
    "-0.0": np.where(X == 0, -0.0, X),
    "table": FRAME,
    "shuffled columns": FRAME[["d", "é", "a", "b c"]],
    "more columns": FRAME.assign(note="x", qid=1),
    "nullable": FRAME.convert_dtypes(),
    "CSR": sparse.csr_array(X),
    "CSC": sparse.csc_array(X),
    "COO": sparse.coo_matrix(X),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", MODELS)
def test_forms_of_features(name, form):
    model = MODELS[name]
    if name in REFUSES_SPARSE and sparse.issparse(FORMS[form]):
        assert_refused("dense|refuses the features", model.predict, FORMS[form])
        return
    scores = quietly(model.predict, FORMS[form])
    expected = model.predict(X)
    assert scores.dtype == np.float64
    np.testing.assert_allclose(scores, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())


def spoiled(value):
    changed = X.copy()
    changed[1, 2] = value
    return changed


WRONG = {
    "NaN": (spoiled(np.nan), "NaN at row 1, column 2"),
    "inf": (spoiled(np.inf), "infinity .inf. at row 1, column 2"),
    "NaN in a table": (pd.DataFrame(spoiled(np.nan), columns=NAMES), "NaN at row 1, column 2 .é."),
    "sparse NaN": (sparse.csr_array(spoiled(np.nan)), "NaN at row 1, column 2"),
    "few columns": (X[:, :3], "3 features, but the model is expecting 4"),
    "many columns": (np.hstack((X, X)), "8 features, but the model is expecting 4"),
    "no columns": (X[:, :0], "no columns"),
    "no rows": (X[:0], "no rows"),
    "a missing column": (FRAME[["a", "d"]], "missing feature columns: b c, é"),
    "a text column": (FRAME.assign(d="x"), "not numbers: d"),
    "a categorical column": (FRAME.assign(d=pd.Categorical(["x"] * 6)), "not numbers: d"),
    "text": (X.astype(str), "must hold numbers"),
    "one dimension": (X[0], "1 dimension"),
    "complex": (X + 1j, "complex"),
    "None": (None, "dimension"),
}


@pytest.mark.parametrize("name", MODELS)
def test_wrong_features_are_refused(name):
    for wrong, (features, message) in WRONG.items():
        if "NaN" in wrong and MODELS[name].takes_missing_values:
            assert np.isfinite(MODELS[name].predict(features)).all()
        else:
            assert_refused(message, MODELS[name].predict, features)


LARGE = {"1e308": 1e308, "-1e308": -1e308, "3e38": 3e38, "1e200": 1e200, "5e-324": 5e-324}


@pytest.mark.parametrize("name", MODELS)
def test_large_features_have_finite_scores_or_none(name):
    model = MODELS[name]
    for value in LARGE.values():
        for features in (spoiled(value), np.full((1, 4), value), -np.full((2, 4), value)):
            try:
                scores = quietly(model.predict, features)
            except rankplug.exceptions.DataError as error:
                reason = str(error)
                assert "too large" in reason or "infinit" in reason, reason
            else:
                assert np.isfinite(scores).all()


@pytest.mark.parametrize("name", MODELS)
def test_what_is_saved_scores_alike_even_at_the_limits(name, tmp_path):
    model = MODELS[name]
    model.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    for features in (X, FRAME, spoiled(5e-324), np.zeros((1, 4)), np.full((1, 4), 1e30)):
        np.testing.assert_array_equal(loaded.predict(features), model.predict(features))


# As pyfunc, and served


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """The models as MLflow loads them, each made once."""
    loaded = {}

    def load(name):
        if name not in loaded:
            folder = tmp_path_factory.mktemp("saved") / "model"
            rankplug.mlflow.save_model(MODELS[name], folder)
            loaded[name] = mlflow.pyfunc.load_model(str(folder))
        return loaded[name]

    return load


@pytest.mark.parametrize("name", MODELS)
def test_pyfunc(name, saved):
    model = saved(name)
    expected = MODELS[name].predict(X)
    for form in (FRAME, FRAME[["d", "é", "a", "b c"]], FRAME.assign(note="x", qid="q")):
        np.testing.assert_allclose(quietly(model.predict, form), expected, rtol=1e-12)
    wrong = {
        "NaN": FRAME.assign(d=np.nan),
        "inf": FRAME.assign(d=np.inf),
        "text": FRAME.assign(d="x"),
        "missing": FRAME[["a"]],
        "categories": FRAME.assign(d=pd.Categorical(["x"] * 6)),
        "nothing": FRAME[:0],
        "None": FRAME.assign(d=None),
        "dates": FRAME.assign(d=pd.Timestamp("2020-01-01")),
    }
    for what, frame in wrong.items():
        if what in ("NaN", "None") and MODELS[name].takes_missing_values:
            assert np.isfinite(np.asarray(quietly(model.predict, frame))).all()
            continue
        with pytest.raises(MlflowException) as caught:
            model.predict(frame)
        assert caught.value.get_http_status_code() == 400, what
    with pytest.raises(MlflowException):
        model.predict(FRAME, params={"output": "best"})
    ranks = quietly(model.predict, FRAME.assign(qid="q"), params={"output": "rank"})
    assert np.asarray(ranks.select_dtypes("number")).min() >= -1e300


ROWS = X.tolist()
SPLIT = {"columns": NAMES, "data": ROWS}


def but(value):
    """The good request with another value in one place."""
    data = [list(row) for row in ROWS]
    data[1][2] = value
    return json.dumps({"dataframe_split": {**SPLIT, "data": data}})


# A body and the status that it must have; None where either is right if scores are finite.
BODIES = {
    "good": (json.dumps({"dataframe_split": SPLIT}), 200),
    "integers": (json.dumps({"dataframe_split": {**SPLIT, "data": [[1, 2, 3, 4]]}}), 200),
    "denormal": (but(5e-324), 200),
    "-0.0": (but(-0.0), 200),
    "boolean": (but(True), None),
    "a long integer": (but(10**300), None),
    "1e308": (but(1e308), None),
    "null": (but(None), 400),
    "NaN": (but(float("nan")), 400),
    "Infinity": (but(float("inf")), 400),
    "1e999": (but("@").replace('"@"', "1e999"), 400),
    "an integer beyond floats": (but(10**400), 400),
    "text": (but("x"), 400),
    "a list": (but([1.0]), 400),
    "an object": (but({}), 400),
    "no rows": (json.dumps({"dataframe_split": {**SPLIT, "data": []}}), 400),
    "ragged": (json.dumps({"dataframe_split": {**SPLIT, "data": [[1.0], [1.0, 2.0]]}}), 400),
    "a column twice": (
        json.dumps({"dataframe_split": {"columns": ["a", "a", "é", "d"], "data": ROWS}}),
        400,
    ),
    "a column missing": (
        json.dumps({"dataframe_split": {"columns": NAMES[:3], "data": [[1, 2, 3]]}}),
        400,
    ),
    "records": (
        json.dumps({"dataframe_records": [dict(zip(NAMES, row, strict=True)) for row in ROWS]}),
        200,
    ),
    "mixed records": (json.dumps({"dataframe_records": [{"a": 1}, {"b c": 2}]}), 400),
    "columns": (json.dumps({"inputs": {n: X[:, j].tolist() for j, n in enumerate(NAMES)}}), 200),
    "unknown output": (json.dumps({"dataframe_split": SPLIT, "params": {"output": "x"}}), 400),
    "k of 0": (json.dumps({"dataframe_split": SPLIT, "params": {"k": 0}}), 400),
    "k beyond 64 bits": (json.dumps({"dataframe_split": SPLIT, "params": {"k": 2**64}}), None),
    "not JSON": ("{", 400),
    "nothing": ("", 400),
}


# Bodies that lack a value, which is no mistake where the model takes missing ones.
MISSING = {"null", "NaN"}


@pytest.mark.filterwarnings("ignore")  # pandas' and MLflow's, about what is nonsense
@pytest.mark.parametrize("name", MODELS)
def test_served(name, saved):
    model = saved(name)
    schema = model.metadata.get_input_schema()
    guarded = serving._guard(inspect.unwrap(scoring_server.invocations), scoring_server)
    for what, (body, expected) in BODIES.items():
        try:
            answer = guarded(body.encode(), "application/json", model, schema)
            status, text = answer.status, answer.response
        except MlflowException as error:
            status, text = error.get_http_status_code(), error.message
        if what in MISSING and MODELS[name].takes_missing_values:
            expected = 200
        assert status in ((200, 400) if expected is None else (expected,)), f"{what}: {text}"
        if status == 200:
            scores = np.array(json.loads(text)["predictions"], dtype=np.float64)
            assert np.isfinite(scores).all(), what
