"""`rankplug.mlflow.autolog`: what a fit leaves in MLflow, alone, nested, failing, in threads."""

import io
import logging
import signal
import threading

import mlflow
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import sklearn
from scipy import sparse
from sklearn.compose import make_column_transformer
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import rankplug.mlflow
from rankplug import LabelRanker, Ranker, make_solver
from rankplug.exceptions import DataError, InterruptionWarning, ParameterError
from rankplug.mlflow.importances import find_importances
from rankplug.models import LabelLinearModel, LinearModel
from rankplug.solver import Monitor
from rankplug.system import interruption

pytestmark = [
    pytest.mark.usefixtures("own_store"),
    # MLflow's own use of SQLAlchemy and pandas.
    pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy is deprecated"),
    pytest.mark.filterwarnings("ignore:Operation with range is deprecated"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:mlflow"),
]

RNG = np.random.default_rng(0)
X = pd.DataFrame(RNG.normal(size=(60, 3)), columns=["a", "b", "c"])
Y = np.clip(np.round(X["a"] - X["b"]), 0, 3).to_numpy()
QID = np.repeat(np.arange(6), 10)


@pytest.fixture
def runs(own_store, request):
    """Runs of the test, oldest first, in an experiment of its own; logging ends with the test."""
    location = (own_store / "artifacts").as_uri()
    experiment = mlflow.create_experiment(request.node.name, artifact_location=location)
    mlflow.set_experiment(experiment_id=experiment)
    yield lambda: mlflow.MlflowClient().search_runs([experiment], order_by=["start_time"])
    rankplug.mlflow.autolog(disable=True)


def fit(C=1.0, **arguments):
    return Ranker(make_solver("tree-tron", C=C), random_state=3).fit(X, Y, qid=QID, **arguments)


def test_a_fit_is_a_run(runs):
    rankplug.mlflow.autolog(extra_tags={"team": "search"})
    ranker = fit(eval_set=(X[:30], Y[:30]), eval_qid=QID[:30])
    (run,) = runs()
    assert run.info.status == "FINISHED"
    assert run.data.tags["team"] == "search"
    assert run.data.tags["mlflow.autologging"] == "rankplug"
    params = run.data.params
    assert (params["solver"], params["C"], params["random_state"]) == ("tree-tron", "1.0", "3")
    metrics = run.data.metrics
    assert metrics["objective"] == ranker.result_.objective
    assert metrics["train_seconds"] == ranker.result_.seconds
    assert metrics["valid_ndcg_at_10"] == pytest.approx(ranker.score(X[:30], Y[:30], qid=QID[:30]))
    history = mlflow.MlflowClient().get_metric_history(run.info.run_id, "gradient_norm")
    assert [(one.step, one.value) for one in history] == [
        (row["n_iter"], row["gradient_norm"]) for row in ranker.result_.history
    ]
    assert {(one.dataset.name, one.tags[0].value) for one in run.inputs.dataset_inputs} == {
        ("train", "training"),
        ("valid", "validation"),
    }
    (output,) = run.outputs.model_outputs
    loaded = mlflow.pyfunc.load_model(f"models:/{output.model_id}")
    np.testing.assert_array_equal(loaded.predict(X), ranker.predict(X))
    logged = mlflow.get_logged_model(output.model_id)
    assert "valid_ndcg_at_10" in {metric.key for metric in logged.metrics}


def test_every_validation_set_has_a_curve(runs):
    rankplug.mlflow.autolog(log_models=False, log_datasets=False)
    sets = [(X[:30], Y[:30]), (X[30:], Y[30:])]
    ranker = fit(eval_set=sets, eval_qid=[QID[:30], QID[30:]])
    (run,) = runs()
    for name, metrics in ranker.evals_result_.items():
        history = mlflow.MlflowClient().get_metric_history(run.info.run_id, f"{name}_ndcg_at_10")
        assert [one.value for one in history] == metrics["ndcg@10"]
        assert [one.step for one in history] == [row["n_iter"] for row in ranker.result_.history]
    assert run.data.metrics["valid_ndcg_at_10"] == pytest.approx(metrics["ndcg@10"][-1])
    early = Ranker("tree-tron", early_stopping_rounds=1, eval_metric="map")
    early.fit(X, Y, qid=QID, eval_set=sets[1:], eval_qid=[QID[30:]])
    history = mlflow.MlflowClient().get_metric_history(runs()[-1].info.run_id, "valid_map")
    curve = [row["valid_map"] for row in early.result_.history]
    assert [one.value for one in history][: len(curve)] == curve


def test_label_ranking_is_logged_too(runs):
    rankplug.mlflow.autolog(log_models=False)
    LabelRanker().fit(X, Y, eval_set=(X, Y))
    (run,) = runs()
    assert run.data.params["solver"] == "sopopo"
    assert 0 <= run.data.metrics["valid_top1_error"] < 0.5
    assert not run.outputs.model_outputs


def artifacts(run):
    """Their names; those of importances with what they hold."""
    files = {file.path for file in mlflow.MlflowClient().list_artifacts(run.info.run_id)}
    uris = {name: f"runs:/{run.info.run_id}/{name}" for name in files}
    for name, uri in uris.items():
        if name.endswith(".png"):
            assert mlflow.artifacts.load_image(uri).size > (100, 100)
    json = [name for name in files if name.endswith(".json")]
    return files, {name: mlflow.artifacts.load_dict(uris[name]) for name in json}


QUICK = {"log_models": False, "log_datasets": False}


def test_coefficients_and_importances_are_files(runs):
    rankplug.mlflow.autolog(**QUICK)
    linear = fit()
    trees = Ranker("xgboost-pairwise", n_estimators=3).fit(X, Y, qid=QID)
    array = Ranker("lightgbm-lambdarank", n_estimators=3).fit(X.to_numpy(), Y, qid=QID)
    labels = LabelRanker().fit(X, Y)
    found = [artifacts(run) for run in runs()]
    files = [{f"{name}.json", f"{name}.png"} for name in ("coefficients", "feature_importance")]
    assert [one[0] for one in found] == [files[0], files[1], files[1], files[0]]
    logged = [one[1].popitem()[1] for one in found]
    assert logged[0] == dict(zip("abc", linear.coef_, strict=True))
    by_size = sorted(logged[0].values(), key=abs, reverse=True)
    assert list(logged[0].values()) == by_size
    assert logged[1] == dict(zip("abc", trees.feature_importances_, strict=True))
    wanted = dict(zip(("f0", "f1", "f2"), array.feature_importances_, strict=True))
    assert logged[2] == wanted
    assert logged[3] == {
        str(label): dict(zip("abc", row, strict=True))
        for label, row in zip(labels.model_.labels, labels.coef_, strict=True)
    }


def test_coefficients_of_pipelines_and_searches_have_the_names_of_the_columns(runs):
    rankplug.mlflow.autolog(**QUICK)
    encoded = make_column_transformer((OneHotEncoder(), ["a"]), remainder="passthrough")
    pipeline = make_pipeline(encoded, make_pipeline(StandardScaler(), Ranker()))
    data = X.assign(a=np.where(X["a"] > 0, "yes", "no"))
    pipeline.fit(data, Y, pipeline__ranker__group=[60])
    search = GridSearchCV(Ranker(), {"solver__C": [0.1, 1.0]}, cv=2).fit(X.assign(qid=QID), Y)
    names = "onehotencoder__a_no", "onehotencoder__a_yes", "remainder__b", "remainder__c"
    of_pipeline, of_search = (artifacts(run)[1]["coefficients.json"] for run in runs())
    assert of_pipeline == dict(zip(names, pipeline[-1][-1].coef_, strict=True))
    assert of_search == dict(zip("abc", search.best_estimator_.coef_, strict=True))


def test_a_kernel_tells_no_importances(runs):
    rankplug.mlflow.autolog(**QUICK)
    LabelRanker("sopopo", kernel="rbf").fit(X[:20], Y[:20])
    assert artifacts(runs()[0])[0] == set()


def test_a_picture_that_cannot_be_drawn_costs_nothing_else(runs, monkeypatch, caplog):
    def fail(*args, **kwargs):
        raise RuntimeError("no font")

    monkeypatch.setattr("matplotlib.figure.Figure.savefig", fail)
    rankplug.mlflow.autolog(**QUICK)
    fit()
    assert "autologging is incomplete: RuntimeError: no font" in caplog.text
    (run,) = runs()
    assert run.info.status == "FINISHED"
    assert artifacts(run)[0] == {"coefficients.json"}


@pytest.mark.parametrize("n_features", [1, 50])
def test_pictures_of_few_and_many_features(n_features):
    names = [f"${j} \\n {'x' * 99}" for j in range(n_features)]
    for model in (
        LinearModel(np.zeros(n_features), names),
        LinearModel(np.arange(n_features) - 2.0, names),
        LabelLinearModel(np.ones((3, n_features)), ["$a", "b_", "c"], names),
    ):
        found = find_importances(model)
        figure = found.draw()
        figure.savefig(io.BytesIO(), format="png")
        assert ("20 of 50" in figure.axes[0].get_title()) == (n_features == 50)


def test_what_is_not_wanted_is_not_logged(runs):
    rankplug.mlflow.autolog(log_models=False, log_datasets=False, log_feature_importances=False)
    fit()
    (run,) = runs()
    assert artifacts(run) == (set(), {})
    assert run.data.metrics["n_iter"] > 0
    assert not run.outputs.model_outputs
    assert not run.inputs.dataset_inputs
    rankplug.mlflow.autolog(disable=True)
    fit()
    assert len(runs()) == 1
    rankplug.mlflow.autolog(exclusive=True, log_models=False)
    with mlflow.start_run():
        fit()
    assert [run.data.params for run in runs()[1:]] == [{}]
    fit()
    assert len(runs()) == 3


def test_examples_signatures_and_registration(runs):
    rankplug.mlflow.autolog(log_input_examples=True, registered_model_name="auto")
    fit()
    model = mlflow.pyfunc.load_model("models:/auto/1")
    pd.testing.assert_frame_equal(model.input_example[["a", "b", "c"]], X[:5])
    assert model.metadata.get_input_schema().input_names()[:3] == ["a", "b", "c"]


class Unsliced:
    """Features of which no first rows can be taken."""

    def __array__(self, dtype=None, copy=None):
        return X.to_numpy(dtype=dtype)


@pytest.mark.parametrize(
    "features",
    [
        sparse.csr_array(X),
        sparse.csc_matrix(X),
        sparse.coo_array(X),
        pl.from_pandas(X),
        pa.Table.from_pandas(X),
    ],
    ids=lambda features: f"{type(features).__module__.split('.')[0]}-{type(features).__name__}",
)
def test_examples_of_every_kind_of_features(runs, features):
    rankplug.mlflow.autolog(log_input_examples=True, log_datasets=False)
    Ranker(random_state=3).fit(features, Y, qid=QID)
    (run,) = runs()
    (output,) = run.outputs.model_outputs
    model = mlflow.pyfunc.load_model(f"models:/{output.model_id}")
    example = model.input_example
    rows = example.toarray() if sparse.issparse(example) else example.to_numpy()
    np.testing.assert_allclose(rows, X[:5])
    np.testing.assert_allclose(model.predict(example), model.get_raw_model().predict(X[:5]))


def test_a_model_whose_example_cannot_be_kept_is_logged_without_it(runs, caplog):
    rankplug.mlflow.autolog(log_input_examples=True)
    Ranker(random_state=3).fit(Unsliced(), Y, qid=QID)
    (run,) = runs()
    (output,) = run.outputs.model_outputs
    model = mlflow.pyfunc.load_model(f"models:/{output.model_id}")
    assert model.input_example is None
    assert model.predict(X.to_numpy()).shape == (60,)
    assert mlflow.get_logged_model(output.model_id).status == "READY"
    assert "the model is logged without an input example" in caplog.text


@pytest.mark.parametrize(
    ("arguments", "error"), [({"C": -1.0}, ParameterError), ({"group": [3]}, DataError)]
)
def test_a_failed_fit_is_a_failed_run(runs, arguments, error):
    rankplug.mlflow.autolog()
    with pytest.raises(error):
        fit(**arguments)
    (run,) = runs()
    assert run.info.status == "FAILED"
    assert mlflow.active_run() is None
    assert run.data.params.get("C") == ("-1.0" if "C" in arguments else None)


@pytest.mark.parametrize("times", [1, 2])
def test_an_interrupted_fit_is_a_killed_run(runs, monkeypatch, times):
    """The second signal is a `KeyboardInterrupt`; after one there is a model."""
    rankplug.mlflow.autolog()
    report = Monitor.report

    def reporting(self, n_iter, **values):
        going = report(self, n_iter, **values)
        for _ in range(times if n_iter == 0 else 0):
            signal.raise_signal(signal.SIGINT)
        return going

    monkeypatch.setattr(Monitor, "report", reporting)
    monkeypatch.setattr(interruption, "_last_caught", float("-inf"))
    expected = pytest.warns(InterruptionWarning) if times == 1 else pytest.raises(KeyboardInterrupt)
    with expected:
        fit()
    (run,) = runs()
    assert run.info.status == "KILLED"
    assert run.data.params["solver"] == "tree-tron"
    assert mlflow.active_run() is None


def test_a_run_of_the_user_holds_the_first_fit_and_children_the_others(runs):
    rankplug.mlflow.autolog(log_models=False, log_datasets=False)
    with mlflow.start_run() as user_run:
        for C in (0.1, 1.0):
            fit(C)
        assert mlflow.active_run().info.run_id == user_run.info.run_id
    parent, child = runs()
    assert (parent.info.run_id, parent.data.params["C"]) == (user_run.info.run_id, "0.1")
    assert child.data.tags["mlflow.parentRunId"] == parent.info.run_id
    assert child.data.params["C"] == "1.0"


def test_a_pipeline_is_one_run_with_the_whole_model(runs):
    rankplug.mlflow.autolog()
    with sklearn.config_context(enable_metadata_routing=True):
        pipeline = make_pipeline(StandardScaler(), Ranker()).fit(10 * X + 1, Y, qid=QID)
    (run,) = runs()
    (output,) = run.outputs.model_outputs
    loaded = mlflow.pyfunc.load_model(f"models:/{output.model_id}")
    np.testing.assert_array_equal(loaded.predict(10 * X + 1), pipeline.predict(10 * X + 1))


def test_a_search_is_one_run(runs):
    rankplug.mlflow.autolog()
    grid = {"solver__C": [1e-3, 1.0]}
    with sklearn.config_context(enable_metadata_routing=True):
        search = GridSearchCV(Ranker(make_solver("tree-tron")), grid, cv=2, error_score="raise")
        search.fit(X, Y, qid=QID)
    (run,) = runs()
    assert run.data.params["best_solver__C"] == str(search.best_params_["solver__C"])
    assert run.data.params["C"] == str(search.best_params_["solver__C"])
    assert run.data.metrics["best_cv_score"] == search.best_score_
    results = mlflow.load_table("cv_results.json", run_ids=[run.info.run_id])
    np.testing.assert_allclose(
        results["mean_test_score"], search.cv_results_["mean_test_score"], rtol=1e-9
    )
    (output,) = run.outputs.model_outputs
    loaded = mlflow.pyfunc.load_model(f"models:/{output.model_id}")
    np.testing.assert_array_equal(loaded.predict(X), search.predict(X))


def test_other_estimators_are_left_alone(runs):
    rankplug.mlflow.autolog()
    GridSearchCV(make_pipeline(StandardScaler(), Ridge()), {"ridge__alpha": [1, 2]}).fit(X, Y)
    assert runs() == []


def test_threads_do_not_mix(runs):
    rankplug.mlflow.autolog()
    C = [0.1, -1.0, 1.0, -2.0, 10.0]
    start = threading.Barrier(len(C))
    failures = []

    def work(value):
        start.wait()
        try:
            fit(value)
        except ParameterError:
            failures.append(value)

    threads = [threading.Thread(target=work, args=(value,)) for value in C]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(failures) == [-2.0, -1.0]
    found = {float(run.data.params["C"]): run for run in runs()}
    assert sorted(found) == sorted(C)
    for value, run in found.items():
        assert run.info.status == ("FAILED" if value < 0 else "FINISHED")
        assert len(run.outputs.model_outputs) == (value > 0)
        assert len(run.inputs.dataset_inputs) == (value > 0)
        assert ("objective" in run.data.metrics) == (value > 0)


class Nameless(StandardScaler):
    """A step that cannot tell what its columns are called."""

    def get_feature_names_out(self, names=None):
        raise RuntimeError("no names")


def test_trouble_with_mlflow_costs_the_log_only(runs, monkeypatch, caplog):
    def broken(*args, **kwargs):
        raise OSError("no space left")

    rankplug.mlflow.autolog(**QUICK)
    with monkeypatch.context() as patch:
        patch.setattr("mlflow.end_run", broken)
        ranker = make_pipeline(Nameless(), Ranker()).fit(X, Y, ranker__group=[60])
    assert ranker[-1].result_.status == "converged"
    assert "autologging is incomplete: RuntimeError: no names" in caplog.text
    assert "autologging is incomplete: OSError: no space left" in caplog.text
    mlflow.end_run()
    caplog.clear()
    monkeypatch.setattr("rankplug.mlflow.autologging.log_model", broken)
    rankplug.mlflow.autolog()
    with caplog.at_level(logging.WARNING):
        fit()
    assert "autologging is incomplete: OSError: no space left" in caplog.text
    run = runs()[-1]
    assert run.data.metrics["n_iter"] > 0
    monkeypatch.setattr("mlflow.start_run", broken)
    caplog.clear()
    rankplug.mlflow.autolog(silent=True)
    with caplog.at_level(logging.WARNING):
        assert fit().result_.status == "converged"
    assert caplog.text == ""
    assert len(runs()) == 2
