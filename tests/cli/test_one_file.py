"""One file of data in place of a recipe: ``rankplug run FILE`` and its relatives."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from rankplug import cli, load_model, prepare
from rankplug.recipe import load_recipe
from rankplug.report import REPORT_FILES
from rankplug.runner import turn

QUICK = [
    *("--set", "solvers.mapped.params.map={leaves: {n_estimators: 5}}"),
    *("--set", "solvers.xgboost-pairwise.params.n_estimators=5"),
    *("--set", "solvers.lightgbm-lambdarank.params.n_estimators=5"),
]
ROLES = ["--label", "grade", "--qid", "query_id"]


def searches(n_queries=30, size=8):
    rng = np.random.default_rng(0)
    n = n_queries * size
    bm25, price = rng.normal(8, 3, n).round(3), rng.lognormal(2, 1, n).round(2)
    utility = bm25 - np.log(price) + rng.normal(size=n)
    return pd.DataFrame(
        {
            "query_id": np.repeat(np.arange(100, 100 + n_queries), size),
            "doc_id": [f"d{number}" for number in rng.permutation(n)],
            "title": [f"red shoes {number % 7}" for number in range(n)],
            "price": price,
            "bm25": bm25,
            "in_stock": rng.random(n) < 0.7,
            "grade": np.searchsorted(np.quantile(utility, [0.5, 0.8, 0.95]), utility),
        }
    )


@pytest.fixture
def folder(tmp_path, monkeypatch, empty_store):
    """A working directory with the file, and a store that is made already."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMP_WAIT_POLICY", "PASSIVE")
    monkeypatch.setattr(turn, "measure", lambda model, data: {})
    monkeypatch.setitem(REPORT_FILES, "report.html", lambda report: "<!DOCTYPE html>")  # slow
    searches().to_csv("searches.csv", index=False)
    for name in ("out", "rankplug-output"):
        Path(name).mkdir()
        shutil.copy(empty_store, Path(name, "mlflow.db"))
    return tmp_path


def test_a_file_is_enough(folder, capsys):
    """It is split, trained on, compared, saved, and a recipe is left to go on with."""
    assert cli.main(["run", "searches.csv", *ROLES, *QUICK, "--output", "out", "--quiet"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:7] == [
        "data:     searches.csv, 240 rows, 30 queries (query_id), relevance grade: whole numbers "
        "from 0 to 3",
        "features: price, bm25, in_stock",
        "left out: doc_id (ids, which stand beside predictions)",
        "left out: title (text)",
        "split:    18 to train on, 6 to validate, 6 to test: whole queries, drawn with seed 0",
        "",
        lines[6],
    ]
    assert lines[6].split()[:2] == ["solver", "ndcg@10"]
    names = ["tree-tron", "mapped", "xgboost-pairwise", "lightgbm-lambdarank"]
    assert [line.split()[0] for line in lines[8:14]] == [*names, "constant", "single-feature"]
    assert all("converged" in line for line in lines[8:14])
    assert lines[-5:-1] == [
        f"report: {Path('out/report.html')}",
        f"recipe: {Path('out/recipe.yaml')}",
        f"models: {Path('out/models')}",
        lines[-2],
    ]
    served = re.fullmatch(r"        rankplug serve (\S+)", lines[-2])[1]
    assert Path(served, "MLmodel").is_file()
    assert sorted(path.name for path in Path("out/models").iterdir()) == sorted(names)
    for name in names:
        model = load_model(Path("out/models", name, "model"))
        assert model.feature_names == ("price", "bm25", "in_stock")
        assert (model.query_column, model.id_columns) == ("query_id", ("doc_id",))

    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=f"sqlite:///{folder}/out/mlflow.db")
    runs = client.search_runs([one.experiment_id for one in client.search_experiments()])
    by_name = {run.info.run_name: run for run in runs}
    assert set(by_name) == {"searches", *names, "constant", "single-feature"}
    params = by_name["searches"].data.params
    assert params["rp.data.file"] == str(folder / "searches.csv")
    assert params["rp.data.split.valid"] == "0.2"

    recipe = load_recipe("out/recipe.yaml")
    assert recipe.name == "searches"
    assert recipe.data.file == folder / "searches.csv"
    assert recipe.data.features == ("price", "bm25", "in_stock")
    assert cli.main(["run", "out/recipe.yaml", "--quiet"]) == 0
    again = capsys.readouterr().out.splitlines()
    assert again[0] == lines[4]
    assert again[2:4] == lines[6:8]
    for line, other in zip(again[4:9], lines[8:13], strict=True):
        assert line.split()[:2] == other.split()[:2]  # the same quality


def test_the_models_predict_the_file_with_all_its_columns(folder, capsys):
    assert cli.main(["run", "searches.csv", *ROLES, *QUICK, "--output", "out", "--quiet"]) == 0
    arguments = ["predict", "out/models/tree-tron", "searches.csv", "--quiet", "-o", "best.csv"]
    assert cli.main([*arguments, "--output", "top_k", "--k", "2"]) == 0
    best = pd.read_csv("best.csv")
    assert len(best) == 60


@pytest.mark.parametrize("ending", ["parquet", "arrow", "tsv.gz", "txt", "folder"])
def test_any_file_of_data_will_do(folder, capsys, ending):
    frame, roles = searches(), ROLES
    path = Path(f"mine.{ending}")
    if ending == "parquet":
        frame.to_parquet(path)
    elif ending == "arrow":
        frame.to_feather(path)
    elif ending == "tsv.gz":
        frame.to_csv(path, sep="\t", index=False)
    else:
        rows = zip(frame["grade"], frame["query_id"], frame["bm25"], strict=True)
        text = "".join(f"{grade} qid:{query} 1:{value}\n" for grade, query, value in rows)
        Path("mine.txt").write_text(text)
        roles = []
        if ending == "folder":
            prepare("mine.txt", path, progress=False)
            Path("mine.txt").unlink()
    small = ["--set", "solvers=[tree-tron]", "--set", "baseline=tree-tron", "--output", "out"]
    assert cli.main(["run", str(path), *roles, *small, "--quiet"]) == 0
    out = capsys.readouterr().out
    assert "split:    18 to train on, 6 to validate, 6 to test" in out
    assert load_recipe("out/recipe.yaml").name == "mine"


def test_decimal_commas_are_found_and_kept_in_the_recipe(folder, capsys):
    searches().to_csv("mine.csv", sep=";", decimal=",", index=False)
    small = ["--set", "solvers=[tree-tron]", "--set", "baseline=tree-tron", "--quiet"]
    assert cli.main(["run", "mine.csv", *ROLES, *small, "--output", "out"]) == 0
    assert "features: price, bm25, in_stock" in capsys.readouterr().out
    assert load_recipe("out/recipe.yaml").data.decimal == ","
    short = {"file": "mine.csv", "label": "grade", "qid": "query_id"}
    Path("mine.yaml").write_text(json.dumps({"data": short, "solvers": ["tree-tron"]}))
    assert cli.main(["run", "mine.yaml", "--quiet"]) == 0
    assert "features: price, bm25, in_stock" in capsys.readouterr().out


def test_how_text_is_written_can_be_told(folder, capsys):
    searches().round(2).to_csv("mine.csv", sep="|", decimal=",", index=False)
    small = ["--set", "solvers=[tree-tron]", "--set", "baseline=tree-tron", "--quiet"]
    marks = ["--separator", "|", "--decimal", ","]
    assert cli.main(["run", "mine.csv", *ROLES, *marks, *small, "--output", "out"]) == 0
    data = load_recipe("out/recipe.yaml").data
    assert (data.separator, data.decimal) == ("|", ",")
    searches().to_csv("mine.csv", sep="\t", index=False)
    Path("mine.yaml").write_text("data: mine.csv\nsolvers: [tree-tron]\n")
    assert cli.main(["run", "mine.yaml", *ROLES, "--separator", "\\t", "--quiet"]) == 0
    lines = [f"{row % 2} qid:{row // 4} 0:{row} 1:1\n" for row in range(40)]
    Path("zero.txt").write_text("".join(lines))
    assert cli.main(["run", "zero.txt", "--zero-based", *small]) == 0
    assert cli.main(["run", "zero.txt", "--decimal", ",", *small]) == 2
    assert "decimal: not for svmlight" in capsys.readouterr().err


def test_tune_and_compare_take_it_too(folder, capsys):
    small = ["--set", "solvers=[tree-tron, constant]", "--quiet"]
    tune = ["tune", "searches.csv", *ROLES, *small, "--set", "baseline=constant"]
    assert cli.main([*tune, "--n-trials", "2", "--solver", "tree-tron", "--output", "out"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == "features: price, bm25, in_stock"
    assert lines[-1] == f"best:   rankplug run {Path('out/best.yaml')}"
    assert load_recipe("out/best.yaml").data.id == ("doc_id",)
    compare = ["compare", "searches.csv", *ROLES, *small, "--baseline", "constant"]
    assert cli.main([*compare, "--folds", "3"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == "features: price, bm25, in_stock"
    assert not any(line.startswith("models:") for line in lines)
    assert any("vs constant" in line or "against constant" in line for line in lines)


def test_roles_can_be_told_for_recipes_too(folder, capsys):
    Path("mine.yaml").write_text("data: searches.csv\nsolvers: [tree-tron]\n")
    assert cli.main(["run", "mine.yaml", *ROLES, "--output", "out", "--quiet"]) == 0
    assert load_recipe("out/recipe.yaml").data.label == "grade"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "error: searches.csv: which column holds the relevance of each row and its query?"),
        (["--label", "grade"], "error: searches.csv: which column holds its query? Likely --qid q"),
        (["--label", "grad", "--qid", "query_id"], "error: searches.csv: no column 'grad'; did "),
        ([*ROLES, "--set", "data.file=x.csv"], "error: --set data.file: no such file: "),
        ([*ROLES, "--set", "sed=1"], "error: --set sed: unknown key 'sed'; did you mean 'seed'"),
    ],
)
def test_a_mistake_is_one_message(folder, capsys, arguments, message):
    assert cli.main(["run", "searches.csv", *arguments]) == 2
    out, err = capsys.readouterr()
    assert err.startswith(message)
    assert out == ""
    assert not any(Path("rankplug-output").glob("searches*"))


def test_a_name_that_is_nearly_a_file_is_an_error(folder, capsys):
    assert cli.main(["run", "search.csv", *ROLES]) == 2
    assert capsys.readouterr().err.startswith("error: no file 'search.csv', and no recipe")


def test_without_columns_none_can_be_named(folder, capsys):
    Path("a.txt").write_text("1 qid:1 1:1\n")
    assert cli.main(["run", "a.txt", "--label", "grade"]) == 2
    assert "a.txt: --label: the data have no columns" in capsys.readouterr().err
