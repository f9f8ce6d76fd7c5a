"""rankplug's models and runs in MLflow: ``import rankplug.mlflow``."""

from rankplug.mlflow.flavor import (
    FLAVOR_NAME,
    _load_pyfunc,
    get_default_conda_env,
    get_default_pip_requirements,
    load_model,
    log_model,
    save_model,
)

__all__ = [
    "FLAVOR_NAME",
    "_load_pyfunc",
    "get_default_conda_env",
    "get_default_pip_requirements",
    "load_model",
    "log_model",
    "save_model",
]
