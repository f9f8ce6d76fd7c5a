"""Exceptions and warnings.

Every mistake of a caller ends in one of these, with a message that says what is
wrong, where, and what to do about it.
"""

from __future__ import annotations

import difflib
import sys
import warnings
from collections.abc import Iterable
from types import FrameType

from sklearn.exceptions import ConvergenceWarning

__all__ = [
    "ClusterError",
    "ConvergenceWarning",
    "DataError",
    "DataWarning",
    "InterruptionWarning",
    "ModelFormatError",
    "ParameterError",
    "RankplugError",
    "RecipeError",
    "SolverUnavailableError",
    "TuningError",
    "UnknownNameError",
    "nearest",
    "warn_caller",
]

# Modules whose lines are never the caller's: with-statements run contextlib's, pipelines and
# searches scikit-learn's.
_INSIDE = ("rankplug", "rankplug_plugins", "contextlib", "sklearn", "joblib")


class RankplugError(Exception):
    """Base class of all errors raised by rankplug."""


class DataError(RankplugError, ValueError):
    """The data cannot be read or cannot be ranked."""


class ParameterError(RankplugError, ValueError):
    """A parameter of a solver or a function has a value it cannot have."""


class RecipeError(RankplugError, ValueError):
    """A recipe is not valid."""


class ModelFormatError(RankplugError, ValueError):
    """A saved model is incomplete, altered, or of an unknown format."""


class ClusterError(RankplugError):
    """A cluster does not answer, or has lost what cannot be had again."""


class TuningError(RankplugError):
    """A study has no complete trial, so there is no best one, or it cannot be written."""


class DataWarning(UserWarning):
    """Data were taken for something that they may not have been meant to be."""


class InterruptionWarning(UserWarning):
    """A solver was stopped by a signal and returns the model it has so far."""


class UnknownNameError(RankplugError, ValueError):
    """A solver, metric or data set of that name does not exist.

    The message names the nearest known one.
    """

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        self.kind = kind
        self.name = name
        self.known = sorted(known)
        super().__init__(f"unknown {kind} {name!r}{nearest(name, self.known)}")

    def __reduce__(self) -> tuple[type[UnknownNameError], tuple[str, str, list[str]]]:
        return type(self), (self.kind, self.name, self.known)


class SolverUnavailableError(RankplugError, ImportError):
    """A registered solver cannot be used here; the message says why."""


def nearest(name: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown name: a suggestion and the choices."""
    choices = sorted(known)
    small = {choice.lower(): choice for choice in choices}
    close = difflib.get_close_matches(name.lower(), small, n=1)
    suggestion = f"; did you mean {small[close[0]]!r}?" if close else ""
    return f"{suggestion} (known: {', '.join(choices) or 'none'})"


def warn_caller(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line that called rankplug, through however many of its own functions."""
    level = 1
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_globals.get("__name__", "").split(".")[0] in _INSIDE:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
