"""The schema of a recipe, as dataclasses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, Literal

__all__ = [
    "Compare",
    "Cost",
    "Dataset",
    "Entry",
    "Files",
    "Pruner",
    "Recipe",
    "Sampler",
    "Scale",
    "Tune",
]

Scale = Literal["none", "standard", "minmax", "maxabs"]
Sampler = Literal["tpe", "random", "qmc", "grid"]
Pruner = Literal["wilcoxon", "median", "none"]
Cost = Literal["seconds", "size"]


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
    """``data``: files that `rankplug.read_data` reads, or folders that it opens.

    Attributes
    ----------
    train, test : Path
        A folder that `rankplug.prepare` has made knows its columns: what is said about them here
        is for files.
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
        The solver's parameters; those left out keep their defaults. Tuning replaces those that
        it searches.
    space : mapping, optional
        Changes of the solver's own search space, by parameter: a range ``{low, high}``, with
        ``log: true`` or a ``step``; a list of choices; or a value, which is held.
    """

    solver: str
    name: str
    params: Mapping[str, Any] = field(default_factory=dict)
    space: Mapping[str, Any] = field(default_factory=dict)

    @property
    def held(self) -> dict[str, Any]:
        """Those parameters of the space that are not searched."""
        return {key: wish for key, wish in self.space.items() if not isinstance(wish, dict | list)}


@dataclass(frozen=True)
class Tune:
    """``tune``: how every solver is tuned, all within the same budget.

    Attributes
    ----------
    n_trials : int, optional
        Trials of each solver.
    timeout : float, optional
        Seconds for each solver; with `n_trials`, whichever ends first. One of both is needed.
    metric : str, optional
        What is tuned for; the primary metric if left out.
    folds : int, optional
        Tune by cross-validation on the training set, divided by query. If left out: by the
        validation set, or in 5 folds where the data have none.
    sampler : "tpe", "random", "qmc" or "grid", optional
    pruner : "wilcoxon", "median" or "none", optional
        Which trials are given up early.
    seed : int, optional
        The recipe's if left out.
    path : bool, optional
        Try all values of C in one trial where the solver can start from the last solution;
        false by default, because then a trial of one solver is more than that of another.
    costs : list of "seconds" and "size", optional
        Objectives beside the metric: training seconds, bytes of the saved model. Parameters
        are chosen by the metric; the report shows which trials nothing beats in all of them.
    storage : str, optional
        URL of a database for the studies; a journal file in the output folder if left out.
    """

    n_trials: int | None = None
    timeout: float | None = None
    metric: str | None = None
    folds: int | None = None
    sampler: Sampler = "tpe"
    pruner: Pruner = "wilcoxon"
    seed: int | None = None
    path: bool = False
    costs: tuple[Cost, ...] = ()
    storage: str | None = None


@dataclass(frozen=True)
class Compare:
    """``compare``: what is repeated; one of the two.

    Attributes
    ----------
    folds : int, optional
        Cross-validation over all of the data, divided by query: every query is tested once.
        Where the data have a validation set, the fold after the tested one takes its part.
    seeds : list of int, optional
        Train and test as without it, once with each of these seeds.
    """

    folds: int | None = None
    seeds: tuple[int, ...] = ()


@dataclass(frozen=True)
class Recipe:
    """A whole recipe; `rankplug.recipe.loader.load_recipe` reads and checks one.

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
    sanity : bool, optional
        Compare also with a constant and with the best single feature, true by default.
    learning_curve : bool, optional
        Measure also the quality after 1, 2, 4, ... iterations, false by default; this takes
        about as long as two more trainings.
    tune : Tune, optional
    compare : Compare, optional
    """

    name: str
    data: Dataset | Files
    metrics: tuple[str, ...]
    solvers: tuple[Entry, ...]
    scale: Scale = "none"
    seed: int = 0
    baseline: str | None = None
    sanity: bool = True
    learning_curve: bool = False
    tune: Tune | None = None
    compare: Compare | None = None

    @property
    def primary_metric(self) -> str:
        """The metric by which tables rank: the first."""
        return self.metrics[0]

    def to_yaml(self) -> str:
        """The text of a recipe file that says the same from any folder: paths are absolute."""
        # Imported here, so that the names of recipes are known without YAML.
        from rankplug.recipe.strict_yaml import dump

        return dump(_plain(self))


def _plain(value: Any) -> Any:
    """Dataclasses, tuples and paths as what YAML has; fields without a value left out."""
    if is_dataclass(value):
        items = {item.name: getattr(value, item.name) for item in fields(value)}
        return {key: _plain(part) for key, part in items.items() if part not in (None, {}, ())}
    if isinstance(value, Mapping):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(part) for part in value]
    return str(value) if isinstance(value, Path) else value
