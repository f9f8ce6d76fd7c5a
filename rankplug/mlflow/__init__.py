"""rankplug's models and runs in MLflow: ``import rankplug.mlflow``.

The public names are loaded on first use: MLflow imports this package while it is imported itself,
to find the evaluator.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rankplug.system.lazy import loader

_HOME = {
    "FLAVOR_NAME": "flavor",
    "PARAMS": "pyfunc",
    "_load_pyfunc": "flavor",
    "autolog": "autologging",
    "compare": "comparing",
    "get_default_conda_env": "flavor",
    "get_default_pip_requirements": "flavor",
    "load_model": "flavor",
    "log_explanation": "explanations",
    "log_model": "flavor",
    "save_model": "flavor",
}

__all__ = [
    "FLAVOR_NAME",
    "PARAMS",
    "_load_pyfunc",
    "autolog",
    "compare",
    "get_default_conda_env",
    "get_default_pip_requirements",
    "load_model",
    "log_explanation",
    "log_model",
    "save_model",
]

if TYPE_CHECKING:
    from rankplug.mlflow.autologging import autolog
    from rankplug.mlflow.comparing import compare
    from rankplug.mlflow.explanations import log_explanation
    from rankplug.mlflow.flavor import (
        FLAVOR_NAME,
        _load_pyfunc,
        get_default_conda_env,
        get_default_pip_requirements,
        load_model,
        log_model,
        save_model,
    )
    from rankplug.mlflow.pyfunc import PARAMS


__getattr__ = loader(__name__, _HOME)


def __dir__() -> list[str]:
    return sorted(__all__)
