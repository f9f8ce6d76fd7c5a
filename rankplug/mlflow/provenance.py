"""Provenance of runs: tags of data, code and machine, and runs repeated from their artifacts."""

from __future__ import annotations

import os
import platform
import subprocess
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from tempfile import TemporaryDirectory

from mlflow import MlflowClient
from mlflow.entities import DatasetInput, Run
from mlflow.exceptions import MlflowException
from threadpoolctl import threadpool_info

from rankplug import __version__
from rankplug.exceptions import RecipeError
from rankplug.mlflow.database import ensure_database
from rankplug.mlflow.store import environment_defaults, first_line, opening
from rankplug.recipe import Recipe
from rankplug.recipe.loader import load_recipe
from rankplug.runner import Observer, Splits, data_digest
from rankplug.system.cores import available_cores

_NO_PROGRESS_BAR = {"MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false"}
_DIGEST = "rankplug.digest."
_SCHEME = "runs:/"
_PACKAGES = ("numpy", "scipy", "scikit-learn", "xgboost", "mlflow")
_VARIABLES = ("OMP_NUM_THREADS", "OMP_WAIT_POLICY")


def provenance_tags(recipe: Recipe, inputs: Mapping[str, DatasetInput]) -> dict[str, str]:
    """Tags of what a run was made from.

    ``rankplug.seed``; ``rankplug.digest.train`` and so on, hashes of the data; and
    ``rankplug.git_commit``, the commit of the working directory, with ``-dirty`` at its end if
    there were changes since. Versions, processors and threads are `environment_facts`.
    """
    tags = {"rankplug.seed": str(recipe.seed)}
    tags |= {_DIGEST + split: one.dataset.digest for split, one in inputs.items()}
    commit = _git_commit(Path.cwd())
    return tags if commit is None else {**tags, "rankplug.git_commit": commit}


def environment_facts() -> dict[str, str]:
    """Versions, platform, processors and thread settings, by name."""
    facts = {
        "python": platform.python_version(),
        "rankplug": __version__,
        "platform": platform.platform(),
        "machine": platform.machine(),
        "cpu_count": str(os.cpu_count()),
        "cpus_usable": str(available_cores()),
        "cpu": _cpu(),
        "blas_threads": str(_blas_threads()),
    }
    facts |= {name: _installed(name) for name in _PACKAGES}
    return facts | {name: os.environ[name] for name in _VARIABLES if name in os.environ}


@dataclass(frozen=True)
class Repetition(Observer):
    """A run that is repeated: its recipe, and a warning for everything that is different now.

    Attributes
    ----------
    run_id : str
    recipe_text : str
        The resolved recipe that the run has kept.
    tags : mapping
        The run's.
    """

    run_id: str
    recipe_text: str
    tags: Mapping[str, str]

    @classmethod
    def of(cls, uri: str, tracking_uri: str) -> Repetition:
        """The run ``runs:/ID`` of a recipe; the ID may be that of one of its solvers' runs.

        Raises
        ------
        RecipeError
            If there is no such run, or it has kept no recipe.
        TrackingError
            If the store cannot be read.
        """
        run_id = uri.removeprefix(_SCHEME).strip("/")
        with opening(tracking_uri):
            ensure_database(tracking_uri)
            client = MlflowClient(tracking_uri=tracking_uri)
            client.search_experiments(max_results=1)
        try:
            run = _recipe_run(client, run_id)
            with TemporaryDirectory() as folder, environment_defaults(**_NO_PROGRESS_BAR):
                file = client.download_artifacts(run.info.run_id, "recipe.yaml", folder)
                text = Path(file).read_text(encoding="utf-8")
        except (MlflowException, OSError) as error:
            raise RecipeError(
                f"{uri}: no run of a recipe at {tracking_uri}: {first_line(error)}; another store "
                "is named with --tracking-uri"
            ) from error
        return cls(run.info.run_id, text, run.data.tags)

    @property
    def tag(self) -> dict[str, str]:
        """The tag of a run that repeats this one."""
        return {"rankplug.repeats": self.run_id}

    def recipe(self, overrides: Sequence[str] = ()) -> Recipe:
        """The recipe, with overrides as of `load_recipe`."""
        with TemporaryDirectory() as folder:
            file = Path(folder, "recipe.yaml")
            file.write_text(self.recipe_text, encoding="utf-8")
            return load_recipe(file, overrides)

    def run_started(self, recipe: Recipe, splits: Splits) -> None:
        """Compare data and environment with those of the run."""
        digests = {split: data_digest(data) for split, data in splits.items()}
        environment = ", ".join(self._changes("", "env.", environment_facts()))
        for what in filter(None, [*self._changes("data", _DIGEST, digests), environment]):
            warnings.warn(
                f"not as in run {self.run_id}: {what}; results may differ",
                RuntimeWarning,
                stacklevel=2,
            )

    def _changes(self, what: str, prefix: str, now: Mapping[str, str]) -> list[str]:
        """Where the run's tags say something else."""
        then = {key: self.tags.get(prefix + key, "unknown") for key in now}
        return [
            f"{key} {what}".strip() + f" ({value} now, {then[key]} then)"
            for key, value in now.items()
            if value != then[key]
        ]


def _recipe_run(client: MlflowClient, run_id: str) -> Run:
    run = client.get_run(run_id)
    parent = run.data.tags.get("mlflow.parentRunId")
    return run if parent is None else client.get_run(parent)


def _git_commit(folder: Path) -> str | None:
    """The commit of a folder, None where there is no repository or no git."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, check=True, timeout=10
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None


def _cpu() -> str:
    """The model of the processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or "unknown"
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor() or "unknown")


def _blas_threads() -> int:
    """Threads of the linear algebra that NumPy and SciPy call, 1 if it has none of its own."""
    pools = [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]
    return max(pools, default=1)


def _installed(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
