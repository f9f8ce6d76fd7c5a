"""A tracking database of a module's own, and a guard against pickle."""

import pickle
import shutil

import pytest


@pytest.fixture
def no_pickle(monkeypatch):
    """Nothing is unpickled, neither by MLflow nor behind its back."""
    monkeypatch.setenv("MLFLOW_ALLOW_PICKLE_DESERIALIZATION", "false")

    def refuse(*_, **__):
        raise AssertionError("something was unpickled")

    for name in ("load", "loads", "Unpickler"):
        monkeypatch.setattr(pickle, name, refuse)


@pytest.fixture(scope="module")
def own_store(empty_store, tmp_path_factory):
    """The folder of a database that MLFLOW_TRACKING_URI names; no run or experiment is active."""
    folder = tmp_path_factory.mktemp("store")
    shutil.copy(empty_store, folder / "mlflow.db")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("MLFLOW_RUN_ID", "MLFLOW_EXPERIMENT_ID"):
            patch.setenv(name, "")  # so that it is restored: MLflow sets it
            patch.delenv(name)
        patch.setattr("mlflow.tracking.fluent._active_experiment_id", None)
        patch.setattr("mlflow.tracking._tracking_service.utils._tracking_uri", None)
        patch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{folder}/mlflow.db")
        yield folder
