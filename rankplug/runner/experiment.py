"""`run`: every solver of a recipe is tuned, trained and scored on the same data."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import nullcontext, suppress
from pathlib import Path

from rankplug.exceptions import SolverUnavailableError, UnknownNameError
from rankplug.recipe import Entry, Recipe
from rankplug.report import SANITY_SOLVERS, Outcome, ParetoTrials, Report, write_report
from rankplug.runner.clicks import describe_clicks
from rankplug.runner.observer import Observer, ProgressBars
from rankplug.runner.output import claim_output, digests, make_folder, new_output, write_best
from rankplug.runner.plan import Plan, make_plan
from rankplug.runner.settling import settle_columns, settle_metrics
from rankplug.runner.splits import Splits, describe_split, load_logs, load_splits
from rankplug.runner.turn import Search, Turn
from rankplug.solver import Data, make_solver, solver_class
from rankplug.system.interruption import ending_loop
from rankplug.tuning import JOURNAL
from rankplug.tuning.records import combine


def run(
    recipe: Recipe,
    *,
    observer: Observer | Iterable[Observer] = (),
    progress: bool = True,
    output: str | Path | None = None,
    resume: bool = False,
    search: Search | None = None,
) -> Report:
    """Tune, train and score every solver of a recipe, and write the report's files.

    A solver that fails becomes an outcome with the status "failed"; the others still run.
    When the user interrupts a solver (Ctrl-C, or SIGTERM unless the program handles it itself),
    its outcome is "stopped", the rest is left out, and the report has `interrupted` set.

    Parameters
    ----------
    recipe : Recipe
    observer : Observer or several of them
    progress : bool
        Show a progress bar for each solver if standard error is a terminal or a notebook's.
    output : path, optional
        Folder for the report's files, which no other run may be using; `default_output` if left
        out.
    resume : bool
        Go on with tuning studies that are there already, and replace an earlier report.
    search : callable, optional
        What tunes instead of `rankplug.tune`, with its arguments, such as `rankplug.dask.tune`.

    Raises
    ------
    DataError
        If the data cannot be read, scaled or divided, or the splits do not fit each other.
    ParameterError
        If the folder cannot be written to, or, if `resume` is false, holds a report or is that of
        another run at work.
    """
    chosen = new_output(recipe) if output is None else nullcontext(Path(output))
    with chosen as folder, claim_output(folder, resume=resume):
        return _run(recipe, observer, progress, folder, resume, search)


def _run(
    recipe: Recipe,
    observer: Observer | Iterable[Observer],
    progress: bool,
    folder: Path,
    resume: bool,
    search: Search | None,
) -> Report:
    """Load the data, tell the observers how the run goes, and let the solvers compete."""
    recipe, lines = settle_columns(recipe)
    clicks = None
    if recipe.reads_logs:
        splits, clicks = load_logs(recipe)
    else:
        splits = load_splits(recipe)
    recipe = settle_metrics(recipe, splits)
    lines += describe_split(recipe, splits)
    plan = make_plan(recipe, splits, clicks)
    used = plan.parts[0].prepare().clicks if recipe.clicks is not None else None
    lines += () if used is None else describe_clicks(used)
    # Bars first, so that they are closed before the others begin to write.
    observers = combine(Observer, ProgressBars() if progress else (), observer)
    make_folder(folder)
    with ending_loop():
        try:
            observers.data_loaded(lines)
            observers.run_started(recipe, splits)
            report = _compete(recipe, splits, plan, observers, folder, resume, search)
            observers.run_finished(report, folder)
        except BaseException as error:
            observers.run_failed(error)
            raise
    return report


def _compete(
    recipe: Recipe,
    splits: Splits,
    plan: Plan,
    observers: Observer,
    folder: Path,
    resume: bool,
    search: Search | None,
) -> Report:
    """Give each solver its turn and write the report, also of a part of them."""
    storage = (recipe.tune and recipe.tune.storage) or folder / JOURNAL
    outcomes: list[Outcome] = []
    pareto: list[ParetoTrials] = []
    try:
        for entry in competitors(recipe, plan.test):
            held = {} if recipe.tune is None else entry.held
            solver = make_solver(entry.solver, **{**entry.params, **held})
            observers.solver_started(entry.name, solver)
            turn = Turn(entry, solver, recipe, plan, observers, storage, resume, search)
            outcomes.append(turn.run())
            pareto += filter(None, [turn.pareto()])
            observers.solver_finished(outcomes[-1])
            if outcomes[-1].interrupted:
                break
    finally:
        report = Report(
            name=recipe.name,
            metrics=recipe.metrics,
            outcomes=tuple(outcomes),
            recipe=recipe.to_yaml(),
            splits=plan.sizes,
            query_ids=plan.test.example_ids,
            baseline=recipe.baseline,
            digests=digests(recipe, splits, outcomes),
            pareto=tuple(pareto),
            test=plan.test,
        )
        write_report(report, folder)
        if recipe.tune is not None and not plan.folded:
            write_best(recipe, outcomes, folder)
    return report


def competitors(recipe: Recipe, data: Data) -> tuple[Entry, ...]:
    """The entries of a recipe and, unless it has or declines them, the sanity rankers.

    Those learn next to nothing: what does not beat them has learned nothing.
    """
    entries = list(recipe.solvers)
    taken = {text for entry in entries for text in (entry.solver, entry.name)}
    for name in SANITY_SOLVERS if recipe.sanity else ():
        with suppress(SolverUnavailableError, UnknownNameError):
            if data.task in solver_class(name).tags.tasks and name not in taken:
                entries.append(Entry(name, name))
    return tuple(entries)
