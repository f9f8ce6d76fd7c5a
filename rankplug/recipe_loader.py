"""Reading recipes: every problem is found, and named with file, line and key."""

from __future__ import annotations

import importlib
import os
import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, cast, get_args

from rankplug import datasets
from rankplug.exceptions import RankplugError, RecipeError, UnknownNameError, nearest
from rankplug.io import FORMATS
from rankplug.metrics import parse_metric
from rankplug.recipe import Dataset, Entry, Files, Recipe, Scale
from rankplug.registry import solver_class
from rankplug.strict_yaml import Node, parse_override, parse_text

__all__ = ["load_recipe", "packaged_recipes"]


def load_recipe(source: str | Path, overrides: Sequence[str] = ()) -> Recipe:
    """Read and check a recipe.

    Parameters
    ----------
    source : str or Path
        A file, or else the name of a recipe that comes with rankplug (`packaged_recipes`).
    overrides : sequence of str
        Assignments ``key=value`` with a dotted key and a YAML value, such as
        ``data.train=train.txt``, ``solvers.tree-tron.params.C=0.1`` (by name) or
        ``solvers.0.params.C=1`` (by place).

    Raises
    ------
    RecipeError
        If there is no such recipe, or anything is wrong in it or in an override; all problems
        are listed, except that a text that is no YAML at all has only one.
    """
    path = _find(source)
    root, problems = parse_text(_read(path), str(path), path.parent.absolute())
    if root.value is None:
        raise RecipeError(f"{path}: the recipe is empty; see python -m pydoc rankplug.recipe")
    for assignment in overrides:
        problems += _override(root, assignment)
    checker = _Checker(problems)
    recipe = checker.recipe(root, re.sub(r"[^\w .-]", "-", path.stem).lstrip(" .-") or "recipe")
    if len(problems) > 1:
        listed = "".join(f"\n  {problem}" for problem in problems)
        raise RecipeError(f"{len(problems)} problems in the recipe {path}:{listed}")
    if problems:
        raise RecipeError(problems[0])
    return recipe


def packaged_recipes() -> dict[str, Path]:
    """The recipes that come with rankplug, by name."""
    folder = Path(importlib.import_module("rankplug_recipes").__path__[0])
    return {file.stem: file for file in sorted(folder.glob("*.yaml"))}


def _find(source: str | Path) -> Path:
    path = Path(source)
    if path.exists() and not path.is_dir():
        return path
    packaged = packaged_recipes()
    if str(source) in packaged:
        return packaged[str(source)]
    raise RecipeError(
        f"no file {str(source)!r}, and no recipe of that name comes with rankplug"
        f"{nearest(path.stem, packaged)}"
    )


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise RecipeError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise RecipeError(f"{path}: not a text file in UTF-8 (byte {error.start})") from None


def _override(root: Node, assignment: str) -> list[str]:
    """Put the value of ``key=value`` into the tree; return what is wrong with it."""
    key, equals, text = assignment.partition("=")
    if not equals or not all(key.split(".")):
        return [f"--set {assignment}: write --set key=value, as in --set solvers.0.params.C=1"]
    try:
        value, problems = parse_override(text, key, Path.cwd())
        here = root
        *parents, last = key.split(".")
        for part in parents:
            here = _child(here, part, Node({}, value.place, value.folder))
        _child(here, last, value, replace=True)
    except RecipeError as error:
        return [str(error)]
    return problems


def _child(parent: Node, part: str, new: Node, *, replace: bool = False) -> Node:
    """The child of a mapping or a list: the one there, or `new` in its place."""
    if isinstance(parent.value, dict):
        if replace or part not in parent.value:
            parent.value[part] = new
        elif parent.value[part].value is None:
            parent.value[part].value = {}
        return parent.value[part]
    if not isinstance(parent.value, list):
        raise RecipeError(f"{new.place}: there is no {part!r} in {parent}")
    place = _place(parent.value, part, new.place)
    if replace:
        parent.value[place] = new
    return parent.value[place]


def _place(items: list[Node], part: str, where: str) -> int:
    """Where in a list the item of that number or name is."""
    names = [_entry_name(item) for item in items]
    numbers = [str(number) for number in range(len(items))]
    if part in numbers:
        return int(part)
    found = [number for number, name in enumerate(names) if name == part]
    if len(found) > 1:
        raise RecipeError(f"{where}: {part!r} stands for entries {found}: use one of these numbers")
    if not found:
        raise RecipeError(f"{where}: no entry {part!r}{nearest(part, {*numbers, *names} - {''})}")
    return found[0]


def _entry_name(item: Node) -> str:
    if not isinstance(item.value, dict):
        return ""
    named = item.value.get("name") or item.value.get("solver")
    return named.value if named is not None and isinstance(named.value, str) else ""


class _Checker:
    """Turns the tree into a `Recipe`; what is wrong goes to `problems`.

    Where something is wrong the value returned is a stand-in: the caller must not use the
    recipe if there are problems.
    """

    def __init__(self, problems: list[str]) -> None:
        self.problems = problems

    def wrong(self, node: Node, message: str) -> None:
        self.problems.append(f"{node.place}: {message}")

    def recipe(self, root: Node, default_name: str) -> Recipe:
        keys = self.section(root, _keys(Recipe), ("data", "metrics", "solvers"))
        entries = self.entries(keys["solvers"]) if "solvers" in keys else ()
        return Recipe(
            name=self.name(keys["name"]) if "name" in keys else default_name,
            data=self.data(keys["data"]) if "data" in keys else Dataset(""),
            metrics=self.metrics(keys["metrics"]) if "metrics" in keys else (),
            solvers=entries,
            scale=cast(Scale, self.choice(keys.get("scale"), get_args(Scale), "none")),
            seed=self.seed(keys["seed"]) if "seed" in keys else 0,
            baseline=self.baseline(keys["baseline"], entries) if "baseline" in keys else None,
        )

    def section(
        self, node: Node, known: Collection[str], required: Collection[str] = ()
    ) -> dict[str, Node]:
        """The known keys of a mapping."""
        if not isinstance(node.value, dict):
            self.wrong(node, f"must be a mapping with keys of {', '.join(known)}, not {node}")
            return {}
        for key, child in node.value.items():
            if key not in known:
                self.wrong(child, f"unknown key {key!r}{nearest(key, known)}")
        for key in required:
            if key not in node.value:
                self.wrong(node, f"the key {key!r} is missing")
        return {key: child for key, child in node.value.items() if key in known}

    def text(self, node: Node) -> str:
        if isinstance(node.value, str) and node.value.strip() and node.value.isprintable():
            return node.value
        quote = ": put it in quotes" if isinstance(node.value, int | float) else ""
        self.wrong(node, f"must be a line of text, not {node}{quote}")
        return ""

    def items(self, node: Node, what: str) -> list[Node]:
        if isinstance(node.value, list) and node.value:
            return node.value
        self.wrong(node, f"must be a list of {what}, not {'empty' if node.value == [] else node}")
        return []

    def choice(self, node: Node | None, choices: Sequence[str], default: str) -> str:
        if node is None:
            return default
        if node.value in choices:
            return str(node.value)
        if isinstance(node.value, str):
            self.wrong(node, f"unknown choice {node.value!r}{nearest(node.value, choices)}")
        else:
            self.wrong(node, f"must be one of {', '.join(choices)}, not {node}")
        return default

    def name(self, node: Node) -> str:
        name = self.text(node)
        if name and not re.fullmatch(r"\w[\w .-]*", name):
            self.wrong(node, "must be of letters, digits, '_', '-', '.' and blanks")
        return name

    def seed(self, node: Node) -> int:
        if type(node.value) is int and node.value >= 0:
            return node.value
        self.wrong(node, f"must be an integer >= 0, not {node}")
        return 0

    def metrics(self, node: Node) -> tuple[str, ...]:
        items = self.items(node, "metric names")
        names = [self.metric(item) for item in items]
        self.unique(items, names, "the metric")
        return tuple(names)

    def metric(self, node: Node) -> str:
        name = self.text(node)
        try:
            return str(parse_metric(name)) if name else ""
        except RankplugError as error:
            self.wrong(node, str(error))
            return ""

    def unique(self, items: list[Node], names: list[str], what: str, remedy: str = "") -> None:
        counts = Counter(names)
        for position, (item, name) in enumerate(zip(items, names, strict=True)):
            if name and counts[name] > 1 and name in names[:position]:
                self.wrong(item, f"{what} {name!r} occurs {counts[name]} times{remedy}")

    def entries(self, node: Node) -> tuple[Entry, ...]:
        items = self.items(node, "solvers")
        entries = [self.entry(item) for item in items]
        names = [entry.name for entry in entries]
        self.unique(items, names, "the name", ": give each entry its own with the key 'name'")
        return tuple(entries)

    def entry(self, node: Node) -> Entry:
        keys = self.section(node, _keys(Entry), ("solver",))
        solver = self.text(keys["solver"]) if "solver" in keys else ""
        name = self.text(keys["name"]) if "name" in keys else solver
        params = self.params(keys["params"]) if "params" in keys else {}
        if solver:
            self.solver_params(keys["solver"], solver, params)
        return Entry(solver, name, {key: child.plain() for key, child in params.items()})

    def params(self, node: Node) -> dict[str, Node]:
        if isinstance(node.value, dict):
            return node.value
        self.wrong(node, f"must be a mapping of parameters, not {node}")
        return {}

    def solver_params(self, node: Node, solver: str, params: dict[str, Node]) -> None:
        try:
            cls = solver_class(solver)
        except RankplugError as error:
            self.wrong(node, str(error))
            return
        known = cls._get_param_names()
        for key, child in params.items():
            if key not in known:
                self.wrong(child, f"{solver} has no parameter {key!r}{nearest(key, known)}")
            elif key in cls.parameters and not cls.parameters[key].accepts(child.plain()):
                self.wrong(child, f"must be {cls.parameters[key]}, not {child}")

    def baseline(self, node: Node, entries: tuple[Entry, ...]) -> str:
        name = self.text(node)
        known = [entry.name for entry in entries]
        if name and name not in known:
            self.wrong(node, f"no solver of the name {name!r}{nearest(name, known)}")
        return name

    def data(self, node: Node) -> Dataset | Files:
        if node.value is None:
            node.value = {}
        keys = self.section(node, (*_keys(Dataset), *_keys(Files)))
        of_files = [key for key in keys if key in _keys(Files)]
        if "dataset" in keys or "params" in keys:
            for key in of_files:
                self.wrong(keys[key], f"{key!r} is for data from files, not for an embedded set")
            return self.dataset(node, keys)
        return self.files(node, keys)

    def dataset(self, node: Node, keys: dict[str, Node]) -> Dataset:
        if "dataset" not in keys:
            self.wrong(node, "the key 'dataset' is missing")
            return Dataset("")
        name = self.text(keys["dataset"])
        params = self.params(keys["params"]) if "params" in keys else {}
        if name not in datasets.names():
            self.wrong(keys["dataset"], str(UnknownNameError("data set", name, datasets.names())))
            return Dataset(name)
        defaults = datasets.parameters(name)
        for key, child in params.items():
            if key not in defaults:
                self.wrong(child, f"{name} has no parameter {key!r}{nearest(key, defaults)}")
            elif not _alike(child.value, defaults[key]):
                self.wrong(child, f"must be like its default {defaults[key]!r}, not {child}")
        return Dataset(name, {key: child.plain() for key, child in params.items()})

    def files(self, node: Node, keys: dict[str, Node]) -> Files:
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
        if node is None:
            return None
        path = node.folder / os.path.expanduser(self.text(node))
        if not path.exists():
            self.wrong(node, f"no such file: {path}")
        return path

    def optional_text(self, node: Node | None) -> str | None:
        return None if node is None else self.text(node)


def _keys(cls: type[Any]) -> tuple[str, ...]:
    return tuple(item.name for item in fields(cls))


def _alike(value: Any, default: Any) -> bool:
    """Whether the types agree; a whole number may stand for a real one."""
    return type(value) is type(default) or (type(default) is float and type(value) is int)
