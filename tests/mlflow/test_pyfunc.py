"""Logged models as ``mlflow.pyfunc`` calls them: every input, every output, every mistake."""

import json
import subprocess
import sys

import mlflow
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from mlflow.exceptions import MlflowException
from mlflow.models import ModelSignature, infer_signature
from scipy import sparse

import rankplug.mlflow
from rankplug import Ranker
from rankplug.exceptions import DataError
from rankplug.models import LabelLinearModel, LinearModel

NAMES = ["age", "height (m)", "price"]
LABELS = ["w", "x", "y", "z"]
RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3))
QID = np.repeat(np.arange(4), 10)
FRAME = pd.DataFrame(X, columns=NAMES)
MODEL = LinearModel(RNG.normal(size=3), NAMES)
LABEL_MODEL = LabelLinearModel(RNG.normal(size=(4, 3)), LABELS, NAMES)
# One feature, which is the score, in queries that do not stand together; with ties.
TIED = pd.DataFrame({"s": [1.0, 2, 2, 5, 2, 7, 7], "qid": list("babaaac")})
IDENTITY = LinearModel([1.0], ["s"])


def pyfunc(model, folder, **options):
    rankplug.mlflow.save_model(model, folder / "saved", **options)
    return mlflow.pyfunc.load_model(str(folder / "saved"))


def refused(message):
    return pytest.raises(MlflowException, match=message)


# Input


def test_columns_are_matched_by_name(tmp_path):
    expected = MODEL.predict(X)
    for name, options in {"signature": {}, "none": {"signature": False}}.items():
        loaded = pyfunc(MODEL, tmp_path / name, **options)
        shuffled = FRAME.assign(qid=QID.astype(str), note="x")[
            ["note", "price", "qid", "age", "height (m)"]
        ]
        np.testing.assert_array_equal(loaded.predict(shuffled), expected)
        backwards = loaded.predict(FRAME.iloc[::-1])
        np.testing.assert_allclose(backwards, expected[::-1], rtol=1e-12)
        columns = {column: FRAME[column].to_numpy() for column in reversed(NAMES)}
        np.testing.assert_array_equal(loaded.predict(columns), expected)


def test_missing_columns_are_all_listed(tmp_path):
    frame = FRAME[["height (m)"]]
    with refused(r"missing inputs \['age', 'price'\]"):
        pyfunc(MODEL, tmp_path / "a").predict(frame)
    with refused("missing feature columns: age, price"):
        pyfunc(MODEL, tmp_path / "b", signature=False).predict(frame)
    unnamed = pyfunc(LinearModel([1.0, 2.0, 3.0]), tmp_path / "c")
    with refused("missing feature columns: f0, f2"):
        unnamed.predict(pd.DataFrame({"f1": [1.0], "x": [1.0], "y": [2.0]}))
    with refused("2 columns beside 'qid', but the model has 3 features without names"):
        unnamed.predict(pd.DataFrame({"x": [1.0], "y": [2.0], "qid": "a"}))


@pytest.mark.parametrize("signature", [None, False])
def test_missing_values_are_refused(signature, tmp_path):
    loaded = pyfunc(MODEL, tmp_path, signature=signature)
    with refused("NaN at row 0") as caught:
        loaded.predict(FRAME.assign(age=np.nan))
    assert caught.value.error_code == "INVALID_PARAMETER_VALUE"  # served as 400
    assert isinstance(caught.value.__cause__, DataError)


def test_scores_too_large_for_a_number_are_refused(tmp_path):
    with refused("the score of row 1 is not finite: its features are too large"):
        pyfunc(LinearModel([10.0], ["s"]), tmp_path).predict(pd.DataFrame({"s": [1.0, 1e308]}))


@pytest.mark.parametrize(
    "data",
    [
        X,
        X.astype(np.float32),
        sparse.csr_array(X),
        sparse.csr_matrix(X),
        sparse.csc_array(X),
        X.tolist(),
        FRAME,
        FRAME.to_dict("list"),
        FRAME.to_dict("records"),
        FRAME.assign(qid=QID),
        (100 * FRAME).astype(int),
    ],
    ids=str.split("ndarray float32 csr csr_matrix csc lists frame columns records qid integers"),
)
def test_an_open_input_takes_everything(data, tmp_path):
    named = pyfunc(MODEL, tmp_path / "named", signature=False)
    features = data[NAMES] if isinstance(data, pd.DataFrame) else data
    if isinstance(data, dict) or (isinstance(data, list) and isinstance(data[0], dict)):
        features = X
    expected = MODEL.predict(features)
    np.testing.assert_array_equal(named.predict(data), expected)
    unnamed = pyfunc(LinearModel(MODEL.coef), tmp_path / "unnamed")
    np.testing.assert_array_equal(unnamed.predict(data), expected)


TABLES = {
    "polars": lambda frame: pl.from_pandas(frame),
    "a query of polars": lambda frame: pl.from_pandas(frame).lazy(),
    "arrow": lambda frame: pa.Table.from_pandas(frame, preserve_index=False),
}


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
@pytest.mark.parametrize("ids", [QID, QID.astype("uint8"), pd.array(QID, "Int64"), QID.astype(str)])
def test_tables_of_polars_and_arrow_go_through_the_signature(table, ids, tmp_path):
    """MLflow's check knows pandas only: the model looks for the columns itself."""
    loaded = pyfunc(Ranker("tree-tron").fit(FRAME, RNG.integers(0, 3, 40), qid=QID), tmp_path)
    frame = FRAME.assign(qid=ids, note="x")[["note", "price", "qid", "age", "height (m)"]]
    other = table(frame)
    np.testing.assert_array_equal(loaded.predict(other), loaded.predict(frame))
    for params in ({"output": "rank"}, {"output": "top_k", "k": 2}):
        found, wanted = loaded.predict(other, params), loaded.predict(frame, params)
        assert list(found["qid"]) == list(wanted["qid"])
        pd.testing.assert_frame_equal(found.drop(columns="qid"), wanted.drop(columns="qid"))
    added = loaded.predict(other, {"output": "contributions"})
    assert list(added) == [*FRAME, "(constant)"]
    np.testing.assert_allclose(added.sum(axis=1), loaded.predict(other))
    with refused("missing feature columns: age, price"):
        loaded.predict(table(FRAME[["height (m)"]]))
    with refused("output='rank' needs the queries"):
        loaded.predict(table(FRAME), {"output": "rank"})


def test_integer_ids_are_answered_as_they_came(tmp_path):
    """Also those that no float holds, in a column that knows missing values."""
    large = 2**53 + 1 + QID
    loaded = pyfunc(
        Ranker("tree-tron").fit(FRAME, RNG.integers(0, 3, 40), qid=pd.Series(large, name="user")),
        tmp_path,
    )
    for ids in (large, pd.array(large, "Int64"), pd.array(large, "int64[pyarrow]")):
        frame = FRAME.assign(user=ids)
        for given in (frame, pl.from_pandas(frame), pa.Table.from_pandas(frame)):
            assert list(loaded.predict(given, {"output": "rank"})["qid"]) == large.tolist()
            best = loaded.predict(given, {"output": "top_k", "k": 1})
            assert best["qid"].tolist() == np.unique(large).tolist()
    missing = FRAME.assign(user=pd.array([None, *large[1:].tolist()], "Int64"))
    for given in (missing, pl.from_pandas(missing), pa.Table.from_pandas(missing)):
        with refused("qid is missing .* at row 0"):
            loaded.predict(given, {"output": "rank"})


@pytest.mark.parametrize(
    "kind", [np.asarray, np.float32, np.int64, sparse.csr_array, sparse.csc_matrix]
)
def test_arrays_go_through_the_signature(kind, tmp_path):
    """Their columns are the features in the order of the training."""
    data = kind(X)
    loaded = pyfunc(MODEL, tmp_path / "a")
    expected = MODEL.predict(data)
    np.testing.assert_array_equal(loaded.predict(data), expected)
    order = np.argsort(-expected, kind="stable")
    ranks = loaded.predict(data, {"output": "rank"})["rank"]  # all rows are one query
    np.testing.assert_array_equal(ranks.iloc[order], np.arange(1, 41))
    best = loaded.predict(data, {"output": "top_k", "k": 3})
    np.testing.assert_array_equal(best["row"], order[:3])
    with refused("X has 2 features, but the model is expecting 3"):
        loaded.predict(data[:, :2])
    labels = pyfunc(LABEL_MODEL, tmp_path / "b")
    np.testing.assert_array_equal(labels.predict(data), LABEL_MODEL.predict(data))
    several = Ranker("tree-tron").fit(FRAME, RNG.integers(0, 3, 40), qid=QID)
    with refused("output='rank' needs the queries"):
        pyfunc(several, tmp_path / "c").predict(data, {"output": "rank"})


def test_a_signature_of_the_user_is_mlflows_to_enforce(tmp_path):
    loaded = pyfunc(MODEL, tmp_path, signature=infer_signature(FRAME))
    for data in (X, sparse.csr_array(X), pl.from_pandas(FRAME)):
        with refused("Failed to enforce schema"):
            loaded.predict(data)
        native = rankplug.mlflow.load_model(str(tmp_path / "saved"))
        np.testing.assert_array_equal(native.predict(data), MODEL.predict(data))


PRICES = pd.DataFrame({"price": [1.5, 2.5, 3.5, 4.5], "clicks": [1, 2, 3, 4]})
FITTED = {
    "integers": PRICES,
    "only integers": PRICES.assign(price=[10, 20, 30, 2**40]),
    "small integers": PRICES.astype({"clicks": "uint8", "price": "float32"}),
    "nullable": PRICES.astype({"clicks": "Int64", "price": "Float64"}),
    "arrow": PRICES.convert_dtypes(dtype_backend="pyarrow"),
    "truth values": PRICES.assign(clicks=[True, False, True, True]),
    "nullable truth values": PRICES.assign(clicks=pd.array([True, False, True, True], "boolean")),
    "an index of its own": PRICES.set_index(pd.Index([3, 3, 9, 1])),
}
QIDS = {
    "integers": [7, 7, 8, 8],
    "text": list("aabb"),
    "nullable": pd.array([7, 7, 8, 8], "Int64"),
    "dates": pd.to_datetime(["2026-01-01", "2026-01-01", "2026-01-02", "2026-01-02"]),
    "categories": pd.Categorical(list("aabb")),
}


@pytest.mark.parametrize("frame", FITTED.values(), ids=FITTED)
def test_a_logged_model_takes_the_frame_that_fit_took(frame, tmp_path):
    ranker = Ranker("tree-tron").fit(frame, [0, 1, 2, 0], qid=QIDS["integers"])
    loaded = pyfunc(ranker, tmp_path)
    expected = ranker.predict(frame)
    np.testing.assert_array_equal(loaded.predict(frame), expected)
    for name, ids in QIDS.items():
        with_ids = frame.assign(qid=ids)
        np.testing.assert_array_equal(loaded.predict(with_ids), expected, name)
        best = loaded.predict(with_ids, params={"output": "top_k", "k": 1})
        assert len(best) == 2, name
        assert list(best["qid"].astype(str)) == list(pd.Series(ids).astype(str).unique()), name


def test_the_command_line_takes_the_csv_that_fit_took(tmp_path):
    ranker = Ranker("tree-tron").fit(PRICES, [0, 1, 2, 0], qid=QIDS["integers"])
    rankplug.mlflow.save_model(ranker, tmp_path / "saved")
    PRICES.assign(qid=QIDS["integers"]).to_csv(tmp_path / "in.csv", index=False)
    command = "mlflow models predict --env-manager local -t csv -m saved -i in.csv -o out.json"
    subprocess.run([sys.executable, "-m", *command.split()], cwd=tmp_path, check=True)
    answer = json.loads((tmp_path / "out.json").read_text())
    assert answer == {"predictions": ranker.predict(PRICES).tolist()}


def test_features_without_names_are_numbered(tmp_path):
    loaded = pyfunc(LinearModel([1.0, 2.0]), tmp_path)
    frame = pd.DataFrame({"f1": [1.0, 0.0], "f0": [0.0, 5.0]})
    np.testing.assert_array_equal(loaded.predict(frame), [2.0, 5.0])


def test_a_feature_may_be_called_qid(tmp_path):
    loaded = pyfunc(LinearModel([1.0, 2.0], ["qid", "b"]), tmp_path)
    frame = pd.DataFrame({"qid": [3.0, 4.0], "b": [1.0, 1.0]})
    assert loaded.metadata.signature.inputs.input_names() == ["qid", "b"]
    np.testing.assert_array_equal(loaded.predict(frame), [5.0, 6.0])
    assert loaded.predict(frame, params={"output": "rank"})["rank"].tolist() == [2, 1]


def test_wide_sparse_rows_are_ranked(tmp_path):
    model = LinearModel(np.arange(3000.0))
    loaded = pyfunc(model, tmp_path)
    rows = sparse.random_array((5, 3000), density=0.01, format="csr", rng=0)
    np.testing.assert_array_equal(loaded.predict(rows), model.predict(rows))
    best = loaded.predict(rows, params={"output": "top_k", "k": 2})
    assert best["row"].tolist() == np.argsort(-model.predict(rows))[:2].tolist()
    frame = pd.DataFrame(rows.toarray()).assign(qid="q")
    np.testing.assert_array_equal(loaded.predict(frame), model.predict(rows.toarray()))


@pytest.mark.parametrize("data", ["text", 3.0, {"age": 1.0}, {"age": [1.0], "price": [1.0, 2.0]}])
@pytest.mark.parametrize("signature", [None, False])
def test_what_is_no_table_is_refused(data, signature, tmp_path):
    with pytest.raises(MlflowException):
        pyfunc(MODEL, tmp_path, signature=signature).predict(data)


# Output


@pytest.mark.parametrize("signature", [None, False])
def test_ranks_are_per_query_in_the_order_of_the_rows(signature, tmp_path):
    loaded = pyfunc(IDENTITY, tmp_path, signature=signature)
    ranks = loaded.predict(TIED, params={"output": "rank"})
    assert ranks.columns.tolist() == ["qid", "score", "rank"]
    assert ranks["qid"].tolist() == list("babaaac")
    assert ranks["score"].tolist() == TIED["s"].tolist()
    assert ranks["rank"].tolist() == [2, 3, 1, 2, 4, 1, 1]  # equal scores keep their order


def test_the_best_of_each_query_come_with_their_rows(tmp_path):
    loaded = pyfunc(IDENTITY, tmp_path)
    best = loaded.predict(TIED, params={"output": "top_k", "k": 2})
    assert best.columns.tolist() == ["qid", "row", "score", "rank"]
    assert best["qid"].tolist() == ["b", "b", "a", "a", "c"]  # in order of appearance
    assert best["row"].tolist() == [2, 0, 5, 3, 6]
    assert best["score"].tolist() == [2.0, 1.0, 7.0, 5.0, 7.0]
    assert best["rank"].tolist() == [1, 2, 1, 2, 1]
    assert len(loaded.predict(TIED, params={"output": "top_k"})) == len(TIED)  # k = 10


def test_an_index_does_not_matter(tmp_path):
    loaded = pyfunc(IDENTITY, tmp_path)
    indexed = TIED.set_index(pd.Index([5, 5, 4, 9, 0, 1, 1]))
    for params in ({"output": "rank"}, {"output": "top_k", "k": 2}):
        expected = loaded.predict(TIED, params=params)
        pd.testing.assert_frame_equal(loaded.predict(indexed, params=params), expected)


def test_without_query_ids_all_rows_are_one_query(tmp_path):
    loaded = pyfunc(LinearModel([1.0]), tmp_path)
    for data in (TIED[["s"]], TIED[["s"]].to_numpy(), sparse.csr_array(TIED[["s"]])):
        ranks = loaded.predict(data, params={"output": "rank"})
        assert ranks["qid"].tolist() == [0] * 7
        assert ranks["rank"].tolist() == [7, 4, 5, 3, 6, 1, 2]
    best = loaded.predict(TIED[["s"]].to_numpy(), params={"output": "top_k", "k": 3})
    assert best["row"].tolist() == [5, 6, 3]


def test_ranks_are_those_of_the_estimator(tmp_path):
    ranker = rankplug.Ranker().fit(FRAME, X[:, 0].round(), qid=QID)
    ranks = pyfunc(ranker, tmp_path).predict(
        FRAME.assign(qid=QID.astype(str)), params={"output": "rank"}
    )
    np.testing.assert_array_equal(ranks["rank"], ranker.rank(FRAME, QID))


def test_labels_are_ranked_for_each_row(tmp_path):
    loaded = pyfunc(LABEL_MODEL, tmp_path)
    scores = loaded.predict(FRAME)
    ranks = loaded.predict(FRAME, params={"output": "rank"})
    assert ranks.columns.tolist() == LABELS
    np.testing.assert_array_equal(np.argsort(ranks, axis=1), np.argsort(-scores, axis=1))
    best = loaded.predict(FRAME, params={"output": "top_k", "k": 2})
    assert best.columns.tolist() == ["row", "label", "score", "rank"]
    assert best["row"].tolist() == np.repeat(np.arange(40), 2).tolist()
    assert best["rank"].tolist() == [1, 2] * 40
    first = best[best["rank"] == 1]
    assert first["label"].tolist() == [LABELS[j] for j in scores.argmax(axis=1)]
    np.testing.assert_array_equal(first["score"], scores.max(axis=1))


def test_equal_labels_keep_their_order(tmp_path):
    loaded = pyfunc(LabelLinearModel(np.ones((3, 1)), [7, 8, 9]), tmp_path)
    ranks = loaded.predict([[1.0]], params={"output": "rank"})
    assert ranks.to_dict("records") == [{"7": 1, "8": 2, "9": 3}]
    best = loaded.predict([[1.0]], params={"output": "top_k", "k": 99})
    assert best["label"].tolist() == [7, 8, 9]


def test_query_ids_must_be_whole(tmp_path):
    loaded = pyfunc(IDENTITY, tmp_path)
    for qid, message in ((["a", None, "b"], "qid is missing"), (["a", 1, "b"], "mixes values")):
        frame = pd.DataFrame({"s": [1.0, 2.0, 3.0], "qid": pd.Series(qid, dtype=object)})
        with refused(message):
            loaded.predict(frame, params={"output": "rank"})
        assert len(loaded.predict(frame)) == 3  # scores need none


# Parameters


@pytest.mark.parametrize("signature", [None, False])
@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"outptu": "rank"}, "unknown parameter 'outptu'; did you mean 'output'?"),
        ({"output": "rank", "depth": 3}, "unknown parameter 'depth'"),
        ({1: 2}, "unknown parameter '1'"),
        ({"output": "best"}, "output='best' must be one of score, rank, top_k, contributions"),
        ({"output": 3}, "Invalid parameters found.*output"),
        ({"output": None}, "output=None must be one of"),
        ({"k": 0}, "k=0 must be an integer of at least 1"),
        ({"k": -1, "output": "x"}, "output='x' must be one of .*; k=-1 must be"),
        ({"k": None}, "k=None must be an integer"),
        ({"k": "ten"}, "Invalid parameters found.*k"),
        ({"k": 2.5}, "Invalid parameters found.*k"),
        ({"k": True}, "Invalid parameters found.*k"),
        ({"k": [1]}, "Invalid parameters found.*k"),
        ("rank", "Parameters must be a dictionary"),
    ],
    ids=str,
)
def test_wrong_parameters_are_an_error(params, message, signature, tmp_path):
    with refused(message) as caught:
        pyfunc(MODEL, tmp_path, signature=signature).predict(FRAME, params=params)
    assert caught.value.error_code == "INVALID_PARAMETER_VALUE"


def test_a_signature_without_parameters_says_so(tmp_path):
    given = infer_signature(FRAME, MODEL.predict(X))
    loaded = pyfunc(MODEL, tmp_path / "without", signature=given)
    with refused("the signature that the model was saved with declares none"):
        loaded.predict(FRAME, params={"output": "rank"})
    with refused("params must be a dictionary"):
        loaded.predict(FRAME, params="rank")
    assert len(loaded.predict(FRAME, params={})) == 40
    complete = ModelSignature(given.inputs, given.outputs, rankplug.mlflow.PARAMS)
    loaded = pyfunc(MODEL, tmp_path / "with", signature=complete)
    assert loaded.predict(FRAME, params={"output": "rank"})["rank"].min() == 1


def test_parameters_of_another_model_are_not_this_models(tmp_path):
    """A model within a model: only the call of this very model counts."""
    inner = pyfunc(MODEL, tmp_path)

    outer = mlflow.pyfunc.PyFuncModel(inner.metadata, Wrapper(inner))
    np.testing.assert_array_equal(outer.predict(FRAME, params={"unknown": 1}), MODEL.predict(X))


class Wrapper:
    def __init__(self, inner):
        self.inner = inner

    def predict(self, data, params=None):
        return self.inner.predict(data)


def test_orders_of_names_are_answered_with_the_names(tmp_path):
    """From texts to a ranker, its saved model and what MLflow loads of it: the same names."""
    orders = [">".join(np.array(LABELS)[np.argsort(-row)]) for row in LABEL_MODEL.predict(FRAME)]
    for solver in ("sopopo", "xgboost-pairwise"):
        ranker = rankplug.LabelRanker(solver, random_state=0).fit(FRAME, orders)
        names = ranker.predict_order(FRAME)
        loaded = pyfunc(ranker, tmp_path / solver)
        best = loaded.predict(FRAME, params={"output": "top_k", "k": 4})
        assert best["label"].tolist() == names.ravel().tolist()
        ranks = loaded.predict(FRAME, params={"output": "rank"})
        assert ranks.columns.tolist() == LABELS
        assert [list(row.sort_values().index) for _, row in ranks.iterrows()] == names.tolist()
        best = ranker.top_k(FRAME, 4)
        assert best["label"].tolist() == names.ravel().tolist()
