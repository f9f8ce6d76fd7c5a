"""Recipes: what to train on which data, and how to score it.

A recipe is a YAML file:

    name: example                   # optional
    data:
      dataset: digits-retrieval     # or one file, or files: train, valid, test
      params: {n_queries: 100}
    metrics: [ndcg@10, map]         # optional; the first is the primary one
    scale: none                     # optional
    impute: auto                    # optional: what stands for missing values
    seed: 0                         # optional
    baseline: xgboost-pairwise      # optional
    sanity: true                    # optional
    learning_curve: false           # optional
    clicks:                         # optional: what solvers learn from instead of relevance
      simulate: {n_sessions: 10000}
    tune: {n_trials: 30}            # optional: every solver is tuned before it is compared
    compare: {folds: 5}             # optional: repeated, for a comparison with intervals
    solvers:
      - solver: tree-tron
        name: weak                  # optional
        params: {tol: 1e-4}
        space:                      # optional: what tuning tries, instead of the solver's own
          C: {low: 1e-6, high: 10, log: true}
      - xgboost-pairwise            # short for solver: xgboost-pairwise

This is enough for a table in one file, of which the columns that can be features are used, and a
part of the queries for validation and test:

    data: {file: searches.csv, label: grade, qid: query_id}
    solvers: [tree-tron, xgboost-pairwise]

``rankplug init searches.csv`` writes such a recipe with a comment on each column, and
``rankplug run searches.csv`` runs it at once.

The dataclasses of this package are the schema: the attributes of `Recipe` are the keys of the
file, those of `OneFile`, `Files` or `Dataset` the keys under ``data``, those of `Split` the keys
under ``split`` in it, those of `Entry` the keys of each item under ``solvers``, those of `Clicks`,
`Tune` and `Compare` the keys under ``clicks``, ``tune`` and ``compare``. Any other key is an
error. Recipes hold names and numbers, never code.

Plain values are read as in YAML 1.2: ``1e-3`` is a number. A relative path in the file is
relative to the file's folder, one given by ``--set`` to the working directory.
"""

from rankplug.data import ScaleName as Scale
from rankplug.recipe.clicks import Clicks, LearnFrom
from rankplug.recipe.columns import Choice, Column, choose_columns
from rankplug.recipe.loader import load_recipe, parse_recipe
from rankplug.recipe.schema import (
    Compare,
    Dataset,
    Entry,
    Files,
    ImputeChoice,
    OneFile,
    Pruner,
    Recipe,
    Split,
    Tune,
    json_schema,
)
from rankplug.recipe.starting import (
    Start,
    choice_in_words,
    choose_in_file,
    first_recipe,
    is_data,
    naming,
)
from rankplug.recipe.values import find_wrong_name
from rankplug.tuning import Cost, Sampler
from rankplug_recipes import packaged_recipes

__all__ = [
    "Choice",
    "Clicks",
    "Column",
    "Compare",
    "Cost",
    "Dataset",
    "Entry",
    "Files",
    "ImputeChoice",
    "LearnFrom",
    "OneFile",
    "Pruner",
    "Recipe",
    "Sampler",
    "Scale",
    "Split",
    "Start",
    "Tune",
    "choice_in_words",
    "choose_columns",
    "choose_in_file",
    "find_wrong_name",
    "first_recipe",
    "is_data",
    "json_schema",
    "load_recipe",
    "naming",
    "packaged_recipes",
    "parse_recipe",
]
