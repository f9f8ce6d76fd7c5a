"""`compare`: a table is split, solvers are trained on it, compared and tracked, in one call."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from rankplug.data import tables
from rankplug.exceptions import RankplugError, UnknownNameError
from rankplug.io.frames import arrow_table, write_frame
from rankplug.metrics import parse_metrics
from rankplug.mlflow.models_folder import ModelsFolder
from rankplug.mlflow.store import resolve_tracking_uri
from rankplug.mlflow.tracking import MlflowObserver
from rankplug.parameters import Integer, Optional, Parameter, check_parameters
from rankplug.recipe import (
    Compare,
    Entry,
    OneFile,
    Recipe,
    Tune,
    find_wrong_name,
    first_recipe,
    parse_recipe,
)
from rankplug.report import REPORT_FILES, Report, to_text
from rankplug.runner import (
    DataLines,
    make_folder,
    new_output,
    require_free,
    require_no_report,
    run,
    where_to_look,
)
from rankplug.solver import Solver, Solvers, name_solvers, solver_class
from rankplug.tuning import plain

_FRAME = Path("data.parquet")


class _Name(Parameter):
    """The name of a recipe."""

    def accepts(self, value: Any) -> bool:
        return isinstance(value, str) and self.mistake(value) is None

    def mistake(self, value: Any) -> str | None:
        return find_wrong_name(value) if isinstance(value, str) else None

    def __str__(self) -> str:
        return "text"


_ARGUMENTS: Mapping[str, Parameter] = {
    "name": _Name(),
    "folds": Optional(Integer(2, most=2**31 - 1)),
    "n_trials": Optional(Integer(1, most=2**31 - 1)),
    "seed": Integer(0, most=2**63 - 1),
}
"""As in recipes."""


def compare(
    data: Any,
    *,
    label: str | None = None,
    qid: str | None = None,
    weight: str | None = None,
    document_weight: str | None = None,
    drop: str | Sequence[str] = (),
    display: str | Sequence[str] = (),
    solvers: Solvers | None = None,
    metrics: str | Sequence[str] = (),
    baseline: str | None = None,
    folds: int | None = None,
    n_trials: int | None = None,
    seed: int = 0,
    name: str = "data",
    output: str | os.PathLike[str] | None = None,
    tracking_uri: str | None = None,
    progress: bool = True,
) -> Report:
    """Train solvers on a table and compare them, as ``rankplug run FILE`` does.

    Queries are divided at random into training (60 %), validation and test set; the columns that
    can be features are chosen, and a line is printed for each of the others, see
    `rankplug.recipe.choose_columns`. Solvers that take no missing values get medians in their
    place, and all get scaled features; both are parts of their models. The table of results is
    printed; report, models, MLflow's runs and a recipe to go on with are in the output folder.

    Parameters
    ----------
    data : pandas, polars or Arrow table, or path
        A row for each document of a query. A table is kept as ``data.parquet`` in the output
        folder.
    label, qid : str, optional
        Columns of the relevance and of the query; "label" and "qid" if omitted.
    weight : str, optional
        Column of the query weight.
    document_weight : str, optional
        Column of a weight for each row, for solvers that take such.
    drop : str or sequence of str
        Columns that are no features.
    display : str or sequence of str
        Columns that describe a document, such as its title, in the report.
    solvers : iterable of str or Solver, or mapping of them by name, optional
        By default ``tree-tron``, ``mapped``, ``xgboost-pairwise`` and, if it is installed and
        labels are grades, ``lightgbm-lambdarank``.
    metrics : str or sequence of str
        Names of `rankplug.metrics`, the primary one first; by default as in recipes.
    baseline : str, optional
        Name of the solver that the others are compared with; by default ``xgboost-pairwise`` if
        it takes part, else the first.
    folds : int, optional
        Test every query once, in so many folds, instead of the test set only.
    n_trials : int, optional
        Tune every solver in so many trials before.
    seed : int
        Of the split and of the solvers.
    name : str
        What report, folder and run are called.
    output : path, optional
        Folder for the files; ``rankplug-output/NAME-DATE-TIME`` if omitted.
    tracking_uri : str, optional
        MLflow's store; ``MLFLOW_TRACKING_URI``, or a file beside the output, if omitted.
    progress : bool
        Show bars if standard error is a terminal or a notebook's.

    Returns
    -------
    Report
        ``outcomes`` has the results: ``outcome.result.model`` is a trained model.

    Raises
    ------
    DataError
        If the table cannot be read or split, or it is not said which columns hold label and
        queries: then those that are likely are listed.
    ParameterError, UnknownNameError
        If an argument has a value that it cannot have.

    Examples
    --------
    >>> report = rankplug.compare(df, label="grade", qid="query_id")  # doctest: +SKIP
    """
    check_parameters("compare", _ARGUMENTS, locals())
    from_file = isinstance(data, str | os.PathLike)
    table = None if from_file else arrow_table(data)
    entries = None if solvers is None else _entries(solvers)
    canonical = tuple(dict.fromkeys(map(str, parse_metrics(metrics).values())))
    source = data if from_file else _FRAME
    roles: dict[str, Any] = {"label": label, "qid": qid, "weight": weight}
    start = first_recipe(
        source, "recipe.yaml", table=table, **roles, document_weight=document_weight, drop=drop
    )
    with _output_folder(output, name) as folder, _kept(table, folder):
        recipe = parse_recipe(
            start.text, name, "recipe", Path.cwd() if from_file else folder.absolute()
        )
        assert isinstance(recipe.data, OneFile)
        shown = replace(recipe.data, display=tables.listed(display))
        recipe = replace(recipe, data=shown, metrics=canonical, seed=int(seed))
        recipe = _with_solvers(recipe, entries, baseline)
        if n_trials is not None:
            recipe = replace(recipe, tune=Tune(n_trials=int(n_trials)))
        if folds is not None:
            recipe = replace(recipe, compare=Compare(folds=int(folds)))
        home = folder.parent if output is None else folder
        tracker = MlflowObserver(folder, resolve_tracking_uri(home, tracking_uri))
        models = ModelsFolder(folder)
        observers = [DataLines(start.lines), models, tracker]
        report = run(recipe, observer=observers, progress=progress, output=folder)
    print(to_text(report))
    print("\n".join(where_to_look(recipe, folder, tracker.tracking_uri, models.lines())))
    return report


@contextmanager
def _output_folder(output: str | os.PathLike[str] | None, name: str) -> Iterator[Path]:
    """The folder for the files; a new one is removed if a mistake leaves it empty."""
    stub = Recipe(name, OneFile(_FRAME), metrics=(), solvers=())
    given = new_output(stub) if output is None else nullcontext(Path(output))
    with given as folder:
        yield folder


@contextmanager
def _kept(table: Any, folder: Path) -> Iterator[None]:
    """The table as a file in the folder, which no other file is replaced by; removed at a mistake.

    Nothing is written where there is no table.
    """
    if table is None:
        yield
        return
    require_no_report(folder)
    make_folder(folder)
    file = folder / _FRAME
    require_free(file)
    write_frame(table, file)
    try:
        yield
    except RankplugError:
        if not any((folder / report).exists() for report in REPORT_FILES):
            file.unlink(missing_ok=True)
        raise


def _entries(solvers: Solvers) -> tuple[Entry, ...]:
    """The solvers as entries of a recipe."""
    return tuple(_entry(name, solver) for name, solver in name_solvers(solvers).items())


def _entry(name: str, solver: str | Solver) -> Entry:
    if isinstance(solver, str):
        solver_class(solver)  # raises
        return Entry(solver, name)
    return Entry(solver.name, name, plain(solver.get_params(deep=False)))


def _with_solvers(
    recipe: Recipe, entries: tuple[Entry, ...] | None, baseline: str | None
) -> Recipe:
    entries = recipe.solvers if entries is None else entries
    names = [entry.name for entry in entries]
    if baseline is None:
        usual = recipe.baseline if recipe.baseline in names else names[0]
        return replace(recipe, solvers=entries, baseline=usual)
    if baseline not in names:
        raise UnknownNameError("baseline", baseline, names)
    return replace(recipe, solvers=entries, baseline=baseline)
