"""Keys of recipes, from their schema, and options of commands, from their help."""

import contextlib
import io
import os
import re
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

from rankplug.cli import main
from rankplug.recipe import json_schema

from .reference import write_page

_SECTIONS = {
    "OneFile": "`data`: one file",
    "Split": "`split` in it",
    "Files": "`data`: files",
    "Dataset": "`data`: an embedded data set",
    "Entry": "`solvers`: an item",
    "Clicks": "`clicks`",
    "Tune": "`tune`",
    "Compare": "`compare`",
}
_LIMITS = {
    "minimum": "at least",
    "exclusiveMinimum": "above",
    "maximum": "at most",
    "exclusiveMaximum": "below",
}


def setup(app: Sphinx) -> dict[str, bool]:
    """Write both pages before the site is read."""
    app.connect("config-inited", lambda app, _: _write(Path(app.srcdir, "generated")))
    return {"parallel_read_safe": True}


def _write(folder: Path) -> None:
    schema = json_schema()
    lines = ["# Keys of recipes", "", "Any other key is an error. [Recipes](../recipes.md) shows"]
    lines += ["how they are used; `rankplug init FILE` writes a commented one.", ""]
    lines += _table("A whole recipe", schema)
    for name, title in _SECTIONS.items():
        lines += _table(title, schema["$defs"][name])
    write_page(folder / "recipe-keys.md", lines)
    write_page(folder / "commands.md", ["# Commands", "", *_commands()])


def _table(title: str, schema: dict[str, Any]) -> list[str]:
    about = re.sub(r"^(``\w+``|An item of ``\w+``): (\w)", _capital, schema["description"])
    lines = [f"({schema['title'].lower()})=", f"## {title}", "", about, ""]
    lines += ["| key | value | if left out | meaning |", "| --- | --- | --- | --- |"]
    required = schema.get("required", [])
    for key, value in schema["properties"].items():
        meaning = value.get("description", "")
        default = "" if "if left out" in meaning else _plain(value.get("default"))
        left_out = "an error" if key in required else default
        cells = (f"`{key}`", _kind(value), left_out, meaning)
        lines.append(
            "| " + " | ".join(" ".join(c.split()).replace("|", "\\|") for c in cells) + " |"
        )
    return [*lines, ""]


def _capital(found: re.Match[str]) -> str:
    return found[2].upper()


def _plain(value: Any) -> str:
    """Write a default as YAML does."""
    if value is None:
        return ""
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def _kind(value: dict[str, Any]) -> str:
    """Say in words what a value may be."""
    choices = value.get("anyOf") or value.get("oneOf")
    if choices:
        return " or ".join(_kind(one) for one in choices)
    if "$ref" in value:
        name = value["$ref"].rsplit("/", 1)[-1]
        return f"[{_SECTIONS[name]}](#{name.lower()})"
    if "enum" in value:
        return ", ".join(f"`{one}`" for one in value["enum"])
    kind = value.get("type", "any")
    if kind == "array":
        return f"list of: {_kind(value.get('items', {}))}"
    words = {"string": "text", "object": "keys and values", "boolean": "`true` or `false`"}
    limits = [f"{text} {value[key]}" for key, text in _LIMITS.items() if key in value]
    return ", ".join([words.get(kind, kind), *limits])


def _commands() -> list[str]:
    """Return the help of each command."""
    names = re.findall(r"^    ([a-z]+) ", _help(), flags=re.MULTILINE)
    lines = ["[Exit statuses](../security.md#exit-statuses) are the same for all.", ""]
    for name in names:
        lines += [f"## rankplug {name}", "", "```text", _help(name).rstrip(), "```", ""]
    return lines


def _help(*command: str) -> str:
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = "98"
    try:
        with contextlib.redirect_stdout(io.StringIO()) as text, contextlib.suppress(SystemExit):
            main([*command, "--help"])
    finally:
        if before is None:
            del os.environ["COLUMNS"]
        else:
            os.environ["COLUMNS"] = before
    return text.getvalue()
