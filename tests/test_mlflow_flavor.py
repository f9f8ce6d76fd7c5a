"""The MLflow flavor: what is saved comes back the same, from any kind of input, without pickle."""

import json
import logging
import pickle
import shutil

import mlflow
import numpy as np
import pandas as pd
import pytest
import yaml
from mlflow.exceptions import MlflowException
from mlflow.models import Model as MlflowModel
from mlflow.models import infer_signature
from scipy import sparse
from sklearn.dummy import DummyRegressor

import rankplug.mlflow
from rankplug import LabelRanker, Ranker, RankingData, __version__
from rankplug.exceptions import DataError, ModelFormatError, ParameterError
from rankplug.models import LabelLinearModel, LinearModel
from rankplug_plugins.xgboost_pairwise import XGBoostPairwise

# MLflow's own use of SQLAlchemy and pandas.
pytestmark = [
    pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy is deprecated"),
    pytest.mark.filterwarnings("ignore:Operation with range is deprecated"),
]

NAMES = ["age", "height (m)", "price"]
X = np.random.default_rng(0).normal(size=(40, 3))
Y = np.clip(np.round(X @ [1.0, -1.0, 0.5]), 0, 3)
QID = np.repeat(np.arange(4), 10)
FRAME = pd.DataFrame(X, columns=NAMES)


@pytest.fixture(autouse=True)
def no_pickle(monkeypatch):
    """Nothing is unpickled, neither by MLflow nor behind its back."""
    monkeypatch.setenv("MLFLOW_ALLOW_PICKLE_DESERIALIZATION", "false")

    def refuse(*_, **__):
        raise AssertionError("something was unpickled")

    for name in ("load", "loads", "Unpickler"):
        monkeypatch.setattr(pickle, name, refuse)


@pytest.fixture(scope="module")
def models():
    data = RankingData.from_arrays(X, Y, QID, feature_names=NAMES)
    trees = XGBoostPairwise(n_estimators=3, max_depth=2, n_threads=1).solve(data).model
    rng = np.random.default_rng(1)
    return {
        "linear": LinearModel(rng.normal(size=3), NAMES),
        "label-linear": LabelLinearModel(rng.normal(size=(4, 3)), list("wxyz"), NAMES),
        "xgboost": trees,
    }


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    """A tracking database; it takes seconds to make, so it is made once."""
    folder = tmp_path_factory.mktemp("store")
    client = mlflow.MlflowClient(tracking_uri=f"sqlite:///{folder}/mlflow.db")
    client.create_experiment("flavor", artifact_location=str(folder / "artifacts"))
    return f"sqlite:///{folder}/mlflow.db"


@pytest.fixture
def experiment(database, monkeypatch, tmp_path):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", database)
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "flavor")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("mlflow.tracking.fluent._active_experiment_id", None)


def pyfunc(model, folder, **options):
    rankplug.mlflow.save_model(model, folder / "saved", **options)
    return mlflow.pyfunc.load_model(str(folder / "saved"))


@pytest.mark.parametrize("kind", ["linear", "label-linear", "xgboost"])
def test_scores_are_the_same_after_loading(kind, models, tmp_path):
    model = models[kind]
    loaded = pyfunc(model, tmp_path)
    native = rankplug.mlflow.load_model(str(tmp_path / "saved"))
    expected = model.predict(X)
    np.testing.assert_array_equal(loaded.predict(FRAME), expected)
    np.testing.assert_array_equal(native.predict(X), expected)
    rows = sparse.csr_array(X)
    np.testing.assert_array_equal(native.predict(rows), model.predict(rows))
    assert type(native) is type(model)
    assert native.feature_names == tuple(NAMES)
    assert isinstance(loaded.get_raw_model(), type(model))
    assert not [path for path in tmp_path.rglob("*") if path.suffix in (".pkl", ".pickle")]


def test_fitted_rankers_are_accepted(tmp_path):
    ranker = Ranker("tree-tron").fit(FRAME, Y, qid=QID)
    scores = pyfunc(ranker, tmp_path / "ranker").predict(FRAME)
    np.testing.assert_array_equal(scores, ranker.predict(FRAME))
    solver = XGBoostPairwise(n_estimators=2, n_threads=1)
    labels = LabelRanker(solver).fit(X, np.repeat(["a", "b"], 20))
    loaded = pyfunc(labels, tmp_path / "labels")
    frame = pd.DataFrame(X, columns=["f0", "f1", "f2"])
    np.testing.assert_array_equal(loaded.predict(frame), labels.predict(X))
    assert loaded.metadata.signature.outputs.inputs[0].shape == (-1, 2)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (Ranker(), "holds no trained rankplug model.*after calling its fit"),
        (DummyRegressor(), "DummyRegressor holds no trained rankplug model"),
        (np.ones(3), "ndarray is not a rankplug model"),
    ],
)
def test_what_is_no_trained_model_is_refused(model, message, tmp_path):
    with pytest.raises(ParameterError, match=message):
        rankplug.mlflow.save_model(model, tmp_path / "saved")
    assert not list(tmp_path.iterdir())


def test_the_default_signature_names_columns_and_an_optional_qid(models, tmp_path):
    signature = pyfunc(models["linear"], tmp_path).metadata.signature
    assert signature.inputs.input_names() == [*NAMES, "qid"]
    assert signature.inputs.required_input_names() == NAMES
    assert [str(kind) for kind in signature.inputs.input_types()] == [
        *3 * ["DataType.double"],
        "DataType.string",
    ]
    assert [str(kind) for kind in signature.outputs.input_types()] == ["DataType.double"]


def test_features_without_names_are_numbered(tmp_path):
    loaded = pyfunc(LinearModel([1.0, 2.0]), tmp_path)
    assert loaded.metadata.signature.inputs.input_names() == ["f0", "f1", "qid"]
    frame = pd.DataFrame({"f1": [1.0, 0.0], "f0": [0.0, 5.0]})
    np.testing.assert_array_equal(loaded.predict(frame), [2.0, 5.0])


def test_a_feature_may_be_called_qid(tmp_path):
    loaded = pyfunc(LinearModel([1.0, 2.0], ["qid", "b"]), tmp_path)
    assert loaded.metadata.signature.inputs.input_names() == ["qid", "b"]
    np.testing.assert_array_equal(loaded.predict(pd.DataFrame({"qid": [3.0], "b": [1.0]})), [5.0])


def test_columns_are_matched_by_name(models, tmp_path):
    model = models["linear"]
    expected = model.predict(X)
    for name, options in {"signature": {}, "none": {"signature": False}}.items():
        loaded = pyfunc(model, tmp_path / name, **options)
        shuffled = FRAME.assign(qid=QID.astype(str), note="x")[
            ["note", "price", "qid", "age", "height (m)"]
        ]
        np.testing.assert_array_equal(loaded.predict(shuffled), expected)
        backwards = loaded.predict(FRAME.iloc[::-1])
        np.testing.assert_allclose(backwards, expected[::-1], rtol=1e-12)
        columns = {column: FRAME[column].to_numpy() for column in reversed(NAMES)}
        np.testing.assert_array_equal(loaded.predict(columns), expected)


def test_missing_columns_are_all_listed(models, tmp_path):
    frame = FRAME[["height (m)"]]
    with pytest.raises(MlflowException, match=r"missing inputs \['age', 'price'\]"):
        pyfunc(models["linear"], tmp_path / "a").predict(frame)
    with pytest.raises(DataError, match="missing feature columns: age, price"):
        pyfunc(models["linear"], tmp_path / "b", signature=False).predict(frame)


def test_missing_values_are_refused(models, tmp_path):
    with pytest.raises(DataError, match="NaN at row 0"):
        pyfunc(models["linear"], tmp_path).predict(FRAME.assign(age=np.nan))


@pytest.mark.parametrize(
    "data", [X, X.astype(np.float32), sparse.csr_array(X), sparse.csr_matrix(X), X.tolist()]
)
def test_without_a_signature_arrays_are_taken(data, models, tmp_path):
    loaded = pyfunc(models["linear"], tmp_path, signature=False)
    np.testing.assert_array_equal(loaded.predict(data), models["linear"].predict(data))


def test_without_a_signature_integers_are_taken(models, tmp_path):
    loaded = pyfunc(models["linear"], tmp_path, signature=False)
    frame = (100 * FRAME).astype(int).assign(qid=QID)
    np.testing.assert_array_equal(
        loaded.predict(frame), models["linear"].predict(frame[NAMES].astype(float))
    )


def test_mlflow_is_strict_with_a_signature_and_the_way_out_works(models, tmp_path):
    """What `save_model` documents: MLflow itself refuses these before the model sees them."""
    loaded = pyfunc(models["linear"], tmp_path)
    integers = (100 * FRAME).astype(int).assign(qid=QID)
    for data in (integers[NAMES], FRAME.assign(qid=QID), X, sparse.csr_array(X)):
        with pytest.raises(MlflowException, match="Failed to enforce schema"):
            loaded.predict(data)
    expected = models["linear"].predict(integers[NAMES])
    converted = integers.astype({**dict.fromkeys(NAMES, float), "qid": str})
    np.testing.assert_array_equal(loaded.predict(converted), expected)
    native = rankplug.mlflow.load_model(str(tmp_path / "saved"))
    np.testing.assert_array_equal(native.predict(integers), expected)


def test_wide_models_without_names_have_no_signature_and_take_sparse_rows(tmp_path):
    model = LinearModel(np.arange(3000.0))
    loaded = pyfunc(model, tmp_path)
    rows = sparse.random_array((5, 3000), density=0.01, format="csr", rng=0)
    assert loaded.metadata.signature is None
    np.testing.assert_array_equal(loaded.predict(rows), model.predict(rows))
    frame = pd.DataFrame(rows.toarray()).assign(qid="q")
    np.testing.assert_array_equal(loaded.predict(frame), model.predict(rows.toarray()))


def test_a_given_signature_is_kept(models, tmp_path):
    signature = infer_signature(X, models["linear"].predict(X))
    loaded = pyfunc(models["linear"], tmp_path, signature=signature)
    assert loaded.metadata.signature == signature
    np.testing.assert_array_equal(loaded.predict(X), models["linear"].predict(X))


@pytest.mark.parametrize(
    "example",
    [
        X[:2],
        sparse.csr_array(X[:2]),
        FRAME[:2],
        (100 * FRAME[:2]).astype(int).assign(qid=7, extra="x"),
    ],
)
def test_an_input_example_fits_the_signature(example, models, experiment, caplog):
    with caplog.at_level(logging.WARNING, logger="mlflow"):
        logging.getLogger("mlflow").propagate = True
        info = rankplug.mlflow.log_model(models["linear"], name="m", input_example=example)
    assert not [record for record in caplog.records if "serving input" in record.message]
    loaded = mlflow.pyfunc.load_model(info.model_uri)
    assert list(loaded.input_example.columns)[:3] == NAMES
    assert loaded.predict(loaded.input_example).shape == (2,)


def test_log_model_registers_and_keeps_what_it_is_given(models, experiment):
    with mlflow.start_run() as run:
        mlflow.log_metric("ndcg_at_10", 0.5)
        info = rankplug.mlflow.log_model(
            models["linear"],
            name="ranker",
            registered_model_name="champions",
            params={"C": 0.1},
            tags={"team": "search"},
            metadata={"note": "hello"},
            model_type="ranker",
            step=0,
        )
    client = mlflow.MlflowClient()
    client.set_registered_model_alias("champions", "champion", info.registered_model_version)
    for uri in (
        "models:/champions@champion",
        f"models:/champions/{info.registered_model_version}",
        f"runs:/{run.info.run_id}/ranker",
        info.model_uri,
    ):
        expected = models["linear"].predict(X)
        np.testing.assert_array_equal(mlflow.pyfunc.load_model(uri).predict(FRAME), expected)
        np.testing.assert_array_equal(rankplug.mlflow.load_model(uri).predict(X), expected)
    logged = client.get_logged_model(info.model_id)
    assert logged.params == {"C": "0.1"}
    assert logged.tags["team"] == "search"
    assert logged.model_type == "ranker"
    assert logged.source_run_id == run.info.run_id
    assert {metric.key: metric.value for metric in logged.metrics} == {"ndcg_at_10": 0.5}
    assert info.metadata == {"note": "hello"}
    assert info.flavors["rankplug"]["rankplug_version"] == __version__


def requirements(folder):
    return (folder / "saved" / "requirements.txt").read_text().split()


def test_the_requirements_are_pinned_and_few(models, tmp_path):
    defaults = rankplug.mlflow.get_default_pip_requirements()
    assert defaults[0] == f"rankplug=={__version__}"
    assert [line.split("==")[0] for line in defaults] == [
        "rankplug",
        "numpy",
        "scipy",
        "scikit-learn",
    ]
    pyfunc(models["linear"], tmp_path / "linear")
    assert requirements(tmp_path / "linear") == [f"mlflow=={mlflow.__version__}", *defaults]
    pyfunc(models["xgboost"], tmp_path / "trees")
    with_trees = rankplug.mlflow.get_default_pip_requirements(include_xgboost=True)
    assert with_trees[-1].startswith("xgboost==")
    assert requirements(tmp_path / "trees") == [f"mlflow=={mlflow.__version__}", *with_trees]
    environment = rankplug.mlflow.get_default_conda_env()
    assert set(defaults) <= set(environment["dependencies"][-1]["pip"])


def test_the_requirements_can_be_chosen(models, tmp_path):
    model = models["linear"]
    pyfunc(model, tmp_path / "own", pip_requirements=["mlflow", "rankplug"])
    assert requirements(tmp_path / "own") == ["mlflow", "rankplug"]
    pyfunc(model, tmp_path / "extra", extra_pip_requirements=["pyyaml"])
    assert requirements(tmp_path / "extra")[-1] == "pyyaml"
    conda = rankplug.mlflow.get_default_conda_env()
    pyfunc(model, tmp_path / "conda", conda_env=conda)
    saved = yaml.safe_load((tmp_path / "conda" / "saved" / "conda.yaml").read_text())
    assert saved == conda
    with pytest.raises(ValueError, match="Only one of"):
        pyfunc(model, tmp_path / "both", conda_env=conda, pip_requirements=["mlflow"])
    assert not (tmp_path / "both").exists()


def test_code_paths_are_kept_and_importable(models, tmp_path, monkeypatch):
    (tmp_path / "helper_of_a_test.py").write_text("ANSWER = 42\n")
    monkeypatch.setattr("sys.path", list(__import__("sys").path))
    pyfunc(models["linear"], tmp_path, code_paths=[str(tmp_path / "helper_of_a_test.py")])
    (tmp_path / "helper_of_a_test.py").unlink()
    rankplug.mlflow.load_model(str(tmp_path / "saved"))
    assert __import__("helper_of_a_test").ANSWER == 42


def test_nothing_is_left_of_a_model_that_cannot_be_saved(models, tmp_path, monkeypatch):
    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(LinearModel, "_write", fail)
    with pytest.raises(OSError, match="disk full"):
        rankplug.mlflow.save_model(models["linear"], tmp_path / "saved")
    assert not list(tmp_path.iterdir())


def test_a_folder_in_use_is_not_touched(models, tmp_path):
    (tmp_path / "mine").write_text("precious")
    with pytest.raises(FileExistsError, match="exists already"):
        rankplug.mlflow.save_model(models["linear"], tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
    (tmp_path / "empty").mkdir()
    rankplug.mlflow.save_model(models["linear"], tmp_path / "empty")
    assert (tmp_path / "empty" / "MLmodel").is_file()


@pytest.mark.parametrize("load", [rankplug.mlflow.load_model, mlflow.pyfunc.load_model])
def test_damaged_models_are_refused(load, models, tmp_path):
    rankplug.mlflow.save_model(models["linear"], tmp_path / "whole")

    def damaged(name):
        return shutil.copytree(tmp_path / "whole", tmp_path / name) / "model"

    arrays = damaged("altered") / "arrays.npz"
    content = bytearray(arrays.read_bytes())
    content[-40] ^= 1
    arrays.write_bytes(content)
    cut = damaged("cut") / "arrays.npz"
    cut.write_bytes(cut.read_bytes()[:100])
    (damaged("missing") / "arrays.npz").unlink()
    header = damaged("newer") / "model.json"
    header.write_text(json.dumps({**json.loads(header.read_text()), "schema_version": 99}))
    for name, message in {
        "altered": "altered or truncated",
        "cut": "altered or truncated",
        "missing": "missing",
        "newer": "schema version 99",
    }.items():
        with pytest.raises(ModelFormatError, match=message):
            load(str(tmp_path / name))


def test_another_flavors_model_is_refused(tmp_path):
    model = MlflowModel()
    model.add_flavor("sklearn")
    model.save(str(tmp_path / "MLmodel"))
    with pytest.raises(MlflowException, match='does not have the "rankplug" flavor'):
        rankplug.mlflow.load_model(str(tmp_path))
