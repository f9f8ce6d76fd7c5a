"""Pipelines of scikit-learn's scalers and a ranker: saved without pickle, scores bit-equal."""

import mlflow
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, StandardScaler

import rankplug.mlflow
from rankplug import LabelRanker, Ranker, load_model, make_solver
from rankplug.exceptions import DataError, ModelFormatError, ParameterError
from rankplug.models import LinearModel
from rankplug.models.pipelines import PipelineModel, pipeline_model

pytestmark = pytest.mark.usefixtures("no_pickle")

NAMES = ["age", "height (m)", "price", "constant"]
RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 4)) * [1.0, 1e3, 1e-3, 0.0] + [0.0, 5.0, 1e4, 7.0]
Y = np.clip(np.round(X[:, 0]), 0, 3)
QID = np.repeat(np.arange(6), 10)
FRAME = pd.DataFrame(X, columns=NAMES)
NEW = RNG.normal(size=(50, 4)) * [2.0, 3e3, 1e-2, 1.0] + [0.0, 5.0, 1e4, 7.0]


SCALERS = {
    "standard": StandardScaler(),
    "only scale": StandardScaler(with_mean=False),
    "only shift": StandardScaler(with_std=False),
    "neither": StandardScaler(with_mean=False, with_std=False),
    "minmax": MinMaxScaler((-1, 3)),
    "clipped": MinMaxScaler(clip=True),
    "maxabs": MaxAbsScaler(),
    "in place": StandardScaler(copy=False),
}


@pytest.mark.parametrize("scaler", SCALERS.values(), ids=SCALERS)
def test_scores_are_the_pipelines(scaler, tmp_path):
    pipeline = make_pipeline(scaler, "passthrough", MaxAbsScaler(), Ranker())
    pipeline.fit(X.copy(), Y, ranker__qid=QID)
    rankplug.mlflow.save_model(pipeline, tmp_path / "saved")
    native = rankplug.mlflow.load_model(str(tmp_path / "saved"))
    loaded = mlflow.pyfunc.load_model(str(tmp_path / "saved"))
    for features in (NEW, NEW.astype(np.float32), np.asfortranarray(NEW), NEW[:1], NEW[::2]):
        kept = features.copy()
        expected = pipeline.predict(features.copy())
        np.testing.assert_array_equal(native.predict(features), expected)
        np.testing.assert_array_equal(loaded.predict(features), expected)
        np.testing.assert_array_equal(features, kept)
    assert not [path for path in tmp_path.rglob("*") if path.suffix in (".pkl", ".pickle")]


@pytest.mark.parametrize("scaler", [MaxAbsScaler(), StandardScaler(with_mean=False)])
def test_sparse_features(scaler, tmp_path):
    rows = sparse.csr_array(X * (RNG.random(X.shape) < 0.5))
    pipeline = make_pipeline(scaler, Ranker()).fit(rows, Y, ranker__qid=QID)
    rankplug.mlflow.save_model(pipeline, tmp_path / "saved")
    loaded = mlflow.pyfunc.load_model(str(tmp_path / "saved"))
    for features in (rows, sparse.csr_matrix(rows), rows.astype(np.float32), rows.toarray()):
        np.testing.assert_array_equal(loaded.predict(features), pipeline.predict(features))


@pytest.mark.parametrize("scaler", [StandardScaler(), MinMaxScaler()])
def test_sparse_features_that_would_become_dense(scaler):
    pipeline = make_pipeline(scaler, Ranker()).fit(X, Y)
    model = pipeline_model(pipeline, pipeline[-1].model_)
    name = type(scaler).__name__
    with pytest.raises(DataError, match=f"step '{name.lower()}' .{name}. refuses the features"):
        model.predict(sparse.csr_array(X))


@pytest.mark.parametrize("output", ["default", "pandas"])
def test_names_are_those_of_the_first_step(output, tmp_path):
    pipeline = make_pipeline(StandardScaler(), Ranker()).set_output(transform=output)
    pipeline.fit(FRAME, Y, ranker__qid=QID)
    rankplug.mlflow.save_model(pipeline, tmp_path / "saved")
    loaded = mlflow.pyfunc.load_model(str(tmp_path / "saved"))
    assert loaded.metadata.signature.inputs.input_names() == [*NAMES, "qid"]
    assert loaded.get_raw_model().feature_names == tuple(NAMES)
    expected = pipeline.predict(FRAME)
    np.testing.assert_array_equal(loaded.predict(FRAME[NAMES[::-1]]), expected)


def test_other_models_at_the_end(tmp_path):
    trees = make_solver("xgboost-pairwise", n_estimators=3, n_threads=1)
    labels = make_pipeline(MinMaxScaler(), LabelRanker("sopopo")).fit(X, np.arange(60) % 3)
    for name, pipeline in {
        "trees": make_pipeline(StandardScaler(), Ranker(trees)).fit(FRAME, Y),
        "labels": labels,
        "alone": make_pipeline(Ranker()).fit(FRAME, Y),
        "nested": make_pipeline(make_pipeline(MinMaxScaler(), StandardScaler()), Ranker()).fit(
            X, Y
        ),
        "nothing": Pipeline([("a", None), ("b", "passthrough"), ("c", Ranker())]).fit(FRAME, Y),
    }.items():
        rankplug.mlflow.save_model(pipeline, tmp_path / name)
        native = rankplug.mlflow.load_model(str(tmp_path / name))
        features = X if name in ("labels", "nested") else FRAME
        np.testing.assert_array_equal(native.predict(features), pipeline.predict(features))
    assert "xgboost==" in (tmp_path / "trees" / "requirements.txt").read_text()
    loaded = mlflow.pyfunc.load_model(str(tmp_path / "labels"))
    best = loaded.predict(X, params={"output": "top_k", "k": 1})
    assert best["label"].tolist() == labels[-1].labels_[labels.predict(X).argmax(axis=1)].tolist()


class Doubling(StandardScaler):
    def transform(self, X):
        return 2 * super().transform(X)


def test_steps_that_cannot_be_saved_are_named(tmp_path):
    pipeline = Pipeline([("reduce", PCA(2)), ("twice", Doubling()), ("rank", Ranker())]).fit(X, Y)
    with pytest.raises(ParameterError, match=r"'reduce' \(PCA\), 'twice' \(Doubling\); those that"):
        rankplug.mlflow.save_model(pipeline, tmp_path / "saved")
    assert not list(tmp_path.iterdir())
    rankplug.mlflow.save_model(pipeline[-1], tmp_path / "saved")  # as the message proposes


@pytest.mark.parametrize(
    ("pipeline", "message"),
    [
        (make_pipeline(StandardScaler(), Ranker()), "holds no trained rankplug model"),
        (make_pipeline(StandardScaler(), PCA()), "PCA holds no trained rankplug model"),
        (make_pipeline(MinMaxScaler(), Ranker().fit(X, Y)), "step 'minmaxscaler' is not fitted"),
    ],
)
def test_pipelines_that_are_not_trained(pipeline, message, tmp_path):
    with pytest.raises(ParameterError, match=message):
        rankplug.mlflow.save_model(pipeline, tmp_path / "saved")
    assert not list(tmp_path.iterdir())


STEP = {"name": "a", "scaler": "MaxAbsScaler", "params": {}, "arrays": ["scale_"]}


@pytest.mark.parametrize(
    "steps",
    [
        None,
        [3],
        [{}],
        [STEP | {"scaler": "Binarizer"}],
        [STEP | {"params": {"unknown": 1}}],
        [STEP | {"arrays": ["mean_"]}],
        [STEP, STEP],
    ],
    ids=str,
)
def test_a_damaged_description_is_told(steps, tmp_path):
    scaler = MaxAbsScaler().fit([[2.0, 4.0]])
    extra = PipelineModel([("a", scaler)], LinearModel([1.0, 2.0]))._write(tmp_path)
    assert PipelineModel._read(tmp_path, extra).predict([[2.0, 4.0]]).tolist() == [3.0]
    with pytest.raises(ModelFormatError):
        PipelineModel._read(tmp_path, extra | {"steps": steps})
    with pytest.raises(ModelFormatError, match="does not describe"):
        PipelineModel._read(tmp_path, extra | {"kind": None})


def test_arrays_that_do_not_fit_are_told(tmp_path):
    scaler = MaxAbsScaler().fit([[2.0]])
    PipelineModel([("a", scaler)], LinearModel([1.0, 2.0])).save(tmp_path / "model")
    with pytest.raises(ModelFormatError, match="does not fit 2 features"):
        load_model(tmp_path / "model")


finite = st.floats(-1e6, 1e6, width=32)
TRAINED = Ranker().fit([[0.0, 1.0], [1.0, 0.0]], [0, 1])


@settings(max_examples=40)
@given(
    rows=st.lists(st.tuples(finite, finite), min_size=2, max_size=6),
    scalers=st.lists(st.sampled_from(list(SCALERS)), min_size=1, max_size=3),
    dtype=st.sampled_from([np.float64, np.float32]),
)
def test_any_scalers_in_a_row(rows, scalers, dtype, tmp_path_factory):
    features = np.array(rows, dtype=dtype)
    steps = [(f"{j}", clone(SCALERS[name])) for j, name in enumerate(scalers)]
    pipeline = Pipeline([*steps, ("rank", TRAINED)])
    scaled = pipeline[:-1].fit_transform(features.copy())
    if not np.isfinite(scaled).all():
        return
    folder = tmp_path_factory.mktemp("model") / "model"
    pipeline_model(pipeline, TRAINED.model_).save(folder)
    np.testing.assert_array_equal(load_model(folder).predict(features), TRAINED.predict(scaled))
