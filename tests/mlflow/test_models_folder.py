"""The folder of a run's models: a place for each entry, and no run that ends for one of them."""

import numpy as np
import pytest

from rankplug.kernels import Kernel
from rankplug.mlflow import models_folder
from rankplug.mlflow.models_folder import ModelsFolder
from rankplug.models import KernelModel, LinearModel, load_model
from rankplug.recipe import Dataset, Entry, Recipe
from rankplug.report import Outcome
from rankplug.solver import SolverResult


def save(model, folder):
    """What MLflow makes around the model is left out."""
    model.save(folder)
    (folder / "MLmodel").touch()


def outcome(name, model, quality=1.0):
    result = SolverResult(model, "converged", None, None, 1, 1.0)
    metrics = {"train": {"map": 0.0}, "valid": {"map": quality}}
    return Outcome(name, "tree-tron", {}, "converged", result=result, metrics=metrics)


@pytest.fixture
def started(tmp_path, monkeypatch):
    monkeypatch.setattr(models_folder, "save_model", save)

    def started(*names, resume=False):
        entries = tuple(Entry("tree-tron", name) for name in names)
        folder = ModelsFolder(tmp_path, resume=resume)
        folder.run_started(Recipe("demo", Dataset("x"), ("map",), entries), {})
        return folder

    return started


def test_every_entry_has_a_place_of_its_own(started, tmp_path):
    names = ["a/b-3", "a/b", "a:b", "x", "a*b", "..", "a-b-4"]
    folder = started(*names)
    for number, name in enumerate(names):
        folder.solver_finished(outcome(name, LinearModel([float(number)]), number == 4))
    assert list(folder.saved) == names
    assert len({*folder.saved.values()}) == len(names)
    for number, name in enumerate(names):
        assert folder.saved[name].parent == tmp_path / "models"
        assert load_model(folder.saved[name]).coef.tolist() == [number]
    assert folder.lines()[1].endswith(str(folder.saved["a*b"]))


def test_a_model_that_cannot_be_saved_is_a_warning(started):
    folder = started("own", "good", "failed")
    own = KernelModel(Kernel(lambda A, B: A @ B.T), np.eye(2), [1.0, 2.0])
    with pytest.warns(UserWarning, match="the model of own is not saved: a model with a kernel f"):
        folder.solver_finished(outcome("own", own))
    folder.solver_finished(Outcome("failed", "tree-tron", {}, "failed", "no"))
    assert folder.lines() == []
    folder.solver_finished(outcome("good", LinearModel([1.0])))
    assert list(folder.saved) == ["good"]


def test_a_run_that_goes_on_replaces_its_models(started):
    started("a").solver_finished(outcome("a", LinearModel([1.0])))
    again = started("a", resume=True)
    again.solver_finished(outcome("a", LinearModel([2.0])))
    assert load_model(again.saved["a"]).coef.tolist() == [2.0]
