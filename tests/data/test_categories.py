"""Columns of categories and of lists: learnt, kept in the model, and the same from every way in."""

import dataclasses
import json
import re

import mlflow
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse

import rankplug.mlflow
from rankplug import LabelRanker, Ranker, RankingData, load_model, make_solver
from rankplug.data import fit_scaling, tables
from rankplug.exceptions import DataError, ModelFormatError, ParameterError
from rankplug.models import LinearModel, predict_data, scale_parts, scaled_model

N = 240
BRANDS = ["acme", "bolt", "core", "dune", "eden"]
WORTH = {"acme": 0, "bolt": 2, "core": 0, "dune": 2, "eden": 1}


def rows(seed):
    rng = np.random.default_rng(seed)
    brand = rng.choice(BRANDS, N)
    frame = pd.DataFrame({"brand": pd.Categorical(brand, BRANDS), "price": rng.normal(size=N)})
    frame["level"] = pd.Categorical(rng.choice([10, 20, 30], N))
    frame.loc[::11, "brand"] = None
    y = np.array([WORTH[one] for one in brand]) + (frame["price"] > 1)
    return frame, y.to_numpy(), np.repeat(np.arange(N // 10), 10)


FRAME, Y, QID = rows(0)
NEW, NEW_Y, NEW_QID = rows(1)
SOLVERS = {
    "xgboost": make_solver("xgboost-pairwise", n_estimators=10, n_threads=1),
    "all-pairs": make_solver("xgboost-all-pairs", n_estimators=10, zeros="value", n_threads=1),
    "lightgbm": make_solver(
        "lightgbm-all-pairs", n_estimators=10, min_child_samples=2, n_threads=1,
        params={"min_data_per_group": 2, "cat_smooth": 1, "max_cat_to_onehot": 1},
    ),
    "lambdarank": make_solver(
        "lightgbm-lambdarank", n_estimators=10, min_child_samples=2, n_threads=1
    ),
}  # fmt: skip


def as_polars(kind):
    brand = pl.Categorical if kind == "categorical" else pl.Enum(BRANDS)
    values = [None if one != one else one for one in FRAME["brand"].astype(object)]
    return pl.DataFrame(
        {
            "brand": pl.Series(values, dtype=brand),
            "price": FRAME["price"].to_numpy(),
            "level": FRAME["level"].astype(int).to_numpy(),
        }
    )


TABLES = {
    "pandas": FRAME,
    "ordered": FRAME.assign(brand=FRAME["brand"].cat.as_ordered()),
    "polars": as_polars("categorical"),
    "enum": as_polars("enum"),
    "arrow": pa.Table.from_pandas(FRAME),
    "batch": pa.RecordBatch.from_pandas(FRAME),
    "chunks": pa.concat_tables(
        [pa.Table.from_pandas(FRAME[:50]), pa.Table.from_pandas(FRAME[50:])]
    ),
    "arrow types": FRAME.assign(
        brand=FRAME["brand"].astype(pd.ArrowDtype(pa.dictionary(pa.int32(), pa.string())))
    ),
}


@pytest.mark.parametrize("kind", TABLES)
def test_categories_of_every_table_are_learnt(kind):
    data = RankingData.from_arrays(TABLES[kind], Y, QID)
    assert set(data.categories) == {0}
    assert set(data.categories[0]) == set(BRANDS)
    codes = data.X[:, 0]
    found = [None if code != code else data.categories[0][int(code) - 1] for code in codes]
    expected = [None if one != one else one for one in FRAME["brand"].astype(object)]
    assert found == expected
    assert data.take([0, 3]).categories == data.categories
    np.testing.assert_array_equal(data.X[:, 2], FRAME["level"].astype(float))
    ranker = Ranker(SOLVERS["xgboost"], random_state=0).fit(TABLES[kind], Y, qid=QID)
    assert ranker.score(TABLES[kind], Y, qid=QID) > 0.9


@pytest.mark.parametrize("name", SOLVERS)
def test_trees_take_categories_and_so_do_their_saved_models(tmp_path, name):
    ranker = Ranker(SOLVERS[name], random_state=0).fit(FRAME, Y, qid=QID)
    model = ranker.model_
    assert model.categories == {0: tuple(BRANDS), 2: (10, 20, 30)}
    scores = ranker.predict(NEW)
    assert ranker.score(NEW, NEW_Y, qid=NEW_QID) > 0.95
    model.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    text = NEW.assign(brand=NEW["brand"].astype(object), level=NEW["level"].astype(int))
    shuffled = NEW.assign(brand=NEW["brand"].cat.reorder_categories(BRANDS[::-1]))
    tables = (NEW, text, text.astype(object), shuffled, pl.from_pandas(text), pa.table(text))
    for one in tables:
        np.testing.assert_array_equal(loaded.predict(one), scores)
    np.testing.assert_array_equal(loaded.predict(text.to_numpy(dtype=object)), scores)
    unseen = loaded.predict(text.assign(brand="unheard-of", level=99))
    missing = loaded.predict(text.assign(brand=None, level=np.nan))
    np.testing.assert_array_equal(unseen, missing)
    assert np.isfinite(unseen).all()
    with pytest.raises(DataError, match=r"not numbers: price \(text\)"):
        loaded.predict(text.assign(price="dear"))
    codes = RankingData.from_arrays(NEW, NEW_Y, NEW_QID, categories=model.categories).X
    wrong = text.assign(brand=1.0).to_numpy(dtype=float)
    for form in (np.asarray, np.ndarray.tolist, sparse.csr_array):
        np.testing.assert_array_equal(loaded.predict(form(codes)), scores)
        with pytest.raises(DataError, match="the codes 1 to 3: give a table, or an array of obj"):
            loaded.predict(form(wrong))
    np.testing.assert_array_equal(loaded.predict(text.to_numpy(dtype=object).tolist()), scores)


def test_a_category_is_split_as_the_library_does():
    import xgboost

    data = RankingData.from_arrays(FRAME[["brand", "price"]], Y, QID)
    model = SOLVERS["xgboost"].solve(data, random_state=0).model
    content = json.loads(model.booster.save_raw("json"))
    trees = content["learner"]["gradient_booster"]["model"]["trees"]
    assert any(any(tree["split_type"]) for tree in trees)
    assert content["learner"]["feature_types"] == ["c", "float"] or model.booster.feature_types == [
        "c",
        "q",
    ]
    assert xgboost.Booster is type(model.booster)
    text = SOLVERS["lightgbm"].solve(data, random_state=0).model.booster.model_to_string()
    assert re.search(r"^num_cat=[1-9]", text, re.MULTILINE)


def test_served_models_take_categories_as_text(tmp_path):
    for name in ("xgboost", "lightgbm"):
        ranker = Ranker(SOLVERS[name], random_state=0).fit(FRAME, Y, qid=QID)
        folder = tmp_path / name
        rankplug.mlflow.save_model(ranker, folder, input_example=FRAME.head(3))
        served = mlflow.pyfunc.load_model(str(folder))
        scores = ranker.predict(NEW)
        np.testing.assert_array_equal(served.predict(NEW), scores)
        records = json.loads(NEW.to_json(orient="records", double_precision=15))
        np.testing.assert_allclose(served.predict(pd.DataFrame(records)), scores, atol=1e-6)
        NEW.to_csv(tmp_path / "new.csv", index=False)
        np.testing.assert_allclose(
            served.predict(pd.read_csv(tmp_path / "new.csv")), scores, atol=1e-6
        )


def test_other_solvers_name_the_columns_and_the_remedy():
    for solver in ("tree-tron", "pointwise", "linear-then-boost", "single-feature"):
        frame = FRAME.fillna({"brand": "acme"})
        with pytest.raises(DataError) as caught:
            Ranker(solver).fit(frame, Y, qid=QID)
        assert "takes no categories" in str(caught.value)
        assert "not numbers: brand (acme, bolt, core, ...)" in str(caught.value)
        assert "OneHotEncoder" in str(caught.value)
        numbers = frame[["price", "level"]]  # categories that are numbers were numbers before
        fitted = Ranker("tree-tron").fit(numbers, Y, qid=QID)
        plain = Ranker("tree-tron").fit(numbers.astype(float), Y, qid=QID)
        np.testing.assert_array_equal(fitted.predict(numbers), plain.predict(numbers.astype(float)))
    with pytest.raises(DataError, match=r"not numbers: v \(text\)"):
        LinearModel([1.0], ["v"]).predict(pd.DataFrame({"v": pd.Categorical(["a"])}))


def test_validation_and_later_data_have_the_codes_of_the_training():
    rare = NEW[NEW["brand"].isin(["dune", "bolt"])]
    rare = rare.assign(brand=rare["brand"].cat.remove_unused_categories())
    y, qid = NEW_Y[rare.index], NEW_QID[rare.index]
    early = make_solver("xgboost-ndcg", n_estimators=30, early_stopping_rounds=3, n_threads=1)
    ranker = Ranker(early).fit(FRAME, Y, qid=QID, eval_set=(rare, y), eval_qid=qid)
    whole = rare.assign(brand=rare["brand"].cat.set_categories(BRANDS))
    np.testing.assert_array_equal(ranker.predict(rare), ranker.predict(whole))
    assert ranker.score(rare, y, qid=qid) == ranker.score(whole, y, qid=qid)
    data = RankingData.from_arrays(FRAME[["brand"]], Y, QID)
    model = SOLVERS["xgboost"].solve(data, random_state=0).model
    other = RankingData.from_arrays(rare[["brand"]], y, qid)
    expected = model.predict(rare[["brand"]])
    np.testing.assert_array_equal(other.restore(predict_data(model, other)), expected)
    in_rows = dataclasses.replace(other, X=sparse.csr_array(other.X))
    np.testing.assert_array_equal(in_rows.restore(predict_data(model, in_rows)), expected)
    with pytest.raises(DataError, match="other categories than the training data"):
        early.solve(data, valid=other)
    with pytest.raises(ParameterError, match="init has other categories of its features than"):
        SOLVERS["xgboost"].solve(other, init=model)
    with pytest.raises(DataError, match="different categories"):
        RankingData.stack([data, other])
    numbers = RankingData.from_arrays(data.X, Y, QID)
    with pytest.raises(DataError, match="column 0 holds no categories, other than in the training"):
        predict_data(model, numbers)
    with pytest.raises(DataError, match="holds categories, other than in the training"):
        predict_data(LinearModel([1.0]), data)


def test_one_of_two_columns_may_have_the_codes_of_the_training():
    names = FRAME["brand"].cat.set_categories(BRANDS[::-1])
    first, second = (
        RankingData.from_arrays(
            pd.DataFrame({"a": FRAME["brand"], "b": given, "price": FRAME["price"]}), Y, QID
        )
        for given in (FRAME["brand"], names)
    )
    model = SOLVERS["xgboost"].solve(first, random_state=0).model
    assert not np.array_equal(first.X[:, 1], second.X[:, 1], equal_nan=True)
    np.testing.assert_array_equal(predict_data(model, second), predict_data(model, first))


def test_truth_values_are_found_among_texts_and_other_things_are_none_of_them():
    given = pd.Categorical(np.where(np.arange(N) % 2 == 0, "True", "False"))
    frame = pd.DataFrame({"new": given, "price": FRAME["price"]})
    ranker = Ranker(SOLVERS["xgboost"]).fit(frame, np.arange(N) % 2, qid=QID)
    expected = ranker.predict(frame)
    assert len(np.unique(expected)) > 1
    booleans = frame.assign(new=np.arange(N) % 2 == 0)
    np.testing.assert_array_equal(ranker.predict(booleans), expected)
    missing = ranker.predict(frame.assign(new=None))
    np.testing.assert_array_equal(ranker.predict(frame.assign(new=[["True"]] * N)), missing)


def test_categories_that_cannot_be_learnt_are_named(monkeypatch):
    dates = pd.Categorical(pd.to_datetime(["2020-01-01", "2021-01-01"] * (N // 2)))
    with pytest.raises(DataError, match=r"not numbers: brand"):
        Ranker(SOLVERS["xgboost"]).fit(FRAME.assign(brand=dates), Y, qid=QID)
    monkeypatch.setattr("rankplug.data.categories._MOST_CATEGORIES", 4)
    with pytest.raises(DataError, match="column 'brand' has 5 categories, too many to learn"):
        Ranker(SOLVERS["xgboost"]).fit(FRAME, Y, qid=QID)
    twice = FRAME.set_axis(["price", "price", "level"], axis=1)
    with pytest.raises(DataError, match="'price'"):
        Ranker(SOLVERS["xgboost"]).fit(twice, Y, qid=QID)


def test_arrays_hold_codes_and_as_many_columns():
    data = RankingData.from_arrays(FRAME[["price", "brand"]], Y, QID)
    model = SOLVERS["xgboost"].solve(data, random_state=0).model
    np.testing.assert_array_equal(model.predict(data.X), model.predict(FRAME))
    np.testing.assert_array_equal(model.predict(sparse.csr_array(data.X)), model.predict(data.X))
    with pytest.raises(DataError, match="column 1 holds categories, of which an array of numbers"):
        model.predict(data.X + 5)
    with pytest.raises(DataError, match="X has 1 features, but the model is expecting 2"):
        model.predict(data.X[:, :1])


def test_scaling_leaves_codes_as_they_are():
    data = RankingData.from_arrays(FRAME, Y, QID)
    in_rows = dataclasses.replace(data, X=sparse.csr_array(data.X))
    for impute in ("none", "median"):
        found, expected = (
            scale_parts(one, None, "maxabs", impute).train for one in (in_rows, data)
        )
        np.testing.assert_array_equal(found.X.toarray(), expected.X)
        parts = scale_parts(data, None, "standard", impute)
        codes = data.X[:, 0]
        there = ~np.isnan(codes)
        np.testing.assert_array_equal(parts.train.X[there, 0], codes[there])
        assert parts.train.categories == data.categories
        model = scaled_model(SOLVERS["xgboost"].solve(parts.train).model, parts.scaling)
        assert np.isfinite(model.predict(NEW)).all()
    assert fit_scaling(np.nan_to_num(data.X), "standard") is not None


def test_labels_are_ranked_by_categories(tmp_path):
    y = FRAME["brand"].cat.codes.to_numpy() % 3
    ranker = LabelRanker(SOLVERS["xgboost"], random_state=0).fit(FRAME, y, eval_set=(NEW, y))
    assert ranker.score(FRAME, y) > 0.95
    ranker.model_.save(tmp_path / "model")
    np.testing.assert_array_equal(load_model(tmp_path / "model").predict(NEW), ranker.predict(NEW))


def test_training_goes_on_with_the_same_categories():
    first = Ranker(SOLVERS["xgboost"], random_state=0).fit(FRAME, Y, qid=QID)
    more = Ranker(SOLVERS["xgboost"], random_state=0).fit(NEW, NEW_Y, qid=NEW_QID, init=first)
    assert more.model_.n_trees == 20
    assert more.model_.categories == first.model_.categories


@pytest.mark.parametrize(
    "wrong",
    [
        3,
        [[0]],
        [[7, ["a"]]],
        [["0", ["a"]]],
        [[0, "a"]],
        [[0, ["a", "a"]]],
        [[0, [[]]]],
        [[0, [None]]],
    ],
    ids=str,
)
def test_forged_categories_are_refused(tmp_path, wrong):
    from rankplug.models import header

    Ranker(SOLVERS["xgboost"]).fit(FRAME, Y, qid=QID).model_.save(tmp_path / "model")
    file = tmp_path / "model" / "model.json"
    content = json.loads(file.read_text()) | {"categories": wrong}
    content["sha256"] = header._content_sha256(content)
    file.write_text(json.dumps(content))
    with pytest.raises(ModelFormatError, match="categories are damaged"):
        load_model(tmp_path / "model")


# ---- lists ----

VECTORS = np.random.default_rng(5).normal(size=(N, 3))
TITLES = [f"vector[{k}]" for k in range(3)]
LISTS = {
    "lists": pd.DataFrame({"vector": VECTORS.tolist(), "price": FRAME["price"]}),
    "arrays": pd.DataFrame({"vector": list(VECTORS), "price": FRAME["price"]}),
    "tuples": pd.DataFrame({"vector": [*map(tuple, VECTORS)], "price": FRAME["price"]}),
    "polars array": pl.DataFrame(
        {"vector": pl.Series(VECTORS.tolist(), dtype=pl.Array(pl.Float64, 3)),
         "price": FRAME["price"].to_numpy()}
    ),
    "polars list": pl.DataFrame({"vector": VECTORS.tolist(), "price": FRAME["price"].to_numpy()}),
    "arrow fixed": pa.table(
        {"vector": pa.FixedSizeListArray.from_arrays(pa.array(VECTORS.ravel()), 3),
         "price": FRAME["price"].to_numpy()}
    ),
    "arrow": pa.table({"vector": VECTORS.tolist(), "price": FRAME["price"].to_numpy()}),
    "arrow types": pd.DataFrame(
        {"vector": pd.Series(VECTORS.tolist(), dtype=pd.ArrowDtype(pa.list_(pa.float64(), 3))),
         "price": FRAME["price"]}
    ),
}  # fmt: skip
FLAT = pd.DataFrame(np.column_stack([VECTORS, FRAME["price"]]), columns=[*TITLES, "price"])
GRADES = np.digitize(VECTORS @ [1.0, -1.0, 0.5], [-1, 1])


@pytest.mark.parametrize("kind", LISTS)
def test_lists_of_one_length_are_columns(kind, tmp_path):
    table = LISTS[kind]
    ranker = Ranker().fit(table, GRADES, qid=QID)
    flat = Ranker().fit(FLAT, GRADES, qid=QID)
    assert ranker.model_.feature_names == (*TITLES, "price")
    np.testing.assert_array_equal(ranker.predict(table), flat.predict(FLAT))
    assert ranker.score(table, GRADES, qid=QID) == flat.score(FLAT, GRADES, qid=QID)
    ranker.model_.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    for one in (*LISTS.values(), FLAT, FLAT.to_numpy()):
        np.testing.assert_array_equal(loaded.predict(one), flat.predict(FLAT))
    again = Ranker.from_model(tmp_path / "model")
    for one, form in ((again, table), (again, FLAT), (ranker, FLAT)):
        np.testing.assert_array_equal(one.predict(form), flat.predict(FLAT))
        np.testing.assert_array_equal(one.rank(form, QID), flat.rank(FLAT, QID))
        assert one.score(form, GRADES, qid=QID) == flat.score(FLAT, GRADES, qid=QID)
        best, wanted = one.top_k(form, QID, 2), flat.top_k(FLAT, QID, 2)
        np.testing.assert_array_equal(best["score"], wanted["score"])
        assert "vector" not in tables.column_names(best)
    with pytest.raises(DataError, match="feature names should match"):
        again.predict(FLAT[FLAT.columns[::-1]])


def test_served_models_take_lists_and_single_columns(tmp_path):
    ranker = Ranker().fit(LISTS["lists"], GRADES, qid=QID)
    rankplug.mlflow.save_model(ranker, tmp_path / "saved", input_example=LISTS["lists"].head(2))
    served = mlflow.pyfunc.load_model(str(tmp_path / "saved"))
    scores = ranker.predict(LISTS["lists"])
    np.testing.assert_array_equal(served.predict(LISTS["lists"]), scores)
    np.testing.assert_array_equal(served.predict(FLAT), scores)
    records = json.loads(json.dumps(LISTS["lists"].to_dict("records")))
    np.testing.assert_array_equal(served.predict(pd.DataFrame(records)), scores)


def test_rows_without_a_list_are_missing():
    table = LISTS["lists"].copy()
    table.at[4, "vector"] = None
    trees = Ranker(SOLVERS["xgboost"]).fit(table, GRADES, qid=QID)
    assert np.isfinite(trees.predict(table)).all()
    with pytest.raises(DataError, match=r"3 missing values \(NaN\): vector\[0\] \(1\)"):
        Ranker().fit(table, GRADES, qid=QID)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([[1, 2], [3]], "v (lists of different lengths)"),
        ([["a"], ["b"]], "v (list of something else than numbers)"),
        ([[], []], "v (lists of different lengths)"),
        ([[[1]], [[2]]], "v (lists of different lengths)"),
        ([[1, [2]], [3, 4]], "v (lists of different lengths)"),
    ],
    ids=str,
)
def test_other_lists_are_named(values, message):
    frame = pd.DataFrame({"a": [1.0, 2.0], "v": values})
    for use in (
        lambda: RankingData.from_arrays(frame, [0, 1]),
        lambda: Ranker().fit(frame, [0, 1], group=[2]),
        lambda: (
            RankingData.from_arrays(pl.from_pandas(frame), [0, 1])
            if message.endswith("lengths)") and values == [[1, 2], [3]]
            else RankingData.from_arrays(frame, [0, 1])
        ),
    ):
        with pytest.raises(DataError) as caught:
            use()
        assert f"not numbers: {message}" in str(caught.value)


def test_lists_of_another_length_are_refused_at_prediction():
    ranker = Ranker().fit(LISTS["lists"], GRADES, qid=QID)
    table = pd.DataFrame({"vector": [[1.0, 2.0, 3.0, 4.0]], "price": [1.0]})
    with pytest.raises(DataError, match="lists of 4 values, but the model was trained on"):
        ranker.model_.predict(table)
    with pytest.raises(DataError, match=r"missing feature columns: vector\[0\], vector\[1\]"):
        ranker.model_.predict(table[["price"]])
    plain = Ranker().fit(FRAME[["price"]], Y, qid=QID)
    with pytest.raises(DataError, match=r"not numbers: price \(list\)"):
        plain.predict(pd.DataFrame({"price": [[1.0], [2.0]]}))
    for value in ([1.0], [[1.0]], ["a"]):
        array = pl.DataFrame(
            {"price": pl.Series([value], dtype=pl.Array(pl.Series(value).dtype, 1))}
        )
        with pytest.raises(DataError, match=r"not numbers: price \(list"):
            plain.predict(array)
        if value != [1.0]:
            with pytest.raises(DataError, match=r"not numbers: price \(list"):
                RankingData.from_arrays(array, [0])
