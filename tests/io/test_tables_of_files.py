"""Files with categories, lists and text, read for training and predicted."""

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import feather, parquet
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from rankplug import Ranker, cli, load_model, make_solver, prepare, read_data
from rankplug.exceptions import DataError
from rankplug.io.predictions import predict_file
from rankplug.models.pipelines import pipeline_model

N = 60
RNG = np.random.default_rng(0)
BRANDS = ["acme", "bolt", "core"]
VECTORS = RNG.normal(size=(N, 2))
FRAME = pd.DataFrame(
    {
        "brand": pd.Categorical(RNG.choice(BRANDS, N), BRANDS),
        "price": RNG.normal(size=N),
        "label": RNG.integers(0, 3, N),
        "qid": np.repeat(np.arange(6), 10),
    }
)
FRAME.loc[3, "brand"] = None
TREES = make_solver("xgboost-pairwise", n_estimators=5, min_child_weight=0, n_threads=1)


def save(folder, name, frame=FRAME, **lists):
    table = pa.Table.from_pandas(frame, preserve_index=False)
    for column, values in lists.items():
        table = table.append_column(column, values)
    file = folder / name
    if name.endswith(".csv"):
        frame.assign(**{key: list(value.to_pylist()) for key, value in lists.items()}).to_csv(
            file, index=False
        )
    elif name.endswith(".parquet"):
        parquet.write_table(table, file)
    else:
        feather.write_feather(table, file)
    return file


VECTOR = pa.FixedSizeListArray.from_arrays(pa.array(VECTORS.ravel()), 2)
ENDS = pytest.mark.parametrize("end", [".parquet", ".feather"])


@ENDS
def test_categories_and_lists_of_files_are_learnt(tmp_path, end):
    data = read_data(save(tmp_path, f"rows{end}", vector=VECTOR))
    assert data.feature_names == ("brand", "price", "vector[0]", "vector[1]")
    assert set(data.categories[0]) == set(BRANDS)
    np.testing.assert_array_equal(data.X[:, 2:], VECTORS)
    assert data.count_missing().tolist() == [1, 0, 0, 0]
    model = TREES.solve(data, random_state=0).model
    table = FRAME.assign(vector=VECTORS.tolist())
    np.testing.assert_array_equal(model.predict(table), model.predict(data.X))


@ENDS
def test_lists_of_files_are_prepared_as_they_are_read(tmp_path, end):
    flat = pa.table({"list": [[1.0, 2.0], None] * 30, "wide": [[float(k)] * 3 for k in range(N)]})
    for dtype, values in (("float32", VECTOR), ("float64", flat["list"])):
        file = save(tmp_path, f"rows{end}", FRAME[["price", "label", "qid"]], vector=values,
                    wide=flat["wide"])  # fmt: skip
        made = prepare(file, tmp_path / dtype, dtype=dtype, progress=False).data()
        read = read_data(file, dtype=dtype)
        assert made.feature_names == read.feature_names
        assert read.feature_names[1:4] == ("vector[0]", "vector[1]", "wide[0]")
        np.testing.assert_array_equal(made.X, read.X)
    for wrong, message in (
        (pa.array([[1.0]] * 30 + [[1.0, 2.0]] * 30), "vector .lists of different lengths"),
        (pa.array([[1.0, np.inf]] * N), r"infinity \(inf\) at row 0, column 1 \(vector\[1\]"),
        (pa.array([["a"]] * N), "vector .list of something else than numbers"),
        (pa.array([{"a": 1}] * N), "vector .dict"),
    ):
        file = save(tmp_path, f"rows{end}", FRAME[["label", "qid"]], vector=wrong)
        with pytest.raises(DataError, match=f"rows{end} cannot be prepared: .*{message}"):
            prepare(file, tmp_path / "wrong", progress=False)
        assert not (tmp_path / "wrong").exists()
    parts = [pa.array([[1.0]] * N), pa.array([[1.0, 2.0]] * N)]
    files = [
        save(tmp_path, f"{k}{end}", FRAME[["label", "qid"]], v=one) for k, one in enumerate(parts)
    ]
    with pytest.raises(DataError, match=f"1{end} cannot be prepared: .*lists of 2 values"):
        prepare(files, tmp_path / "wrong", progress=False)


@ENDS
def test_test_data_have_the_codes_of_the_training(tmp_path, end):
    train = read_data(save(tmp_path, f"train{end}", vector=VECTOR))
    other = FRAME.assign(brand=pd.Categorical(["core", "new"] * (N // 2)))
    test = read_data(save(tmp_path, f"test{end}", other, vector=VECTOR), like=train)
    assert test.categories == train.categories
    core = train.categories[0].index("core") + 1
    np.testing.assert_array_equal(test.X[:4, 0], [core, np.nan, core, np.nan])
    longer = pa.FixedSizeListArray.from_arrays(pa.array(np.ones(3 * N)), 3)
    with pytest.raises(
        DataError, match="lists of 3 values, but the model was trained on lists of 2"
    ):
        read_data(save(tmp_path, f"long{end}", vector=longer), like=train)


@ENDS
def test_categories_of_several_files_are_put_together(tmp_path, end):
    cut = [FRAME.iloc[:30], FRAME.iloc[30:].assign(brand=pd.Categorical(["zeta", "acme"] * 15))]
    files = [save(tmp_path, f"{k}{end}", part) for k, part in enumerate(cut)]
    data = read_data(files)
    whole = pd.concat([part.astype({"brand": object}) for part in cut])
    found = [None if c != c else data.categories[0][int(c) - 1] for c in data.X[:, 0]]
    assert found == [None if one != one else one for one in whole["brand"]]
    other = save(tmp_path, f"other{end}", FRAME.assign(brand=1.0))
    with pytest.raises(DataError, match="do not have the same features"):
        read_data([files[0], other])


def test_what_is_no_feature_is_named_with_its_file(tmp_path):
    ragged = pa.array([[1.0]] * 30 + [[1.0, 2.0]] * 30)
    file = save(tmp_path, "rows.parquet", FRAME.drop(columns="brand"), vector=ragged)
    with pytest.raises(DataError, match=r"rows.parquet: .*vector \(lists of different lengths\)"):
        read_data(file)
    file = save(tmp_path, "cats.parquet")
    with pytest.raises(DataError, match=r"cats.parquet cannot be prepared: .*brand \(text\)"):
        prepare(file, tmp_path / "folder", progress=False)
    with pytest.raises(DataError, match=r"line 2, column 'brand': '.*' is not a number"):
        read_data(save(tmp_path, "rows.csv"))


@pytest.mark.parametrize("end", [".csv", ".parquet", ".feather"])
def test_files_are_predicted_by_models_of_categories_and_lists(tmp_path, end):
    table = FRAME.assign(vector=VECTORS.tolist())
    ranker = Ranker(TREES, random_state=0).fit(
        table[["brand", "price", "vector"]], table["label"], qid=table["qid"]
    )
    ranker.model_.save(tmp_path / "model")
    if end == ".csv":  # which holds no lists
        flat = FRAME.assign(**{"vector[0]": VECTORS[:, 0], "vector[1]": VECTORS[:, 1]})
        flat.to_csv(tmp_path / "rows.csv", index=False)
    else:
        save(tmp_path, f"rows{end}", vector=VECTOR)
    out = str(tmp_path / "out.csv")
    model = str(tmp_path / "model")
    assert cli.main(["predict", model, str(tmp_path / f"rows{end}"), "--out", out]) == 0
    np.testing.assert_allclose(
        pd.read_csv(out)["score"], ranker.predict(table[["brand", "price", "vector"]]), atol=1e-12
    )


@pytest.mark.parametrize("end", [".csv", ".parquet", ".feather"])
def test_files_are_predicted_by_pipelines_that_encode_text(tmp_path, end):
    step = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), ["brand"]),
        (make_pipeline(SimpleImputer(), StandardScaler()), ["price"]),
    )
    text = FRAME.assign(brand=FRAME["brand"].astype(object))
    text.loc[5, "price"] = np.nan
    text.loc[7, "brand"] = "unheard-of"
    pipeline = make_pipeline(step, Ranker()).fit(text[:40], text["label"][:40])
    model = pipeline_model(pipeline, pipeline[-1].model_)
    model.save(tmp_path / "model")
    file = save(tmp_path, f"rows{end}", text)
    predict_file(load_model(tmp_path / "model"), file, tmp_path / "out.csv", batch_rows=7,
                 progress=False)  # fmt: skip
    scores = pd.read_csv(tmp_path / "out.csv")["score"]
    np.testing.assert_allclose(scores, pipeline.predict(text), atol=1e-12)


@pytest.mark.parametrize("end", [".csv", ".parquet"])
def test_models_of_text_are_evaluated_on_files(tmp_path, end, capsys):
    ranker = Ranker(TREES, random_state=0).fit(
        FRAME[["brand", "price"]], FRAME["label"], qid=FRAME["qid"]
    )
    ranker.model_.save(tmp_path / "model")
    file = save(tmp_path, f"rows{end}")
    assert cli.main(["evaluate", str(tmp_path / "model"), str(file), "--json"]) == 0
    value = json.loads(capsys.readouterr().out)["ndcg@10"]["value"]
    expected = ranker.score(FRAME[["brand", "price"]], FRAME["label"], qid=FRAME["qid"])
    assert value == pytest.approx(expected)
