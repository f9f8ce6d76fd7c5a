"""Strict YAML: plain values that know where they were written.

Plain scalars follow YAML 1.2: ``1e-3`` is a number, ``no``, ``1:30`` and ``2024-01-01`` are
text. A key that occurs twice, a key that is not text, a tag, an anchor or an alias is an error.
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
    not text, tags that are not plain YAML. Raises `RecipeError` if the text is not YAML.
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
    except RecursionError as error:
        raise RecipeError(f"{name}: not valid YAML: {_first_line(error)}") from None


def parse_override(text: str, key: str, folder: Path) -> tuple[Node, list[str]]:
    """Parse the value of ``--set key=text``; returns and raises as `parse_text`."""
    try:
        return _parse(text, key, folder, lambda _, inner: f"--set {inner}")
    except (yaml.YAMLError, RecursionError) as error:
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

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        event = self.peek_event()  # type: ignore[no-untyped-call]
        if getattr(event, "anchor", None) is not None:
            raise yaml.composer.ComposerError(
                None, None, "anchors and aliases (& and *) are not allowed", event.start_mark
            )
        return super().compose_node(parent, index)


class _Dumper(yaml.SafeDumper):
    """Quotes also what only `_Loader` would not take as text."""


for _kind, (_pattern, _first) in _PLAIN.items():
    _characters = ["" if character == "\0" else character for character in _first]
    _Loader.add_implicit_resolver(_TAG + _kind, _pattern, _characters)
    _Dumper.add_implicit_resolver(_TAG + _kind, _pattern, _characters)


def _parse(
    text: str, key: str, folder: Path, place: Callable[[int, str], str]
) -> tuple[Node, list[str]]:
    root = _Loader(text).get_single_node()
    if root is None:
        return Node(None, place(1, key), folder), []
    converter = _Converter(folder, place, [])
    return converter.node(root, key, root.start_mark.line + 1), converter.problems


def _first_line(error: Exception) -> str:
    return "nested too deeply" if isinstance(error, RecursionError) else str(error).splitlines()[0]


@dataclass
class _Converter:
    """Turns PyYAML's nodes into ours."""

    folder: Path
    place: Callable[[int, str], str]
    problems: list[str]

    def node(self, node: yaml.Node, key: str, line: int) -> Node:
        place = self.place(line, key)
        if node.tag.removeprefix(_TAG) not in {"map", "seq", *_CONVERT}:
            self.problems.append(f"{place}: the tag {node.tag.replace(_TAG, '!!')} is not allowed")
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

    def _scalar(self, node: yaml.Node, place: str) -> Scalar:
        kind = node.tag.removeprefix(_TAG)
        if not _agrees(node.value, kind):
            self.problems.append(f"{place}: {node.value!r} does not agree with its tag")
            return None
        value = _CONVERT.get(kind, str)(node.value)
        if isinstance(value, float) and math.isinf(value):
            self.problems.append(f"{place}: the number {node.value} is too large")
        return value


def _agrees(text: str, kind: str) -> bool:
    """Whether a plain scalar of this text could be of this kind, which a tag may claim."""
    kinds = ("int", "float") if kind == "float" else (kind,)
    return kind not in _PLAIN or any(_PLAIN[name][0].fullmatch(text) for name in kinds)
