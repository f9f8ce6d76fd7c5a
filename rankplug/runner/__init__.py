"""Runs of recipes: `run` trains every solver on the same data and reports their scores."""

from rankplug.runner.experiment import run
from rankplug.runner.observer import DataLines, Observer, ProgressBars
from rankplug.runner.output import (
    BEST,
    best_recipe,
    best_tuned,
    data_digest,
    default_output,
    latest_output,
    make_folder,
    new_output,
    require_free,
    require_no_report,
    where_to_look,
)
from rankplug.runner.splits import Splits, load_splits

__all__ = [
    "BEST",
    "DataLines",
    "Observer",
    "ProgressBars",
    "Splits",
    "best_recipe",
    "best_tuned",
    "data_digest",
    "default_output",
    "latest_output",
    "load_splits",
    "make_folder",
    "new_output",
    "require_free",
    "require_no_report",
    "run",
    "where_to_look",
]
