"""The MLflow flavor of rankplug's models: save, log and load them, with their requirements."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint, entry_points, version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import mlflow.artifacts
import mlflow.pyfunc
import yaml
from mlflow.models import Model as MlflowModel
from mlflow.models import ModelSignature
from mlflow.models.model import MLMODEL_FILE_NAME, ModelInfo
from sklearn.pipeline import Pipeline

from rankplug import __version__
from rankplug.exceptions import ParameterError
from rankplug.maps import MappedModel
from rankplug.mlflow import _private
from rankplug.mlflow.pyfunc import (
    ScoringModel,
    default_signature,
    is_checked_by_model,
    named_example,
    plain_example,
)
from rankplug.mlflow.serving import guard_scoring_server
from rankplug.mlflow.wheels import wheels_of
from rankplug.models import Model
from rankplug.models import load_model as load_saved_model
from rankplug.models.pipelines import flat_steps, pipeline_model
from rankplug.system.files import new_folder

FLAVOR_NAME = "rankplug"
_LOADER_MODULE = "rankplug.mlflow"
_DATA = "model"
_AWAIT_REGISTRATION_SECONDS = 300  # as in MLflow


def save_model(
    model: Any,
    path: str | Path,
    conda_env: Any = None,
    code_paths: list[str] | None = None,
    mlflow_model: MlflowModel | None = None,
    signature: ModelSignature | Literal[False] | None = None,
    input_example: Any = None,
    pip_requirements: Any = None,
    extra_pip_requirements: Any = None,
    metadata: dict[str, Any] | None = None,
) -> None:
    """Save a model as an MLflow model with the flavors ``rankplug`` and ``python_function``.

    The folder appears complete or not at all; nothing in it is pickled.

    Parameters
    ----------
    model : Model, a fitted Ranker or LabelRanker, or a fitted Pipeline that ends in one
        The other steps of a pipeline may be imputers, encoders, scalers and the like, also in a
        ColumnTransformer or FeatureUnion; see `rankplug.models.conversion.SAVED`.
    path : path
        A new or empty folder.
    conda_env, pip_requirements, extra_pip_requirements
        The environment, as in MLflow's own flavors; `get_default_pip_requirements` by default.
        Where rankplug, or a plugin that the model needs, came from no package index, the default
        holds a wheel of it in the model's folder ``wheels``.
    code_paths : list of str, optional
        Files or folders of code to keep with the model, put on ``sys.path`` when it is loaded.
    mlflow_model : mlflow.models.Model, optional
        Metadata to add the flavors to.
    signature : ModelSignature, False or None
        None: named columns of any type, optional query ids, scores, and the parameters
        ``output`` and ``k`` (see `ScoringModel.predict`). False, or None for a model whose
        features have no names: the same but for the input, which is left open; see Notes.
    input_example : optional
        A few rows: a frame of pandas, polars or Arrow, an array, or a sparse matrix of any kind.
        With the default signature, arrays get the names of the features.
    metadata : dict, optional
        Kept in the file ``MLmodel``.

    Raises
    ------
    ParameterError
        If `model` is not a trained rankplug model, or a pipeline has steps that cannot be saved
        without pickle.
    FileExistsError
        If `path` exists and is not an empty folder.

    Notes
    -----
    Before ``pyfunc`` passes a frame of pandas on, MLflow looks for the columns of the signature, by
    name, cell by cell (about a second for a million cells). Arrays, sparse matrices and tables of
    Polars and Arrow go to the model as they are, and so do frames if the input is open.
    """
    trained = _find_model(model)
    _private.validate_env_arguments(conda_env, pip_requirements, extra_pip_requirements)
    input_example = plain_example(input_example)
    if signature is None:
        input_example = named_example(trained, input_example)
    if not signature:
        signature = default_signature(trained, any_input=signature is False)
    metadata_file = MlflowModel() if mlflow_model is None else mlflow_model
    metadata_file.signature = signature
    if metadata is not None:
        metadata_file.metadata = metadata
    with new_folder(path) as folder:
        code = _private.copy_code_paths(code_paths, str(folder))
        _private.save_example(metadata_file, input_example, str(folder))
        trained.save(folder / _DATA)
        _add_flavors(metadata_file, trained, code)
        metadata_file.save(str(folder / MLMODEL_FILE_NAME))
        _write_environment(folder, trained, conda_env, pip_requirements, extra_pip_requirements)


def log_model(
    model: Any,
    name: str | None = None,
    conda_env: Any = None,
    code_paths: list[str] | None = None,
    registered_model_name: str | None = None,
    signature: ModelSignature | Literal[False] | None = None,
    input_example: Any = None,
    await_registration_for: int | None = _AWAIT_REGISTRATION_SECONDS,
    pip_requirements: Any = None,
    extra_pip_requirements: Any = None,
    metadata: dict[str, Any] | None = None,
    params: dict[str, Any] | None = None,
    tags: dict[str, Any] | None = None,
    model_type: str | None = None,
    step: int = 0,
    model_id: str | None = None,
) -> ModelInfo:
    """Log a model to the active run, if there is one, and register it if it is given a name.

    Parameters
    ----------
    model : Model, a fitted Ranker or LabelRanker, or a fitted Pipeline that ends in one
    name : str, optional
        Name of the logged model; without ``/ : . % " '``.
    registered_model_name : str, optional
        Also create a version of this registered model.
    await_registration_for : int, optional
        Seconds to wait until the version is ready; 0 or None: do not wait.
    params, tags : dict, optional
        Kept with the logged model, beside the run's own parameters.
    model_type, step, model_id : optional
        As in MLflow's own flavors.
    conda_env, code_paths, signature, input_example, pip_requirements, extra_pip_requirements, \
metadata
        As in `save_model`, whose notes say what input ``pyfunc`` takes.

    Returns
    -------
    mlflow.models.model.ModelInfo

    Raises
    ------
    ParameterError
        If `model` is not a trained rankplug model.
    """
    info: ModelInfo = MlflowModel.log(
        artifact_path=None,
        name=name,
        flavor=sys.modules[__name__],
        model=_find_model(model),
        conda_env=conda_env,
        code_paths=code_paths,
        registered_model_name=registered_model_name,
        signature=signature,
        input_example=input_example,
        await_registration_for=await_registration_for,
        pip_requirements=pip_requirements,
        extra_pip_requirements=extra_pip_requirements,
        metadata=metadata,
        params=params,
        tags=tags,
        model_type=model_type,
        step=step,
        model_id=model_id,
    )
    return info


def require_example(model: Any, example: Any, *, named: bool) -> None:
    """Raise an error of MLflow's if it cannot write a plain input example.

    Parameters
    ----------
    model, example
        As for `save_model`.
    named : bool
        Whether it is to have the names of the features.
    """
    if named:
        example = named_example(_find_model(model), example)
    with TemporaryDirectory() as folder:
        _private.save_example(MlflowModel(), example, folder)


def load_model(model_uri: str, dst_path: str | None = None) -> Model:
    """Load the rankplug model that was saved or logged.

    Parameters
    ----------
    model_uri : str
        A path, or a URI like ``models:/NAME/1``, ``models:/NAME@champion`` or
        ``runs:/RUN_ID/NAME``.
    dst_path : str, optional
        An existing folder to download the model to.

    Raises
    ------
    mlflow.exceptions.MlflowException
        If there is no such model, or it is none of rankplug's.
    ModelFormatError
        If a part is missing or altered, or the format is unknown.
    """
    folder = mlflow.artifacts.download_artifacts(artifact_uri=model_uri, dst_path=dst_path)
    configuration = _private.flavor_configuration(folder, FLAVOR_NAME)
    _private.add_code_to_system_path(folder, configuration)
    return load_saved_model(Path(folder, configuration["data"]))


def get_default_pip_requirements(include_xgboost: bool = False) -> list[str]:
    """What a model needs to be loaded, pinned to the versions installed here."""
    names = ["rankplug", "numpy", "scipy", "scikit-learn"]
    return [_pin(name) for name in [*names, *(["xgboost"] if include_xgboost else [])]]


def get_default_conda_env(include_xgboost: bool = False) -> dict[str, Any]:
    """The same as a conda environment, with Python and MLflow."""
    requirements = get_default_pip_requirements(include_xgboost)
    environment: dict[str, Any] = _private.conda_environment(additional_pip_deps=requirements)
    return environment


def _load_pyfunc(path: str) -> ScoringModel:
    """Called by ``mlflow.pyfunc.load_model`` with the folder of the model's data."""
    guard_scoring_server()
    _private.spare_from_schema(_LOADER_MODULE, is_checked_by_model)
    return ScoringModel(load_saved_model(path))


def _find_model(model: Any) -> Model:
    if isinstance(model, Model):
        return model
    if isinstance(model, Pipeline):
        *_, (_, last) = flat_steps(model)
        return pipeline_model(model, _find_model(last))
    trained = getattr(model, "model_", None)
    if isinstance(trained, Model):
        return trained
    kind = type(model).__name__
    if hasattr(model, "best_estimator_"):
        raise ParameterError(f"pass the best_estimator_ of the {kind}")
    if hasattr(model, "fit"):
        raise ParameterError(
            f"{kind} holds no trained rankplug model: pass a rankplug Ranker or LabelRanker, or a "
            "pipeline that ends in one, after calling its fit"
        )
    raise ParameterError(
        f"{kind} is not a rankplug model: pass a Model (the .model of a SolverResult), a fitted "
        "Ranker or LabelRanker, or a fitted pipeline that ends in one"
    )


def _add_flavors(metadata_file: MlflowModel, trained: Model, code: str | None) -> None:
    mlflow.pyfunc.add_to_model(
        metadata_file,
        loader_module=_LOADER_MODULE,
        data=_DATA,
        code=code,
        conda_env=_private.CONDA_ENV_FILE,
        python_env=_private.PYTHON_ENV_FILE,
    )
    metadata_file.add_flavor(
        FLAVOR_NAME,
        rankplug_version=__version__,
        kind=trained.kind,
        n_features=trained.n_features,
        data=_DATA,
        code=code,
    )


def _write_environment(
    folder: Path, trained: Model, conda_env: Any, pip_requirements: Any, extra: Any
) -> None:
    """Write the files that tell MLflow how to make the model's environment."""
    if conda_env is None:
        conda_env, requirements, constraints = _private.process_pip_requirements(
            _requirements(trained, folder if pip_requirements is None else None),
            pip_requirements,
            extra,
        )
    else:
        conda_env, requirements, constraints = _private.process_conda_env(conda_env)
    with (folder / _private.CONDA_ENV_FILE).open("w", encoding="utf-8") as stream:
        yaml.safe_dump(conda_env, stream, default_flow_style=False)
    if constraints:
        (folder / _private.CONSTRAINTS_FILE).write_text("\n".join(constraints), encoding="utf-8")
    (folder / _private.REQUIREMENTS_FILE).write_text("\n".join(requirements), encoding="utf-8")
    _private.PythonEnv.current().to_yaml(str(folder / _private.PYTHON_ENV_FILE))


def _requirements(trained: Model, folder: Path | None) -> list[str]:
    """The defaults, what the model needs, and the packages whose entry points read it.

    Of rankplug and these packages, those that no index has are written to the folder.
    """
    readers = [point.dist.name for point in _readers(trained) if point.dist is not None]
    packages = {*readers} - {"rankplug"}
    wheels = [] if folder is None else wheels_of(["rankplug", *sorted(packages)])
    options = [wheel.write(folder) for wheel in wheels if folder is not None]
    more = sorted({*packages, *trained.requires} - {"rankplug"})
    return options + get_default_pip_requirements() + [_pin(name) for name in more]


def _readers(model: Any) -> Iterator[EntryPoint]:
    """The entry points of the model, of its maps, and of the models that it wraps."""
    while isinstance(model, Model):
        yield from entry_points(group="rankplug.models", name=model.kind)
        for part in model.map.parts if isinstance(model, MappedModel) else ():
            yield from entry_points(group="rankplug.maps", name=part.kind)
        model = getattr(model, "model", None)


def _pin(name: str) -> str:
    """The requirement without a local version label, which no package index knows."""
    return f"{name}=={version(name).split('+')[0]}"
