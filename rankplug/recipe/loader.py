"""Reading of recipes: every problem is found, and named with file, line and key.

The steps of `load_recipe`: the text becomes nodes that know where they were written; assignments
of ``--set`` put nodes in their place; the plain values go to the schema; and what it finds, beside
`_conflicts` of several keys, is said of the nodes.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, get_args

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from rankplug.exceptions import RankplugError, RecipeError, nearest
from rankplug.metrics import parse_metric
from rankplug.recipe.schema import RECIPE, SHORT, Recipe, Split, keys
from rankplug.recipe.strict_yaml import LONGEST, Node, parse_override, parse_text
from rankplug.recipe.values import CHOSEN, LISTED, MOST_ITEMS, KeyPath, is_line, name_from
from rankplug.tuning import Cost
from rankplug_recipes import packaged_recipes

_MOST_PROBLEMS = 20  # that are listed
_LONGEST_PROBLEM = 2000  # characters, more than the longest list of names has
_LONGEST_KEY = 50  # parts of a key of --set: an unknown one among them is told all the same
_FIRST = ("unexpected_keyword_argument", "missing", "dataclass_type", "not")
"""Types of errors: keys are named first, then values of a wrong type, then all other values."""


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
    return parse_recipe(_read(path), path.stem, str(path), path.parent.absolute(), overrides)


def parse_recipe(
    text: str, name: str, place: str, folder: Path, overrides: Sequence[str] = ()
) -> Recipe:
    """Check the text of a recipe.

    Parameters
    ----------
    text : str
    name : str
        The recipe's, if it has none of its own.
    place : str
        What messages call the text.
    folder : Path
        What paths in it are relative to.
    overrides : sequence of str
        As for `load_recipe`, and raises as it.
    """
    root, problems = parse_text(text, place, folder)
    if root.value is None:
        raise RecipeError(f"{place}:1: the recipe is empty; see python -m pydoc rankplug.recipe")
    for assignment in overrides:
        problems += _override(root, assignment)
    if isinstance(root.value, dict):
        root.value.setdefault("name", Node(name_from(name), place, root.folder))
    given, recipe, n_more = root.plain(), None, 0
    try:
        recipe = RECIPE.validate_python(given, context=_folders(root))
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False)
        found.sort(key=lambda one: (*_FIRST, one["type"]).index(one["type"]))
        n_more = len(found[_MOST_PROBLEMS:])
        problems += [_message(root, one) for one in found[:_MOST_PROBLEMS]]
    if isinstance(given, dict):
        problems += [f"{_node(root, at).place}: {what}" for at, what in _conflicts(given)]
    if recipe is not None and not problems:
        return recipe
    raise _all_problems(place, problems, len(problems) + n_more)


def _all_problems(place: str, problems: Sequence[str], n_all: int) -> RecipeError:
    """The error that lists problems: as many and as much of each as can be read."""
    half = _LONGEST_PROBLEM // 2
    shown = [
        one if len(one) <= 2 * half else f"{one[:half]} ... {one[-half:]}"
        for one in problems[:_MOST_PROBLEMS]
    ]
    if n_all == 1:
        return RecipeError(shown[0])
    more = f"\n  and {n_all - len(shown):,} more" if n_all > len(shown) else ""
    listed = "".join(f"\n  {problem}" for problem in shown)
    return RecipeError(f"{n_all:,} problems in the recipe {place}:{listed}{more}")


def _find(source: str | Path) -> Path:
    path = Path(source)
    if os.path.exists(path) and not path.is_dir():
        return path
    packaged: dict[str, Path] = packaged_recipes()
    if str(source) in packaged:
        return packaged[str(source)]
    raise RecipeError(
        f"no file {str(source)!r}, and no recipe of that name comes with rankplug"
        f"{nearest(path.stem, packaged)}"
    )


def _read(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            content = stream.read(LONGEST + 1)
    except OSError as error:
        raise RecipeError(f"{path}: cannot be read: {error.strerror}") from None
    if len(content) > LONGEST:
        raise RecipeError(f"{path}: more than {LONGEST:,} bytes, too long for a recipe")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        what = f"not a text file in UTF-8 (byte {error.start})"
        raise RecipeError(f"{path}:{line}: {what}") from None


# Overrides


def _override(root: Node, assignment: str) -> list[str]:
    """Put the value of ``key=value`` into the tree; return what is wrong with it."""
    key, equals, text = assignment.partition("=")
    if not equals or not all(key.split(".")):
        return [f"--set {assignment}: write --set key=value, as in --set solvers.0.params.C=1"]
    try:
        value, problems = parse_override(text, key, Path.cwd())
        here = root
        *parents, last = key.split(".")[:_LONGEST_KEY]
        if parents and isinstance(root.value, dict):
            _lengthen(root.value, parents[0])
        for part in parents:
            here = _child(here, part, Node({}, value.place, value.folder))
        _child(here, last, value, replace=True)
    except RecipeError as error:
        return [str(error)]
    return problems


def _lengthen(recipe: dict[str, Node], key: str) -> None:
    """Texts that are short for a section become sections, in which keys can be set."""
    if key not in SHORT or key not in recipe:
        return
    items = recipe[key].value
    for node in items if isinstance(items, list) else [recipe[key]]:
        if isinstance(node.value, str):
            node.value = {SHORT[key]: Node(node.value, node.place, node.folder)}


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
    number = _find_item(parent.value, part, new.place)
    if replace:
        parent.value[number] = new
    return parent.value[number]


def _find_item(items: list[Node], part: str, where: str) -> int:
    """The place in a list of the item of that number or name."""
    numbers = [str(number) for number in range(len(items))]
    if part in numbers:
        return int(part)
    names = [_name_of(item.plain()) for item in items]
    found = [number for number, name in enumerate(names) if name == part]
    if len(found) > 1:
        raise RecipeError(f"{where}: {part!r} stands for entries {found}: use one of these numbers")
    if not found:
        raise RecipeError(f"{where}: no entry {part!r}{nearest(part, {*numbers, *names} - {''})}")
    return found[0]


def _name_of(entry: Any) -> str:
    """The name of an entry of ``solvers``; nothing if it has none that could be one."""
    name = entry.get("name", entry.get("solver")) if isinstance(entry, dict) else None
    return str(name) if is_line(name) else ""


# Messages


def _node(root: Node, path: KeyPath) -> Node:
    """The node of that key path, or the last that there is on the way."""
    node = root
    for part in path:
        if isinstance(node.value, dict) and part in node.value:
            node = node.value[str(part)]
        elif isinstance(node.value, list):
            node = node.value[int(part)]
    return node


def _folders(root: Node) -> dict[str, Path]:
    """The folder that the path of each key of the data is relative to."""
    data = root.value.get("data") if isinstance(root.value, dict) else None
    if data is None or not isinstance(data.value, dict):
        return {} if data is None else {SHORT["data"]: data.folder}
    return {key: node.folder for key, node in data.value.items()}


_NOT_FOR = {
    "embedded": "is for data from files, not for an embedded set",
    "file": "is for data that are split already: name either one 'file', or 'train' and 'test'",
    "files": "is for one 'file': 'train' and 'test' are split already",
}


def _message(root: Node, error: ErrorDetails) -> str:
    """The message of an error that the schema found, with its place."""
    path = tuple(part for part in error["loc"] if part not in (CHOSEN, LISTED))
    kind = str(path[1]) if path[:1] == ("data",) and len(path) > 1 else ""
    if kind:
        path = path[:1] + path[2:]
    if error["type"] == "missing":
        section = _node(root, path[:-1])
        remedy = f": add it, or --set data.{path[-1]}=FILE, or name a 'dataset'"
        of_files = path[-1] in {"train", "test"}
        return f"{section.place}: the key {path[-1]!r} is missing{remedy if of_files else ''}"
    node = _node(root, path)
    if error["type"] == "unexpected_keyword_argument":
        known = keys(path[:-1])
        what = f"unknown key {path[-1]!r}{nearest(str(path[-1]), known)}"
        if path[-1] in known:
            what = f"{path[-1]!r} {_NOT_FOR[kind]}"
    elif error["type"] == "dataclass_type":
        what = f"must be a mapping with keys of {', '.join(keys(path))}, not {node}"
    elif error["type"] == "not":
        what = f"{error['msg']}, not {node}"
        if error["ctx"]["words"] == "a line of text" and isinstance(node.value, int | float):
            what += ": put it in quotes"
    elif error["type"] == "literal_error":
        choices = re.findall(r"'(.*?)'", error["ctx"]["expected"])
        if isinstance(node.value, str):
            what = f"unknown choice {node.value!r}{nearest(node.value, choices)}"
        else:
            what = f"must be one of {', '.join(choices)}, not {node}"
    else:
        what = error["msg"]
    return f"{node.place}: {what}"


def _conflicts(recipe: Mapping[str, Any]) -> Iterator[tuple[KeyPath, str]]:
    """Conflicts between keys, and repetitions, whatever else is wrong with each key."""
    yield from _find_repeated(
        ("metrics",), map(_canonical, _items(recipe, "metrics")), "the metric"
    )
    tune, compare = recipe.get("tune"), recipe.get("compare")
    if isinstance(tune, dict):
        if tune.keys().isdisjoint({"n_trials", "timeout"}):
            yield ("tune",), "no budget: give each solver n_trials, timeout (seconds), or both"
        costs = [cost if cost in get_args(Cost) else "" for cost in _items(tune, "costs")]
        yield from _find_repeated(("tune", "costs"), costs, "the objective")
    yield from _find_empty_parts(recipe.get("data"))
    if isinstance(compare, dict):
        if ("folds" in compare) == ("seeds" in compare):
            yield ("compare",), "give one of both: folds, such as 5, or seeds, such as [0, 1, 2]"
        seeds = _items(compare, "seeds")
        if len(seeds) == 1:
            yield ("compare", "seeds"), "one seed repeats nothing: give two or more"
        yield from _find_repeated(("compare", "seeds"), map(str, seeds), "the seed")
    entries = _items(recipe, "solvers")
    if "clicks" not in recipe:
        for number, entry in enumerate(entries):
            if isinstance(entry, dict) and "learn_from" in entry:
                what = "the recipe has no clicks to learn from: add the section 'clicks'"
                yield ("solvers", number, "learn_from"), what
    names = [_name_of({"solver": one} if isinstance(one, str) else one) for one in entries]
    remedy = ": give each entry its own with the key 'name'"
    yield from _find_repeated(("solvers",), names, "the name", remedy)
    baseline = recipe.get("baseline", "")
    if is_line(baseline) and baseline not in names:
        yield ("baseline",), f"no solver of the name {baseline!r}{nearest(baseline, names)}"


def _find_empty_parts(data: Any) -> Iterator[tuple[KeyPath, str]]:
    """Parts of one file to which its split gives nothing."""
    split = data.get("split") if isinstance(data, dict) else None
    if not isinstance(split, dict):
        return
    valid, test = (split.get(key, getattr(Split, key)) for key in ("valid", "test"))
    if test == 0:
        yield ("data", "split", "test"), "nothing is left for the test"
    shares = [share for share in (valid, test) if isinstance(share, int | float) and share < 1]
    if len(shares) == 2 and sum(shares) >= 1:
        yield ("data", "split"), "valid and test leave nothing for training"


def _items(section: Mapping[str, Any], key: str) -> list[Any]:
    """The items of a list; none of what is no list, or too long, which the schema refuses."""
    items = section.get(key)
    return items if isinstance(items, list) and len(items) <= MOST_ITEMS else []


def _find_repeated(
    path: KeyPath, names: Iterable[str], what: str, remedy: str = ""
) -> Iterator[tuple[KeyPath, str]]:
    """The places in a list where a name occurs again."""
    names = list(names)
    counts, seen = Counter(names), set[str]()
    for number, name in enumerate(names):
        if name and name in seen:
            yield (*path, number), f"{what} {name!r} occurs {counts[name]} times{remedy}"
        seen.add(name)


def _canonical(metric: Any) -> str:
    """The canonical name of a metric; nothing if there is no such metric."""
    with suppress(RankplugError):
        return str(parse_metric(metric)) if is_line(metric) else ""
    return ""
