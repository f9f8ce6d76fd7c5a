"""Tags, objectives and results of solvers: what they declare and return."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

import numpy as np

from rankplug.data import LabelRankingData, RankingData, Task, even_spans
from rankplug.display import html_facts
from rankplug.exceptions import DataError
from rankplug.models import Model

_LAST_DIGITS = 4 * float(np.finfo(np.float64).eps)
"""By which share of the scores' size equal ones may differ."""
_ITEMS_AT_ONCE = 2**12
"""Items scored at once in search of two different scores, which the first ones have as a rule."""

Status: TypeAlias = Literal["converged", "max_iter", "time_limit", "stopped"]


@dataclass(frozen=True)
class SolverTags:
    """What a solver can do.

    Attributes
    ----------
    tasks : tuple of "query-document" and "label-ranking"
    problem : str
        The problem it solves, in one line.
    reference : str
        Where the method comes from.
    exact : bool
        Finds the minimum of a stated convex problem: the order of the rows, rows without a
        preference and queries of weight zero change nothing.
    sparse : bool
        Takes sparse features.
    duality_gap : bool
        Its results carry a certified duality gap.
    warm_start : bool
        `Solver.solve` can start from an earlier result or model.
    takes_init : bool
        `Solver.solve` can start from any model that scores such data, of which it makes what its
        method needs; paths and searches begin anew at each C.
    online : bool
        Has a parameter `online`, with which ``init`` stands for rows seen before: it can learn
        from new ones alone.
    continues : bool
        `Solver.solve` can add to an earlier model, which stays as it is, as boosted trees do.
    kernel : bool
        Can use kernel functions.
    one_query : bool
        Ranks all rows together as a rule, or row by row: nobody has forgotten the queries then.
    validation : bool
        Uses validation data of its own accord; its `_solve` takes them as ``valid``. An
        `IterativeSolver` stops early by them without.
    missing_values : bool
        Takes features that are missing (NaN), and its models predict where some are. Where that
        depends on parameters, `Solver.takes_missing_values` says it.
    categories : bool
        Takes columns of categories, as codes 1, 2, ... (see `PreferenceData.categories`).
    distributed : bool
        Takes `RemoteRankingData`, as it sees data through `rankplug.objectives.open_pairs` only, or
        knows how to work on a cluster.
    document_weights : bool
        Uses the weights of rows (`RankingData.document_weight`); the others refuse data that have
        some. Where that depends on parameters, `Solver.takes_document_weights` says it.
    learns : bool
        Ranks well what can be learned; False for sanity rankers.
    requires : tuple of str
        Modules it needs beyond rankplug's own dependencies.
    """

    tasks: tuple[Task, ...]
    problem: str
    reference: str
    exact: bool = True
    sparse: bool = True
    duality_gap: bool = False
    warm_start: bool = False
    takes_init: bool = False
    online: bool = False
    continues: bool = False
    kernel: bool = False
    one_query: bool = False
    validation: bool = False
    missing_values: bool = False
    categories: bool = False
    distributed: bool = False
    document_weights: bool = False
    learns: bool = True
    requires: tuple[str, ...] = ()

    def replace(self, **changes: Any) -> SolverTags:
        """The same tags but for some."""
        return replace(self, **changes)


@dataclass(frozen=True)
class Objective:
    """What a solver minimises, to be compared: equal ones have the same minimum on the same data.

    Attributes
    ----------
    problem : str
        Its name, the same in all solvers of the problem.
    parameters : mapping of str to value
        Those that enter it, under the same names in all of these solvers.
    """

    problem: str
    parameters: Mapping[str, Any] = field(hash=False)


@dataclass(frozen=True)
class SolverResult:
    """The model that a solver found, and how it went.

    Attributes
    ----------
    model : Model
    status : "converged", "max_iter", "time_limit" or "stopped"
        "stopped": by the callback, a signal or early stopping, or because rounding errors allow no
        further progress.
    objective : float or None
        Value of the solver's problem at the model; None where there is no stated problem.
    duality_gap : float or None
        Certified difference between the objective and a lower bound of its minimum, in the
        objective's own units.
    n_iter : int
        Outer iterations.
    n_passes : float
        Passes over the features: a fused Hessian-vector product is one, some of the rows are a part
        of one.
    history : tuple of dict
        One row an iteration: ``n_iter``, ``seconds`` and the solver's own numbers.
    seconds : float
        Wall time of the whole call.
    interrupted : bool
        Whether a signal, or the loop around the solver, asked it to stop.
    evals : mapping of str to mapping of str to tuple of float
        Of the data that were watched, each metric's values: ``evals["validation_0"]["ndcg@10"]``
        has one for each row of `history` (NaN where there was no model yet), or only the model's,
        if the solver does not show its models on the way.
    best_iter : int or None
        The iteration whose model this is, if validation data preferred it to the last one. The
        objective and the gap are those of this model, and `n_iter` counts all iterations.
    """

    model: Model
    status: Status
    objective: float | None
    duality_gap: float | None
    n_iter: int
    n_passes: float
    history: tuple[dict[str, float], ...] = ()
    seconds: float = 0.0
    interrupted: bool = False
    evals: Mapping[str, Mapping[str, tuple[float, ...]]] = field(default_factory=dict)
    best_iter: int | None = None

    def _facts(self) -> dict[str, Any]:
        """What a table of the result says of it."""
        last = {
            f"{metric}, {name}": f"{values[-1]:.4f}"
            for name, metrics in self.evals.items()
            for metric, values in metrics.items()
            if values
        }
        return {
            "status": self.status,
            "objective": None if self.objective is None else f"{self.objective:.6g}",
            "duality gap": None if self.duality_gap is None else f"{self.duality_gap:.3g}",
            "iterations": f"{self.n_iter:,}",
            **({} if self.best_iter is None else {"best iteration": f"{self.best_iter:,}"}),
            "passes over the data": f"{self.n_passes:.6g}",
            "seconds": f"{self.seconds:.3g}",
            "model": f"{self.model.kind}, {self.model.n_features} features",
            **last,
        }

    def __repr__(self) -> str:
        facts = [f"{key} {value}" for key, value in self._facts().items() if value is not None]
        return f"<SolverResult: {', '.join(facts)}>"

    def _repr_html_(self) -> str:
        return html_facts("SolverResult", self._facts())


def tells_apart(model: Model, data: RankingData | LabelRankingData) -> bool:
    """Whether two scores in a query, or an instance, differ by more than rounding errors."""
    items = np.concatenate(([0], np.cumsum(data.sizes)))
    for b, e in even_spans(items, int(items[-1]) // _ITEMS_AT_ONCE + 1):
        part = data.take(np.arange(b, e))
        try:
            scores = model.predict(part.X)
        except DataError:  # scores that overflow are not the same
            return True
        if isinstance(part, RankingData):
            starts = part.query_ptr[:-1]
            spreads = np.maximum.reduceat(scores, starts) - np.minimum.reduceat(scores, starts)
        else:
            spreads = np.ptp(scores, axis=1)
        if spreads.max() > _LAST_DIGITS * np.abs(scores).max():
            return True
    return False
