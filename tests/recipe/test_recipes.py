"""The recipes that come with rankplug."""

import re
from pathlib import Path

import pytest
import yaml

from rankplug.recipe import Dataset, Files
from rankplug.recipe.loader import load_recipe
from rankplug.report import REPORT_FILES, SANITY_SOLVERS
from rankplug.runner import run, turn
from rankplug.solver import solver_class
from rankplug_recipes import packaged_recipes, summary

ROOT = Path(__file__).parents[2]
RECIPES = sorted((ROOT / "recipes").glob("*.yaml"))
NAMES = [path.stem for path in RECIPES]


@pytest.fixture
def overrides(tmp_path):
    """What a recipe needs from outside: data files for those that name none."""

    def overrides(path):
        if (yaml.safe_load(path.read_text()).get("data") or {}).get("dataset"):
            return []
        splits = "train", "valid", "test"
        for split in splits:
            (tmp_path / split).write_text("1 qid:1 1:1\n0 qid:1 1:0\n")
        return [f"data.{split}={tmp_path / split}" for split in splits]

    return overrides


PRIMARY = {
    "clicks": "ndcg@10",
    "label_ranking": "kendall_tau",
    "letor": "ndcg@10",
    "multiclass": "top1_error",
    "quickstart": "ndcg@10",
    "single_query_regression": "pairwise_accuracy",
    "top_ranking": "pos@top",
    "web_search": "ndcg@10",
}


SMALLER = {
    "clicks": [
        "data.params={n_queries: 20, docs_per_query: 20}",
        "clicks.simulate.n_sessions=500",
        *(f"solvers.{number}.params.n_estimators=2" for number in (3, 4, 5)),
    ],
    "label_ranking": ["data.dataset=wine"],
    "multiclass": ["data.dataset=wine"],
    "quickstart": ["data.params={n_queries: 10, docs_per_query: 20}"],
    "web_search": [
        "data.params={n_queries: 16, docs_per_query: 20, n_features: 10}",
        "solvers.1.params.n_estimators=5",
        "solvers.2.params.n_estimators=5",
    ],
}


def test_there_is_one_for_every_task():
    assert set(NAMES) == set(PRIMARY)


@pytest.mark.parametrize("path", RECIPES, ids=NAMES)
def test_a_recipe_is_valid(path, overrides):
    recipe = load_recipe(path, overrides(path))
    assert recipe.primary_metric == PRIMARY[path.stem]
    assert recipe.baseline == "xgboost-pairwise"
    assert len(recipe.solvers) >= 2


@pytest.mark.parametrize("path", RECIPES, ids=NAMES)
def test_a_recipe_comes_with_the_package(path, overrides):
    assert packaged_recipes()[path.stem].read_text() == path.read_text()
    assert load_recipe(path.stem, overrides(path)) == load_recipe(path, overrides(path))


@pytest.mark.parametrize("path", RECIPES, ids=NAMES)
def test_the_comments_teach(path):
    """What it is about, the command that runs it, and no line too wide for a terminal."""
    text = path.read_text()
    assert re.fullmatch(r"[A-Z].{20,75}\.", summary(path))
    assert f"rankplug run {path.stem}" in text
    assert max(map(len, text.splitlines())) <= 100


# One epoch of larank is meant to end before its tolerance.
@pytest.mark.filterwarnings("ignore:larank stopped after 1 iterations")
@pytest.mark.parametrize("path", RECIPES, ids=NAMES)
def test_a_recipe_runs(path, overrides, tmp_path, monkeypatch):
    """With smaller data where those of the recipe take seconds."""
    monkeypatch.setattr(turn, "measure", lambda model, data: {})
    monkeypatch.setitem(REPORT_FILES, "report.html", lambda report: "<!DOCTYPE html>")  # slow
    recipe = load_recipe(path, [*overrides(path), *SMALLER.get(path.stem, [])])
    report = run(recipe, output=tmp_path / "out", progress=False)
    assert [one.error for one in report.failed] == []
    task = "label-ranking" if path.stem in ("label_ranking", "multiclass") else "query-document"
    sanity = {one for one in SANITY_SOLVERS if task in solver_class(one).tags.tasks}
    names = {entry.name for entry in recipe.solvers}
    assert {outcome.name for outcome in report.outcomes} == names | sanity


def test_the_data_are_of_the_kinds_that_the_recipes_promise(overrides):
    recipes = {path.stem: load_recipe(path, overrides(path)) for path in RECIPES}
    assert recipes["quickstart"].data == Dataset("digits-retrieval", {})
    assert recipes["quickstart"].metrics == ("ndcg@10", "map", "pairwise_accuracy")
    assert isinstance(recipes["letor"].data, Files)
    assert recipes["web_search"].data.dataset == "web-search"
    assert "n_queries" in recipes["web_search"].data.params


def test_the_roles_in_comments_exist(tmp_path, overrides):
    """Uncommenting the keys of letor.yaml gives a valid recipe."""
    text = (ROOT / "recipes" / "letor.yaml").read_text()
    keys = re.findall(r"^  # (\w+: \S.*)$", text, flags=re.MULTILINE)
    assert len(keys) >= 6
    body = text.replace("data:\n", "data:\n" + "".join(f"  {key}\n" for key in keys))
    (tmp_path / "mine.yaml").write_text(body)
    for name in ("train.txt", "vali.txt", "test.txt"):
        (tmp_path / name).touch()
    recipe = load_recipe(tmp_path / "mine.yaml")
    assert recipe.data.valid == tmp_path / "vali.txt"
    assert recipe.data.features == ("bm25", "pagerank")
