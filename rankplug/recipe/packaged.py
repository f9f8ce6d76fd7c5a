"""The recipes that come with rankplug; quick to import."""

from __future__ import annotations

import importlib
from pathlib import Path

__all__ = ["packaged_recipes", "summary"]


def packaged_recipes() -> dict[str, Path]:
    """Their files by name, sorted."""
    folder = Path(importlib.import_module("rankplug_recipes").__path__[0])
    return {file.stem: file for file in sorted(folder.glob("*.yaml"))}


def summary(recipe: Path) -> str:
    """What a recipe is about: its first line, a comment."""
    with recipe.open(encoding="utf-8") as lines:
        return lines.readline().lstrip("# ").rstrip()
