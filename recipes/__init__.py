"""Recipes that come with rankplug: ``rankplug run NAME`` finds them here."""

from __future__ import annotations

from pathlib import Path

__all__ = ["packaged_recipes", "summary"]


def packaged_recipes() -> dict[str, Path]:
    """Their files by name, sorted."""
    return {file.stem: file for file in sorted(Path(__file__).parent.glob("*.yaml"))}


def summary(recipe: Path) -> str:
    """What a recipe is about: its first line, a comment."""
    with recipe.open(encoding="utf-8") as lines:
        return lines.readline().lstrip("# ").rstrip()
