"""Helpers of MLflow that are not public and have no public counterpart.

They are the ones the built-in flavors use. Most have no type hints, hence `Any`.
"""

import functools
import inspect
import sys
from collections.abc import Callable
from typing import Any

from mlflow.models import utils as _example
from mlflow.pyfunc import PyFuncModel
from mlflow.utils import autologging_utils
from mlflow.utils import environment as _environment
from mlflow.utils import model_utils as _model

_autologging: Any = autologging_utils

CONDA_ENV_FILE: str = _environment._CONDA_ENV_FILE_NAME
CONSTRAINTS_FILE: str = _environment._CONSTRAINTS_FILE_NAME
PYTHON_ENV_FILE: str = _environment._PYTHON_ENV_FILE_NAME
REQUIREMENTS_FILE: str = _environment._REQUIREMENTS_FILE_NAME

PythonEnv: Any = _environment._PythonEnv
conda_environment: Any = _environment._mlflow_conda_env
process_conda_env: Any = _environment._process_conda_env
process_pip_requirements: Any = _environment._process_pip_requirements
validate_env_arguments: Any = _environment._validate_env_arguments

add_code_to_system_path: Any = _model._add_code_from_conf_to_system_path
copy_code_paths: Any = _model._validate_and_copy_code_paths
flavor_configuration: Any = _model._get_flavor_configuration

save_example: Any = _example._save_example

autologging_integration: Any = _autologging.autologging_integration
autologging_setting: Any = _autologging.get_autologging_config
autologging_behavior: Any = _autologging.MlflowEventsAndWarningsBehaviorGlobally


def autologging_is_disabled(name: str) -> bool:
    """Whether it is for this integration, or for all of them during some step of MLflow's own."""
    return bool(
        _autologging._AUTOLOGGING_GLOBALLY_DISABLED or _autologging.autologging_is_disabled(name)
    )


def params_of_the_caller(model: object) -> Any:
    """The parameters given to ``PyFuncModel.predict``, which is calling `model`; None if it is not.

    MLflow drops parameters that the signature does not declare before it calls the model, and
    tells its log only. What the user has passed is then found nowhere but in that call.
    """
    frame = inspect.currentframe()
    while frame is not None:
        if frame.f_code.co_name == "predict":
            caller = frame.f_locals.get("self")
            if isinstance(caller, PyFuncModel) and caller._model_impl is model:
                return frame.f_locals.get("params")
        frame = frame.f_back
    return None


def spare_from_schema(flavor: str, spare: Callable[[Any, Any], bool]) -> None:
    """Let input reach the models of a flavor that MLflow's check of the schema would refuse.

    With named columns MLflow takes tables of pandas and Spark only, and it looks before it calls
    the model: there is no other place to say that the model takes more.

    Parameters
    ----------
    flavor : str
        The module that loads the models; those of other flavors are checked as ever.
    spare : callable
        Of the input and the schema: whether the model itself checks this input.
    """
    # The module itself: for `mlflow.pyfunc` there may be a stand-in that loads it on first use.
    module: Any = sys.modules[PyFuncModel.__module__]
    check: Any = getattr(module, "_validate_prediction_input", None)
    if check is None or hasattr(check, "__wrapped__"):
        return

    @functools.wraps(check)
    def validate(data: Any, params: Any, schema: Any, params_schema: Any, own: Any = None) -> Any:
        kept = None if own == flavor and schema is not None and spare(data, schema) else schema
        return check(data, params, kept, params_schema, own)

    module._validate_prediction_input = validate
