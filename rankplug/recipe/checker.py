"""From the nodes of a YAML text to a `Recipe`."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, cast, get_args

from rankplug import datasets
from rankplug.exceptions import RankplugError, UnknownNameError, nearest
from rankplug.io import FORMATS
from rankplug.metrics import parse_metric
from rankplug.recipe.node_checks import NodeChecker
from rankplug.recipe.schema import (
    Compare,
    Cost,
    Dataset,
    Entry,
    Files,
    Pruner,
    Recipe,
    Sampler,
    Scale,
    Tune,
)
from rankplug.recipe.strict_yaml import Node
from rankplug.solver import Solver, solver_class

__all__ = ["RecipeChecker"]


class RecipeChecker(NodeChecker):
    """Makes a recipe; it must not be used if there are problems."""

    def recipe(self, root: Node, default_name: str) -> Recipe:
        """The whole recipe."""
        keys = self.section(root, _keys(Recipe), ("data", "metrics", "solvers"))
        entries = self.entries(keys["solvers"]) if "solvers" in keys else ()
        return Recipe(
            name=self.name(keys["name"]) if "name" in keys else default_name,
            data=self.data(keys["data"]) if "data" in keys else Dataset(""),
            metrics=self.metrics(keys["metrics"]) if "metrics" in keys else (),
            solvers=entries,
            scale=cast(Scale, self.choice(keys.get("scale"), get_args(Scale), "none")),
            seed=self.optional_integer(keys.get("seed"), 0) or 0,
            baseline=self.baseline(keys["baseline"], entries) if "baseline" in keys else None,
            sanity=self.truth(keys.get("sanity"), True),
            learning_curve=self.truth(keys.get("learning_curve"), False),
            tune=self.tune(keys["tune"]) if "tune" in keys else None,
            compare=self.compare(keys["compare"]) if "compare" in keys else None,
        )

    def name(self, node: Node) -> str:
        """What may be the name of a folder."""
        name = self.text(node)
        if name and not re.fullmatch(r"\w[\w .-]*", name):
            self.wrong(node, "must be of letters, digits, '_', '-', '.' and blanks")
        return name

    def metrics(self, node: Node) -> tuple[str, ...]:
        """Different metrics, by their canonical names."""
        items = self.items(node, "metric names")
        names = [self.metric(item) for item in items]
        self.unique(items, names, "the metric", "")
        return tuple(names)

    def metric(self, node: Node) -> str:
        """The canonical name of a metric."""
        name = self.text(node)
        try:
            return str(parse_metric(name)) if name else ""
        except RankplugError as error:
            self.wrong(node, str(error))
            return ""

    def tune(self, node: Node) -> Tune:
        """How to tune."""
        keys = self.section(node, _keys(Tune))
        if isinstance(node.value, dict) and not {"n_trials", "timeout"} & set(node.value):
            self.wrong(node, "no budget: give each solver n_trials, timeout (seconds), or both")
        return Tune(
            n_trials=self.optional_integer(keys.get("n_trials"), 1),
            timeout=self.positive(keys.get("timeout")),
            metric=self.metric(keys["metric"]) if "metric" in keys else None,
            folds=self.optional_integer(keys.get("folds"), 2),
            sampler=cast(Sampler, self.choice(keys.get("sampler"), get_args(Sampler), "tpe")),
            pruner=cast(Pruner, self.choice(keys.get("pruner"), get_args(Pruner), "wilcoxon")),
            seed=self.optional_integer(keys.get("seed"), 0),
            path=self.truth(keys.get("path"), False),
            costs=self.costs(keys["costs"]) if "costs" in keys else (),
            storage=self.optional_text(keys.get("storage")),
        )

    def costs(self, node: Node) -> tuple[Cost, ...]:
        """Different objectives beside the metric."""
        items = self.items(node, "objectives")
        names = [self.choice(item, get_args(Cost), "") for item in items]
        self.unique(items, names, "the objective", "")
        return cast(tuple[Cost, ...], tuple(names))

    def compare(self, node: Node) -> Compare:
        """What to repeat."""
        keys = self.section(node, _keys(Compare))
        if isinstance(node.value, dict) and len(set(_keys(Compare)) & set(node.value)) != 1:
            self.wrong(node, "give one of both: folds, such as 5, or seeds, such as [0, 1, 2]")
        seeds = self.items(keys["seeds"], "two or more seeds") if "seeds" in keys else []
        if len(seeds) == 1:
            self.wrong(keys["seeds"], "one seed repeats nothing: give two or more")
        self.unique(seeds, [str(seed.value) for seed in seeds], "the seed", "")
        return Compare(
            folds=self.optional_integer(keys.get("folds"), 2),
            seeds=tuple(self.integer(seed, 0) for seed in seeds),
        )

    def baseline(self, node: Node, entries: tuple[Entry, ...]) -> str:
        """The name of an entry."""
        name = self.text(node)
        known = [entry.name for entry in entries]
        if name and name not in known:
            self.wrong(node, f"no solver of the name {name!r}{nearest(name, known)}")
        return name

    def entries(self, node: Node) -> tuple[Entry, ...]:
        """Competitors with different names."""
        items = self.items(node, "solvers")
        entries = [self.entry(item) for item in items]
        names = [entry.name for entry in entries]
        self.unique(items, names, "the name", ": give each entry its own with the key 'name'")
        return tuple(entries)

    def entry(self, node: Node) -> Entry:
        """A competitor: its solver exists, and has these parameters."""
        keys = self.section(node, _keys(Entry), ("solver",))
        solver = self.text(keys["solver"]) if "solver" in keys else ""
        name = self.text(keys["name"]) if "name" in keys else solver
        params = self.mapping(keys.get("params"), "parameters")
        space = self.mapping(keys.get("space"), "parameters")
        cls = self.solver(keys["solver"]) if solver else None
        if cls is not None:
            self.params(cls, params)
            self.space(cls, space)
        return Entry(solver, name, _plain(params), _plain(space))

    def solver(self, node: Node) -> type[Solver] | None:
        """The class of a solver by its registered name."""
        try:
            return solver_class(str(node.value))
        except RankplugError as error:
            self.wrong(node, str(error))
            return None

    def params(self, cls: type[Solver], params: Mapping[str, Node]) -> None:
        """Check values of a solver's parameters."""
        known = cls._get_param_names()
        for key, child in params.items():
            if key not in known:
                self.wrong(child, f"{cls.name} has no parameter {key!r}{nearest(key, known)}")
            elif key in cls.parameters and not cls.parameters[key].accepts(child.plain()):
                self.wrong(child, f"must be {cls.parameters[key]}, not {child}")

    def space(self, cls: type[Solver], space: Mapping[str, Node]) -> None:
        """Check what is searched instead of a solver's own space; other values are held."""
        from rankplug.tuning import read_space

        self.params(cls, {key: child for key, child in space.items() if not _is_searched(child)})
        for key, child in space.items():
            if _is_searched(child):
                try:
                    read_space(cls(), {key: child.plain()})
                except RankplugError as error:
                    self.wrong(child, str(error))

    def data(self, node: Node) -> Dataset | Files:
        """An embedded data set, or files."""
        if node.value is None:
            node.value = {}
        keys = self.section(node, (*_keys(Dataset), *_keys(Files)))
        of_files = [key for key in keys if key in _keys(Files)]
        if "dataset" in keys or "params" in keys:
            for key in of_files:
                self.wrong(keys[key], f"{key!r} is for data from files, not for an embedded set")
            return self.dataset(node, keys)
        return self.files(node, keys)

    def dataset(self, node: Node, keys: Mapping[str, Node]) -> Dataset:
        """An embedded data set and its parameters."""
        if "dataset" not in keys:
            self.wrong(node, "the key 'dataset' is missing")
            return Dataset("")
        name = self.text(keys["dataset"])
        params = self.mapping(keys.get("params"), "parameters")
        if name not in datasets.names():
            self.wrong(keys["dataset"], str(UnknownNameError("data set", name, datasets.names())))
            return Dataset(name)
        defaults = datasets.parameters(name)
        for key, child in params.items():
            if key not in defaults:
                self.wrong(child, f"{name} has no parameter {key!r}{nearest(key, defaults)}")
            elif not _alike(child.value, defaults[key]):
                self.wrong(child, f"must be like its default {defaults[key]!r}, not {child}")
        return Dataset(name, _plain(params))

    def files(self, node: Node, keys: Mapping[str, Node]) -> Files:
        """Files that exist, and the roles of their columns."""
        for key in ("train", "test"):
            if isinstance(node.value, dict) and key not in keys:
                remedy = f"add it, or --set data.{key}=FILE, or name a 'dataset'"
                self.wrong(node, f"the key {key!r} is missing: {remedy}")
        features = self.items(keys["features"], "column names") if "features" in keys else []
        return Files(
            train=self.path(keys.get("train")) or Path(),
            test=self.path(keys.get("test")) or Path(),
            valid=self.path(keys.get("valid")),
            format=self.choice(keys.get("format"), FORMATS, "") or None,
            label=self.optional_text(keys.get("label")),
            qid=self.optional_text(keys.get("qid")),
            weight=self.optional_text(keys.get("weight")),
            features=tuple(self.text(item) for item in features) or None,
        )

    def path(self, node: Node | None) -> Path | None:
        """A file that exists, or None if there is no node."""
        if node is None:
            return None
        path = node.folder / os.path.expanduser(self.text(node))
        if not os.path.exists(path):  # unlike Path's, false for a name that no file can have
            self.wrong(node, f"no such file: {path}")
        return path


def _keys(cls: type[Any]) -> tuple[str, ...]:
    return tuple(item.name for item in fields(cls))


def _plain(nodes: Mapping[str, Node]) -> dict[str, Any]:
    return {key: node.plain() for key, node in nodes.items()}


def _is_searched(node: Node) -> bool:
    return isinstance(node.value, dict | list)


def _alike(value: Any, default: Any) -> bool:
    """Whether the types agree; a whole number may stand for a real one."""
    return type(value) is type(default) or (type(default) is float and type(value) is int)
