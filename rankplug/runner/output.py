"""The output folder of a run: new each time, or at least without an earlier report."""

from __future__ import annotations

import itertools
import os
import re
from datetime import datetime
from pathlib import Path

from rankplug.exceptions import ParameterError
from rankplug.recipe import Recipe
from rankplug.report import REPORT_FILES

__all__ = ["HOME", "JOURNAL", "default_output", "latest_output", "make_folder", "require_no_report"]

HOME = Path("rankplug-output")
JOURNAL = "study.journal"
"""Where tuning studies are kept."""


def default_output(recipe: Recipe, kind: str = "") -> Path:
    """``rankplug-output/NAME-KIND-DATE-TIME``, a folder that does not exist yet."""
    stem = f"{_prefix(recipe, kind)}{datetime.now():%Y%m%d-%H%M%S}"
    names = (stem if number == 1 else f"{stem}-{number}" for number in itertools.count(1))
    return next(HOME / name for name in names if not (HOME / name).exists())


def latest_output(recipe: Recipe, kind: str = "") -> Path:
    """The default folder of the recipe in which tuning was last at work.

    Raises
    ------
    ParameterError
        If there is none.
    """
    ours = re.compile(rf"{re.escape(_prefix(recipe, kind))}\d{{8}}-\d{{6}}(-\d+)?")
    journals = [
        journal for journal in HOME.glob(f"*/{JOURNAL}") if ours.fullmatch(journal.parent.name)
    ]
    if not journals:
        raise ParameterError(
            f"resume: no folder {HOME / _prefix(recipe, kind)}... has a {JOURNAL}: name the folder "
            "with --output"
        )
    return max(journals, key=lambda journal: journal.stat().st_mtime).parent


def _prefix(recipe: Recipe, kind: str) -> str:
    return f"{recipe.name}-{kind}-" if kind else f"{recipe.name}-"


def require_no_report(folder: Path) -> None:
    """Raise `ParameterError` if a report would be overwritten."""
    if folder.exists() and not folder.is_dir():
        raise ParameterError(f"output: {folder} is a file; name a folder")
    there = [name for name in REPORT_FILES if (folder / name).exists()]
    if there:
        raise ParameterError(
            f"output: {folder} holds the report of an earlier run ({', '.join(there)}), which is "
            "not overwritten: name another folder"
        )


def make_folder(folder: Path) -> None:
    """Make the folder if need be; raise `ParameterError` if it cannot be written to."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ParameterError(f"output: {folder} cannot be made: {error.strerror}") from None
    if not os.access(folder, os.W_OK):
        raise ParameterError(f"output: {folder} cannot be written to: name another folder")
