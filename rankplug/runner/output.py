"""The output folder of a run, the best recipe that is written there, and digests of results."""

from __future__ import annotations

import hashlib
import itertools
import os
import re
import shlex
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rankplug.exceptions import ParameterError
from rankplug.io.files import replacing
from rankplug.metrics import parse_metric
from rankplug.recipe import OneFile, Recipe
from rankplug.report import REPORT_FILES, Outcome
from rankplug.runner.splits import Splits
from rankplug.solver import Data
from rankplug.system.locks import claimed_here
from rankplug.tuning import JOURNAL

HOME = Path("rankplug-output")
BEST = "best.yaml"

# Those whose results may differ from version to version.
_PACKAGES = ("rankplug", "numpy", "scipy", "scikit-learn", "xgboost", "optuna")
_HEX_DIGITS = 32  # half of SHA-256: no two data sets meet by chance, and a line holds it


def default_output(recipe: Recipe, kind: str = "") -> Path:
    """``rankplug-output/NAME-KIND-DATE-TIME``, a folder that does not exist yet."""
    stem = f"{_prefix(recipe, kind)}{datetime.now():%Y%m%d-%H%M%S}"
    names = (stem if number == 1 else f"{stem}-{number}" for number in itertools.count(1))
    return next(HOME / name for name in names if not (HOME / name).exists())


@contextmanager
def new_output(recipe: Recipe, kind: str = "") -> Iterator[Path]:
    """Make `default_output`, which then is no other run's; removed if a mistake leaves it empty."""
    while True:
        folder = default_output(recipe, kind)
        try:
            folder.mkdir(parents=True)
            break
        except FileExistsError:  # another run was faster
            continue
        except OSError as error:
            raise _cannot_be_made(folder, error) from None
    try:
        yield folder
    finally:
        with suppress(OSError):
            folder.rmdir()
            HOME.rmdir()


@contextmanager
def claim_output(folder: Path, *, resume: bool) -> Iterator[None]:
    """Keep other runs out of a folder, but those that go on with its studies.

    Raises
    ------
    ParameterError
        If another run is at work there, or there is a report, which would be overwritten.
    """
    with claimed_here(f"output {folder.absolute()}", shared=resume) as is_free:
        if not (is_free or resume):
            raise ParameterError(
                f"output: another run is at work in {folder}: wait for it, or name another folder"
            )
        if not resume:
            require_no_report(folder)
        yield


def where_to_look(
    recipe: Recipe, folder: Path, tracking_uri: str, models: Iterable[str] = ()
) -> list[str]:
    """Lines on where the results of a run are.

    Parameters
    ----------
    recipe : Recipe
    folder : Path
        The output folder.
    tracking_uri : str
    models : iterable of str
        Lines on saved models.
    """
    lines = [f"report: {folder / 'report.html'}"]
    if isinstance(recipe.data, OneFile):
        lines.append(f"recipe: {folder / 'recipe.yaml'}")
    # A tracking server shows its runs itself, any other store needs one.
    shown = f"mlflow ui --backend-store-uri {shlex.quote(tracking_uri)}"
    return [
        *lines,
        *models,
        f"runs:   {tracking_uri if tracking_uri.startswith('http') else shown}",
    ]


def latest_output(recipe: Recipe, kind: str = "") -> Path:
    """The default folder of the recipe in which tuning was last at work.

    Raises
    ------
    ParameterError
        If there is none.
    """
    ours = re.compile(rf"{re.escape(_prefix(recipe, kind))}\d{{8}}-\d{{6}}(-\d+)?")
    journals = [
        journal for journal in HOME.glob(f"*/{JOURNAL}") if ours.fullmatch(journal.parent.name)
    ]
    if not journals:
        raise ParameterError(
            f"resume: no folder {HOME / _prefix(recipe, kind)}... has a {JOURNAL}: name the folder "
            "with --output"
        )
    return max(journals, key=lambda journal: journal.stat().st_mtime).parent


def _prefix(recipe: Recipe, kind: str) -> str:
    return f"{recipe.name}-{kind}-" if kind else f"{recipe.name}-"


def require_no_report(folder: Path) -> None:
    """Raise `ParameterError` if a report would be overwritten."""
    if folder.exists() and not folder.is_dir():
        raise ParameterError(f"output: {folder} is a file; name a folder")
    # Beside no journal, it is not of an earlier study.
    names = REPORT_FILES if (folder / JOURNAL).exists() else (*REPORT_FILES, BEST)
    there = [name for name in names if (folder / name).exists()]
    if there:
        raise ParameterError(
            f"output: {folder} holds the report of an earlier run ({', '.join(there)}), which is "
            "not overwritten: name another folder"
        )


def require_free(path: Path) -> None:
    """Raise `ParameterError` if there is something where a run is going to write."""
    if path.is_symlink() or (path.exists() and not (path.is_dir() and not any(path.iterdir()))):
        raise ParameterError(
            f"output: {path} is there already, and is not overwritten: name another folder"
        )


def make_folder(folder: Path) -> None:
    """Make the folder if need be; raise `ParameterError` if it cannot be written to."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _cannot_be_made(folder, error) from None
    if not os.access(folder, os.W_OK):
        raise ParameterError(f"output: {folder} cannot be written to: name another folder")


def _cannot_be_made(folder: Path, error: OSError) -> ParameterError:
    return ParameterError(f"output: {folder} cannot be made: {error.strerror}")


def best_recipe(recipe: Recipe, outcomes: Iterable[Outcome]) -> Recipe:
    """The recipe with the best parameters of each outcome that was tuned, and without tuning."""
    found = {one.name: one.tuning.best_params for one in outcomes if one.tuning is not None}
    solvers = tuple(
        replace(entry, params={**entry.params, **entry.held, **found.get(entry.name, {})}, space={})
        for entry in recipe.solvers
    )
    return replace(recipe, solvers=solvers, tune=None)


def best_tuned(outcomes: Iterable[Outcome]) -> str | None:
    """Name of the solver with the best value in tuning, as the test set must not choose."""
    quality = {}
    for one in outcomes:
        if one.tuning is not None and one.result is not None:
            sign = 1 if parse_metric(one.tuning.metric).greater_is_better else -1
            quality[one.name] = sign * one.tuning.best_value
    return max(quality, key=quality.__getitem__, default=None)


def write_best(recipe: Recipe, outcomes: Iterable[Outcome], folder: Path) -> None:
    """Write `best_recipe` into a folder, whole or not at all."""
    with replacing(folder / BEST) as stream:
        stream.write(best_recipe(recipe, outcomes).to_yaml().encode())


def digests(recipe: Recipe, splits: Splits, outcomes: Iterable[Outcome]) -> dict[str, str]:
    """Digests of recipe, data and results, and the versions of the packages.

    Two runs with the same digests of recipe and data, and the same versions, should have the
    same digest of the results, which are the test metrics of all solvers by query.
    """
    seeds = (recipe.seed,) if recipe.compare is None else recipe.compare.seeds or (recipe.seed,)
    known = {
        "recipe": _digest(recipe.to_yaml().encode()),
        **{f"{split} data": data_digest(data) for split, data in splits.items()},
        "seed": ", ".join(map(str, seeds)),
    }
    known |= {package: version(package) for package in _PACKAGES}
    return known | {"results": _digest(*_results(outcomes))}


def data_digest(data: Data) -> str:
    """A hash of features, relevance and queries: 32 hexadecimal digits.

    The same numbers in another form (sparse, float32) have another digest.
    """
    X: Any = data.X
    features = [X.data, X.indices, X.indptr] if sparse.issparse(X) else [X]
    arrays = (*features, *data.structure, data.relevance)
    return _digest(*(part for array in arrays for part in _bytes(array)))


def _results(outcomes: Iterable[Outcome]) -> Iterator[Any]:
    for outcome in outcomes:
        for metric, values in outcome.per_query.items():
            yield f"{outcome.name} {metric} ".encode()
            yield from _bytes(values)


def _bytes(array: NDArray[Any]) -> Iterator[Any]:
    yield f"{array.dtype.str} {array.shape} ".encode()
    yield np.ascontiguousarray(array).data


def _digest(*parts: Any) -> str:
    hasher = hashlib.sha256()
    for part in parts:
        hasher.update(part)
    return hasher.hexdigest()[:_HEX_DIGITS]
