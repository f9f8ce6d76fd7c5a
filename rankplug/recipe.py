"""Recipes: what to train on which data, and how to score it.

A recipe is a YAML file:

    name: example                   # optional
    data:
      dataset: digits-retrieval     # or files: train, valid, test
      params: {n_queries: 100}
    metrics: [ndcg@10, map]         # the first is the primary one
    scale: none                     # optional
    seed: 0                         # optional
    baseline: xgboost-pairwise      # optional
    solvers:
      - solver: tree-tron
        name: weak                  # optional
        params: {C: 1e-3}
      - solver: xgboost-pairwise

The dataclasses below are the schema: the attributes of `Recipe` are the keys of the file, those
of `Dataset` or `Files` the keys under ``data``, those of `Entry` the keys of each item under
``solvers``. Any other key is an error. Recipes hold names and numbers, never code.

Plain values are read as in YAML 1.2: ``1e-3`` is a number. A relative path in the file is
relative to the file's folder, one given by ``--set`` to the working directory.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, Literal

from rankplug import strict_yaml

__all__ = ["Dataset", "Entry", "Files", "Recipe", "Scale"]

Scale = Literal["none", "standard", "minmax", "maxabs"]


@dataclass(frozen=True)
class Dataset:
    """``data``: an embedded data set.

    Attributes
    ----------
    dataset : str
        A name of `rankplug.datasets`.
    params : mapping, optional
        Its parameters, such as sizes.
    """

    dataset: str
    params: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Files:
    """``data``: files that `rankplug.read_data` reads.

    Attributes
    ----------
    train, test : Path
    valid : Path, optional
        For solvers that stop early.
    format : str, optional
        "svmlight", "csv", "parquet" or "arrow"; found out from the files if left out.
    label, qid, weight : str, optional
        Columns of a table that hold relevance, query and query weight.
    features : list of str, optional
        Columns of a table that hold features; all others if left out.
    """

    train: Path
    test: Path
    valid: Path | None = None
    format: str | None = None
    label: str | None = None
    qid: str | None = None
    weight: str | None = None
    features: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Entry:
    """An item of ``solvers``: one competitor.

    Attributes
    ----------
    solver : str
        Registered name (``rankplug solvers`` lists them).
    name : str, optional
        What tables call it, unique in the recipe; the solver's name if left out.
    params : mapping, optional
        The solver's parameters; those left out keep their defaults.
    """

    solver: str
    name: str
    params: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Recipe:
    """A whole recipe; `rankplug.recipe_loader.load_recipe` reads and checks one.

    Attributes
    ----------
    name : str, optional
        Letters, digits, ``_``, ``-``, ``.`` and blanks; the file's name if left out.
    data : Dataset or Files
    metrics : list of str
        Names of `rankplug.metrics`, the primary one first.
    solvers : list of Entry
    scale : "none", "standard", "minmax" or "maxabs", optional
        Scaling of each feature, fitted on the training set; sparse features: "maxabs" only.
    seed : int, optional
        Seed of every solver, 0 by default.
    baseline : str, optional
        Name of the entry with which tables compare the others.
    """

    name: str
    data: Dataset | Files
    metrics: tuple[str, ...]
    solvers: tuple[Entry, ...]
    scale: Scale = "none"
    seed: int = 0
    baseline: str | None = None

    @property
    def primary_metric(self) -> str:
        """The metric by which tables rank: the first."""
        return self.metrics[0]

    def to_yaml(self) -> str:
        """The text of a recipe file that says the same from any folder: paths are absolute."""
        return strict_yaml.dump(_plain(self))


def _plain(value: Any) -> Any:
    """Dataclasses, tuples and paths as what YAML has; fields that are None left out."""
    if is_dataclass(value):
        items = {item.name: getattr(value, item.name) for item in fields(value)}
        return {key: _plain(part) for key, part in items.items() if part is not None}
    if isinstance(value, Mapping):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(part) for part in value]
    return str(value) if isinstance(value, Path) else value
