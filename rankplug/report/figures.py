"""The report's figures, one at a time, on axes of Matplotlib: for notebooks and papers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import numpy as np

from rankplug.data import to_dense
from rankplug.exceptions import DataError, ParameterError, UnknownNameError
from rankplug.models import Model, find_contributions
from rankplug.report.plots.canvas import PALETTE, Styles, shorten, styles_of
from rankplug.report.plots.convergence import draw_convergence, same_objective, steps_of
from rankplug.report.plots.curves import draw_ndcg
from rankplug.report.plots.maps import draw_shape, is_additive, movers
from rankplug.report.plots.tradeoffs import (
    COSTS,
    draw_means,
    draw_queries,
    draw_tradeoff,
    draw_trials,
    points_of,
)
from rankplug.report.plots.weights import draw_influence, influences, label_features, strongest
from rankplug.report.report import Outcome, Report
from rankplug.solver import Data, Solver, SolverResult


def plot_convergence(
    source: Any, *, against: Literal["passes", "seconds"] = "passes", ax: Any = None
) -> Any:
    """Distance of each solver's objective from its minimum, as it trained.

    Parameters
    ----------
    source : Report, SolverResult, fitted Ranker, or mapping of names to results or rankers
        Solvers of different objectives are drawn together, each relative to its own minimum: the
        best certified bound that the solvers of this objective found.
    against : "passes" or "seconds"
        The x axis; iterations, where passes were not recorded.
    ax : matplotlib Axes, optional
        New ones if omitted.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    DataError
        If no solver recorded an objective.
    """
    outcomes = _outcomes(source)
    groups = same_objective(outcomes)
    if not groups:
        raise DataError("no solver here recorded an objective on its way: nothing converged")
    if against not in ("passes", "seconds"):
        raise ParameterError(f"against={against!r} is neither 'passes' nor 'seconds'")
    drawn = [one for group in groups for one in group]
    column, unit = ("seconds", "seconds") if against == "seconds" else steps_of(drawn)
    with _on(ax) as axes:
        draw_convergence(axes, groups, column, unit, _styles(source, outcomes))
        _add_legend(axes)
    return axes


def plot_differences(report: Report, *, by_query: bool = False, ax: Any = None) -> Any:
    """Differences to the baseline in the primary metric: means with 95 % intervals, or queries.

    Parameters
    ----------
    report : Report
    by_query : bool
        Draw the difference of every query, sorted, instead of means and intervals.
    ax : matplotlib Axes, optional

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    DataError
        If there is no baseline, no other solver, or only one query.
    """
    _require_report(report)
    drawn = {one.name for one in report.competitors}
    found = [one for one in report.comparisons if one.n_queries > 1 and one.name in drawn]
    if not found:
        raise DataError("there is nothing to compare: no baseline, no other solver, or one query")
    with _on(ax) as axes:
        styles = _styles(report, report.competitors)
        if by_query:
            draw_queries(axes, found, report, styles)
            _add_legend(axes)
        else:
            draw_means(axes, found, styles)
    return axes


def plot_ndcg(report: Report, *, ax: Any = None) -> Any:
    """Mean NDCG on the test set at each cutoff, with 95 % intervals over queries.

    Parameters
    ----------
    report : Report
        With its test set and the solvers' scores, as runs return it.
    ax : matplotlib Axes, optional

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    DataError
        If test set or scores are missing, or the labels have no NDCG.
    """
    _require_report(report)
    scored = [one for one in report.competitors if one.scores is not None]
    if report.test is None or not scored:
        raise DataError("the report holds no test set or no scores, which the curve needs")
    with _on(ax) as axes:
        if not draw_ndcg(axes, report, report.test, scored, _styles(report, scored)):
            raise DataError("these labels, or queries of one document, have no NDCG to draw")
        _add_legend(axes)
    return axes


def plot_tradeoffs(report: Report, cost: str = "train_seconds", *, ax: Any = None) -> Any:
    """Quality of each solver against a cost; a line joins those that nobody beats in both.

    Parameters
    ----------
    report : Report
    cost : str
        A key of `Outcome.costs`, such as "model_bytes" or "predict_us_1", or "train_seconds".
    ax : matplotlib Axes, optional

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    UnknownNameError
        If there is no such cost.
    DataError
        If it is known of no solver.
    """
    _require_report(report)
    if cost not in COSTS:
        raise UnknownNameError("cost", cost, COSTS)
    points = points_of(report, cost)
    if not points:
        raise DataError(f"{cost} is known of no solver of the report")
    with _on(ax) as axes:
        draw_tradeoff(axes, points, cost, report.metrics[0], _styles(report, report.competitors))
        _add_legend(axes)
    return axes


def plot_tuning(
    report: Report, *, against: Literal["trial", "seconds"] = "trial", ax: Any = None
) -> Any:
    """Values of the trials of tuning, and the best so far; crosses were pruned or failed.

    Parameters
    ----------
    report : Report
        Of a run that tuned.
    against : "trial" or "seconds"
    ax : matplotlib Axes, optional

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    DataError
        If nothing was tuned.
    """
    _require_report(report)
    if against not in ("trial", "seconds"):
        raise ParameterError(f"against={against!r} is neither 'trial' nor 'seconds'")
    tuned = {one.name: one.tuning for one in report.outcomes if one.tuning and one.tuning.history}
    if not tuned:
        raise DataError("no solver of the report was tuned")
    with _on(ax) as axes:
        draw_trials(axes, tuned, against, styles_of(tuned, report.baseline))
        _add_legend(axes)
    return axes


def plot_weights(
    source: Any,
    name: str | None = None,
    *,
    data: Data | None = None,
    most: int = 15,
    ax: Any = None,
) -> Any:
    """Weights of a linear model, or the importances of another, the strongest features first.

    Parameters
    ----------
    source : Report, Model, SolverResult, fitted Ranker, or mapping of names to any of these
    name : str, optional
        Which model, if there are several; by default the first that tells.
    data : RankingData or LabelRankingData, optional
        Weights are multiplied by the standard deviations of its features, which makes them
        comparable; by default the report's test set.
    most : int
        How many features at most.
    ax : matplotlib Axes, optional

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    UnknownNameError
        If there is no model of that name.
    DataError
        If no model tells, as kernel models do not.
    """
    if data is None and isinstance(source, Report):
        data = source.test
    models = _models(source, name)
    found = influences(models, data)
    if not found:
        raise DataError(f"neither weights nor importances are known of {', '.join(models)}")
    one = found[0]
    chosen = strongest([one], most)
    with _on(ax) as axes:
        draw_influence(axes, one, chosen, label_features([models[one.name]], chosen))
        axes.set_title(shorten(one.name))
    return axes


def plot_shapes(
    source: Any,
    data: Any = None,
    *,
    features: Sequence[int | str] | None = None,
    name: str | None = None,
    ax: Any = None,
) -> Any:
    """What features add to the score of an additive model, above their distribution.

    Models of the solver "mapped" are additive if each column of their map is made of one feature,
    as those of "splines" are. The functions have mean 0 over the data.

    Parameters
    ----------
    source : Report, Model, SolverResult, fitted Ranker, or mapping of names to any of these
    data : RankingData, LabelRankingData or array of shape (n_samples, n_features)
        The distribution; by default the report's test set.
    features : sequence of int or str, optional
        Positions or names; by default the eight that move the scores most.
    name : str, optional
        Which model, if there are several; by default the first additive one.
    ax : matplotlib Axes or array of them, optional
        As many as there are features; new ones if omitted.

    Returns
    -------
    ndarray of matplotlib Axes
        One for each feature.

    Raises
    ------
    DataError
        If there is no additive model, or no data with its features.
    """
    models = _models(source, name)
    additive = (one for one in models.values() if is_additive(one))
    model = next(additive, None)
    if model is None:
        raise DataError(f"none of {', '.join(models)} is an additive model of the solver 'mapped'")
    if data is None and isinstance(source, Report):
        data = source.test
    if data is None:
        raise DataError("shapes need data=, the rows over which features are distributed")
    X = to_dense(getattr(data, "X", data))
    X = np.asarray(X, dtype=np.float64)
    if X.ndim != 2 or X.shape[1] != model.n_features:
        raise DataError(f"data of shape {X.shape} for a model of {model.n_features} features")
    names = list(model.feature_names or (f"column {j}" for j in range(model.n_features)))
    effects = find_contributions(model, X).values
    chosen = movers(effects) if features is None else [_position(one, names) for one in features]
    if not chosen:
        raise DataError("no feature moves the scores of this model")
    unknown = [names[j] for j in chosen if np.isnan(X[:, j]).all()]
    if unknown:
        raise DataError(f"no row has a value of {', '.join(unknown)}: there is nothing to draw")
    given = _grid(len(chosen)) if ax is None else list(np.ravel(ax))
    if len(given) != len(chosen):
        raise ParameterError(f"{len(given)} axes for {len(chosen)} features")
    for feature, own in zip(chosen, given, strict=True):
        with _on(own) as axes:
            draw_shape(axes, model, X, effects, feature, PALETTE[0])
            axes.set_title(shorten(names[feature]))
    return np.array(given, dtype=object)


def _grid(number: int) -> list[Any]:
    """New axes, four in a row."""
    import matplotlib.pyplot as plt

    columns = min(4, number)
    rows = -(-number // columns)
    size = (3.2 * columns, 2.4 * rows)
    _, grid = plt.subplots(rows, columns, figsize=size, squeeze=False, layout="constrained")
    for unused in grid.flat[number:]:
        unused.set_axis_off()
    return list(grid.flat[:number])


@contextmanager
def _on(ax: Any) -> Iterator[Any]:
    """The axes given, or new ones; names are text there, whatever signs of formulas they hold."""
    import matplotlib

    with matplotlib.rc_context({"text.parse_math": False}):
        if ax is not None:
            yield ax
            return
        import matplotlib.pyplot as plt

        figure, ax = plt.subplots(layout="constrained")
        try:
            yield ax
        except BaseException:
            plt.close(figure)
            raise


def _add_legend(axes: Any) -> None:
    if axes.get_legend_handles_labels()[0]:
        axes.legend()


def _styles(source: Any, outcomes: Sequence[Outcome]) -> Styles:
    """As on the report's page, where the source is a report."""
    baseline = source.baseline if isinstance(source, Report) else None
    return styles_of([one.name for one in outcomes], baseline)


def _require_report(report: Any) -> None:
    if not isinstance(report, Report):
        raise ParameterError(
            f"this figure is one of a Report, as rankplug.compare returns it, not of "
            f"{type(report).__name__}"
        )


def _position(feature: int | str, names: Sequence[str]) -> int:
    if isinstance(feature, str):
        if feature not in names:
            raise UnknownNameError("feature", feature, names)
        return names.index(feature)
    if not 0 <= feature < len(names):
        raise ParameterError(f"there is no feature {feature}: there are {len(names)}")
    return feature


def _named(source: Any) -> Mapping[str, Any]:
    """Results, models and estimators by name."""
    if isinstance(source, Mapping):
        return source
    solver = getattr(source, "solver", None)
    word = solver.name if isinstance(solver, Solver) else solver
    if isinstance(source, SolverResult):
        word = source.model.kind
    return {word if isinstance(word, str) else getattr(source, "kind", "model"): source}


def _outcomes(source: Any) -> tuple[Outcome, ...]:
    """Results as outcomes; of an estimator's the solver is known, and so its objective."""
    if isinstance(source, Report):
        return source.competitors
    found = []
    for name, one in _named(source).items():
        result, solver = getattr(one, "result_", one), getattr(one, "solver", None)
        if not isinstance(result, SolverResult):
            raise ParameterError(
                f"{name}: a result or a fitted ranker is wanted, not {type(one).__name__}"
            )
        params = solver.get_params(deep=False) if isinstance(solver, Solver) else {}
        of = solver.name if isinstance(solver, Solver) else solver
        found.append(Outcome(str(name), of or "", params, result.status, result=result))
    return tuple(found)


def _models(source: Any, name: str | None) -> dict[str, Model]:
    if isinstance(source, Report):
        named: Mapping[str, Any] = {one.name: one.result for one in source.competitors}
    else:
        named = _named(source)
    models = {}
    for key, one in named.items():
        model = one.model if isinstance(one, SolverResult) else getattr(one, "model_", one)
        if not isinstance(model, Model):
            raise ParameterError(
                f"{key}: a model, a result or a fitted ranker is wanted, not {type(one).__name__}"
            )
        models[str(key)] = model
    if name is None:
        return models
    if name not in models:
        raise UnknownNameError("model", name, models)
    return {name: models[name]}
