"""What looks right and is not, on a cluster: told by a warning or an error, or done as meant."""

import datetime
import pickle
import uuid
import warnings
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

import rankplug
from rankplug import Ranker as LocalRanker
from rankplug import RankingData, make_solver
from rankplug.exceptions import DataError, DataWarning

pytest.importorskip("distributed")

import dask
import dask.array as da
import dask.dataframe as dd

from rankplug.dask import ClusterData, Ranker

F = ["year", "length"]
SOLVER = make_solver("tree-tron", C=0.1, tol=1e-8)


@pytest.fixture(scope="module")
def client(near_client):
    return near_client


@pytest.fixture(scope="module")
def films():
    g = np.random.default_rng(3)
    user = np.repeat(np.arange(30), g.integers(4, 8, 30))
    X = g.normal(size=(len(user), 2))
    stars = np.digitize(X @ [1.0, -0.5] + g.normal(size=30)[user], [-1, 0, 1])
    return pd.DataFrame(X, columns=F).assign(stars=stars, user=user)


@pytest.fixture
def silence():
    with warnings.catch_warnings():
        warnings.simplefilter("error", DataWarning)
        yield


def in_partitions(frame, n=3):
    """Objects as they are, of which Dask would make text."""
    parts = [frame.iloc[rows] for rows in np.array_split(np.arange(len(frame)), n)]
    with dask.config.set({"dataframe.convert-string": False}):
        return dd.from_map(lambda i: parts[i], range(n), meta=frame.iloc[:0])


# ------------------------------------------------------------------- queries


@pytest.mark.usefixtures("silence")
def test_a_column_qid_holds_the_queries(client, films):
    told = rankplug.Ranker(SOLVER).fit(films[F], films.stars, qid=films.user)
    table = in_partitions(films.assign(qid=films.user))
    ranker = Ranker(SOLVER, client=client).fit(table[["qid", *F]], table["stars"])
    assert ranker.feature_names_in_.tolist() == F
    assert ranker.n_queries_in_ == 30
    assert ranker.model_.coef == pytest.approx(told.model_.coef, abs=1e-6)
    expected = told.score(films[F], films.stars, qid=films.user)
    assert ranker.score(table[["qid", *F]], table["stars"]) == pytest.approx(expected, abs=1e-6)
    scores = told.predict(films[F])
    for X in (table, table[[*F, "qid"]], table[F]):
        with client.as_current():
            assert ranker.predict(X).compute().to_numpy() == pytest.approx(scores, abs=1e-6)
    local = films[F].assign(qid=films.user)
    assert ranker.predict(local) == pytest.approx(scores, abs=1e-6)
    with ClusterData.from_collections(table[[*F, "qid"]], table["stars"], client=client) as data:
        assert (data.n_queries, data.feature_names) == (30, tuple(F))


@pytest.mark.usefixtures("silence")
def test_a_model_without_names_leaves_the_queries_of_a_table_aside(client, films):
    columns = (films[F].to_numpy(), films.stars.to_numpy(), films.user.to_numpy())
    X, y, qid = (da.from_array(values, chunks=60) for values in columns)
    ranker = Ranker(SOLVER, client=client).fit(X, y, qid=qid)
    table = in_partitions(films[F].assign(qid=films.user))
    with client.as_current():
        scores = ranker.predict(table).compute().to_numpy()
    assert scores == pytest.approx(ranker.predict(films[F].to_numpy()), abs=1e-12)


def test_queries_that_are_told_twice_are_refused(client, films):
    table = in_partitions(films.assign(qid=films.user))
    X, y = table[[*F, "qid"]], table["stars"]
    with pytest.raises(DataError, match="column 'qid', which holds the queries, and they are"):
        Ranker(client=client).fit(X, y, qid=table["user"])
    with pytest.raises(DataError, match="column 'qid', which holds the queries, and they are"):
        ClusterData.from_collections(X, y, table["user"], client=client)


def test_no_queries_at_all_are_asked_about(client, films):
    one, several = in_partitions(films, 1), in_partitions(films)
    with pytest.warns(DataWarning, match=rf"all {len(films)} rows are ranked as one .* qid=.*=0"):
        ranker = Ranker(client=client).fit(one[F], one["stars"])
    assert ranker.n_queries_in_ == 1
    assert 0 < ranker.score(one[F], one["stars"]) <= 1
    with pytest.raises(DataError, match=r"qid is missing.* 3 partitions; .* column 'qid'"):
        Ranker(client=client).fit(several[F], several["stars"])


@pytest.mark.usefixtures("silence")
def test_one_query_on_purpose_is_not_asked_about(client, films):
    told = rankplug.Ranker(SOLVER).fit(films[F], films.stars, group=[len(films)])
    for n in (1, 3):
        table = in_partitions(films.assign(qid=0), n)
        ranker = Ranker(SOLVER, client=client).fit(table[[*F, "qid"]], table["stars"])
        assert ranker.model_.coef == pytest.approx(told.model_.coef, abs=1e-6)


def test_a_score_without_queries_is_refused_after_a_fit_with_some(client, films):
    table = in_partitions(films, 1)
    ranker = Ranker(client=client).fit(table[F], table["stars"], qid=table["user"])
    with pytest.raises(DataError, match=r"pass qid=df\['qid'\], or X as a DataFrame .* 'qid'"):
        ranker.score(table[F], table["stars"])


IDS = {
    "whole decimals": lambda i: Decimal(i),
    "dates": lambda i: datetime.date(2024, 1, 1) + datetime.timedelta(days=i),
    "times": lambda i: pd.Timestamp("2024-01-01") + pd.Timedelta(hours=i),
    "times with a zone": lambda i: pd.Timestamp("2024-01-01", tz="UTC") + pd.Timedelta(hours=i),
    "periods": lambda i: pd.Period("2024-01", "M") + i,
    "UUIDs": lambda i: uuid.UUID(int=2**100 + i),
    "bytes": lambda i: b"%03d" % i,
    "text": lambda i: f"user {i:03d}",
    "large": lambda i: 2**70 + i,
}


@pytest.mark.parametrize("make", IDS.values(), ids=IDS)
def test_ids_of_any_kind(client, films, make):
    made = [make(i) for i in range(30)]
    ids = pd.Series([made[i] for i in films.user], index=films.index)
    alone = RankingData.from_arrays(films[F], films.stars, ids)
    table = in_partitions(films.assign(qid=ids))  # a border cuts a query
    with ClusterData.from_collections(
        table[F], table["stars"], table["qid"], client=client
    ) as data:
        assert data.n_queries == 30
        found = np.concatenate(data.map(ids_of))
        assert sorted(found.tolist()) == sorted(alone.query_ids.tolist())


def ids_of(data):
    return data.query_ids


# ------------------------------------------------------------------- features, relevance, weights


def test_columns_that_are_not_numbers_are_named(client, films):
    dates = pd.date_range("2024-01-01", periods=len(films))
    pairs = pd.Series([[1.0], *[[1.0, 2.0]] * (len(films) - 1)], index=films.index)
    frame = films.assign(title="a film", day=dates, pair=pairs)
    table = in_partitions(frame)
    X = table[[*F, "title", "day", "pair"]]
    said = r"not numbers: title \(text\), day \(datetime64.*\), pair \((lists of .*|text)\)"
    with pytest.raises(DataError, match=rf"partition 0: .*{said}"):
        Ranker(client=client).fit(X, table["stars"], qid=table["user"])
    converted = dd.from_pandas(frame, npartitions=2)
    X = converted[[*F, "title", "day", "pair"]]
    with pytest.raises(DataError, match=rf"partition 0: .*{said}"):
        Ranker(client=client).fit(X, converted["stars"], qid=converted["user"])
    with pytest.raises(DataError, match="partition 0: relevance y must hold numbers"):
        Ranker(client=client).fit(table[F], table["title"], qid=table["user"])
    ranker = Ranker(client=client).fit(table[F], table["stars"], qid=table["user"])
    wrong = table.assign(year=table["title"])[F]
    with client.as_current(), pytest.raises(DataError, match=r"not numbers: year \(text\)"):
        ranker.predict(wrong).compute()


def of_parts(*frames):
    """A table whose partitions are these, whatever their columns."""
    with dask.config.set({"dataframe.convert-string": False}):
        return dd.from_map(lambda i: frames[i], range(len(frames)), meta=frames[0].iloc[:0])


@pytest.mark.parametrize("n", [2, 20])
def test_partitions_that_are_not_alike_are_told(client, films, n):
    """Also where many are put together, and where a query goes on behind a border."""
    parts = [films.iloc[rows] for rows in np.array_split(np.arange(len(films)), n)]
    y, qid = (of_parts(*(part[name] for part in parts)) for name in ("stars", "user"))

    def fit(change, solver=SOLVER):
        X = of_parts(*(part[F] if k != 1 else change(part[F]) for k, part in enumerate(parts)))
        return Ranker(solver, client=client).fit(X, y, qid=qid)

    assert fit(lambda part: part).n_features_in_ == 2
    said = (
        r"partition 1 has 3 features \(year, length, more, ...\), the first one 2 features \(year"
    )
    with pytest.raises(DataError, match=said):
        fit(lambda part: part.assign(more=1.0))
    with pytest.raises(
        DataError, match=r"partition 1 has 2 features \(length, year, ...\), the firs"
    ):
        fit(lambda part: part[F[::-1]])
    for k, part in enumerate(parts):
        kinds = pd.Categorical(np.resize(["a", "b"], len(part)), ["b", "a"] if k == 1 else None)
        parts[k] = part.assign(kind=kinds)
    X = of_parts(*(part[[*F, "kind"]] for part in parts))
    trees = make_solver("xgboost-pairwise", n_estimators=2)
    with pytest.raises(DataError, match=r"partition 1 has other categories .* by df.categorize"):
        Ranker(trees, client=client).fit(X, y, qid=qid)


def test_weights_that_leave_nothing_to_learn_are_told(client, films):
    X, y, qid = (da.from_array(films[c].to_numpy(), chunks=50) for c in (F, "stars", "user"))
    with pytest.raises(DataError, match="sample_weight is zero for every query that has one"):
        Ranker(client=client).fit(X, y, qid=qid, sample_weight=da.zeros(len(films), chunks=50))
    with pytest.raises(DataError, match="y has 2 dimensions; it needs one value per row of X"):
        Ranker(client=client).fit(X, X, qid=qid)


@pytest.mark.parametrize("n", [3, 20])
def test_sums_of_many_partitions_are_those_of_one(client, films, n, monkeypatch):
    """A column of relevance is a vector, too."""
    monkeypatch.setattr("rankplug.dask.shards.FAN_IN", 2)
    told = LocalRanker(SOLVER).fit(films[F], films.stars, qid=films.user)
    size = -(-len(films) // n)
    X, y, qid = (da.from_array(films[c].to_numpy(), chunks=size) for c in (F, ["stars"], "user"))
    ranker = Ranker(SOLVER, client=client).fit(X, y, qid=qid)
    assert ranker.model_.coef == pytest.approx(told.model_.coef, abs=1e-6)
    assert pickle.loads(pickle.dumps(ranker)).client is None
    assert pickle.loads(pickle.dumps(ranker)).model_.coef.tolist() == ranker.coef_.tolist()


def test_masked_blocks_are_refused(client, films):
    X, y, qid = (da.from_array(films[c].to_numpy(), chunks=50) for c in (F, "stars", "user"))
    masked = da.ma.masked_greater(X, 1.0)
    with pytest.raises(DataError, match=r"partition 0: X is masked at row \d+, column \d"):
        Ranker(client=client).fit(masked, y, qid=qid)
    with pytest.raises(DataError, match=r"partition 0: relevance y is masked at row \d+"):
        Ranker(client=client).fit(X, da.ma.masked_equal(y, 1), qid=qid)
    with pytest.raises(DataError, match=r"partition 0: qid is masked at row \d+"):
        Ranker(client=client).fit(X, y, qid=da.ma.masked_equal(qid, 1))


def test_missing_values_are_named_with_their_column(client, films):
    holes = films.assign(length=films.length.where(films.index != 5).astype("Float64"))
    table = in_partitions(holes)
    with pytest.raises(DataError, match=r"takes no missing values.*1 missing value .*length \(1\)"):
        Ranker(client=client).fit(table[F], table["stars"], qid=table["user"])
    trees = make_solver("xgboost-pairwise", n_estimators=5, n_threads=1)
    ranker = Ranker(trees, client=client).fit(table[F], table["stars"], qid=table["user"])
    local = LocalRanker(trees, random_state=0).fit(holes[F], holes["stars"], qid=holes["user"])
    found = np.asarray(ranker.predict(table[F]).compute())
    assert found.shape == (len(films),)
    np.testing.assert_allclose(found, local.predict(holes[F]), atol=0.2 * np.ptp(found))


@pytest.mark.parametrize("chunks", [150, 40, 7])
def test_weights_may_be_one_a_query(client, films, chunks):
    columns = (films[F].to_numpy(), films.stars.to_numpy(), films.user.to_numpy()[::-1])
    X, y, qid = (da.from_array(values, chunks=chunks) for values in columns)
    weights = 1.0 + np.arange(30) % 4
    one = rankplug.Ranker(SOLVER).fit(*columns[:2], qid=columns[2], sample_weight=weights)
    for told in (weights, weights.tolist(), da.from_array(weights, chunks=8)):
        ranker = Ranker(SOLVER, client=client).fit(X, y, qid=qid, sample_weight=told)
        assert ranker.model_.coef == pytest.approx(one.model_.coef, abs=1e-6)
        expected = one.score(*columns[:2], qid=columns[2], sample_weight=weights)
        assert ranker.score(X, y, qid=qid, sample_weight=told) == pytest.approx(expected, abs=1e-6)


def test_weights_of_queries_that_do_not_fit_are_refused(client, films):
    X, y, qid = (da.from_array(films[c].to_numpy(), chunks=50) for c in (F, "stars", "user"))
    with pytest.raises(DataError, match=r"shape \(31,\): it must be one a row .* a query \(30\)"):
        Ranker(client=client).fit(X, y, qid=qid, sample_weight=np.ones(31))
    with pytest.raises(DataError, match="sample_weight is negative at query 0"):
        Ranker(client=client).fit(X, y, qid=qid, sample_weight=-np.ones(30))
    with pytest.raises(
        DataError, match=r"partition 0: .* do not stand together: give one for each"
    ):
        Ranker(client=client).fit(X, y, qid=qid % 3 + 100 * (qid // 20), sample_weight=np.ones(6))
    table = in_partitions(films)
    with pytest.raises(DataError, match=r"one a query becomes one a row by df\['qid'\]\.map"):
        Ranker(client=client).fit(
            table[F], table["stars"], qid=table["user"], sample_weight=np.ones(30)
        )


def test_categories_and_lists_are_features_on_a_cluster(client, films):
    kind = pd.Categorical(np.where(films.stars > 1, "drama", "farce"), ["drama", "farce"])
    frame = films.assign(kind=kind, pair=films[F].to_numpy().tolist())
    table = in_partitions(frame)
    trees = make_solver("xgboost-pairwise", n_estimators=5, n_threads=1)
    ranker = Ranker(trees, client=client).fit(
        table[["year", "kind"]], table["stars"], qid=table["user"]
    )
    assert ranker.model_.categories == {1: ("drama", "farce")}
    found = np.asarray(ranker.predict(table[["year", "kind"]]).compute())
    np.testing.assert_array_equal(found, ranker.model_.predict(frame[["year", "kind"]]))
    assert found[films.stars > 1].mean() > found[films.stars <= 1].mean() + 0.3
    with pytest.raises(DataError, match=r"tree-tron takes no categories.*kind"):
        Ranker(client=client).fit(table[["year", "kind"]], table["stars"], qid=table["user"])
    linear = Ranker(SOLVER, client=client).fit(table[["pair"]], table["stars"], qid=table["user"])
    assert linear.model_.feature_names == ("pair[0]", "pair[1]")
    plain = Ranker(SOLVER, client=client).fit(table[F], table["stars"], qid=table["user"])
    np.testing.assert_array_equal(
        np.asarray(linear.predict(table[["pair"]]).compute()),
        np.asarray(plain.predict(table[F]).compute()),
    )
