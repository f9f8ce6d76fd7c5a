"""Target: recipes (YAML text) with ``--set`` assignments, which stand behind ``#--set `` here."""

from __future__ import annotations

import re
from pathlib import Path

from rankplug.exceptions import RecipeError
from rankplug.recipe.loader import load_recipe
from rankplug.recipe.schema import Recipe
from rankplug.recipe.strict_yaml import dump, parse_text
from tests.long.fuzz.memory import one_in

MAX_LENGTH = 160
TOKENS = ["data", "dataset", "digits-retrieval", "train", "test", "metrics", "ndcg@10", "map"]
TOKENS += ["solvers", "solver", "tree-tron", "constant", "params", "C", "space", "low", "high"]
TOKENS += ["log", "true", "scale", "seed", "baseline", "tune", "n_trials", "compare", "folds"]
TOKENS += ["seeds", "costs", "#--set ", ": ", "- ", "{", "}", "[", "]", "'", "!!int", "&a", "*a"]
TOKENS += ["<<", "|", ">", "1e999", ".inf", "\\u0000", "\ud7ff", "? ", "..", "\n", "\n  ", "\n    "]
TOKENS = [token.encode() for token in TOKENS]


def check(data: bytes, folder: Path) -> None:
    """Refused, or a recipe that says the same after it is written and read again."""
    try:
        text = data.decode()
        root, problems = parse_text(text, "r.yaml", folder)
    except (RecipeError, UnicodeDecodeError):
        root, problems = None, []
    if not one_in(100, data):
        return
    if root is not None and not problems:
        plain = root.plain()
        again, problems = parse_text(dump(plain), "r.yaml", folder)
        assert problems == []
        assert repr(again.plain()) == repr(plain)
    file = folder / "recipe.yaml"
    file.write_bytes(data)
    assignments = [line.decode(errors="replace") for line in re.findall(rb"#--set (.*)", data)]
    try:
        recipe = load_recipe(file, assignments)
    except RecipeError:
        return
    assert isinstance(recipe, Recipe)
    assert re.fullmatch(r"\w[\w .-]*", recipe.name)
    assert ".." not in Path(recipe.name).parts
    file.write_text(recipe.to_yaml(), encoding="utf-8")
    assert load_recipe(file) == recipe
