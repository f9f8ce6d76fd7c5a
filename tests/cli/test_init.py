"""``rankplug init FILE``: a commented recipe for the file, which runs."""

from pathlib import Path

import pandas as pd
import pytest
import yaml

from rankplug import cli
from rankplug.recipe import OneFile, first_recipe, load_recipe
from rankplug.runner import load_splits

ODD = ["a b", "größe", "ページ", "1e-3", "no", "#x", "x: y", "- z", "'q'", '"d"', "tab\there", "*"]


@pytest.fixture
def table(tmp_path, monkeypatch):
    """A file in a folder of its own below the working directory."""
    monkeypatch.chdir(tmp_path)
    frame = pd.DataFrame(
        {
            "query": ["x", "x", "y", "y", "z", "z"],
            "doc_id": range(5, 11),
            "title": ["red shoes", "blue", "red", "blue", "red", "blue"],
            "price": [1.5, None, 2.5, 3.5, 1.0, 2.0],
            "version": 3,
            "grade": [0, 1, 2, 0, 1, 0],
        }
    )
    Path("data").mkdir()
    frame.to_csv("data/my table.csv", index=False)
    return Path("data/my table.csv")


ROLES = ["--label", "grade", "--qid", "query"]


def test_every_column_is_there_with_a_comment(table, capsys):
    assert cli.main(["init", str(table), *ROLES]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0].startswith("data:     my table.csv, 6 rows, 3 queries (query), relevance grade:")
    assert out[-1] == (
        "recipe:   my table.yaml, to be read, changed and run: rankplug run 'my table.yaml'"
    )
    text = Path("my table.yaml").read_text(encoding="utf-8")
    body = text[text.index("data:") : text.index("\n\n", text.index("data:"))]
    assert body == (
        "data:\n"
        "  file: data/my table.csv\n"
        "  label: grade  # whole numbers from 0 to 2\n"
        "  qid: query    # 3 queries in 6 rows\n"
        "  # Models remember these, and `rankplug predict` writes them beside the scores.\n"
        "  id:\n"
        "    - doc_id  # whole numbers from 5 to 10\n"
        "  # `auto` in place of the list: all columns that can be features.\n"
        "  features:\n"
        "    - price      # numbers from 1 to 3.5, 17 % missing\n"
        "    # - title    # text such as 'red shoes', 3 different\n"
        "    # - version  # always 3\n"
        "  # Shares of the queries; the rest is for training. Or name three files instead of one:\n"
        "  # train, valid and test.\n"
        "  split: {valid: 0.2, test: 0.2}"
    )
    assert max(map(len, text.splitlines())) <= 100
    recipe = load_recipe("my table.yaml")
    assert recipe.data == OneFile(
        Path.cwd() / table, label="grade", qid="query", features=("price",), id=("doc_id",)
    )
    assert (recipe.name, recipe.scale, recipe.baseline) == (
        "my table",
        "standard",
        "xgboost-pairwise",
    )
    assert [entry.name for entry in recipe.solvers] == [
        "tree-tron",
        "mapped",
        "xgboost-pairwise",
        "lightgbm-lambdarank",
    ]


def test_it_says_the_same_as_a_run_of_the_file(table, monkeypatch):
    assert cli.main(["init", str(table), *ROLES, "--out", "r.yaml"]) == 0
    seen = []
    monkeypatch.setattr(
        "rankplug.cli.recipes.run_recipe", lambda recipe, args: seen.append(recipe) or [None] * 3
    )
    monkeypatch.setattr("rankplug.cli.recipes.exit_status", lambda *told: 0)
    assert cli.main(["run", str(table), *ROLES, "--set", "name=r"]) == 0
    assert seen == [load_recipe("r.yaml")]


def test_names_of_any_kind_are_quoted_where_they_need_it(tmp_path):
    odd = {name: [1.5, 2.5, float(at), 7.5, 3.5, 1.5] for at, name in enumerate(ODD)}
    ranked = {"label": [0, 1, 0, 1, 0, 1], "qid": [0, 0, 1, 1, 2, 2]}
    frame = pd.DataFrame({**odd, **ranked, "two\nlines": [1, 3, 3, 5, 7, 9]})
    frame.to_parquet(tmp_path / "odd #1.parquet")
    start = first_recipe(tmp_path / "odd #1.parquet", tmp_path / "r.yaml")
    (tmp_path / "r.yaml").write_text(start.text, encoding="utf-8")
    names = tuple(name for name in ODD if name.isprintable())
    assert load_recipe(tmp_path / "r.yaml").data.features == names
    assert yaml.safe_load(start.text)["data"]["file"] == "odd #1.parquet"
    assert "left out: 'two\\nlines' (its name is no line of text)" in start.lines
    load_splits(load_recipe(tmp_path / "r.yaml"))


@pytest.mark.parametrize("labels", [[0, 1, 0.5, 0], [0, 40, 0, 0], [-1, 1, 0, 0]])
def test_lightgbm_gets_grades_only(tmp_path, labels):
    pd.DataFrame({"qid": [1, 1, 2, 2], "a": [1, 2, 4, 7], "label": labels}).to_csv(
        tmp_path / "a.csv", index=False
    )
    text = first_recipe(tmp_path / "a.csv", tmp_path / "r.yaml").text
    assert "solver: xgboost-pairwise" in text
    assert "solver: lightgbm" not in text


def test_text_has_no_columns(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("a.txt").write_text("".join(f"{row % 2} qid:{row // 4} 1:{row}\n" for row in range(40)))
    assert cli.main(["init", "a.txt"]) == 0
    assert load_recipe("a.yaml").data == OneFile(tmp_path / "a.txt")
    assert load_recipe("a.yaml").scale == "none"


def test_nothing_is_overwritten(table, capsys):
    Path("my table.yaml").write_text("mine")
    assert cli.main(["init", str(table), *ROLES]) == 2
    assert "my table.yaml exists, and is not overwritten" in capsys.readouterr().err
    assert Path("my table.yaml").read_text() == "mine"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["data/my table.csv"], "which column holds the relevance of each row and its query?"),
        (["data/my tabl.csv"], "no such file; did you mean 'data/my table.csv'"),
        (["data"], "data is not a prepared folder"),
        (["data/my table.csv", *ROLES, "-o", "gone/r.yaml"], "gone/r.yaml"),
        (["data/label twice.csv"], "data/label twice.csv: column 'label' occurs 2 times: rename"),
    ],
)
def test_a_mistake_is_one_message(table, capsys, arguments, message):
    rows = "".join(f"{row // 4},{row % 2},{row % 3},{row}\n" for row in range(12))
    table.with_name("label twice.csv").write_text(f"qid,label,label,x\n{rows}")
    assert cli.main(["init", *arguments]) in (1, 2)
    err = capsys.readouterr().err
    assert message in err
    assert "Traceback" not in err
