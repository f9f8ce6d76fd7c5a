"""Arrays of every form, and broken ones, through the estimators and into data."""

import array
import warnings
from decimal import Decimal

import numpy as np
import pandas as pd
import polars
import pyarrow as pa
import pytest
from attacks import BASE, Attack, Refused, assert_refused, cheap, documents, instances, quietly
from scipy import sparse
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler

import rankplug
from rankplug import LabelRanker, Ranker
from rankplug.data import LabelRankingData, RankingData
from rankplug.metrics import evaluate

pytestmark = [
    pytest.mark.usefixtures("no_hang"),
    pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning"),
]

NAMES = ["a", "b c", "é", "d"]


def mapped(X, folder):
    np.save(folder / "X.npy", X)
    return np.load(folder / "X.npy", mmap_mode="r")


def frozen(X, folder):
    X = X.copy()
    X.flags.writeable = False
    return X


def strided(X, folder):
    return np.repeat(np.repeat(X, 2, axis=0), 3, axis=1)[::2, ::3]


def unsorted(X, folder):
    """CSR whose rows list their columns backwards."""
    rows = [np.flatnonzero(row)[::-1] for row in X]
    values = np.concatenate([row[index] for row, index in zip(X, rows, strict=True)])
    indptr = np.concatenate(([0], np.cumsum([len(index) for index in rows])))
    return sparse.csr_array((values, np.concatenate(rows), indptr), shape=X.shape)


def duplicated(X, folder):
    """CSR that writes each value in two halves."""
    matrix = sparse.csr_array(X)
    parts = (np.repeat(matrix.data / 2, 2), np.repeat(matrix.indices, 2), 2 * matrix.indptr)
    return sparse.csr_array(parts, shape=X.shape)


def explicit_zeros(X, folder):
    n, d = X.shape
    return sparse.csr_array(
        (X.ravel(), np.tile(np.arange(d), n), d * np.arange(n + 1)), shape=X.shape
    )


def wide_indices(X, folder):
    matrix = sparse.csr_array(X)
    matrix.indices, matrix.indptr = matrix.indices.astype("i8"), matrix.indptr.astype("i8")
    return matrix


def frozen_sparse(X, folder):
    matrix = unsorted(X, folder)
    for part in (matrix.data, matrix.indices, matrix.indptr):
        part.flags.writeable = False
    return matrix


def table(make):
    return lambda X, folder: make({name: X[:, j] for j, name in enumerate(NAMES)})


FORMS = {
    "float16": lambda X, _: X.astype(np.float16),
    "float32": lambda X, _: X.astype(np.float32),
    "long double": lambda X, _: X.astype(np.longdouble),
    "big-endian": lambda X, _: X.astype(">f8"),
    "lists": lambda X, _: X.tolist(),
    "objects": lambda X, _: X.astype(object),
    "Fortran": lambda X, _: np.asfortranarray(X),
    "strided": strided,
    "reversed": lambda X, _: X[::-1][::-1],
    "read-only": frozen,
    "memory-mapped": mapped,
    "matrix": lambda X, _: np.matrix(X),
    "CSR": lambda X, _: sparse.csr_array(X),
    "CSR matrix": lambda X, _: sparse.csr_matrix(X),
    "CSC": lambda X, _: sparse.csc_array(X),
    "CSC matrix": lambda X, _: sparse.csc_matrix(X),
    "COO": lambda X, _: sparse.coo_array(X),
    "LIL": lambda X, _: sparse.lil_array(X),
    "DOK": lambda X, _: sparse.dok_array(X),
    "BSR": lambda X, _: sparse.bsr_array(X),
    "CSR, unsorted": unsorted,
    "CSR, duplicates": duplicated,
    "CSR, explicit zeros": explicit_zeros,
    "CSR, 64-bit indices": wide_indices,
    "CSR, read-only": frozen_sparse,
    "pandas": table(pd.DataFrame),
    "pandas of objects": lambda X, _: pd.DataFrame(X.astype(object), columns=NAMES),
    "pandas, nullable": lambda X, _: pd.DataFrame(X, columns=NAMES).convert_dtypes(),
    "pandas, sparse": lambda X, _: pd.DataFrame(X, columns=NAMES).astype(pd.SparseDtype("f8", 0.0)),
    "polars": table(polars.DataFrame),
    "Arrow": table(pa.table),
}


def ranker(task):
    return (
        Ranker(cheap("tree-tron", tol=1e-9))
        if task == "query-document"
        else LabelRanker(cheap("sopopo", tol=1e-9))
    )


def fitted(estimator, inputs, X):
    arguments = {} if inputs.qid is None else {"qid": inputs.qid}
    if hasattr(estimator, "steps"):
        arguments = {f"{estimator.steps[-1][0]}__{key}": v for key, v in arguments.items()}
    return quietly(estimator.fit, X, inputs.y, **arguments)


@pytest.mark.parametrize("piped", [False, True], ids=["alone", "piped"])
@pytest.mark.parametrize("task", BASE)
@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_features_gives_the_scores_of_the_plain_array(form, task, piped, tmp_path):
    if piped and form in ("long double", "matrix", "Arrow", "CSR, read-only"):
        pytest.skip("the scaler itself does not take these")
    inputs = BASE[task]()
    X = FORMS[form](inputs.X, tmp_path)
    if form == "matrix":
        assert_refused("np.matrix is not supported", ranker(task).fit, X, inputs.y)
        return
    before = X.copy() if isinstance(X, np.ndarray) else None
    if piped and form in ("pandas of objects", "objects"):
        X = inputs.X  # a scaler makes other numbers of these already

    def make():
        return make_pipeline(MaxAbsScaler(), ranker(task)) if piped else ranker(task)

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "the matrix subclass", PendingDeprecationWarning)
        estimator = fitted(make(), inputs, X)
        scores = quietly(estimator.predict, X)
    expected = fitted(make(), inputs, inputs.X).predict(inputs.X)
    assert scores.dtype == np.float64
    np.testing.assert_allclose(scores, expected, rtol=0, atol=2e-3 * np.ptp(expected))
    if before is not None:
        np.testing.assert_array_equal(X, before)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("task", BASE)
def test_data_of_every_form_are_the_same_numbers(form, task, tmp_path):
    inputs = BASE[task]()
    data = quietly(inputs.but(X=FORMS[form](inputs.X, tmp_path)).data)
    X = data.X.toarray() if sparse.issparse(data.X) else data.X
    np.testing.assert_array_equal(X, inputs.X)
    assert X.dtype in (np.float32, np.float64)
    if sparse.issparse(data.X):
        assert data.X.has_canonical_format


WHOLE = np.array([[0, 1], [2, 3], [1, 0], [3, 1], [0, 0], [1, 2]])
Y, QID = [0, 1, 2, 1, 0, 2], [1, 1, 1, 2, 2, 2]


@pytest.mark.parametrize(
    "kind", ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", ">i4"]
)
def test_integers_are_numbers(kind):
    plain = RankingData.from_arrays(WHOLE.astype(float), Y, QID)
    data = RankingData.from_arrays(WHOLE.astype(kind), np.array(Y).astype(kind), QID)
    np.testing.assert_array_equal(data.X, plain.X)
    np.testing.assert_array_equal(data.relevance, plain.relevance)


def test_booleans_are_numbers():
    data = RankingData.from_arrays(WHOLE > 0, np.array(Y) > 0, QID)
    np.testing.assert_array_equal(data.X, (WHOLE > 0).astype(float))
    np.testing.assert_array_equal(data.relevance, (np.array(Y) > 0).astype(float))


# Query ids


IDS = {
    "strings with blanks": ["a b", "c  d", " e", "f ", "g\th", "i\nj"],
    "unicode": ["ä", "日本", "🙂", "e\u0301", "é", "\u200b"],
    "strings of numbers": ["1", "01", "1.0", "+1", " 1", "1 "],
    "negative": [-1, -2, 0, -(2**31), 2**31, -(2**63)],
    "beyond 32 bits": [0, 2**32, 2**33, 2**32 + 1, 1, 2**40],
    "up to 2^63 - 1": [2**63 - 1, 2**63 - 2, 0, 1, 2, 3],
    "beyond 2^63": [2**63, 2**63 + 1, 2**64, 2**64 + 1, 0, 10**30],
    "unsigned": np.array([2**64 - 1, 2**64 - 2, 2**63, 0, 1, 2], dtype=np.uint64),
    "floats": [0.0, 1.5, -1.0, 1e15, 2.0, 3.0],
    "int8": np.array([1, -1, 0, 127, -128, 5], dtype=np.int8),
    "dates": np.array(
        ["2020-01-01", "2020-01-02", "1969-01-01", "2021-01-01", "2022-01-01", "2023-01-01"],
        "M8[D]",
    ),
    "objects": np.array([1, 2, 3, 4, 5, 6], dtype=object),
    "text objects": np.array(["a", "b", "c", "d", "e", "f"], dtype=object),
    "NumPy strings": np.array(["a", "b", "c", "d", "e", "f"], dtype=np.dtypes.StringDType()),
    "a categorical column": pd.Series(["a", "b", "c", "d", "e", "f"], dtype="category"),
    "a nullable column": pd.Series([1, 2, 3, 4, 5, 6], dtype="Int64"),
    "a polars column": polars.Series(["a", "b", "c", "d", "e", "f"]),
    "an Arrow column": pa.array([1, 2, 3, 4, 5, 6]),
}


@pytest.mark.parametrize("kind", IDS)
def test_query_ids_of_every_kind_make_the_same_queries(kind):
    inputs, order = documents(), np.random.default_rng(4).permutation(24)
    six = IDS[kind]
    numbers = inputs.qid[order]
    if isinstance(six, np.ndarray):
        ids = six[numbers]
    elif isinstance(six, list):
        ids = [six[q] for q in numbers]
    elif hasattr(six, "take"):
        ids = six.take(pa.array(numbers) if isinstance(six, pa.Array) else numbers)
    else:
        ids = six[numbers]
    shuffled = inputs.but(X=inputs.X[order], y=inputs.y[order])
    plain = shuffled.but(qid=numbers).data()
    data = quietly(shuffled.but(qid=ids).data)
    np.testing.assert_array_equal(data.query_ptr, plain.query_ptr)
    np.testing.assert_array_equal(data.order, plain.order)
    assert len(set(data.query_ids.tolist())) == 6
    # ... and of the metrics, which take ids as they are
    scores = np.arange(24.0)
    expected = evaluate(shuffled.y, scores, numbers, "ndcg@3")
    assert quietly(evaluate, shuffled.y, scores, ids, "ndcg@3") == expected


def with_one(values, value, row=3, dtype=None):
    changed = np.array(values, dtype=dtype) if dtype else np.array(values)
    changed = (
        changed.astype(object) if not np.isscalar(value) or isinstance(value, str) else changed
    )
    changed[row] = value
    return changed


def broken(**changes):
    return lambda inputs: inputs.but(
        **{key: make(getattr(inputs, key)) for key, make in changes.items()}
    )


def spoiled(value, dtype=np.float64):
    def change(X):
        X = np.array(X, dtype=dtype)
        with np.errstate(over="ignore"):
            X[2, 1] = value
        return X

    return change


def spoiled_sparse(value):
    return lambda X: sparse.csr_array(spoiled(value)(X))


def with_bad_indices(X):
    matrix = sparse.csr_array(X)
    matrix.indices = matrix.indices.copy()
    matrix.indices[0] = 99
    return matrix


def with_negative_indices(X):
    matrix = sparse.csr_array(X)
    matrix.indices = matrix.indices.copy()
    matrix.indices[0] = -1
    return matrix


def with_text(X):
    return pd.DataFrame(X, columns=NAMES).assign(d=["x"] * len(X))


def with_categories(X):
    return pd.DataFrame(X, columns=NAMES).assign(d=pd.Categorical(["x"] * len(X)))


def with_dates(X):
    return pd.DataFrame(X, columns=NAMES).assign(d=pd.Timestamp("2020-01-01"))


def with_missing(X):
    frame = pd.DataFrame(X, columns=NAMES).convert_dtypes()
    frame.loc[2, "b c"] = pd.NA
    return frame


# Numbers written as text, which are numbers to scikit-learn.
READ_BY_SCIKIT_LEARN = ("bytes in X", "strings as X", "dates as X")

AT = r"row 2, column 1"
BROKEN = [
    *(
        Attack(f"{name} in X", broken(X=spoiled(value)), Refused(f"{what}.* at {AT}"))
        for name, value, what in (
            ("NaN", np.nan, "NaN"),
            ("inf", np.inf, "infinity"),
            ("-inf", -np.inf, "infinity"),
        )
    ),
    Attack("NaN in float32", broken(X=spoiled(np.nan, "f4")), Refused(f"NaN at {AT}")),
    Attack("inf in float16", broken(X=spoiled(1e6, "f2")), Refused(f"infinity .* at {AT}")),
    Attack(
        "beyond float64",
        broken(X=spoiled(np.longdouble("1e4000"), np.longdouble)),
        Refused(f"infinity .* at {AT}"),
    ),
    Attack("NaN in CSR", broken(X=spoiled_sparse(np.nan)), Refused(f"NaN at {AT}")),
    Attack("inf in CSR", broken(X=spoiled_sparse(np.inf)), Refused(f"infinity .* at {AT}")),
    Attack(
        "NaN and inf",
        broken(X=lambda X: spoiled(np.inf)(X) * [1, -1, np.nan, 1]),
        Refused("infinity .* at row 2, column 1"),
    ),
    Attack(
        "None in X",
        broken(X=lambda X: spoiled(None, object)(X)),
        Refused("NaN at row 2|must hold numbers"),
    ),
    Attack("text in X", broken(X=lambda X: spoiled("x", object)(X)), Refused("numbers")),
    Attack("bytes in X", broken(X=lambda X: X.astype("S")), Refused("numbers")),
    Attack("strings as X", broken(X=lambda X: X.astype(str)), Refused("numbers")),
    Attack("complex X", broken(X=lambda X: X + 1j), Refused("complex")),
    Attack("dates as X", broken(X=lambda X: X.astype("i8").astype("M8[D]")), Refused("numbers")),
    Attack(
        "dictionaries in X", broken(X=lambda X: np.array([[{}] * 4] * len(X))), Refused("numbers")
    ),
    Attack(
        "huge integers",
        broken(X=lambda X: spoiled(10**400, object)(X)),
        Refused("too large|numbers|infinity"),
    ),
    Attack("text column", broken(X=with_text), Refused("not numbers: d")),
    Attack("categorical column", broken(X=with_categories), Refused("not numbers: d")),
    Attack("column of dates", broken(X=with_dates), Refused("not numbers: d")),
    Attack("missing in a column", broken(X=with_missing), Refused(f"NaN at {AT} .b c.")),
    Attack("column indices too large", broken(X=with_bad_indices), Refused("valid sparse matrix")),
    Attack(
        "negative column indices", broken(X=with_negative_indices), Refused("valid sparse matrix")
    ),
    Attack("d = 0", broken(X=lambda X: X[:, :0]), Refused("no columns .0 feature")),
    Attack(
        "d = 0, sparse",
        broken(X=lambda X: sparse.csr_array((len(X), 0))),
        Refused("no columns .0 feature"),
    ),
    Attack(
        "d = 0, a table",
        broken(X=lambda X: pd.DataFrame(index=range(len(X)))),
        Refused("no columns|no rows"),
    ),
    Attack(
        "n = 0",
        lambda inputs: inputs.but(
            X=inputs.X[:0], y=inputs.y[:0], qid=None if inputs.qid is None else []
        ),
        Refused("no rows"),
    ),
    Attack("one dimension", broken(X=lambda X: X[:, 0]), Refused("1 dimension")),
    Attack("three dimensions", broken(X=lambda X: X[:, :, None]), Refused("3 dimension")),
    Attack("a scalar", broken(X=lambda X: 1.0), Refused("0 dimension")),
    Attack("None as X", broken(X=lambda X: None), Refused("dimension")),
    Attack("a string as X", broken(X=lambda X: "X"), Refused("dimension")),
    Attack("ragged lists", broken(X=lambda X: [[1.0], [1.0, 2.0]]), Refused("array|dimension")),
    Attack("short y", broken(y=lambda y: y[:-1]), Refused("rows but .* has")),
    Attack(
        "three-dimensional y", broken(y=lambda y: np.zeros((len(y), 2, 2))), Refused("dimensions")
    ),
    Attack("complex y", broken(y=lambda y: y + 1j), Refused("complex")),
]
DOCUMENTS_ONLY = [
    Attack(
        "NaN in y",
        broken(y=lambda y: with_one(y, np.nan)),
        Refused("relevance y contains nan .* at row 3"),
    ),
    Attack(
        "inf in y",
        broken(y=lambda y: with_one(y, np.inf)),
        Refused("relevance y contains inf .* at row 3"),
    ),
    Attack(
        "None in y",
        broken(y=lambda y: with_one(y, None)),
        Refused("relevance y contains nan .* at row 3"),
    ),
    Attack(
        "text in y", broken(y=lambda y: with_one(y, "x")), Refused("relevance y must hold numbers")
    ),
    Attack(
        "strings as y", broken(y=lambda y: y.astype(str)), Refused("relevance y must hold numbers")
    ),
    Attack(
        "dates as y",
        broken(y=lambda y: y.astype("i8").astype("M8[s]")),
        Refused("relevance y must hold numbers"),
    ),
    Attack(
        "huge y", broken(y=lambda y: with_one(y, 10**400, dtype=object)), Refused("relevance y")
    ),
    Attack(
        "y of two columns", broken(y=lambda y: np.column_stack((y, y))), Refused("2 dimensions")
    ),
    Attack("short qid", broken(qid=lambda q: q[:-1]), Refused("qid has shape")),
    Attack(
        "two-dimensional qid",
        broken(qid=lambda q: np.column_stack((q, q))),
        Refused("qid has shape"),
    ),
    Attack(
        "NaN in qid",
        broken(qid=lambda q: with_one(q.astype(float), np.nan)),
        Refused("qid is missing .* row 3"),
    ),
    Attack(
        "inf in qid",
        broken(qid=lambda q: with_one(q.astype(float), np.inf)),
        Refused("qid is missing .* row 3"),
    ),
    Attack(
        "None in qid", broken(qid=lambda q: with_one(q, None)), Refused("qid is missing .* row 3")
    ),
    Attack(
        "NA in qid",
        broken(qid=lambda q: pd.Series(with_one(q, pd.NA), dtype="Int64")),
        Refused("qid is missing .* row 3"),
    ),
    Attack(
        "NaT in qid",
        broken(qid=lambda q: with_one(q.astype("M8[D]"), np.datetime64("NaT"), dtype="M8[D]")),
        Refused("qid is missing .* row 3"),
    ),
    Attack(
        "None among text",
        broken(qid=lambda q: with_one(q.astype(str).astype(object), None)),
        Refused("qid is missing .* row 3"),
    ),
    Attack(
        "numbers and text",
        broken(qid=lambda q: with_one(q, "x")),
        Refused("mixes values of types int, str"),
    ),
    Attack("lists in qid", broken(qid=lambda q: with_one(q, [1])), Refused("mixes values|qid")),
    Attack("complex qid", broken(qid=lambda q: q + 1j), Refused("integers or strings")),
    Attack("floats beyond 2^53", broken(qid=lambda q: q + 2.0**53), Refused("2\\^53")),
    Attack(
        "NaN in weights",
        broken(sample_weight=lambda _: with_one(np.ones(24), np.nan)),
        Refused("sample_weight contains nan .* row 3"),
    ),
    Attack(
        "inf in weights",
        broken(sample_weight=lambda _: np.full(24, np.inf)),
        Refused("sample_weight contains inf .* row 0"),
    ),
    Attack(
        "negative weights",
        broken(sample_weight=lambda _: -np.ones(24)),
        Refused("sample_weight is negative at row 0"),
    ),
    Attack(
        "weights that vary",
        broken(sample_weight=lambda _: np.arange(24.0)),
        Refused("varies within query 0"),
    ),
    Attack(
        "text as weights",
        broken(sample_weight=lambda _: ["x"] * 24),
        Refused("sample_weight must hold numbers"),
    ),
    Attack(
        "short weights",
        broken(sample_weight=lambda _: np.ones(23)),
        Refused("sample_weight has 23"),
    ),
]
LABELS_ONLY = [
    Attack(
        "inf in Y",
        broken(y=lambda y: np.where(y == 2, np.inf, y)),
        Refused("relevance Y contains inf"),
    ),
    Attack(
        "text in Y", broken(y=lambda y: y.astype(str)), Refused("relevance Y must hold numbers")
    ),
    Attack(
        "Y of no columns",
        broken(y=lambda y: y[:, :0]),
        Refused("no preference pair|no labels|label"),
    ),
    Attack("Y of one column", broken(y=lambda y: y[:, :1]), Refused("no preference pair")),
    Attack("Y of NaN", broken(y=lambda y: np.nan * y), Refused("no preference pair")),
    Attack(
        "NaN among classes",
        broken(y=lambda y: with_one(y[:, 0], np.nan)),
        Refused("class is missing .* row 3"),
    ),
    Attack(
        "None among classes",
        broken(y=lambda y: with_one(y[:, 0].astype(int), None)),
        Refused("class is missing .* row 3"),
    ),
    Attack(
        "numbers and text as classes",
        broken(y=lambda y: with_one(y[:, 0].astype(int), "x")),
        Refused("class mixes values of types int, str"),
    ),
    Attack("one class", broken(y=lambda y: np.ones(len(y))), Refused("no preference pair|1 class")),
    Attack("complex classes", broken(y=lambda y: y[:, 0] + 1j), Refused("class|complex")),
]


FOR_SOME_SOLVERS = {
    **dict.fromkeys(
        ("NaN in X", "NaN in float32", "NaN in CSR", "None in X", "missing in a column"),
        "takes no missing values",
    ),
    "categorical column": "d",
}
"""Data that trees take, and what other solvers say of them."""


@pytest.mark.parametrize(
    ("task", "attack"),
    [
        *(
            pytest.param("query-document", one, id=f"query-{one}")
            for one in BROKEN + DOCUMENTS_ONLY
        ),
        *(pytest.param("label-ranking", one, id=f"label-{one}") for one in BROKEN + LABELS_ONLY),
    ],
)
def test_what_is_broken_is_refused_by_data_and_estimators(task, attack):
    inputs, message = attack.change(BASE[task]()), attack.outcome.message

    def data():
        made = (
            LabelRankingData.from_arrays(inputs.X, inputs.y)
            if task == "label-ranking"
            else RankingData.from_arrays(
                inputs.X, inputs.y, inputs.qid, sample_weight=inputs.sample_weight
            )
        )
        made.require_pairs()

    arguments = {}
    if task == "query-document":
        arguments = {"qid": inputs.qid, "sample_weight": inputs.sample_weight}
    fit = ranker(task).fit
    if attack.name in FOR_SOME_SOLVERS:
        quietly(data)
        assert_refused(FOR_SOME_SOLVERS[attack.name], fit, inputs.X, inputs.y, **arguments)
        return
    assert_refused(message, data)
    if attack.name not in READ_BY_SCIKIT_LEARN:
        assert_refused("", fit, inputs.X, inputs.y, **arguments)


@pytest.mark.parametrize("task", BASE)
def test_a_fitted_estimator_refuses_broken_features_and_is_as_before(task):
    inputs = BASE[task]()
    estimator = fitted(ranker(task), inputs, inputs.X)
    expected = estimator.predict(inputs.X)
    for attack in BROKEN:
        X = attack.change(inputs).X
        if X is inputs.X:
            continue  # an attack on y
        if attack.name not in READ_BY_SCIKIT_LEARN:
            assert_refused("", estimator.predict, X)
            assert_refused("", estimator.rank, X)
        assert_refused("", estimator.model_.predict, X)
    with pytest.raises(ValueError, match="features"):
        estimator.predict(inputs.X[:, :3])
    np.testing.assert_array_equal(estimator.predict(inputs.X), expected)


LABELS = {
    "negative": [-3, -1, -2],
    "fractional": [0.1, 0.2, 0.15],
    "above 31": [10, 90, 40],
    "above 1,000": [1001, 5000, 2000],
    "boolean and more": [False, 2, True],
    "decimal": [Decimal("0.1"), Decimal("0.3"), Decimal("0.2")],
    "one bit apart": [1.0, np.nextafter(np.nextafter(1.0, 2), 2), np.nextafter(1.0, 2)],
    "1e300": [-1e300, 1e300, 0.0],
    "limits": [-1.7e308, 1.7e308, 0.0],
    "denormal": [0.0, 1e-323, 5e-324],
}


@pytest.mark.parametrize("kind", LABELS)
@pytest.mark.parametrize(
    "solver",
    ["tree-tron", "cutting-plane", "toppush", "larank", "xgboost-pairwise", "lightgbm-all-pairs"],
)
def test_what_depends_on_the_order_of_labels_only_does(solver, kind):
    inputs, values = documents(), LABELS[kind]
    levels = sorted(values)
    y = [levels[int(grade)] for grade in inputs.y]
    plain = inputs.data()
    data = quietly(inputs.but(y=y).data)
    scores = [
        quietly(cheap(solver).solve, one, random_state=0).model.predict(plain.X)
        for one in (plain, data)
    ]
    np.testing.assert_allclose(scores[1], scores[0], rtol=1e-6, atol=1e-9)


def test_estimators_score_labels_of_any_kind():
    inputs = documents()
    estimator = fitted(ranker("query-document"), inputs, inputs.X)
    for kind, values in LABELS.items():
        levels = sorted(float(value) for value in values)
        y = [levels[int(grade)] for grade in inputs.y]
        if kind == "limits":
            assert_refused(
                "too large|too wide|overflow|finite", estimator.score, inputs.X, y, qid=inputs.qid
            )
        else:
            assert 0 <= quietly(estimator.score, inputs.X, y, qid=inputs.qid) <= 1


CLASSES = {
    "strings": ["x y", "é", "🙂"],
    "booleans": [False, True, True],
    "negative": [-5, 0, 2**40],
    "floats": [0.5, -1.5, 1e300],
    "NumPy strings": np.array(["a", "b", "c"], dtype=np.dtypes.StringDType()),
}


@pytest.mark.parametrize("kind", CLASSES)
def test_classes_of_every_kind_are_learnt_and_come_back(kind):
    inputs = instances()
    which = np.argmax(inputs.y, axis=1)
    values = CLASSES[kind]
    y = np.array(values)[which] if isinstance(values, list) else values[which]
    estimator = quietly(LabelRanker(cheap("sopopo")).fit, inputs.X, y)
    found = estimator.classify(inputs.X)
    assert set(found.tolist()) <= set(y.tolist())
    assert (found == y).mean() > 0.5
    assert quietly(estimator.score, inputs.X, y) > 0.5


# Sizes


def test_a_query_of_a_million_rows_and_a_million_queries_of_one():
    n = 1_000_000
    X = np.arange(n, dtype=np.float64)[:, None] % 1009
    y = (X[:, 0] > 500).astype(float)
    one = quietly(RankingData.from_arrays, X, y, None)
    result = quietly(cheap("tree-tron", C=1e-12).solve, one)
    assert result.model.coef[0] > 0
    assert evaluate(y, X[:, 0], None, "ndcg@10") == {"ndcg@10": 1.0}
    ids = np.arange(n)[::-1]
    each = quietly(RankingData.from_arrays, X, y, ids)
    assert (each.n_queries, each.order) == (n, None)
    assert_refused("no preference pair in 1000000 samples of 1000000 queries", each.require_pairs)


def test_groups_of_no_rows_are_left_out():
    data = RankingData.from_arrays(WHOLE, Y, group=[0, 3, 0, 3, 0])
    np.testing.assert_array_equal(data.query_ptr, [0, 3, 6])
    for group, message in (
        ([3, 2], "adds up to 5 rows"),
        ([-1, 7], "integers >= 0"),
        ([3.0, 3.0], "integers >= 0"),
        ([[3, 3]], "one-dimensional"),
        ([2**62, 2**62, 2**62, 2**62, 6], "adds up|integers|too large"),
        (["3", "3"], "integers >= 0"),
        ([], "group"),
    ):
        assert_refused(message, RankingData.from_arrays, WHOLE, Y, group=group)


def test_a_buffer_is_an_array():
    y = array.array("d", Y)
    assert RankingData.from_arrays(WHOLE, y, array.array("q", QID)).n_queries == 2
    assert rankplug.__version__
