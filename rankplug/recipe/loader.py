"""Reading recipes: every problem is found, and named with file, line and key."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from rankplug.exceptions import RecipeError, nearest
from rankplug.recipe.checker import RecipeChecker
from rankplug.recipe.overrides import override
from rankplug.recipe.packaged import packaged_recipes
from rankplug.recipe.schema import Recipe
from rankplug.recipe.strict_yaml import parse_text

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
        problems += override(root, assignment)
    recipe = RecipeChecker(problems).recipe(
        root, re.sub(r"[^\w .-]", "-", path.stem).lstrip(" .-") or "recipe"
    )
    if len(problems) > 1:
        listed = "".join(f"\n  {problem}" for problem in problems)
        raise RecipeError(f"{len(problems)} problems in the recipe {path}:{listed}")
    if problems:
        raise RecipeError(problems[0])
    return recipe


def _find(source: str | Path) -> Path:
    path = Path(source)
    if os.path.exists(path) and not path.is_dir():
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
