"""Optuna's plots of a study, drawn by matplotlib."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

from optuna import Study
from optuna.trial import FrozenTrial
from optuna.visualization import matplotlib as plots

__all__ = ["study_figures"]

_PLOTS: dict[str, Callable[..., Any]] = {
    "history.png": plots.plot_optimization_history,
    "importance.png": plots.plot_param_importances,
    "slice.png": plots.plot_slice,
}


def study_figures(study: Study, metric: str) -> Iterator[tuple[str, Any]]:
    """File names and figures: the metric over the trials, its parameters' importance, and slices.

    A plot that has too little to show, such as the importance in a single trial, is left out.
    Every figure is closed when the next one is asked for; style settings stay as they were.
    """
    import matplotlib
    from matplotlib import pyplot

    for name, plot in _PLOTS.items():
        with matplotlib.rc_context(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            before = set(pyplot.get_fignums())
            try:
                plot(study, target=_first_value, target_name=metric)
                figure = pyplot.gcf()
                figure.set_size_inches(9, 5)
                figure.tight_layout()
                yield name, figure
            except (ValueError, RuntimeError):
                continue
            finally:
                for number in set(pyplot.get_fignums()) - before:
                    pyplot.close(number)


def _first_value(trial: FrozenTrial) -> float:
    return float(trial.values[0])
