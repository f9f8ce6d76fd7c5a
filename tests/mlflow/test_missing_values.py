"""Logged models of trees behind MLflow: null, NaN and empty cells are missing features."""

import inspect
import json

import mlflow
import numpy as np
import pandas as pd
import pytest
from mlflow.pyfunc import scoring_server

import rankplug.mlflow
from rankplug import Ranker, make_solver
from rankplug.mlflow import serving

JSON, CSV = "application/json", "text/csv"

FRAME = pd.DataFrame(
    {"price": [1.5, None, 3.5, 4.5] * 6, "clicks": [1, 2, None, 4] * 6, "new": [True, None] * 12}
).astype({"clicks": "Int64", "new": "boolean"})
QID = np.repeat([7, 8, 9, 10], 6)
Y = 2 * FRAME["price"].isna() + FRAME["clicks"].isna()


def as_json(frame):
    """Records with null where something is missing."""
    return json.loads(frame.to_json(orient="records"))


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    folder = tmp_path_factory.mktemp("served") / "saved"
    ranker = Ranker(
        make_solver("xgboost-pairwise", n_estimators=5, min_child_weight=0, n_threads=1)
    )
    rankplug.mlflow.save_model(ranker.fit(FRAME, Y, qid=QID), folder, input_example=FRAME.head(3))
    model = mlflow.pyfunc.load_model(str(folder))
    guarded = serving._guard(inspect.unwrap(scoring_server.invocations), scoring_server)
    schema = model.metadata.get_input_schema()

    def answer(body, kind=JSON):
        given = body if isinstance(body, str) else json.dumps(body)
        data = given.encode() if kind == JSON else given
        response = guarded(data, kind, model, schema)
        assert response.status == 200, response.response
        return json.loads(response.response)["predictions"]

    return answer, model, ranker.predict(FRAME).tolist()


def test_requests_hold_what_is_missing_in_every_form(served):
    answer, model, scores = served
    records = as_json(FRAME)
    columns = {name: [row[name] for row in records] for name in FRAME}
    split = {"columns": list(FRAME), "data": [list(row.values()) for row in records]}
    for body in (
        {"dataframe_records": records},
        {"dataframe_split": split},
        {"inputs": columns},
        {"instances": records},
        json.dumps({"inputs": columns}).replace("null", "NaN"),
    ):
        assert answer(body) == scores
    assert answer(FRAME.to_csv(index=False), CSV) == scores
    np.testing.assert_array_equal(model.predict(FRAME), scores)
    np.testing.assert_array_equal(model.predict(FRAME.astype(object)), scores)
    nothing = pd.DataFrame({name: [None] for name in FRAME})
    assert np.isfinite(answer({"dataframe_records": as_json(nothing)})).all()
    assert np.isfinite(answer("price,clicks,new\n,,\n", CSV)).all()


def test_elements_of_lists_come_one_by_one_in_csv(tmp_path):
    frame = FRAME.assign(vector=[[k % 5, 1.0 - k % 3] for k in range(len(FRAME))])
    ranker = Ranker(make_solver("xgboost-pairwise", n_estimators=3, n_threads=1), random_state=0)
    rankplug.mlflow.save_model(ranker.fit(frame, Y, qid=QID), tmp_path / "saved")
    model = mlflow.pyfunc.load_model(str(tmp_path / "saved"))
    guarded = serving._guard(inspect.unwrap(scoring_server.invocations), scoring_server)
    schema, expected = model.metadata.get_input_schema(), ranker.predict(frame).tolist()
    flat = FRAME.assign(**{f"vector[{j}]": [row[j] for row in frame["vector"]] for j in (0, 1)})
    bodies = {
        CSV: flat.to_csv(index=False),
        JSON: json.dumps({"dataframe_records": as_json(frame)}),
    }
    for kind, body in bodies.items():
        response = guarded(body.encode() if kind == JSON else body, kind, model, schema)
        assert response.status == 200, response.response
        assert json.loads(response.response)["predictions"] == expected
