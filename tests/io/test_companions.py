"""Files beside text that hold queries and weights, of LightGBM and XGBoost, in every way in."""

import gzip
import subprocess
import sys
import warnings

import numpy as np
import pytest

from rankplug import prepare, read_data
from rankplug.cli import main
from rankplug.exceptions import DataError, DataWarning
from rankplug.io import read_label_data
from rankplug.io.batches import read_batches
from rankplug.recipe.schema import Files
from rankplug.runner.splits import _load

LIGHTGBM = "1 1:0.5 2:1\n0 1:3 2:2\n1 1:1 2:2\n0 1:2 2:3\n"
CSV = "label,a,b\n1,0.5,1\n0,3,2\n1,1,2\n0,2,3\n"
TEXTS = {"train.txt": LIGHTGBM, "train.csv": CSV, "train.train": LIGHTGBM}


def whole(path, **options):
    return read_data(path, **options)


def prepared(path, **options):
    first = path[0] if isinstance(path, list) else path
    folder = first.parent / "folder"
    return prepare(path, folder, overwrite=True, progress=False, **options).data()


def recipe(path, **options):
    return _load(Files(path, path, **options))["train"]


def write(folder, name="train.txt", text=None, **beside):
    file = folder / name
    content = (TEXTS[name.removesuffix(".gz")] if text is None else text).encode()
    file.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    for suffix, lines in beside.items():
        (folder / f"{name}.{suffix}").write_text("".join(f"{line}\n" for line in lines))
    return file


WAYS = pytest.mark.parametrize("read", [whole, prepared, recipe])


@WAYS
@pytest.mark.parametrize("name", [*TEXTS, "train.csv.gz"])
@pytest.mark.parametrize("suffix", ["query", "group"])
def test_the_queries_are_those_of_the_companion(tmp_path, name, suffix, read):
    file = write(tmp_path, name, **{suffix: [1, 3]})
    with pytest.warns(DataWarning, match=rf"the queries are those of .*{name}.{suffix}"):
        data = read(file)
    assert data.sizes.tolist() == [1, 3]
    assert data.query_ids.tolist() == [0, 1]
    assert data.query_weight is None
    if read is not prepared:
        assert data.query_column == "qid"


@WAYS
@pytest.mark.parametrize("weights", [[0.5, 2, 2, 2], [0.5, 2]])
@pytest.mark.parametrize("name", TEXTS)
def test_weights_are_of_rows_or_of_queries(tmp_path, name, weights, read):
    file = write(tmp_path, name, query=[1, 3], weight=weights)
    with pytest.warns(DataWarning, match=rf"the weights are those of .*{name}.weight"):
        data = read(file)
    assert data.query_weight.tolist() == [0.5, 2.0]


def test_numbers_are_read_however_they_are_written(tmp_path):
    file = write(tmp_path, query=["+1", "", "\ufeff 3.0 "], weight=["+2", "1e0", "1", "1"])
    with pytest.warns(DataWarning, match="the queries are those of"):
        data = read_data(file)
    assert data.sizes.tolist() == [1, 3]
    assert data.query_weight.tolist() == [2.0, 1.0]


def test_batches_have_the_queries_too(tmp_path):
    for name in TEXTS:
        file = write(tmp_path, name, query=[1, 3], weight=[1, 1, 1, 1])
        with pytest.warns(DataWarning, match="the queries are those of"):
            found = list(read_batches(file, n_features=2, batch_rows=3))
        assert np.concatenate([batch.qid for batch in found]).tolist() == ["0", "1", "1", "1"]


def test_queries_of_several_files_are_numbered_on(tmp_path):
    first = write(tmp_path, "train.txt", query=[1, 3])
    second = tmp_path / "second.txt"
    second.write_text(LIGHTGBM)
    (tmp_path / "second.txt.query").write_text("2\n2\n")
    for read in (whole, prepared):
        with pytest.warns(DataWarning, match=r"train.txt.query, .*second.txt.query"):
            data = read([first, second])
        assert data.sizes.tolist() == [1, 3, 2, 2]
        assert data.query_ids.tolist() == [0, 1, 2, 3]
    (tmp_path / "second.txt.query").unlink()
    with pytest.raises(DataError, match=r"there is none beside .*second.txt: give each file one"):
        read_data([first, second])


@WAYS
@pytest.mark.parametrize(
    ("beside", "message"),
    [
        ({"query": [1, 2]}, r"train.txt.query, line 2: the sizes .* add up to 3 rows"),
        ({"query": [1, 2, 2]}, r"train.txt.query, line 3: .* add up to 5 rows .* holds 4"),
        ({"query": [2, "x", 2]}, r"train.txt.query, line 2: 'x' is not a number of rows"),
        ({"query": [2, -2, 4]}, r"train.txt.query, line 2: '-2' is not a number of rows"),
        ({"query": [2, 1.5, 0.5]}, r"line 2: '1.5' is not a number of rows"),
        ({"query": [2, "1_0"]}, r"line 2: '1_0' is not a number of rows"),
        ({"query": []}, "train.txt.query is empty"),
        ({"query": ["", " "]}, "train.txt.query is empty: a number of rows is needed on each line"),
        ({"query": ["x"] * 9}, r"line 5: 'x' is not a number of rows(?!.*line 6)"),
        ({"query": [4], "group": [4]}, r"train.txt.query and in .*train.txt.group: keep one"),
        ({"query": [2, 2], "weight": [1, 1, 1]}, r"train.txt.weight, line 3: ends after 3"),
        ({"query": [2, 2], "weight": [1] * 5}, r"holds 4 rows and 2 queries: give one"),
        ({"weight": [1, "nan", 1, 1]}, r"train.txt.weight, line 2: 'nan' is not a weight"),
        ({"weight": [1, -1, 1, 1]}, r"train.txt.weight, line 2: '-1' is not a weight"),
        ({"query": [2, 2], "weight": [1, 2, 1, 1]}, "varies within query"),
    ],
)
def test_wrong_companions_are_named_with_the_line(tmp_path, beside, message, read):
    file = write(tmp_path, **beside)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        with pytest.raises(DataError, match=message):
            read(file)


@WAYS
def test_ids_in_the_file_and_companions_must_agree(tmp_path, read):
    text = "1 qid:7 1:1\n0 qid:7 1:2\n1 qid:5 1:2\n0 qid:5 1:3\n"
    same = write(tmp_path, text=text, query=[2, 2])
    with pytest.warns(DataWarning, match="queries are those of"):
        data = read(same)
    assert data.query_ids.tolist() == [7, 5]
    (tmp_path / "train.txt.query").write_text("3\n1\n")
    with (
        pytest.warns(DataWarning),
        pytest.raises(DataError, match="disagree on the queries: at row 2, counting from 0"),
    ):
        read(same)


def test_a_disagreement_between_batches_is_found(tmp_path):
    text = "1 qid:7 1:1\n0 qid:7 1:2\n1 qid:5 1:2\n0 qid:5 1:3\n"
    file = write(tmp_path, text=text, query=[4])
    with pytest.warns(DataWarning), pytest.raises(DataError, match="at row 2"):
        list(read_batches(file, n_features=1, batch_rows=2))


def test_what_is_not_used_is_said(tmp_path):
    file = write(tmp_path, query=[2, 2], init=[1, 2, 3, 4])
    with pytest.warns(DataWarning, match=r"train.txt.init \(initial scores\) is not used"):
        read_data(file)
    with pytest.warns(DataWarning, match=r"train.txt.query: not used, as instances of label"):
        read_label_data(file)


def test_a_column_and_a_companion_of_weights_are_one_too_many(tmp_path):
    file = write(tmp_path, "train.csv", query=[2, 2], weight=[1, 1, 1, 1])
    for read in (whole, prepared):
        with pytest.warns(DataWarning), pytest.raises(DataError, match=r"'a' and in .*csv.weight"):
            read(file, weight="a")


def test_a_preparation_is_done_again_when_a_companion_changes(tmp_path):
    file = write(tmp_path, query=[2, 2])
    with pytest.warns(DataWarning):
        assert prepared(file).sizes.tolist() == [2, 2]
    (tmp_path / "train.txt.query").write_text("1\n3\n")
    with pytest.warns(DataWarning):
        assert prepared(file).sizes.tolist() == [1, 3]


def test_a_file_without_companions_reads_in_silence(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read_data(write(tmp_path)).n_queries == 1


def test_the_command_says_what_it_uses(tmp_path, capsys):
    file = write(tmp_path, query=[1, 3])
    command = [sys.executable, "-m", "rankplug", "prepare", str(file), "-o", str(tmp_path / "made")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0
    assert "2 queries, 4 rows" in done.stdout
    assert "the queries are those of" in done.stderr
    (tmp_path / "train.txt.query").write_text("1\n4\n")
    with pytest.warns(DataWarning):
        assert main(["prepare", str(file), "-o", str(tmp_path / "other"), "-q"]) == 2
    assert "train.txt.query, line 2: the sizes" in capsys.readouterr().err
