"""A run's folder of models, which are loaded, served and deployed without a tracking store."""

from __future__ import annotations

import itertools
import re
import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path

from rankplug.exceptions import RankplugError, warn_caller
from rankplug.metrics import parse_metric
from rankplug.mlflow.flavor import save_model
from rankplug.mlflow.store import first_line
from rankplug.models import Model
from rankplug.recipe import Recipe
from rankplug.report import Outcome
from rankplug.runner import Observer, require_free
from rankplug.solver import Data

FOLDER = "models"


def put_model(model: Model, folder: Path, *, replaces: bool) -> None:
    """Save a model, in place of an earlier one if need be; raises as `save_model`."""
    if replaces and (folder / "MLmodel").is_file():
        shutil.rmtree(folder)
    save_model(model, folder)


class ModelsFolder(Observer):
    """Saves the model of each entry of a recipe as ``models/NAME`` in the output folder.

    Nothing is saved where each part of a comparison tests other queries. `run_started` raises
    `ParameterError` if there is something in a model's folder already; a model that cannot be
    saved later is a warning.

    Parameters
    ----------
    output : Path
        The run's folder.
    resume : bool
        Replace the models of an earlier run that is gone on with.

    Attributes
    ----------
    saved : dict of Path
        The folders of the models, by the names of their entries.
    """

    def __init__(self, output: Path, *, resume: bool = False) -> None:
        self.folder = output / FOLDER
        self.saved: dict[str, Path] = {}
        self._resumes = resume
        self._wanted: dict[str, Path] = {}
        self._metric = ""
        self._quality: dict[str, float] = {}

    def run_started(self, recipe: Recipe, splits: Mapping[str, Data]) -> None:
        """Note which models are asked for, and where each goes."""
        for entry in () if recipe.folded else recipe.solvers:
            stem = re.sub(r"[^\w .-]", "-", entry.name).strip(" .") or "model"
            taken = [path.name for path in self._wanted.values()]
            numbered = (f"{stem}-{number}" for number in itertools.count(len(taken) + 1))
            name = next(one for one in itertools.chain([stem], numbered) if one not in taken)
            self._wanted[entry.name] = self.folder / name
            if not self._resumes:
                require_free(self.folder / name)
        self._metric = recipe.primary_metric

    def solver_finished(self, outcome: Outcome) -> None:
        """Save the model."""
        folder = self._wanted.get(outcome.name)
        if folder is None or outcome.result is None:
            return
        try:
            put_model(outcome.result.model, folder, replaces=self._resumes)
        except (RankplugError, OSError) as error:
            warn_caller(f"the model of {outcome.name} is not saved: {first_line(error)}")
            return
        self.saved[outcome.name] = folder
        # The test set must not choose.
        values = outcome.metrics.get("valid", outcome.metrics["train"])
        sign = 1 if parse_metric(self._metric).greater_is_better else -1
        self._quality[outcome.name] = sign * values[self._metric]

    def lines(self) -> list[str]:
        """Where the models are, and how the best of them on the validation set is served."""
        if not self.saved:
            return []
        best = max(self._quality, key=self._quality.__getitem__)
        return [
            f"models: {self.folder}",
            f"        rankplug serve {shlex.quote(str(self.saved[best]))}",
        ]
