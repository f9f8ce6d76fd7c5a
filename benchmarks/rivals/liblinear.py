"""LIBLINEAR's rankSVM extension: trust region Newton with selection trees, in C++.

Its program ``train``, which the environment variable `RANKPLUG_LIBLINEAR_TRAIN` names, reads
svmlight text and writes a model file. Its seconds are those of the process less those of one that
stops at once, so that reading the text does not count.
"""

from __future__ import annotations

import os
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from scipy import sparse

from benchmarks.measure import Timed, Timing
from benchmarks.rivals.base import Fitted, Rival
from rankplug.data import RankingData
from rankplug.exchange import import_model
from rankplug.io import write_data

_VARIABLE = "RANKPLUG_LIBLINEAR_TRAIN"

_AT_ONCE = 1e9
"""A tolerance that the start meets: the gradient may be so many times its own norm there."""


@dataclass(frozen=True)
class _Text:
    """A file in a folder that lives as long as this, and the number of features."""

    folder: TemporaryDirectory[str]
    n_features: int

    @property
    def path(self) -> Path:
        return Path(self.folder.name) / "train.txt"


def _prepare(data: RankingData) -> _Text:
    """The data as svmlight text, with all digits and without zeros."""
    text = _Text(TemporaryDirectory(), data.n_features)
    X = sparse.csr_array(data.X)
    numbered = RankingData.from_arrays(X, data.relevance, data.row_query + 1)
    write_data(numbered, text.path)
    return text


def _fit(text: _Text, *, C: float, tol: float) -> Timed[Fitted]:
    reading, whole = _run(text, C, _AT_ONCE), _run(text, C, tol)
    model: Any = import_model(_model_of(text), "liblinear")[0]
    coef = np.zeros(text.n_features)
    coef[: len(model.coef)] = model.coef  # the program knows no features that are 0 in all rows
    return Timed(Fitted(lambda X: X @ coef, coef), whole - reading)


def _run(text: _Text, C: float, tol: float) -> Timing:
    """The program's seconds."""
    options = ["-s", "8", "-c", repr(C), "-e", repr(tol), "-q"]
    before, start = getrusage(RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([os.environ[_VARIABLE], *options, text.path, _model_of(text)], check=True)
    wall, after = time.perf_counter() - start, getrusage(RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Timing(wall, cpu, cpu)


def _model_of(text: _Text) -> Path:
    return text.path.with_suffix(".model")


RIVAL = Rival(
    "liblinear-ranksvm", "rankplug", "resource", "squared-hinge", _fit, _prepare, variable=_VARIABLE
)
