"""From a recipe to a report: `run` trains every solver on the same data and scores all alike."""

from rankplug.runner.best import BEST, best_recipe, best_tuned
from rankplug.runner.digests import data_digest
from rankplug.runner.experiment import run
from rankplug.runner.observer import Observer
from rankplug.runner.output import default_output, latest_output
from rankplug.runner.progress import ProgressBars

__all__ = [
    "BEST",
    "Observer",
    "ProgressBars",
    "best_recipe",
    "best_tuned",
    "data_digest",
    "default_output",
    "latest_output",
    "run",
]
