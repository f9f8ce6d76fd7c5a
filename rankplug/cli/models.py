"""Models named on the command line."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rankplug.models import Model

__all__ = ["add_model_arguments", "open_model", "use_tracking_store"]


def add_model_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the model and where it is registered."""
    parser.add_argument(
        "model",
        metavar="MODEL",
        help="a folder, models:/NAME@ALIAS, models:/NAME/VERSION, models:/ID or runs:/RUN_ID/NAME",
    )
    add_tracking_argument(parser)


def add_tracking_argument(parser: argparse.ArgumentParser) -> None:
    """Add the MLflow store in which to look."""
    parser.add_argument(
        "--tracking-uri",
        metavar="URI",
        help="MLflow store to look in (default: MLFLOW_TRACKING_URI, else "
        "rankplug-output/mlflow.db if it exists, else MLflow's own default)",
    )


def use_tracking_store(tracking_uri: str | None) -> None:
    """Make MLflow look in the given store, else where ``rankplug run`` writes by default."""
    import os

    import mlflow

    home = Path("rankplug-output")
    if tracking_uri is None and not os.environ.get("MLFLOW_TRACKING_URI"):
        if not (home / "mlflow.db").exists():
            return
        from rankplug.mlflow.store import resolve_tracking_uri

        tracking_uri = resolve_tracking_uri(home)
    if tracking_uri is not None:
        mlflow.set_tracking_uri(tracking_uri)


def open_model(args: argparse.Namespace) -> Model:
    """The model that the arguments name.

    Raises
    ------
    ParameterError
        If there is no such model.
    ModelFormatError
        If it cannot be read.
    """
    from rankplug.exceptions import ParameterError
    from rankplug.models import load_model as load_saved_model

    if Path(args.model, "model.json").is_file():
        return load_saved_model(args.model)

    from mlflow.exceptions import MlflowException

    import rankplug.mlflow
    from rankplug.mlflow.store import environment_defaults, first_line

    if ":/" not in args.model and not Path(args.model, "MLmodel").is_file():
        raise ParameterError(
            f"{args.model}: no such model: name a folder with a file MLmodel or model.json in it, "
            "or a URI such as models:/NAME@champion"
        )
    use_tracking_store(args.tracking_uri)
    try:
        with environment_defaults(MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR="false"):
            return rankplug.mlflow.load_model(args.model)
    except (MlflowException, OSError) as error:
        raise ParameterError(f"model {args.model}: {first_line(error)}") from error
