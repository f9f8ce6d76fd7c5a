"""Rankers on a cluster that are watched, go on from yesterday's model, or are made of a model."""

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

import rankplug
from rankplug.dask import Ranker
from rankplug.exceptions import DataError, ParameterError

NAMES = ["year", "length", "price"]


@pytest.fixture(scope="module")
def frame():
    g = np.random.default_rng(0)
    table = pd.DataFrame(g.normal(size=(300, 3)), columns=NAMES)
    y = (table["year"] - table["length"] + g.normal(size=300)).round()
    return table.assign(y=y, qid=np.repeat(np.arange(30), 10))


@pytest.fixture(scope="module")
def collection(frame):
    return dd.from_pandas(frame, npartitions=2)


def fit(ranker, collection, **arguments):
    return ranker.fit(collection[NAMES], collection["y"], qid=collection["qid"], **arguments)


def test_a_linear_ranker_goes_on_and_is_watched(near_client, collection, frame, capsys, tmp_path):
    seen = []
    yesterday = fit(Ranker(C=0.1, client=near_client), collection, callbacks=[seen.append])
    assert yesterday.solver.C == 0.1
    assert len(seen) == len(yesterday.result_.history)
    yesterday.model_.save(tmp_path / "model")
    today = fit(Ranker(C=0.1, client=near_client), collection, init=yesterday, verbose=True)
    assert today.result_.n_iter < yesterday.result_.n_iter
    assert capsys.readouterr().out.startswith("iteration 0 (")
    here = rankplug.Ranker(C=0.1).fit(
        frame[NAMES], frame["y"], qid=frame["qid"], init=tmp_path / "model"
    )
    np.testing.assert_allclose(here.coef_, today.coef_, rtol=1e-6)
    stopped = fit(Ranker(client=near_client), collection, callbacks=[lambda progress: True])
    assert stopped.result_.status == "stopped"


def test_trees_are_added_on_the_cluster(client, collection):
    ranker = Ranker("xgboost-pairwise", n_estimators=3, client=client)
    yesterday = fit(ranker, collection).model_
    today = fit(
        Ranker("xgboost-pairwise", n_estimators=2, client=client), collection, init=yesterday
    )
    assert (yesterday.n_trees, today.model_.n_trees) == (3, 5)
    assert today.model_.booster.feature_names == NAMES


def test_a_loaded_model_predicts_and_scores(near_client, collection, frame, tmp_path):
    fitted = fit(Ranker(client=near_client), collection)
    fitted.model_.save(tmp_path / "model")
    ranker = Ranker.from_model(tmp_path / "model").set_params(client=near_client)
    scores = ranker.predict(collection[NAMES]).compute()
    np.testing.assert_array_equal(scores, fitted.model_.predict(frame[NAMES]))
    score = ranker.score(collection[NAMES], collection["y"] + 20, qid=collection["qid"])
    assert 0.5 < score < 1
    with pytest.raises(DataError, match="score needs the queries"):
        ranker.score(collection[NAMES], collection["y"])


def test_wrong_arguments_leave_the_ranker_as_it_was(near_client, collection):
    ranker = fit(Ranker(client=near_client), collection)
    with pytest.raises(ParameterError, match="verbose="):
        fit(ranker, collection, verbose="yes")
    assert ranker.model_.n_features == 3
