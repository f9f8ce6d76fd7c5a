"""What `fit` is given to watch a training by: validation sets, callbacks and `verbose`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from rankplug.exceptions import ParameterError
from rankplug.parameters import Integer
from rankplug.solver import Callback, Progress

_LIBRARIES = ("xgboost", "lightgbm", "catboost", "keras")


def validation_sets(eval_set: Any, eval_qid: Any = None) -> list[tuple[Any, Any, Any]]:
    """``(X, y, qid)`` of each validation set: of ``(X, y)``, or of ``[(X, y), ...]`` as in XGBoost.

    Raises
    ------
    ParameterError
        If they are no pairs, or the query ids not as many.
    """
    if eval_set is None:
        if eval_qid is not None:
            raise ParameterError("eval_qid is given without eval_set=(X, y)")
        return []
    several = isinstance(eval_set, list) and (
        len(eval_set) == 1 or all(isinstance(pair, tuple) for pair in eval_set)
    )
    pairs = eval_set if several else [eval_set]
    if not pairs or not all(isinstance(pair, list | tuple) and len(pair) == 2 for pair in pairs):
        raise ParameterError("eval_set must be one pair (X, y), or a list of pairs")
    if not several or eval_qid is None:
        return [(X, y, eval_qid) for X, y in pairs]
    if not isinstance(eval_qid, list | tuple) or len(eval_qid) != len(pairs):
        arrays = "one array" if len(pairs) == 1 else f"{len(pairs)} arrays"
        raise ParameterError(f"eval_qid must be a list of {arrays}, one for each of eval_set")
    return [(X, y, qid) for (X, y), qid in zip(pairs, eval_qid, strict=True)]


def make_callback(callbacks: Any, verbose: Any) -> Callback | None:
    """One callback of several, and of `verbose`, which prints every so many iterations.

    Raises
    ------
    ParameterError
        If a callback cannot be called, or is one of another library's.
    """
    called = _check_callbacks(callbacks)
    if not (verbose is None or isinstance(verbose, bool) or Integer(0).accepts(verbose)):
        raise ParameterError(
            f"verbose={verbose!r} must be True, for a line an iteration, False, or how many "
            "iterations have one line"
        )
    if verbose:
        called.append(_Printer(int(verbose)))
    return _Several(called) if called else None


def _check_callbacks(callbacks: Any) -> list[Callable[[Progress], Any]]:
    if callbacks is None:
        return []
    several = list(callbacks) if isinstance(callbacks, Iterable) else [callbacks]
    for number, callback in enumerate(several):
        library = type(callback).__module__.split(".")[0]
        if library in _LIBRARIES or not callable(callback):
            raise ParameterError(
                f"callbacks[{number}] is a {type(callback).__name__}"
                f"{f' of {library}' if library in _LIBRARIES else ''}, not a function that takes "
                "a rankplug.solver.Progress, the same for all solvers, and returns True to stop; "
                "early stopping is a parameter of solvers, early_stopping_rounds"
            )
    return several


class _Several:
    """Calls all of them, whatever the first ones say; any of them can stop the solver."""

    def __init__(self, callbacks: list[Callable[[Progress], Any]]) -> None:
        self._callbacks = callbacks

    def __call__(self, progress: Progress) -> bool:
        return sum(bool(callback(progress)) for callback in self._callbacks) > 0


class _Printer:
    """Prints the first iteration, and then every so many."""

    def __init__(self, period: int) -> None:
        self._period, self._n_seen = period, 0

    def __call__(self, progress: Progress) -> None:
        if self._n_seen % self._period == 0:
            print(progress, flush=True)
        self._n_seen += 1
