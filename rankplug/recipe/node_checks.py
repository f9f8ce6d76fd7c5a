"""Checks of values in a YAML text: what is wrong is collected, with its place."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Sequence

from rankplug.exceptions import nearest
from rankplug.recipe.strict_yaml import Node

__all__ = ["NodeChecker"]


class NodeChecker:
    """Turns nodes into values; what is wrong goes to `problems`.

    Where something is wrong the value returned is a stand-in, which must not be used.
    """

    def __init__(self, problems: list[str]) -> None:
        self.problems = problems

    def wrong(self, node: Node, message: str) -> None:
        """Add a problem."""
        self.problems.append(f"{node.place}: {message}")

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

    def mapping(self, node: Node | None, what: str) -> dict[str, Node]:
        """A mapping with any keys; empty if there is no node."""
        if node is None:
            return {}
        if isinstance(node.value, dict):
            return node.value
        self.wrong(node, f"must be a mapping of {what}, not {node}")
        return {}

    def items(self, node: Node, what: str) -> list[Node]:
        """The items of a list, at least one."""
        if isinstance(node.value, list) and node.value:
            return node.value
        self.wrong(node, f"must be a list of {what}, not {'empty' if node.value == [] else node}")
        return []

    def text(self, node: Node) -> str:
        """A line of text."""
        if isinstance(node.value, str) and node.value.strip() and node.value.isprintable():
            return node.value
        quote = ": put it in quotes" if isinstance(node.value, int | float) else ""
        self.wrong(node, f"must be a line of text, not {node}{quote}")
        return ""

    def optional_text(self, node: Node | None) -> str | None:
        """A line of text, or None if there is no node."""
        return None if node is None else self.text(node)

    def integer(self, node: Node, low: int) -> int:
        """An integer that is large enough."""
        if type(node.value) is int and node.value >= low:
            return node.value
        self.wrong(node, f"must be an integer >= {low}, not {node}")
        return low

    def optional_integer(self, node: Node | None, low: int) -> int | None:
        """An integer that is large enough, or None if there is no node."""
        return None if node is None else self.integer(node, low)

    def positive(self, node: Node | None) -> float | None:
        """A number above 0, or None if there is no node."""
        if node is None:
            return None
        value = node.value
        if isinstance(value, int | float) and value is not True and 0 < value < math.inf:
            return float(value)
        self.wrong(node, f"must be a number > 0, not {node}")
        return None

    def truth(self, node: Node | None, default: bool) -> bool:
        """A truth value; the default if there is no node."""
        if node is None:
            return default
        if isinstance(node.value, bool):
            return node.value
        self.wrong(node, f"must be true or false, not {node}")
        return default

    def choice(self, node: Node | None, choices: Sequence[str], default: str) -> str:
        """One of some words; the default if there is no node."""
        if node is None:
            return default
        if node.value in choices:
            return str(node.value)
        if isinstance(node.value, str):
            self.wrong(node, f"unknown choice {node.value!r}{nearest(node.value, choices)}")
        else:
            self.wrong(node, f"must be one of {', '.join(choices)}, not {node}")
        return default

    def unique(self, items: Sequence[Node], names: Sequence[str], what: str, remedy: str) -> None:
        """Say which names occur again."""
        counts = Counter(names)
        for position, (item, name) in enumerate(zip(items, names, strict=True)):
            if name and counts[name] > 1 and name in names[:position]:
                self.wrong(item, f"{what} {name!r} occurs {counts[name]} times{remedy}")
