"""``--set key=value``: values put into a recipe from outside."""

from __future__ import annotations

from pathlib import Path

from rankplug.exceptions import RecipeError, nearest
from rankplug.recipe.strict_yaml import Node, parse_override

__all__ = ["override"]


def override(root: Node, assignment: str) -> list[str]:
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
