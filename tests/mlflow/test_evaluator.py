"""``mlflow.models.evaluate`` with the evaluator ``rankplug``."""

import json

import mlflow
import numpy as np
import pandas as pd
import pytest
from mlflow.models import MetricThreshold
from mlflow.models.evaluation.validation import ModelValidationFailedException

import rankplug.mlflow
from rankplug import Ranker
from rankplug.exceptions import DataError, ParameterError, UnknownNameError
from rankplug.metrics import SummarySettings as Settings
from rankplug.metrics import evaluate, per_query

# MLflow's own use of SQLAlchemy, and hints about integers in the caller's own frame.
pytestmark = [
    pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy is deprecated"),
    pytest.mark.filterwarnings("ignore:Hint. Inferred schema contains integer column"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:mlflow"),
]

RNG = np.random.default_rng(0)
X = pd.DataFrame(RNG.normal(size=(120, 3)), columns=["a", "b", "c"])
Y = np.clip(np.round(X["a"] - X["b"] + RNG.normal(size=120)), 0, 4).to_numpy()
QUERY = np.repeat(np.arange(12), 10)
FRAME = X.assign(label=Y, query=QUERY)
CONFIG = {"qid": "query", "metrics": ["ndcg@5", "pairwise_accuracy"]}
RANKER = {"model_type": "ranker", "evaluators": "rankplug"}


@pytest.fixture(scope="module")
def scores():
    return Ranker().fit(X, Y, qid=QUERY).predict(X)


@pytest.fixture(scope="module", autouse=True)
def store(own_store):
    """A database of its own, with an experiment that runs go to."""
    artifacts = (own_store / "artifacts").as_uri()
    mlflow.create_experiment("evaluation", artifact_location=artifacts)
    mlflow.set_experiment("evaluation")
    return own_store


@pytest.fixture(scope="module")
def model_uri(store):
    model = Ranker().fit(X, Y, qid=QUERY)
    return rankplug.mlflow.log_model(model, name="ranker").model_uri


@pytest.fixture(scope="module")
def result(model_uri):
    return mlflow.models.evaluate(
        model_uri, FRAME, targets="label", evaluator_config=CONFIG, **RANKER
    )


def expected(scores, metrics=("ndcg@5", "pairwise_accuracy")):
    return {
        name.replace("@", "_at_"): value
        for name, value in evaluate(Y, scores, QUERY, metrics).items()
    }


def test_metrics_are_those_of_the_model(result, scores):
    assert result.metrics == pytest.approx(expected(scores))
    run = mlflow.MlflowClient().get_run(result.run_id)
    assert run.data.metrics == pytest.approx(expected(scores))
    assert len(run.inputs.dataset_inputs) == 1


def test_values_of_all_queries_are_a_table(result, scores):
    table = result.tables["per_query"]
    assert list(table["qid"].astype(str)) == [str(query) for query in range(12)]
    assert set(table["n_rows"]) == {10}
    for name, values in per_query(Y, scores, QUERY, CONFIG["metrics"]).items():
        np.testing.assert_allclose(table[name], values)


def test_intervals_and_curve_are_artifacts(result, scores):
    intervals = json.loads(mlflow.artifacts.load_text(_uri(result, "confidence_intervals.json")))
    assert set(intervals) == set(CONFIG["metrics"])
    for name, one in intervals.items():
        assert one["low"] < one["value"] < one["high"], name
        assert (one["level"], one["n_queries"]) == (0.95, 12)
    assert intervals == result.artifacts["confidence_intervals"].content
    image = mlflow.artifacts.load_image(_uri(result, "ndcg_curve.png"))
    assert image.size[0] > 300
    assert result.artifacts["ndcg_curve"].content.size == image.size


def _uri(result, name):
    return f"runs:/{result.run_id}/{name}"


def linear(frame):
    assert list(frame.columns) == ["a", "b", "c", "query"]
    return frame["a"] - frame["b"]


@pytest.mark.parametrize("kind", ["loaded", "function", "static", "data set", "static data set"])
def test_what_can_be_evaluated(kind, model_uri, scores):
    arguments = {"data": FRAME, "targets": "label"}
    if kind == "loaded":
        arguments["model"] = mlflow.pyfunc.load_model(model_uri)
    elif kind == "function":
        arguments["model"], scores = linear, X["a"] - X["b"]
    elif kind == "static":
        arguments |= {"data": FRAME.assign(score=scores), "predictions": "score"}
    elif kind == "data set":
        data = mlflow.data.from_pandas(FRAME, targets="label", name="judged")
        arguments = {"data": data, "model": model_uri}
    else:
        frame = FRAME.assign(score=scores)
        arguments = {"data": mlflow.data.from_pandas(frame, targets="label", predictions="score")}
    found = mlflow.models.evaluate(**arguments, evaluator_config=CONFIG, **RANKER)
    assert found.metrics == pytest.approx(expected(scores))


def test_arrays_take_the_query_ids_of_all_rows(tmp_path, scores):
    rankplug.mlflow.save_model(Ranker().fit(X.to_numpy(), Y, qid=QUERY), tmp_path / "model")
    arguments = {"data": X.to_numpy(), "targets": Y, **RANKER}
    config = {**CONFIG, "qid": QUERY}
    uri = (tmp_path / "model").as_uri()
    found = mlflow.models.evaluate(uri, evaluator_config=config, **arguments)
    assert found.metrics == pytest.approx(expected(scores))
    with pytest.raises(ParameterError, match="the features are an array"):
        mlflow.models.evaluate(uri, evaluator_config=CONFIG, **arguments)


def test_the_evaluator_is_found_without_its_name(scores):
    frame = FRAME.assign(score=scores).rename(columns={"query": "qid"})
    found = mlflow.models.evaluate(
        data=frame, targets="label", predictions="score", model_type="ranker"
    )
    assert set(found.metrics) == {"ndcg_at_10", "mrr", "pairwise_accuracy"}


def test_prefixes_keep_two_evaluations_in_a_run_apart(scores):
    frame = FRAME.assign(score=scores, other=X["c"])
    with mlflow.start_run() as run:
        for column in ("score", "other"):
            mlflow.models.evaluate(
                data=frame.drop(columns={"score", "other"} - {column}),
                targets="label",
                predictions=column,
                evaluator_config={**CONFIG, "metric_prefix": f"{column}_"},
                **RANKER,
            )
    metrics = mlflow.MlflowClient().get_run(run.info.run_id).data.metrics
    assert metrics["score_ndcg_at_5"] > metrics["other_ndcg_at_5"]
    files = {file.path for file in mlflow.MlflowClient().list_artifacts(run.info.run_id)}
    assert {"score_per_query.json", "other_per_query.json"} <= files


def test_thresholds_and_a_baseline(result, scores):
    baseline = mlflow.models.evaluate(
        data=X.assign(label=Y, query=QUERY, score=X["c"]),
        targets="label",
        predictions="score",
        evaluator_config=CONFIG,
        **RANKER,
    )
    better = {"ndcg_at_5": MetricThreshold(min_absolute_change=0.05, greater_is_better=True)}
    mlflow.validate_evaluation_results(better, result, baseline)
    with pytest.raises(ModelValidationFailedException, match="ndcg_at_5 minimum absolute change"):
        mlflow.validate_evaluation_results(better, baseline, result)
    perfect = {"ndcg_at_5": MetricThreshold(threshold=1.0, greater_is_better=True)}
    with pytest.raises(ModelValidationFailedException, match="ndcg_at_5 value threshold"):
        mlflow.validate_evaluation_results(perfect, result)


@pytest.mark.parametrize(
    ("config", "error", "message"),
    [
        ({"metric": ["map"]}, ParameterError, "unknown key 'metric'; did you mean 'metrics'"),
        ({"metrics": ["ndgc@5"]}, UnknownNameError, "unknown metric 'ndgc'; did you mean 'ndcg'"),
        ({"metrics": []}, ParameterError, r"metrics=\[\] must be a list"),
        ({"metrics": 5}, ParameterError, "metrics=5 must be a list"),
        ({"level": 95}, ParameterError, "level=95"),
        ({"n_resamples": 0, "max_k": 0}, ParameterError, "n_resamples=0 .*max_k=0"),
        ({"metric_prefix": 1}, ParameterError, "metric_prefix=1 must be text"),
        ({"qid": "quary"}, DataError, "no column 'quary'; did you mean 'query'"),
    ],
)
def test_a_wrong_configuration_is_told(scores, config, error, message):
    with pytest.raises(error, match=message):
        mlflow.models.evaluate(
            data=FRAME.assign(score=scores),
            targets="label",
            predictions="score",
            evaluator_config={**CONFIG, **config},
            **RANKER,
        )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"predictions": "a"}, "no relevance labels"),
        ({"targets": "label"}, "nothing to evaluate"),
        ({"model": lambda frame: frame, "targets": "label"}, "say which one holds the scores"),
        ({"model": lambda frame: frame["a"][:5], "targets": "label"}, "lengths differ"),
        ({"model": lambda frame: frame["a"] / 0, "targets": "label"}, "scores"),
    ],
)
def test_what_is_missing_is_told(arguments, message):
    with pytest.raises(DataError, match=message):
        mlflow.models.evaluate(data=FRAME, evaluator_config=CONFIG, **arguments, **RANKER)


def test_labels_that_are_no_gain(scores):
    """Without NDCG among the metrics there is no curve, and no error."""
    frame = FRAME.assign(label=Y - 2, score=scores)
    arguments = {"data": frame, "targets": "label", "predictions": "score", **RANKER}
    config = {**CONFIG, "metrics": "pairwise_accuracy"}
    found = mlflow.models.evaluate(**arguments, evaluator_config=config)
    assert set(found.artifacts) == {"per_query", "confidence_intervals"}
    with pytest.raises(DataError, match="relevance must be >= 0"):
        mlflow.models.evaluate(**arguments, evaluator_config=CONFIG)


def test_other_model_types_are_left_to_others():
    from rankplug.mlflow.evaluator import RankingEvaluator

    assert RankingEvaluator.can_evaluate(model_type="ranker", evaluator_config={})
    assert not RankingEvaluator.can_evaluate(model_type="classifier", evaluator_config={})
    assert Settings.of({}).qid == "qid"
