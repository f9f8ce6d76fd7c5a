"""Rows of any Dask collection: files, maps, and what shuffles, joins and filters make of them."""

import dask
import numpy as np
import pandas as pd
import pytest

import rankplug
from rankplug import make_solver
from rankplug.exceptions import DataError

pytest.importorskip("distributed")

import dask.array as da
import dask.dataframe as dd

from rankplug.dask import Ranker

F = ["a", "b", "c"]
N, FILES = 240, 4
SOLVER = make_solver("tree-tron", C=0.1, tol=1e-8)


@pytest.fixture(scope="module")
def client(near_client):
    return near_client


@pytest.fixture(scope="module")
def frame():
    """Queries whole in each file, whose order Arrow leaves open; row groups cut them."""
    g = np.random.default_rng(0)
    X = g.normal(size=(N, 3))
    y = np.digitize(X @ [1.0, -0.5, 0.2] + 0.5 * g.normal(size=N), [-1, 0, 1])
    table = pd.DataFrame(X, columns=F).assign(y=y, qid=np.arange(N) // 60 * 10)
    table.qid += np.concatenate([np.sort(g.integers(0, 7, N // FILES)) for _ in range(FILES)])
    junk = {f"text{i}": "a text that nobody reads" for i in range(8)}  # columns of F are few
    return table.assign(weight=1.0 + table.qid % 3, row=np.arange(N), **junk)


@pytest.fixture(scope="module")
def folder(frame, tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    for kind in ("parquet", "csv"):
        (folder / kind).mkdir()
    for i, rows in enumerate(np.array_split(np.arange(N), FILES)):
        part = frame.iloc[rows]
        part.to_parquet(folder / "parquet" / f"{i}.parquet", row_group_size=25)
        part.to_csv(folder / "csv" / f"{i}.csv", index=False)
    return folder


def read_parquet(folder, **options):
    return dd.read_parquet(folder / "parquet", **options)


def read_csv(folder, **options):
    return dd.read_csv(str(folder / "csv" / "*.csv"), **options)


def read_map(folder):
    return dd.from_map(pd.read_parquet, sorted((folder / "parquet").iterdir()))


def queries(frame):
    return pd.DataFrame({"qid": np.unique(frame.qid), "more": 1.0})


def in_parts(folder):
    files = sorted((folder / "parquet").iterdir())
    return dd.from_delayed([dask.delayed(pd.read_parquet)(file) for file in files])


FRAMES = {
    "parquet": lambda folder, frame: read_parquet(folder),
    "parquet by Arrow": lambda folder, frame: read_parquet(folder, filesystem="arrow"),
    "row groups": lambda folder, frame: read_parquet(folder, split_row_groups=True),
    "one file": lambda folder, frame: dd.read_parquet(
        folder / "parquet" / "0.parquet", split_row_groups=True
    ),
    "columns": lambda folder, frame: read_parquet(
        folder, columns=[*F, "qid", "y", "weight", "row"]
    ),
    "divisions": lambda folder, frame: read_parquet(folder, calculate_divisions=True),
    "csv": lambda folder, frame: read_csv(folder),
    "blocks of csv": lambda folder, frame: read_csv(folder, blocksize=8_000),
    "map": lambda folder, frame: read_map(folder),
    "delayed": lambda folder, frame: in_parts(folder),
    "pandas": lambda folder, frame: dd.from_pandas(frame, npartitions=5),
    "pandas unsorted": lambda folder, frame: dd.from_pandas(frame, npartitions=5, sort=False),
    "filter": lambda folder, frame: read_parquet(folder).query("a > -0.5"),
    "filter by Arrow": lambda folder, frame: read_parquet(
        folder, filesystem="arrow", filters=[("y", "<", 3)]
    ),
    "merge": lambda folder, frame: read_parquet(folder).merge(
        dd.from_pandas(queries(frame), npartitions=2), on="qid"
    ),
    "merge with one": lambda folder, frame: read_parquet(folder).merge(queries(frame), on="qid"),
    "shuffle": lambda folder, frame: read_parquet(folder).shuffle("qid"),
    "sort": lambda folder, frame: read_parquet(folder).sort_values("qid"),
    "index": lambda folder, frame: read_map(folder).set_index("qid", drop=False),
    "fewer": lambda folder, frame: read_parquet(folder).repartition(npartitions=3),
    "more": lambda folder, frame: read_parquet(folder).repartition(npartitions=7),
    "concat": lambda folder, frame: dd.concat(
        [dd.from_pandas(frame.assign(qid=frame.qid - 100), npartitions=2), read_parquet(folder)]
    ),
    "assigned": lambda folder, frame: read_parquet(folder).assign(a=lambda t: 2 * t.a),
    "dropna": lambda folder, frame: read_parquet(folder).dropna().reset_index(drop=True),
    "partitions": lambda folder, frame: read_parquet(folder).partitions[1:3],
}


@pytest.mark.parametrize("make", FRAMES.values(), ids=FRAMES)
def test_rankers_train_score_and_predict_frames_from(make, client, folder, frame):
    with client.as_current():
        table = make(folder, frame)
        local = table.compute()
    columns = {"qid": table["qid"], "sample_weight": table["weight"]}
    documents = {"document_weight": table["a"].abs()}
    ranker = Ranker(SOLVER, client=client).fit(table[F], table["y"], **columns, **documents)
    local_columns = {"qid": local.qid, "sample_weight": local.weight}
    documents = {"document_weight": local["a"].abs()}
    one = rankplug.Ranker(SOLVER).fit(local[F], local.y, **local_columns, **documents)
    assert ranker.model_.coef == pytest.approx(one.model_.coef, abs=1e-6)
    assert ranker.n_queries_in_ == one.n_queries_in_
    expected = one.score(local[F], local.y, **local_columns)
    assert ranker.score(table[F], table["y"], **columns) == pytest.approx(expected, abs=1e-6)
    scores = ranker.predict(table[F])
    assert scores.npartitions == table.npartitions
    with client.as_current():
        told = table.assign(score=scores)[["row", *F, "score"]].compute()
        alone = scores.compute()
    assert sorted(told.row) == sorted(local.row)
    assert told.score.to_numpy() == pytest.approx(one.predict(told[F]), abs=1e-6)
    assert np.sort(alone) == pytest.approx(np.sort(told.score), abs=1e-6)


def fit(client, frame, X, y, qid, **columns):
    """A ranker on the cluster, as good as the one on this machine."""
    ranker = Ranker(SOLVER, client=client).fit(X, y, qid=qid, **columns)
    one = rankplug.Ranker(SOLVER).fit(frame[F], frame.y, qid=frame.qid)
    assert ranker.model_.coef == pytest.approx(one.model_.coef, abs=1e-6)
    return ranker, one


def chunks(values, size=50):
    return da.from_array(np.asarray(values), chunks=size)


def test_arrays_and_frames_with_the_same_rows(client, folder, frame):
    table = read_map(folder)
    sizes = (60,) * FILES
    blocks = table[F].to_dask_array(lengths=sizes)
    by_file = da.from_array(frame[F].to_numpy(), chunks=(60, 2))
    in_pieces = da.from_array(frame[F].to_numpy(), chunks=(50, 3))
    y, qid = chunks(frame.y, 60), chunks(frame.qid, 60)
    for X, *beside in (
        (table[F], y, table["qid"]),
        (table[F], table[["y"]], qid),
        (by_file, table["y"], table[["qid"]]),
        (in_pieces, y, chunks(frame.qid, 70)),
        (by_file, table["y"].to_dask_array(lengths=sizes), qid),
    ):
        ranker, one = fit(client, frame, X, *beside)
    with client.as_current():
        scores = ranker.predict(blocks).compute()
    assert scores == pytest.approx(one.predict(frame[F]), abs=1e-6)


def test_frames_of_their_own_files(client, folder, frame):
    text, table = read_csv(folder), read_parquet(folder, filesystem="arrow")
    fit(client, frame, text[F], read_csv(folder)["y"], read_parquet(folder)["qid"])
    columns = [table[name].rename("other") for name in ("y", "qid")]
    fit(client, frame, table[F], *columns)


def test_frames_whose_divisions_say_how_they_belong_together(client, frame):
    table, other = (dd.from_pandas(frame, npartitions=n) for n in (4, 3))
    fit(client, frame, table[F], other["y"], dd.from_pandas(frame, npartitions=7)["qid"])
    indexed = dd.from_pandas(frame.set_index("qid"), npartitions=4)
    fit(client, frame, indexed[F], indexed["y"], indexed.index)


def test_rows_are_read_once_for_all_columns(client, frame, tmp_path):
    def read(trace):
        trace.mkdir()  # fails if it is there
        return frame

    table = dd.from_map(read, [tmp_path / "read"], meta=frame.iloc[:0])
    fit(client, frame, table[F], table["y"], table["qid"])
    assert (tmp_path / "read").exists()


def test_collections_that_do_not_fit_are_refused_with_a_way_out(client, folder, frame):
    table = read_parquet(folder)
    remedy = r"taking all of them from one DataFrame, as in fit\(df\[features\]"
    with pytest.raises(DataError, match=f"X has 4 partitions but y has 3: .*{remedy}"):
        fit(client, frame, table[F], table["y"].repartition(npartitions=3), table["qid"])
    with pytest.raises(DataError, match=f"X has 4 partitions but qid has 3: .*{remedy}"):
        fit(client, frame, table[F], table["y"], chunks(frame.qid, 80))
    short = table["y"].map_partitions(lambda y: y.iloc[1:])
    with pytest.raises(DataError, match="partition 0: X has 60 rows but relevance y has 59 values"):
        fit(client, frame, table[F], short, table["qid"])
    moved = table["qid"].map_partitions(lambda ids: ids.iloc[::-1])
    with pytest.raises(DataError, match=r"partition 0: the rows of qid are not in the order .* X"):
        fit(client, frame, table[F], table["y"], moved)
