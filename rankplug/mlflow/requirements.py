"""What a logged model needs to be loaded, and the files that say so."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import entry_points, version
from pathlib import Path
from typing import Any

import yaml

from rankplug.mlflow import _private
from rankplug.models import Model

__all__ = ["get_default_conda_env", "get_default_pip_requirements", "write_environment"]


def get_default_pip_requirements(include_xgboost: bool = False) -> list[str]:
    """What a model needs to be loaded, pinned to the versions installed here."""
    names = ["rankplug", "numpy", "scipy", "scikit-learn"]
    return [_pinned(name) for name in [*names, *(["xgboost"] if include_xgboost else [])]]


def get_default_conda_env(include_xgboost: bool = False) -> dict[str, Any]:
    """The same as a conda environment, with Python and MLflow."""
    requirements = get_default_pip_requirements(include_xgboost)
    environment: dict[str, Any] = _private.conda_environment(additional_pip_deps=requirements)
    return environment


def write_environment(
    folder: Path, trained: Model, conda_env: Any, pip_requirements: Any, extra: Any
) -> None:
    """Write the files that tell MLflow how to make the model's environment."""
    if conda_env is None:
        conda_env, requirements, constraints = _private.process_pip_requirements(
            _requirements(trained), pip_requirements, extra
        )
    else:
        conda_env, requirements, constraints = _private.process_conda_env(conda_env)
    with (folder / _private.CONDA_ENV_FILE).open("w", encoding="utf-8") as stream:
        yaml.safe_dump(conda_env, stream, default_flow_style=False)
    if constraints:
        (folder / _private.CONSTRAINTS_FILE).write_text("\n".join(constraints), encoding="utf-8")
    (folder / _private.REQUIREMENTS_FILE).write_text("\n".join(requirements), encoding="utf-8")
    _private.PythonEnv.current().to_yaml(str(folder / _private.PYTHON_ENV_FILE))


def _requirements(trained: Model) -> list[str]:
    """The defaults, what the model needs, and the packages whose entry points read its kinds."""
    points = entry_points(group="rankplug.models")
    readers = [point for kind in _kinds(trained) for point in points.select(name=kind)]
    packages = {point.dist.name for point in readers if point.dist is not None}
    more = sorted({*packages, *trained.requires} - {"rankplug"})
    return get_default_pip_requirements() + [_pinned(name) for name in more]


def _kinds(model: Any) -> Iterator[str]:
    """The kind of the model, and of the model that it scales features for."""
    while isinstance(model, Model):
        yield model.kind
        model = getattr(model, "model", None)


def _pinned(name: str) -> str:
    """The requirement without a local version label, which no package index knows."""
    return f"{name}=={version(name).split('+')[0]}"
