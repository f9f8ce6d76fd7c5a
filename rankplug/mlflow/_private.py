"""The helpers of MLflow that are not public and have no public counterpart, in one place.

They are the ones the built-in flavors use. Most have no type hints, hence `Any`.
"""

from typing import Any

from mlflow.models import utils as _example
from mlflow.utils import environment as _environment
from mlflow.utils import model_utils as _model

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
