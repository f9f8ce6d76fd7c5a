"""Explanations and pages of rankings as artifacts of runs, logged on demand."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from mlflow import MlflowClient
from mlflow.exceptions import MlflowException

from rankplug.exceptions import ParameterError
from rankplug.explain import Explanation
from rankplug.mlflow.store import first_line


def log_explanation(
    explanation: Explanation, run_id: str, artifact_file: str = "explanation.json"
) -> str:
    """Log the table of an explanation to a run, which MLflow's pages and `load_table` show.

    Parameters
    ----------
    explanation : Explanation
        Of two rows, a query or a model, from `rankplug.Ranker.explain` or `rankplug.explain`.
    run_id : str
        Of a run in MLflow's tracking store.
    artifact_file : str, default="explanation.json"
        An earlier one of that name is replaced. What is no letter, digit, ``_``, ``-`` or ``.``
        becomes ``_``.

    Returns
    -------
    str
        The artifact's name.

    Raises
    ------
    ParameterError
        If there is no such run, or it cannot be written to.
    """
    name = re.sub(r"[^\w.-]", "_", artifact_file)

    def log(client: MlflowClient) -> None:
        table = explanation.table()
        if any(one.path == name for one in client.list_artifacts(run_id)):
            # MLflow would append the rows.
            text = table.to_json(orient="split", index=False, default_handler=str)
            client.log_text(run_id, text, name)
        else:
            client.log_table(run_id, table, name)

    _attempt(log, run_id)
    return name


def log_page(file: Path, run_id: str) -> str:
    """Log a page of rankings to a run, whose artifacts MLflow's pages show; returns its name.

    Raises
    ------
    ParameterError
        As `log_explanation`.
    """
    _attempt(lambda client: client.log_artifact(run_id, str(file)), run_id)
    return file.name


def _attempt(log: Callable[[MlflowClient], None], run_id: str) -> None:
    try:
        log(MlflowClient())
    except (MlflowException, OSError) as error:
        raise ParameterError(f"MLflow run {run_id}: {first_line(error)}") from error
