"""What happens after each of XGBoost's rounds: a report to the monitor, and early stopping."""

from __future__ import annotations

from typing import Any

from rankplug.boosting import ranking_metric
from rankplug.solver import Monitor
from rankplug_plugins.boosting.boosted_trees import log_name
from rankplug_plugins.boosting.watching import STOPPING, Watch


def make_progress(
    monitor: Monitor, metric: str, early_stopping_rounds: int | None, watch: Watch
) -> Any:
    """A training callback that reports each round to `monitor` and stops early."""
    from xgboost.callback import EarlyStopping, TrainingCallback

    name = ranking_metric(metric).__name__
    stopping = None
    if early_stopping_rounds is not None:
        stopping = EarlyStopping(
            rounds=early_stopping_rounds,
            metric_name=name,
            data_name=STOPPING,
            maximize=True,
            save_best=True,
        )

    class Progress(TrainingCallback):
        def before_training(self, model: Any) -> Any:
            return model if stopping is None else stopping.before_training(model)

        def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
            stop, values = False, {}
            if stopping is not None:
                stop = stopping.after_iteration(model, epoch, evals_log)
                values = {log_name(metric): evals_log[STOPPING][name][-1]}
            return not monitor.report(epoch + 1, evals=watch.values, **values) or stop

        def after_training(self, model: Any) -> Any:
            return model if stopping is None else stopping.after_training(model)

    return Progress()
