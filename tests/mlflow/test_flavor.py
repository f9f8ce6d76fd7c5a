"""The MLflow flavor: what is saved comes back the same, from any kind of input, without pickle."""

import inspect
import json
import logging
import shutil

import mlflow
import mlflow.xgboost
import numpy as np
import pandas as pd
import pytest
import yaml
from mlflow.exceptions import MlflowException
from mlflow.models import Model as MlflowModel
from mlflow.models import infer_signature
from mlflow.types import DataType
from scipy import sparse
from sklearn.dummy import DummyRegressor
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import StandardScaler

import rankplug.mlflow
from rankplug import LabelRanker, Ranker, RankingData, __version__
from rankplug.data import Scaling
from rankplug.exceptions import ModelFormatError, ParameterError
from rankplug.kernels import Kernel
from rankplug.models import KernelModel, LabelLinearModel, LinearModel, ScaledModel
from rankplug.models.pipelines import PipelineModel
from rankplug_plugins.boosting import XGBoostPairwise

pytestmark = [
    pytest.mark.usefixtures("no_pickle"),
    # MLflow's own use of SQLAlchemy and pandas.
    pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy is deprecated"),
    pytest.mark.filterwarnings("ignore:Operation with range is deprecated"),
]

NAMES = ["age", "height (m)", "price"]
X = np.random.default_rng(0).normal(size=(40, 3))
Y = np.clip(np.round(X @ [1.0, -1.0, 0.5]), 0, 3)
QID = np.repeat(np.arange(4), 10)
FRAME = pd.DataFrame(X, columns=NAMES)
SEARCHED = GridSearchCV(DummyRegressor(), {"strategy": ["mean"]}, cv=2).fit(X, Y)
KINDS = ["linear", "label-linear", "kernel", "scaled", "pipeline", "xgboost"]


@pytest.fixture(scope="module")
def models():
    data = RankingData.from_arrays(X, Y, QID, feature_names=NAMES)
    trees = XGBoostPairwise(n_estimators=3, max_depth=2, n_threads=1).solve(data).model
    rng = np.random.default_rng(1)
    linear = LinearModel(rng.normal(size=3), NAMES)
    scaler = StandardScaler(with_mean=False).fit(X)
    return {
        "linear": linear,
        "label-linear": LabelLinearModel(rng.normal(size=(4, 3)), list("wxyz"), NAMES),
        "kernel": KernelModel(Kernel("rbf", gamma=0.5), X[:9], rng.normal(size=9), None, NAMES),
        "scaled": ScaledModel(linear, Scaling(None, np.array([0.5, 2.0, 3.0]))),
        "pipeline": PipelineModel([("scale", scaler)], linear, NAMES),
        "xgboost": trees,
    }


@pytest.fixture(scope="module")
def database(empty_store, tmp_path_factory):
    folder = tmp_path_factory.mktemp("store")
    shutil.copy(empty_store, folder)
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


@pytest.mark.parametrize("kind", KINDS)
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
    assert native.kind == kind
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
    np.testing.assert_array_equal(loaded.predict(X), labels.predict(X))
    assert loaded.metadata.signature.outputs.inputs[0].shape == (-1, 2)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (Ranker(), "holds no trained rankplug model.*after calling its fit"),
        (DummyRegressor(), "DummyRegressor holds no trained rankplug model"),
        (SEARCHED, "pass the best_estimator_ of the GridSearchCV"),
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
    assert [str(kind) for kind in signature.inputs.input_types()] == 4 * ["Any"]
    assert [str(kind) for kind in signature.outputs.input_types()] == ["DataType.double"]
    assert signature.params == rankplug.mlflow.PARAMS
    assert [(one.name, one.default) for one in signature.params] == [("output", "score"), ("k", 10)]
    labels = pyfunc(models["label-linear"], tmp_path / "labels").metadata.signature
    assert labels.inputs.input_names() == NAMES


@pytest.mark.parametrize(
    ("model", "options"),
    [(LinearModel([1.0, 2.0]), {}), (LinearModel([1.0, 2.0], ["a", "b"]), {"signature": False})],
    ids=["no names", "no signature"],
)
def test_the_input_is_open_without_names_or_signature(model, options, tmp_path):
    signature = pyfunc(model, tmp_path, **options).metadata.signature
    assert signature.inputs is None
    assert signature.params == rankplug.mlflow.PARAMS
    assert signature.outputs.input_types() == [DataType.double]


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


@pytest.mark.parametrize("example", [X[:2], sparse.csr_matrix(X[:2]), FRAME[:2]])
def test_an_example_without_names_is_kept_as_it_is(example, models, experiment, caplog):
    with caplog.at_level(logging.WARNING, logger="mlflow"):
        logging.getLogger("mlflow").propagate = True
        model = LinearModel(models["linear"].coef)
        info = rankplug.mlflow.log_model(model, name="m", input_example=example)
    assert not [record for record in caplog.records if "serving input" in record.message]
    loaded = mlflow.pyfunc.load_model(info.model_uri)
    np.testing.assert_array_equal(loaded.predict(loaded.input_example), model.predict(example))


@pytest.mark.parametrize("function", ["save_model", "log_model", "load_model"])
def test_keywords_are_those_of_mlflows_own_flavors(function):
    own = set(inspect.signature(getattr(rankplug.mlflow, function)).parameters)
    theirs = set(inspect.signature(getattr(mlflow.xgboost, function)).parameters)
    of_xgboost = {"xgb_model", "model_format", "extra_files", "artifact_path", "kwargs"}
    assert theirs - own <= of_xgboost


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
    """The packages that are required; the options beside them say where pip finds some."""
    lines = (folder / "saved" / "requirements.txt").read_text().split("\n")
    return [line for line in lines if not line.startswith("--")]


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


LOADERS = [rankplug.mlflow.load_model, mlflow.pyfunc.load_model]


@pytest.fixture(scope="module")
def saved(models, tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved")
    for kind, model in models.items():
        rankplug.mlflow.save_model(model, folder / kind)
    return folder


def edited(folder, **changes):
    header = folder / "model" / "model.json"
    header.write_text(json.dumps({**json.loads(header.read_text()), **changes}))


@pytest.mark.parametrize("load", LOADERS, ids=["native", "pyfunc"])
@pytest.mark.parametrize("kind", KINDS)
def test_damaged_models_are_refused(kind, load, saved, tmp_path):
    files = [file.name for file in (saved / kind / "model").iterdir()]
    assert len(files) >= 2

    def refused(message):
        with pytest.raises(ModelFormatError, match=message):
            load(str(tmp_path / "copy"))
        shutil.rmtree(tmp_path / "copy")

    def copy(name=""):
        return shutil.copytree(saved / kind, tmp_path / "copy") / "model" / name

    for name in files:
        whole = copy(name).read_bytes()
        (tmp_path / "copy" / "model" / name).unlink()
        refused(f"{name} is missing|no {name} in it")
        copy(name).write_bytes(whole[: len(whole) // 2])
        refused("altered or truncated|cannot be read")
        copy(name).write_bytes(b"")
        refused("altered or truncated|cannot be read")
        middle = len(whole) // 2
        copy(name).write_bytes(whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :])
        refused("altered|cannot be read|not describe|schema version|missing")
    copy()
    edited(tmp_path / "copy", schema_version=99)
    refused("schema version 99.*load the model with the version of rankplug that saved it")
    copy()
    edited(tmp_path / "copy", feature_names=["x", "y", "z"])
    refused("model.json was altered")
    copy()
    edited(tmp_path / "copy", kind="unheard-of")
    refused("no installed package reads models of kind 'unheard-of'")
    copy()
    edited(tmp_path / "copy", model={"something": "else"})
    refused("altered|damaged|missing|does not describe")


@pytest.mark.parametrize("load", LOADERS, ids=["native", "pyfunc"])
def test_a_model_without_its_folder_is_refused(load, saved, tmp_path):
    shutil.copytree(saved / "linear", tmp_path / "copy")
    shutil.rmtree(tmp_path / "copy" / "model")
    with pytest.raises((ModelFormatError, MlflowException), match="model"):
        load(str(tmp_path / "copy"))


def test_another_flavors_model_is_refused(tmp_path):
    model = MlflowModel()
    model.add_flavor("sklearn")
    model.save(str(tmp_path / "MLmodel"))
    with pytest.raises(MlflowException, match='does not have the "rankplug" flavor'):
        rankplug.mlflow.load_model(str(tmp_path))
