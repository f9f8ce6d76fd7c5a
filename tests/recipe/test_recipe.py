import pydoc
import re
import time
from dataclasses import FrozenInstanceError, replace
from pathlib import Path

import pytest

from rankplug import recipe as recipe_module
from rankplug.exceptions import RecipeError
from rankplug.recipe import (
    Compare,
    Dataset,
    Entry,
    Files,
    OneFile,
    Recipe,
    Split,
    Tune,
    json_schema,
    load_recipe,
    packaged_recipes,
)

SOLVERS = "solvers: [{solver: tree-tron}]\n"
MINIMAL = "data: {dataset: wine}\nmetrics: [kendall_tau]\n" + SOLVERS


@pytest.fixture
def write(tmp_path):
    """Write a recipe; its lines are counted from the first."""

    def write(text):
        path = tmp_path / "recipe.yaml"
        path.write_text(text, encoding="utf-8")
        return path

    return write


def problems(path, *overrides):
    """What is wrong, without the folder of the file."""
    with pytest.raises(RecipeError) as caught:
        load_recipe(path, overrides)
    text = str(caught.value).replace(str(path), "recipe.yaml")
    first, *others = text.split("\n  ")
    if others:
        assert first == f"{len(others)} problems in the recipe recipe.yaml:"
    return others or [first]


def test_a_small_recipe_has_defaults(write):
    recipe = load_recipe(write(MINIMAL))
    assert recipe == Recipe(
        name="recipe",
        data=Dataset("wine", {}),
        metrics=("kendall_tau",),
        solvers=(Entry("tree-tron", "tree-tron", {}),),
        scale="none",
        seed=0,
        baseline=None,
    )
    assert recipe.primary_metric == "kendall_tau"
    with pytest.raises(FrozenInstanceError):
        recipe.seed = 1


def test_a_full_recipe_has_everything(write, tmp_path):
    for name in ("train.csv", "test.csv"):
        (tmp_path / name).touch()
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "valid.csv").touch()
    recipe = load_recipe(
        write("""
name: Full 1.0
data:
  train: train.csv
  valid: more/valid.csv
  test: test.csv
  format: csv
  label: relevance
  qid: query
  weight: importance
  features: [a, b]
metrics:
  - ndcg@5[gain=linear]
  - map
solvers:
  - solver: tree-tron
    name: weak
    params: {C: 1e-3, max_iter: 50}
  - {solver: tree-tron, name: strong, params: {C: 1}}
  - solver: xgboost-pairwise
    params:
      early_stopping_rounds: null
scale: maxabs
seed: 3
baseline: weak
""")
    )
    assert recipe == Recipe(
        name="Full 1.0",
        data=Files(
            train=tmp_path / "train.csv",
            valid=tmp_path / "more/valid.csv",
            test=tmp_path / "test.csv",
            format="csv",
            label="relevance",
            qid="query",
            weight="importance",
            features=("a", "b"),
        ),
        metrics=("ndcg@5[gain=linear]", "map"),
        solvers=(
            Entry("tree-tron", "weak", {"C": 1e-3, "max_iter": 50}),
            Entry("tree-tron", "strong", {"C": 1}),
            Entry("xgboost-pairwise", "xgboost-pairwise", {"early_stopping_rounds": None}),
        ),
        scale="maxabs",
        seed=3,
        baseline="weak",
    )


def test_tuning_and_repetition_have_sections(write, tmp_path):
    recipe = load_recipe(
        write(
            MINIMAL.replace(
                SOLVERS,
                """
sanity: false
learning_curve: true
tune:
  n_trials: 20
  timeout: 60
  metric: ndcg@5
  folds: 3
  sampler: qmc
  pruner: none
  seed: 4
  path: true
  costs: [seconds, size]
  storage: sqlite:///studies.db
compare: {seeds: [0, 1, 2]}
solvers:
  - solver: tree-tron
    params: {tol: 1e-4}
    space:
      C: {low: 1e-6, high: 10, log: true}
      reduction: [sum, mean]
      max_iter: 50
  - {solver: xgboost-pairwise, space: {max_depth: {low: 2, high: 6}}}
""",
            )
        )
    )
    assert recipe.tune == Tune(
        n_trials=20,
        timeout=60.0,
        metric="ndcg@5",
        folds=3,
        sampler="qmc",
        pruner="none",
        seed=4,
        path=True,
        costs=("seconds", "size"),
        storage="sqlite:///studies.db",
    )
    assert recipe.compare == Compare(seeds=(0, 1, 2))
    assert not recipe.sanity
    assert recipe.learning_curve
    space = {"C": {"low": 1e-6, "high": 10, "log": True}, "reduction": ["sum", "mean"]}
    assert recipe.solvers[0].space == {**space, "max_iter": 50}
    assert recipe.solvers[0].held == {"max_iter": 50}
    (tmp_path / "copy.yaml").write_text(recipe.to_yaml())
    assert replace(load_recipe(tmp_path / "copy.yaml"), name=recipe.name) == recipe


def test_short_forms_say_the_same(write, tmp_path, monkeypatch):
    (tmp_path / "searches.csv").touch()
    short = load_recipe(write("data: searches.csv\nsolvers: [tree-tron, constant]\n"))
    assert short.data == OneFile(tmp_path / "searches.csv", Split(0.2, 0.2))
    assert short.metrics == ()
    assert short.solvers == (Entry("tree-tron"), Entry("constant"))
    long = load_recipe(
        write("data: {file: searches.csv}\nsolvers: [{solver: tree-tron}, {solver: constant}]\n")
    )
    assert long == short
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    Path("copy.yaml").write_text(short.to_yaml())
    assert load_recipe("copy.yaml") == replace(short, name="recipe")


def test_everything_can_be_said_of_one_file(write, tmp_path):
    (tmp_path / "a.csv").touch()
    text = """
data:
  file: a.csv
  split: {valid: 0, test: 0.5, seed: 3}
  label: grade
  qid: query
  features: auto
  drop: [clicks]
  id: [doc_id]
solvers: [tree-tron]
"""
    recipe = load_recipe(write(text))
    assert recipe.data == OneFile(
        tmp_path / "a.csv",
        Split(0, 0.5, 3),
        label="grade",
        qid="query",
        features="auto",
        drop=("clicks",),
        id=("doc_id",),
    )
    assert load_recipe(write(recipe.to_yaml())) == recipe
    listed = load_recipe(write(text.replace("auto", "[b, auto]")))
    assert listed.data.features == ("b", "auto")


def test_keys_are_set_in_what_is_written_short(write, tmp_path):
    (tmp_path / "a.csv").touch()
    path = write("data: a.csv\nsolvers: [tree-tron, constant]\n")
    recipe = load_recipe(
        path, ["data.label=grade", "solvers.tree-tron.params.C=3", "solvers.1.name=none"]
    )
    assert recipe.data == OneFile(tmp_path / "a.csv", label="grade")
    assert recipe.solvers == (Entry("tree-tron", params={"C": 3}), Entry("constant", "none"))
    found = problems(path, "solvers.tree-tron.C=3", "data.labl=grade", "solvers.2=x")
    assert [problem.split(": ")[0] for problem in found] == [
        "--set solvers.2",
        "--set data.labl",
        "--set solvers.tree-tron.C",
    ]


def test_a_budget_is_all_that_tuning_needs(write):
    recipe = load_recipe(write(MINIMAL), ["tune.timeout=1.5", "compare.folds=10"])
    assert recipe.tune == Tune(timeout=1.5)
    assert recipe.compare == Compare(folds=10)


def test_the_resolved_recipe_reads_back_from_any_folder(write, tmp_path, monkeypatch):
    for name in ("train.txt", "test.txt"):
        (tmp_path / name).touch()
    path = write(
        "name: 'no'\ndata: {train: train.txt, test: test.txt}\nmetrics: [map]\n"
        "solvers: [{solver: tree-tron, name: '1e-3', params: {C: 1e-3}},"
        " {solver: xgboost-pairwise, params: {early_stopping_rounds: null}}]\n"
    )
    recipe = load_recipe(path)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "copy.yaml").write_text(recipe.to_yaml(), encoding="utf-8")
    monkeypatch.chdir(elsewhere)
    assert load_recipe("copy.yaml") == recipe


def test_metric_names_become_canonical(write):
    recipe = load_recipe(write(MINIMAL), ["metrics=[' ndcg@10[ empty = 0 ]', 'map[]']"])
    assert recipe.metrics == ("ndcg@10[empty=0]", "map")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "recipe.yaml:1: the recipe is empty; see python -m pydoc rankplug.recipe"),
        ("# nothing\n", "recipe.yaml:1: the recipe is empty; see python -m pydoc rankplug.recipe"),
        ("- a\n", "recipe.yaml:1: must be a mapping with keys of name, data, metrics"),
        ("\njust text\n", "recipe.yaml:2: must be a mapping with keys of name, data, metrics"),
        ("a: [1\n", "recipe.yaml:2:1: not valid YAML: "),
        ("a: b\n  c: d\n", "recipe.yaml:2:4: not valid YAML: "),
        ("metrics: [map]\n" + MINIMAL, "recipe.yaml:3: metrics: the key occurs twice"),
        # Keys
        (
            "solver: x\n" + MINIMAL,
            "recipe.yaml:1: solver: unknown key 'solver'; did you mean 'solv",
        ),
        ("Name: x\n" + MINIMAL, "recipe.yaml:1: Name: unknown key 'Name'; did you mean 'name'?"),
        (
            "<<: {seed: 1}\n" + MINIMAL,
            "recipe.yaml:1: <<: unknown key '<<' (known: baseline, clicks, comp",
        ),
        ("data: {dataset: wine}\nmetrics: [map]\n", "recipe.yaml:1: the key 'solvers' is missing"),
        ("metrics: [map]\n" + SOLVERS, "recipe.yaml:1: the key 'data' is missing"),
        # Name, seed, scale, baseline
        (
            "name: 12\n" + MINIMAL,
            "recipe.yaml:1: name: must be a line of text, not the number 12: ",
        ),
        ("name: ''\n" + MINIMAL, "recipe.yaml:1: name: must be a line of text, not the text ''"),
        ("name: a/b\n" + MINIMAL, "recipe.yaml:1: name: must be of letters, digits, "),
        ("name: ..\n" + MINIMAL, "recipe.yaml:1: name: must be of letters, digits, "),
        ("seed: -1\n" + MINIMAL, "recipe.yaml:1: seed: must be an integer >= 0, not the number -1"),
        (
            "seed: 1.0\n" + MINIMAL,
            "recipe.yaml:1: seed: must be an integer >= 0, not the number 1.0",
        ),
        (
            "seed: true\n" + MINIMAL,
            "recipe.yaml:1: seed: must be an integer >= 0, not the truth va",
        ),
        ("seed: '1'\n" + MINIMAL, "recipe.yaml:1: seed: must be an integer >= 0, not the text '1'"),
        (
            "scale: standart\n" + MINIMAL,
            "recipe.yaml:1: scale: unknown choice 'standart'; did you m",
        ),
        (
            "scale: [none]\n" + MINIMAL,
            "recipe.yaml:1: scale: must be one of none, standard, minmax, ",
        ),
        (
            "scale:\n" + MINIMAL,
            "recipe.yaml:1: scale: must be one of none, standard, minmax, maxabs",
        ),
        (
            "baseline: tron\n" + MINIMAL,
            "recipe.yaml:1: baseline: no solver of the name 'tron'; did",
        ),
        # Tuning and repetition
        ("sanity: 0\n" + MINIMAL, "recipe.yaml:1: sanity: must be true or false, not the number"),
        ("tune: 30\n" + MINIMAL, "recipe.yaml:1: tune: must be a mapping with keys of n_trials, "),
        ("tune: {}\n" + MINIMAL, "recipe.yaml:1: tune: no budget: give each solver n_trials, time"),
        (
            "tune: {n_trial: 3, timeout: 1}\n" + MINIMAL,
            "recipe.yaml:1: tune.n_trial: unknown key 'n_trial'; did you mean 'n_trials'?",
        ),
        (
            "data: {train: recipe.yaml, test: recipe.yaml, separator: ';;'}\n" + SOLVERS,
            "recipe.yaml:1: data.separator: must be one character, such as ';', not the text ';;'",
        ),
        (
            "data: {dataset: wine}\nsolvers:\n- {solver: mapped, params: {map: splines,"
            " map__n_knot: 3, map__n_knots: 5}}\n",
            "recipe.yaml:3: solvers.0.params.map__n_knot: mapped has no parameter 'map__n_knot'",
        ),
        (
            "tune:\n  n_trials: 0\n" + MINIMAL,
            "recipe.yaml:2: tune.n_trials: must be an integer >= 1, not the number 0",
        ),
        (
            "tune:\n  timeout: -1\n" + MINIMAL,
            "recipe.yaml:2: tune.timeout: must be a number > 0, not the number -1",
        ),
        (
            "tune: {timeout: true}\n" + MINIMAL,
            "recipe.yaml:1: tune.timeout: must be a number > 0, not the truth value True",
        ),
        (
            "tune: {n_trials: 1, metric: ndgc}\n" + MINIMAL,
            "recipe.yaml:1: tune.metric: unknown metric 'ndgc'; did you mean 'ndcg'?",
        ),
        (
            "tune: {n_trials: 1, folds: 1}\n" + MINIMAL,
            "recipe.yaml:1: tune.folds: must be an integer >= 2, not the number 1",
        ),
        (
            "tune: {n_trials: 1, sampler: tpee}\n" + MINIMAL,
            "recipe.yaml:1: tune.sampler: unknown choice 'tpee'; did you mean 'tpe'?",
        ),
        (
            "tune: {n_trials: 1, pruner: null}\n" + MINIMAL,
            "recipe.yaml:1: tune.pruner: must be one of wilcoxon, median, none, not nothing (null)",
        ),
        (
            "tune: {n_trials: 1, costs: [second]}\n" + MINIMAL,
            "recipe.yaml:1: tune.costs.0: unknown choice 'second'; did you mean 'seconds'?",
        ),
        (
            "tune: {n_trials: 1, costs: [size, size]}\n" + MINIMAL,
            "recipe.yaml:1: tune.costs.1: the objective 'size' occurs 2 times",
        ),
        ("compare: {}\n" + MINIMAL, "recipe.yaml:1: compare: give one of both: folds, such as 5,"),
        (
            "compare: {folds: 2, seeds: [0, 1]}\n" + MINIMAL,
            "recipe.yaml:1: compare: give one of both: folds, such as 5, or seeds, such as",
        ),
        (
            "compare:\n  folds: 1\n" + MINIMAL,
            "recipe.yaml:2: compare.folds: must be an integer >= 2, not the number 1",
        ),
        (
            "compare: {seeds: [1]}\n" + MINIMAL,
            "recipe.yaml:1: compare.seeds: one seed repeats nothing: give two or more",
        ),
        (
            "compare: {seeds: [1, 2, 1]}\n" + MINIMAL,
            "recipe.yaml:1: compare.seeds.2: the seed '1' occurs 2 times",
        ),
        (
            "compare: {seeds: [0, -1]}\n" + MINIMAL,
            "recipe.yaml:1: compare.seeds.1: must be an integer >= 0, not the number -1",
        ),
        # Metrics
        (
            "metrics: [map, ndgc@10]\ndata: {dataset: wine}\n" + SOLVERS,
            "recipe.yaml:1: metrics.1: unknown metric 'ndgc'; did you mean 'ndcg'?",
        ),
        (
            "metrics:\n- map\n- map[gain=exp]\ndata: {dataset: wine}\n" + SOLVERS,
            "recipe.yaml:3: metrics.1: unknown option of metric map 'gain'",
        ),
        (
            "metrics:\n- precision@0\ndata: {dataset: wine}\n" + SOLVERS,
            "recipe.yaml:2: metrics.0: metric precision: k=0 (must be an integer >= 1)",
        ),
        (
            "metrics:\n- map\n- 'map[]'\ndata: {dataset: wine}\n" + SOLVERS,
            "recipe.yaml:3: metrics.1: the metric 'map' occurs 2 times",
        ),
        (
            "metrics: map\ndata: {dataset: wine}\n" + SOLVERS,
            "recipe.yaml:1: metrics: must be a list of metric names, not the text 'map'",
        ),
        (
            "metrics: []\ndata: {dataset: wine}\n" + SOLVERS,
            "recipe.yaml:1: metrics: must be a list of metric names, not empty",
        ),
        (
            "metrics: [map, {a: 1}]\ndata: {dataset: wine}\n" + SOLVERS,
            "recipe.yaml:1: metrics.1: must be a line of text, not a mapping",
        ),
        # Data
        ("data: 3\nmetrics: [map]\n" + SOLVERS, "recipe.yaml:1: data: must be a mapping with ke"),
        ("data: wine\nmetrics: [map]\n" + SOLVERS, "recipe.yaml:1: data: no such file: "),
        (
            "data:\n  file: wine\nmetrics: [map]\n" + SOLVERS,
            "recipe.yaml:2: data.file: no such file: ",
        ),
        (
            "data:\n  dataset: wine\n  file: x\nmetrics: [map]\n" + SOLVERS,
            "recipe.yaml:3: data.file: 'file' is for data from files, not for an embedded set",
        ),
        (
            "data:\n  file: /\n  train: /\nmetrics: [map]\n" + SOLVERS,
            "recipe.yaml:3: data.train: 'train' is for data that are split already: name either",
        ),
        (
            "data: {train: /, test: /, split: {}}\nmetrics: [map]\n" + SOLVERS,
            "recipe.yaml:1: data.split: 'split' is for one 'file': 'train' and 'test' are split al",
        ),
        (
            "data:\n  file: /\n  split:\n    tset: 1\nmetrics: [map]\n" + SOLVERS,
            "recipe.yaml:4: data.split.tset: unknown key 'tset'; did you mean 'test'?",
        ),
        (
            "data:\n  file: /\n  split: {valid: 0, test: 1}\n" + SOLVERS,
            "recipe.yaml:3: data.split.test: must be a number from 0 to less than 1, not the num",
        ),
        (
            "data:\n  file: /\n  split: {valid: 0.8}\n" + SOLVERS,
            "recipe.yaml:3: data.split: valid and test leave nothing for training",
        ),
        (
            "data:\n  file: /\n  split: {test: 0}\n" + SOLVERS,
            "recipe.yaml:3: data.split.test: nothing is left for the test",
        ),
        (
            "data:\n  file: /\n  features: [a, 1]\n" + SOLVERS,
            "recipe.yaml:3: data.features.1: must be a line of text, not the number 1: put it in",
        ),
        (
            "data:\n  file: /\n  id: doc\n" + SOLVERS,
            "recipe.yaml:3: data.id: must be a list of column names, not the text 'doc'",
        ),
        (
            "data:\n  dataset: vine\nmetrics: [map]\n" + SOLVERS,
            "recipe.yaml:2: data.dataset: unknown data set 'vine'; did you mean 'wine'?",
        ),
        (
            "data:\n  dataset: wine\n  parms: {}\nmetrics: [map]\n" + SOLVERS,
            "recipe.yaml:3: data.parms: unknown key 'parms'; did you mean 'params'?",
        ),
        (
            "data:\n  dataset: wine\n  params:\n    sed: 1\nmetrics: [map]\n" + SOLVERS,
            "recipe.yaml:4: data.params.sed: wine has no parameter 'sed'; did you mean 'seed'?",
        ),
        (
            "data:\n  dataset: wine\n  params: {seed: one}\nmetrics: [map]\n" + SOLVERS,
            "recipe.yaml:3: data.params.seed: must be like its default 0, not the text 'one'",
        ),
        (
            "data:\n  dataset: wine\n  params: 3\nmetrics: [map]\n" + SOLVERS,
            "recipe.yaml:3: data.params: must be a mapping of parameters, not the number 3",
        ),
        (
            "data:\n  params: {}\nmetrics: [map]\n" + SOLVERS,
            "recipe.yaml:1: data: the key 'dataset' is missing",
        ),
        (
            "data:\n  dataset: wine\n  qid: q\nmetrics: [map]\n" + SOLVERS,
            "recipe.yaml:3: data.qid: 'qid' is for data from files, not for an embedded set",
        ),
        # Solvers
        (
            "data: {dataset: wine}\nmetrics: [map]\nsolvers: {solver: tree-tron}\n",
            "recipe.yaml:3: solvers: must be a list of solvers, not a mapping",
        ),
        (
            "data: {dataset: wine}\nmetrics: [map]\nsolvers:\n  - 3\n",
            "recipe.yaml:4: solvers.0: must be a mapping with keys of solver, name, params, spac",
        ),
        (
            "data: {dataset: wine}\nmetrics: [map]\nsolvers:\n  - tree-torn\n",
            "recipe.yaml:4: solvers.0: unknown solver 'tree-torn'; did you mean 'tree-tron'",
        ),
        (
            "data: {dataset: wine}\nmetrics: [map]\nsolvers: [tree-tron, tree-tron]\n",
            "recipe.yaml:3: solvers.1: the name 'tree-tron' occurs 2 times: give each entry its ",
        ),
        (
            "data: {dataset: wine}\nmetrics: [map]\nsolvers:\n  - name: x\n",
            "recipe.yaml:4: solvers.0: the key 'solver' is missing",
        ),
        (
            "data: {dataset: wine}\nmetrics: [map]\nsolvers:\n  - solver: tree-torn\n",
            "recipe.yaml:4: solvers.0.solver: unknown solver 'tree-torn'; did you mean 'tree-tron'",
        ),
        (
            "data: {dataset: wine}\nmetrics: [map]\nsolvers:\n- solver: os.system\n",
            "recipe.yaml:4: solvers.0.solver: unknown solver 'os.system'",
        ),
        (MINIMAL + "- solver: tree-tron\n", "recipe.yaml:4:1: not valid YAML: "),
        (
            "data: {dataset: wine}\nmetrics: [map]\nsolvers:\n- solver: tree-tron\n"
            "  params:\n    C: 1\n    maxiter: 5\n",
            "recipe.yaml:7: solvers.0.params.maxiter: tree-tron has no parameter 'maxiter'; did "
            "you mean 'max_iter'?",
        ),
        (
            "data: {dataset: wine}\nmetrics: [map]\nsolvers:\n- solver: tree-tron\n"
            "  params:\n    C: '1e-3'\n",
            "recipe.yaml:6: solvers.0.params.C: must be a finite number > 0, not the text '1e-3'",
        ),
        (
            "data: {dataset: wine}\nmetrics: [map]\nsolvers:\n- solver: tree-tron\n"
            "  params:\n\n    max_iter: 1e3\n",
            "recipe.yaml:7: solvers.0.params.max_iter: must be an integer >= 1, not the number 1",
        ),
        (
            "data: {dataset: wine}\nmetrics: [map]\nsolvers:\n- solver: tree-tron\n  params: [C]\n",
            "recipe.yaml:5: solvers.0.params: must be a mapping of parameters, not a list",
        ),
        (
            "data: {dataset: wine}\nmetrics: [map]\nsolvers:\n- solver: tree-tron\n"
            "  space:\n    c: {low: 1, high: 2}\n",
            "recipe.yaml:6: solvers.0.space.c: search space of tree-tron: no parameter 'c'",
        ),
        (
            "data: {dataset: wine}\nmetrics: [map]\nsolvers:\n- solver: tree-tron\n"
            "  space:\n    tol: 1e-3\n    C: {low: 2, high: 1}\n",
            "recipe.yaml:7: solvers.0.space.C: search space of tree-tron: C: low=2 is above high=1",
        ),
        (
            "data: {dataset: wine}\nmetrics: [map]\nsolvers:\n- solver: tree-tron\n"
            "  space:\n    C: {low: 0, high: 1}\n",
            "recipe.yaml:6: solvers.0.space.C: search space of tree-tron: C",
        ),
        (
            "data: {dataset: wine}\nmetrics: [map]\nsolvers:\n- solver: tree-tron\n"
            "  space:\n    C: {low: 1, height: 2}\n",
            "recipe.yaml:6: solvers.0.space.C: search space of tree-tron: C: no key 'height'; did",
        ),
        (
            "data: {dataset: wine}\nmetrics: [map]\nsolvers:\n- solver: tree-tron\n"
            "  space:\n    C: -1\n",
            "recipe.yaml:6: solvers.0.space.C: must be a finite number > 0, not the number -1",
        ),
        (
            "data: {dataset: wine}\nmetrics: [map]\nsolvers:\n- solver: tree-tron\n  space: [C]\n",
            "recipe.yaml:5: solvers.0.space: must be a mapping of parameters, not a list",
        ),
        (
            "data: {dataset: wine}\nsolvers:\n- solver: tree-tron\n  learn_from: lists\n",
            "recipe.yaml:4: solvers.0.learn_from: the recipe has no clicks to learn from: add",
        ),
        (
            MINIMAL + "clicks: {propensities: [1, 0]}\n",
            "recipe.yaml:4: clicks.propensities.1: must be a number > 0, not the number 0",
        ),
        (
            MINIMAL + "clicks: {simulate: {etha: 1}}\n",
            "recipe.yaml:4: clicks.simulate.etha: unknown key 'etha'; did you mean 'eta'?",
        ),
        (
            MINIMAL + "clicks: {simulate: {eta: -1}}\n",
            "recipe.yaml:4: clicks.simulate.eta: must be a finite number >= 0",
        ),
        (
            "data: {dataset: wine}\nmetrics: [map]\nsolvers:\n- solver: tree-tron\n"
            "- solver: tree-tron\n",
            "recipe.yaml:5: solvers.1: the name 'tree-tron' occurs 2 times: give each entry its ",
        ),
        (
            "data: {dataset: wine}\nmetrics: [map]\nsolvers:\n- solver: tree-tron\n  name: x\n"
            "- name: x\n  solver: xgboost-pairwise\n",
            "recipe.yaml:6: solvers.1: the name 'x' occurs 2 times: give each entry its own",
        ),
        (
            "data: {dataset: wine}\nmetrics: [map]\nsolvers:\n- solver: tree-tron\n"
            '  name: "two\\nlines"\n',
            "recipe.yaml:5: solvers.0.name: must be a line of text, not the text 'two\\nlines'",
        ),
    ],
)
def test_a_mistake_is_named_with_its_line_and_key(write, text, expected):
    (problem,) = problems(write(text))
    assert problem.startswith(expected)


def test_all_mistakes_are_named_at_once(write):
    path = write("""
nam: x
seed: x
seed: 2
data:
  dataset: digit
metrics: [ndcg@ten, map]
solvers:
  - solver: tree-tron
    params: {c: 1, tol: 0}
  - solver: forest
baseline: nobody
""")
    places = [problem.split(": ")[0] for problem in problems(path)]
    assert sorted(places) == [
        "recipe.yaml:10",  # c
        "recipe.yaml:10",  # tol
        "recipe.yaml:11",
        "recipe.yaml:12",
        "recipe.yaml:2",
        "recipe.yaml:3",
        "recipe.yaml:4",
        "recipe.yaml:6",
        "recipe.yaml:7",
    ]


def test_files_that_do_not_exist_are_named(write, tmp_path):
    (tmp_path / "test.txt").touch()
    path = write(
        "data:\n  train: train.txt\n  valid: gone/valid.txt\n  test: test.txt\n  format: svm\n"
        "  features: a\nmetrics: [map]\n" + SOLVERS
    )
    assert problems(path) == [
        "recipe.yaml:6: data.features: must be a list of column names, not the text 'a'",
        f"recipe.yaml:2: data.train: no such file: {tmp_path / 'train.txt'}",
        f"recipe.yaml:3: data.valid: no such file: {tmp_path / 'gone/valid.txt'}",
        "recipe.yaml:5: data.format: unknown choice 'svm'; did you mean 'csv'? (known: arrow, csv, "
        "parquet, svmlight)",
    ]


def test_missing_files_are_asked_for(write):
    assert problems(write("data:\n  label: y\nmetrics: [map]\n" + SOLVERS)) == [
        "recipe.yaml:1: data: the key 'train' is missing: add it, or --set data.train=FILE, or "
        "name a 'dataset'",
        "recipe.yaml:1: data: the key 'test' is missing: add it, or --set data.test=FILE, or name "
        "a 'dataset'",
    ]


def test_an_unavailable_solver_is_named_with_its_reason(write, monkeypatch):
    from rankplug.solver import SolverTags
    from rankplug_plugins.tree_tron import TreeTron

    tags = SolverTags(("query-document",), "", "", requires=("no_such_module",))
    monkeypatch.setattr(TreeTron, "tags", tags)
    (problem,) = problems(write(MINIMAL))
    assert problem == (
        "recipe.yaml:3: solvers.0.solver: solver 'tree-tron' needs no_such_module: "
        "pip install no_such_module"
    )


# Where recipes are found


def test_a_file_comes_before_a_recipe_of_that_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert load_recipe("quickstart").name == "quickstart"
    Path("quickstart").write_text("name: mine\n" + MINIMAL)
    assert load_recipe("quickstart").name == "mine"


@pytest.mark.parametrize("name", ["quikstart", "recipes/quikstart.yaml"])
def test_an_unknown_recipe_suggests_the_nearest(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RecipeError, match=f"no file '{name}'.* did you mean 'quickstart'?"):
        load_recipe(name)


def test_a_folder_does_not_hide_a_recipe_of_that_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("quickstart").mkdir()
    assert load_recipe("quickstart").name == "quickstart"


@pytest.mark.parametrize(
    ("file", "name"),
    [("my (1).yaml", "my -1-"), (".hidden", "hidden"), ("é.yaml", "é"), ("(.yaml", "recipe")],
)
def test_a_recipe_without_name_is_named_like_its_file(tmp_path, file, name):
    (tmp_path / file).write_text(MINIMAL)
    recipe = load_recipe(tmp_path / file)
    assert recipe.name == name
    (tmp_path / "copy").write_text(recipe.to_yaml(), encoding="utf-8")
    assert load_recipe(tmp_path / "copy") == recipe


def test_packaged_recipes_are_files():
    assert all(path.is_file() for path in packaged_recipes().values())


def test_what_is_no_text_file_is_an_error(tmp_path):
    with pytest.raises(RecipeError, match="no file"):
        load_recipe(tmp_path)
    (tmp_path / "binary").write_bytes(b"b: 1\na: \xff\xfe")
    with pytest.raises(RecipeError, match=r"binary:2: not a text file in UTF-8 \(byte 8\)"):
        load_recipe(tmp_path / "binary")


def test_a_byte_order_mark_does_not_matter(tmp_path):
    (tmp_path / "bom.yaml").write_bytes(b"\xef\xbb\xbf" + MINIMAL.encode())
    assert load_recipe(tmp_path / "bom.yaml").name == "bom"


# --set


TWO = """data: {dataset: web-search}
metrics: [map, ndcg@10]
solvers:
  - solver: tree-tron
  - solver: tree-tron
    name: strong
    params: {C: 10}
  - solver: xgboost-pairwise
"""


@pytest.mark.parametrize(
    ("assignment", "read", "value"),
    [
        ("name=other", lambda r: r.name, "other"),
        ("seed=5", lambda r: r.seed, 5),
        ("metrics=[map]", lambda r: r.metrics, ("map",)),
        ("metrics.1=ndcg@5", lambda r: r.metrics, ("map", "ndcg@5")),
        ("solvers.0.params.C=1e-3", lambda r: r.solvers[0].params, {"C": 1e-3}),
        ("solvers.tree-tron.params.C=2", lambda r: r.solvers[0].params, {"C": 2}),
        ("solvers.strong.params.C=2", lambda r: r.solvers[1].params, {"C": 2}),
        ("solvers.strong.params.tol=1e-6", lambda r: r.solvers[1].params, {"C": 10, "tol": 1e-6}),
        ("solvers.strong.params={}", lambda r: r.solvers[1].params, {}),
        ("solvers.2.name=trees", lambda r: r.solvers[2].name, "trees"),
        ("solvers.1={solver: xgboost-pairwise, name: x}", lambda r: r.solvers[1].name, "x"),
        ("data.params.n_queries=3", lambda r: r.data.params, {"n_queries": 3}),
        ("data.dataset=diabetes", lambda r: r.data.dataset, "diabetes"),
        ("data={dataset: diabetes}", lambda r: r.data.dataset, "diabetes"),
        ("scale=maxabs", lambda r: r.scale, "maxabs"),
    ],
)
def test_a_value_can_be_set_from_outside(write, assignment, read, value):
    assert read(load_recipe(write(TWO), [assignment])) == value


def test_later_assignments_win(write):
    assert load_recipe(write(MINIMAL), ["seed=1", "seed=2"]).seed == 2


def test_set_paths_are_relative_to_the_working_directory(write, tmp_path, monkeypatch):
    path = write("data:\n  train: a.txt\n  test: a.txt\nmetrics: [map]\n" + SOLVERS)
    (tmp_path / "a.txt").touch()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "b.txt").touch()
    monkeypatch.chdir(elsewhere)
    recipe = load_recipe(path, ["data.test=b.txt"])
    assert recipe.data.train == tmp_path / "a.txt"
    assert recipe.data.test == elsewhere / "b.txt"


def test_an_empty_section_can_be_filled_from_outside(write, tmp_path):
    (tmp_path / "a.txt").touch()
    file = tmp_path / "a.txt"
    path = write("data:\nmetrics: [map]\n" + SOLVERS)
    recipe = load_recipe(path, [f"data.train={file}", f"data.test={file}"])
    assert recipe.data == Files(file, file)
    (problem,) = problems(path, f"data.train={file}")
    assert problem.startswith("recipe.yaml:1: data: the key 'test' is missing: add it, or --set ")


@pytest.mark.parametrize(
    ("assignment", "expected"),
    [
        ("seed", "--set seed: write --set key=value, as in "),
        ("=1", "--set =1: write --set key=value, as in "),
        ("data..x=1", "--set data..x=1: write --set key=value, as in "),
        ("sed=1", "--set sed: unknown key 'sed'; did you mean 'seed'?"),
        ("seed=x", "--set seed: must be an integer >= 0, not the text 'x'"),
        ("seed=", "--set seed: must be an integer >= 0, not nothing (null)"),
        ("seed=[1", "--set seed: '[1' is not valid YAML: "),
        ("name=!!python/name:os.system x", "--set name: the tag !!python/name:os.system is not "),
        ("data.trian=x", "--set data.trian: unknown key 'trian'; did you mean 'train'?"),
        ("date.train=x", "--set date.train: unknown key 'date'; did you mean 'data'?"),
        (
            "data.dataset=digit",
            "--set data.dataset: unknown data set 'digit'; did you mean 'digits'",
        ),
        ("metrics.7=map", "--set metrics.7: no entry '7' (known: 0, 1)"),
        ("metrics=map", "--set metrics: must be a list of metric names, not the text 'map'"),
        ("seed.x=1", "--set seed.x: must be an integer >= 0, not a mapping"),
        (
            "solvers.tree-torn.params.C=1",
            "--set solvers.tree-torn.params.C: no entry 'tree-torn'; d",
        ),
        (
            "solvers.3.params.C=1",
            "--set solvers.3.params.C: no entry '3' (known: 0, 1, 2, strong, ",
        ),
        ("solvers.-1.params.C=1", "--set solvers.-1.params.C: no entry '-1'; did you mean '1'?"),
        (
            "solvers.0.parms.C=1",
            "--set solvers.0.parms.C: unknown key 'parms'; did you mean 'param",
        ),
        (
            "solvers.0.params.c=1",
            "--set solvers.0.params.c: tree-tron has no parameter 'c'; did you mean 'C'? (known:",
        ),
        (
            "solvers.0.params.C=0",
            "--set solvers.0.params.C: must be a finite number > 0, not the n",
        ),
        (
            "solvers.strong.params.C.x=0",
            "--set solvers.strong.params.C.x: there is no 'x' in the nu",
        ),
        ("solvers.0.solver=forest", "--set solvers.0.solver: unknown solver 'forest'"),
    ],
)
def test_a_mistake_in_set_is_named_with_its_key(write, assignment, expected):
    (problem,) = problems(write(TWO), assignment)
    assert problem.startswith(expected)


def test_mistakes_of_all_assignments_are_named_at_once(write):
    found = problems(write(TWO), "sed=1", "seed=[", "metrics=[x]")
    assert [problem.split(": ")[0] for problem in found] == [
        "--set seed",
        "--set sed",
        "--set metrics.0",
    ]


def test_entries_of_one_solver_are_told_apart_by_number(write):
    text = TWO.replace("    name: strong\n", "")
    path = write(text)
    recipe = load_recipe(path, ["solvers.1.name=other", "solvers.tree-tron.params.C=3"])
    assert recipe.solvers[0].params == {"C": 3}
    found = problems(path, "solvers.tree-tron.params.C=3")
    assert found[0] == (
        "--set solvers.tree-tron.params.C: 'tree-tron' stands for entries [0, 1]: use one of these "
        "numbers"
    )


def test_the_example_of_the_documentation_is_valid_and_complete(write):
    import textwrap
    from dataclasses import fields

    import yaml

    from rankplug import recipe as module

    text = textwrap.dedent(module.__doc__.split("\n\n")[2])
    assert set(yaml.safe_load(text)) == {field.name for field in fields(Recipe)}
    assert load_recipe(write(text)).solvers[0].name == "weak"


# The schema as data


def sections():
    schema = json_schema()
    return {"Recipe": schema, **schema["$defs"]}


def test_the_json_schema_describes_every_key_of_every_section():
    from dataclasses import fields

    names = {"Recipe", "Dataset", "OneFile", "Files", "Split", "Entry", "Tune", "Compare", "Clicks"}
    assert set(sections()) == names
    for name, section in sections().items():
        cls = getattr(recipe_module, name)
        assert list(section["properties"]) == [field.name for field in fields(cls)]
        assert all(key["description"] for key in section["properties"].values())
        assert section["description"].startswith(cls.__doc__.splitlines()[0])
        assert "Attributes" not in section["description"]
        assert not section["additionalProperties"]


def test_the_json_schema_has_types_choices_defaults_and_what_is_required():
    recipe, tune = sections()["Recipe"], sections()["Tune"]["properties"]
    assert recipe["required"] == ["data", "solvers"]
    short = [{"type": "string"}, {"$ref": "#/$defs/Entry"}]
    assert recipe["properties"]["solvers"]["items"]["anyOf"] == short
    assert recipe["properties"]["data"]["anyOf"][0] == {"type": "string"}
    assert recipe["properties"]["scale"]["enum"] == ["none", "standard", "minmax", "maxabs"]
    assert recipe["properties"]["sanity"]["default"] is True
    assert tune["pruner"]["enum"] == ["wilcoxon", "median", "none"]
    assert tune["n_trials"] | {"description": "", "title": ""} == {
        "type": "integer", "minimum": 1, "description": "", "title": "",
    }  # fmt: skip
    assert "null" not in repr(sections()).replace("None", "null")
    assert sections()["Entry"]["required"] == ["solver"]


def test_pydoc_shows_what_each_key_means():
    text = pydoc.render_doc(recipe_module, renderer=pydoc.plaintext)
    for section in sections().values():
        for key, about in section["properties"].items():
            assert re.search(rf"{key} : \S", text)
            assert about["description"].splitlines()[0] in text


# Too much


@pytest.mark.parametrize(
    "text",
    [
        "a: " + "x" * 10_000_000,
        MINIMAL + "a: 1\n" * 2_000_000,
        "[" * 10_000_000,
        MINIMAL + "# comment\n" * 1_000_000,
        '"' + "\\u00e9" * 1_600_000,
    ],
)
def test_what_is_too_long_is_refused_at_once(write, text):
    path = write(text)
    started = time.perf_counter()
    (problem,) = problems(path)
    assert problem == "recipe.yaml: more than 1,000,000 bytes, too long for a recipe"
    assert time.perf_counter() - started < 1
    (problem,) = problems(write(MINIMAL), f"name={text[:1_000_001]}")
    assert len(problem) < 300
    assert "too long for a recipe" in problem


@pytest.mark.parametrize(
    ("text", "n_problems"),
    [
        (MINIMAL + "".join(f"key{number}: 1\n" for number in range(20_000)), 20_000),
        ("data: {dataset: wine}\nsolvers:\n" + "- tree-torn\n" * 1000, 1999),
        ("data: {dataset: wine}\nsolvers:\n" + "- constant\n" * 1000, 999),
        (MINIMAL + "".join(f"{number}: 1\n" for number in range(20_000)), 20_000),
        (MINIMAL + "seed: 1\n" * 20_000, 19_999),
        (f"data: {{dataset: {'wine' * 50_000}}}\n" + "seed: x\n" + SOLVERS, 2),
    ],
)
def test_the_first_of_many_problems_are_listed(write, text, n_problems):
    started = time.perf_counter()
    with pytest.raises(RecipeError) as caught:
        load_recipe(write(text))
    assert time.perf_counter() - started < 20
    first, *lines = str(caught.value).splitlines()
    assert first.startswith(f"{n_problems:,} problems in the recipe ")
    if n_problems > 20:
        assert len(lines) == 21
        assert lines[-1] == f"  and {n_problems - 20:,} more"
    assert len(str(caught.value)) < 20_000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "solvers:\n" + "- tree-tron\n" * 1001,
            "recipe.yaml:2: solvers: must be a list of at most 1,000 solvers, not of 1,001",
        ),
        (
            "solvers:\n- solver: tree-tron\n  params:\n"
            + "".join(f"    p{number}: 1\n" for number in range(1001)),
            "recipe.yaml:4: solvers.0.params: has 1,001 keys: at most 1000",
        ),
        (f"{SOLVERS}seed: 1{'0' * 30}", "recipe.yaml:3: seed: is too large: at most 9,223,3"),
        (
            f"{SOLVERS}tune: {{n_trials: 1{'0' * 20}}}",
            "recipe.yaml:3: tune.n_trials: is too large: at most 2,147,483,647",
        ),
        (
            f"{SOLVERS}tune: {{timeout: 1e300}}",
            "recipe.yaml:3: tune.timeout: is too large: at most 1,000,000,000",
        ),
        (
            f"{SOLVERS}compare: {{folds: 1{'0' * 20}}}",
            "recipe.yaml:3: compare.folds: is too large: at most 2,147,483,647",
        ),
        (
            f"solvers: [{{solver: toppush, params: {{top_k: {'9' * 26}}}}}]",
            "recipe.yaml:2: solvers.0.params.top_k: is too large: at most 2,147,483,647",
        ),
        (
            f"solvers: [{{solver: xgboost-pairwise, params: {{n_estimators: {'9' * 26}}}}}]",
            "recipe.yaml:2: solvers.0.params.n_estimators: is too large: at most 2,147,483,647",
        ),
        (
            f"solvers: [{{solver: tree-tron, params: {{n_threads: {'9' * 300}}}}}]",
            "recipe.yaml:2: solvers.0.params.n_threads: is too large: at most 2,147,483,647",
        ),
        (f"{SOLVERS}name: {'n' * 201}", "recipe.yaml:3: name: has 201 characters: at most 200"),
        (
            f'{SOLVERS}name: "\\U00110000"',
            "recipe.yaml:3:10: not valid YAML: an escape stands for no character: \\U0010ffff is",
        ),
        (f'{SOLVERS}name: "\\ud800"', "recipe.yaml:3: name: must be a line of text, not the text"),
    ],
)
def test_what_no_machine_holds_is_refused(write, text, expected):
    lines = (
        text.split("\n")
        if text.startswith("data")
        else ["data: {dataset: wine}", *text.split("\n")]
    )
    (problem,) = problems(write("\n".join(lines)))
    assert problem.startswith(expected)


def test_it_is_refused_in_set_too(write):
    path = write(MINIMAL)
    (problem,) = problems(path, 'name="\\U00110000"')
    assert problem.startswith(
        "--set name: '\"\\\\U00110000\"' is not valid YAML: an escape stands for"
    )
    (problem,) = problems(path, "name=!!str x")
    assert problem == "--set name: the tag !!str is not allowed"
    (problem,) = problems(path, "name=" + "[" * 100)
    assert problem.endswith("is not valid YAML: nested too deeply")


def test_half_a_character_is_refused_as_a_key(write):
    (problem,) = problems(write('"\\ud800": 1\n' + MINIMAL))
    assert problem.startswith("recipe.yaml:1: ")
