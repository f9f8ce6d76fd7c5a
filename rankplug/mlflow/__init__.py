"""rankplug's models and runs in MLflow: ``import rankplug.mlflow``.

The public names are loaded on first use: MLflow imports this package while it is imported itself,
to find the evaluator.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

_HOME = {
    "FLAVOR_NAME": "flavor",
    "PARAMS": "signature",
    "_load_pyfunc": "flavor",
    "autolog": "autologging",
    "get_default_conda_env": "flavor",
    "get_default_pip_requirements": "flavor",
    "load_model": "flavor",
    "log_model": "flavor",
    "save_model": "flavor",
}

__all__ = [
    "FLAVOR_NAME",
    "PARAMS",
    "_load_pyfunc",
    "autolog",
    "get_default_conda_env",
    "get_default_pip_requirements",
    "load_model",
    "log_model",
    "save_model",
]

if TYPE_CHECKING:
    from rankplug.mlflow.autologging import autolog
    from rankplug.mlflow.flavor import (
        FLAVOR_NAME,
        _load_pyfunc,
        get_default_conda_env,
        get_default_pip_requirements,
        load_model,
        log_model,
        save_model,
    )
    from rankplug.mlflow.signature import PARAMS


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'rankplug.mlflow' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"rankplug.mlflow.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
