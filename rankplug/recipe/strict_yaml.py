"""Strict YAML: plain values that know where they were written.

Plain scalars follow YAML 1.2: ``1e-3`` is a number, ``no``, ``1:30`` and ``2024-01-01`` are
text. A key that occurs twice, a key that is not text, a tag, an anchor or an alias is an error, and
so are texts that are too long, too deep or of too many parts to be recipes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import yaml

from rankplug.exceptions import RecipeError

Scalar: TypeAlias = str | int | float | bool | None

LONGEST = 1_000_000
"""Characters of a text: thousands of columns, and about two seconds to parse."""
_DEEPEST = 50  # sections within each other; recipes have five
_MOST_NODES = 100_000  # keys and values; those of recipes with thousands of columns are fewer
_TAG = "tag:yaml.org,2002:"
_PLAIN = {
    "null": (re.compile(r"(?:~|null|Null|NULL|)$"), "~nN\0"),
    "bool": (re.compile(r"(?:true|True|TRUE|false|False|FALSE)$"), "tTfF"),
    "int": (re.compile(r"[-+]?[0-9]{1,300}$"), "-+0123456789"),
    "float": (
        re.compile(
            r"[-+]?(?:\.[0-9]+|[0-9]+\.[0-9]*)(?:[eE][-+]?[0-9]+)?$|[-+]?[0-9]+[eE][-+]?[0-9]+$"
        ),
        "-+.0123456789",
    ),
}
_CONVERT: dict[str, Callable[[str], Scalar]] = {
    "null": lambda _: None,
    "bool": lambda text: text.lower() == "true",
    "int": int,
    "float": float,
    "str": str,
}


@dataclass
class Node:
    """A value of a YAML text.

    Attributes
    ----------
    value : scalar, list of Node or dict of Node
    place : str
        Where it stands, for messages: file, line and key, or the option that gave it.
    folder : Path
        What a relative path in it is relative to.
    """

    value: Scalar | list[Node] | dict[str, Node]
    place: str
    folder: Path

    def plain(self) -> Any:
        """The value without places: scalars, lists and dicts."""
        if isinstance(self.value, dict):
            return {key: node.plain() for key, node in self.value.items()}
        if isinstance(self.value, list):
            return [node.plain() for node in self.value]
        return self.value

    def __str__(self) -> str:
        if isinstance(self.value, dict):
            return "a mapping"
        if isinstance(self.value, list):
            return "a list"
        if self.value is None:
            return "nothing (null)"
        kind = {str: "the text", bool: "the truth value"}.get(type(self.value), "the number")
        return f"{kind} {self.value!r}"


def parse_text(text: str, name: str, folder: Path) -> tuple[Node, list[str]]:
    """Parse the text of a file that messages call `name`, with paths relative to `folder`.

    Returns the root, null if the text is empty, and the problems: keys that occur twice or are
    not text, and tags. Raises `RecipeError` if the text is not YAML, or too much of it.
    """

    def place(line: int, key: str) -> str:
        return f"{name}:{line}: {key}" if key else f"{name}:{line}"

    try:
        return _parse(text, "", folder, place)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{name}:{mark.line + 1}:{mark.column + 1}" if mark else name
        context = f" ({error.context})" if error.context else ""
        raise RecipeError(f"{where}: not valid YAML: {error.problem}{context}") from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise RecipeError(f"{name}:{line}: not valid YAML: {_first_line(error)}") from None


def parse_override(text: str, key: str, folder: Path) -> tuple[Node, list[str]]:
    """Parse the value of ``--set key=text``; returns and raises as `parse_text`."""
    try:
        return _parse(text, key, folder, lambda _, inner: f"--set {inner}")
    except yaml.YAMLError as error:
        problem = getattr(error, "problem", None) or _first_line(error)
        shown = text if len(text) <= 100 else text[:100] + "..."
        raise RecipeError(f"--set {key}: {shown!r} is not valid YAML: {problem}") from None


def dump(value: Any) -> str:
    """Plain values as YAML that `parse_text` and readers of YAML 1.1 read alike."""
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)


def scalar(text: str) -> str:
    """A text as YAML that stands in a line, in quotes where it needs them."""
    style = None if text.isprintable() else '"'
    line: str = yaml.dump(
        [text], Dumper=_Dumper, allow_unicode=True, width=math.inf, default_style=style
    )
    return line.removeprefix("- ").rstrip("\n")


class _Loader(yaml.SafeLoader):
    yaml_implicit_resolvers: dict[str, Any] = {}

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = self._n_nodes = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        event = self.peek_event()  # type: ignore[no-untyped-call]
        self._n_nodes += 1
        wrong = None
        if getattr(event, "anchor", None) is not None:
            wrong = "anchors and aliases (& and *) are not allowed"
        elif self._depth == _DEEPEST:
            wrong = "nested too deeply"
        elif self._n_nodes > _MOST_NODES:
            wrong = f"more than {_MOST_NODES:,} values"
        if wrong is not None:
            raise yaml.composer.ComposerError(None, None, wrong, event.start_mark)
        self._depth += 1
        node = super().compose_node(parent, index)
        self._depth -= 1
        if node is not None:
            node.written_tag = event.tag  # type: ignore[attr-defined]
        return node

    def single_node(self) -> yaml.Node | None:
        """The root; raises `yaml.YAMLError` also for an escape that is no character."""
        try:
            return self.get_single_node()
        except (ValueError, OverflowError):
            wrong = "an escape stands for no character: \\U0010ffff is the last"
            raise yaml.MarkedYAMLError(problem=wrong, problem_mark=self.get_mark()) from None


class _Dumper(yaml.SafeDumper):
    """Quotes also what only `_Loader` would not take as text."""


for _kind, (_pattern, _first) in _PLAIN.items():
    _characters = ["" if character == "\0" else character for character in _first]
    _Loader.add_implicit_resolver(_TAG + _kind, _pattern, _characters)
    _Dumper.add_implicit_resolver(_TAG + _kind, _pattern, _characters)


def _parse(
    text: str, key: str, folder: Path, place: Callable[[int, str], str]
) -> tuple[Node, list[str]]:
    if len(text) > LONGEST:
        raise yaml.MarkedYAMLError(
            problem=f"more than {LONGEST:,} characters, too long for a recipe"
        )
    root = _Loader(text).single_node()
    if root is None:
        return Node(None, place(1, key), folder), []
    converter = _Converter(folder, place, [])
    return converter.node(root, key, root.start_mark.line + 1), converter.problems


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0]


@dataclass
class _Converter:
    """Turns PyYAML's nodes into ours."""

    folder: Path
    place: Callable[[int, str], str]
    problems: list[str]

    def node(self, node: yaml.Node, key: str, line: int) -> Node:
        place = self.place(line, key)
        self._refuse_tag(node, place)
        if isinstance(node, yaml.MappingNode):
            return Node(dict(self._items(node, key)), place, self.folder)
        if isinstance(node, yaml.SequenceNode):
            items = [
                self.node(item, f"{key}.{index}".lstrip("."), item.start_mark.line + 1)
                for index, item in enumerate(node.value)
            ]
            return Node(items, place, self.folder)
        return Node(self._scalar(node, place), place, self.folder)

    def _items(self, node: yaml.MappingNode, parent: str) -> Iterator[tuple[str, Node]]:
        lines: dict[str, int] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            self._refuse_tag(key_node, self.place(line, parent))
            if key_node.tag != _TAG + "str":
                self.problems.append(f"{self.place(line, parent)}: a key must be text: quote it")
                continue
            name = key_node.value
            key = f"{parent}.{name}".lstrip(".")
            if name in lines:
                self.problems.append(
                    f"{self.place(line, key)}: the key occurs twice (first in line {lines[name]})"
                )
                continue
            lines[name] = line
            yield name, self.node(value_node, key, line)

    def _refuse_tag(self, node: yaml.Node, place: str) -> None:
        tag = getattr(node, "written_tag", None)
        if tag is not None:
            self.problems.append(f"{place}: the tag {tag.replace(_TAG, '!!')} is not allowed")

    def _scalar(self, node: yaml.Node, place: str) -> Scalar:
        if getattr(node, "written_tag", None) is not None:
            return str(node.value)
        value = _CONVERT.get(node.tag.removeprefix(_TAG), str)(node.value)
        if isinstance(value, float) and math.isinf(value):
            self.problems.append(f"{place}: the number {node.value} is too large")
        return value
