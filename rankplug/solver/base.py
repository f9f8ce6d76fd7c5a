"""The base class of solvers: a checked, timed call from data to a model."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeAlias, cast

import numpy as np
from scipy import sparse
from sklearn.base import clone

from rankplug.data import LabelRankingData, RankingData, tables
from rankplug.exceptions import ConvergenceWarning, DataError, ParameterError, warn_caller
from rankplug.metrics import parse_metric
from rankplug.models import Model
from rankplug.parameters import Declared, OpenParameters, Optional, Real, check_parameters
from rankplug.shards import RemoteRankingData
from rankplug.solver.inputs import (
    AnyData,
    Data,
    check_document_weights,
    check_kinds,
    check_kinds_beside,
    check_validation,
    initial_model,
)
from rankplug.solver.monitor import Callback, Monitor
from rankplug.solver.result import Objective, SolverResult, SolverTags, tells_apart
from rankplug.solver.stopping import EarlyStopping
from rankplug.system.cores import physical_memory
from rankplug.system.interruption import interrupted, interruptible, within_time

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

_ROUNDING = 1e-8
"""By which share of 1 + |objective| rounding errors may put the lower bound above the objective."""

SearchSpace: TypeAlias = "dict[str, BaseDistribution]"
RandomState: TypeAlias = int | np.random.Generator | np.random.RandomState | None


class Solver(Declared, ABC):
    """Base class of solvers.

    A subclass names itself and its `tags`, declares its parameters, and computes in `_solve`;
    where others may minimise the same function, it says which in `describe_objective`. `solve`

    1. checks parameters, data and starting point;
    2. calls `_solve`, which reports each iteration to its `Monitor` and stops when told to;
    3. makes overflow a `DataError`, and of the status "stopped" what the monitor knows of it;
    4. adds history and time, and warns if iterations or digits did not suffice, or if the model
       ranks nothing.

    A parameter is one line of the class body, its type, what it may be and its default::

        class MySolver(Solver):
            C: Annotated[float, Real(0)] = 1.0
            loss: Literal["hinge", "logistic"] = "hinge"

    From these lines, and those of its bases, come ``__init__``, which takes them by keyword, and
    `parameters`; `rankplug.parameters.declared_parameters` tells which annotations declare what.
    For ``MySolver(0.1)`` too, write ``C: ... = field(default=1.0, kw_only=False)``. A class that
    has `parameters` or ``__init__`` in its body is left as it is: then ``__init__`` stores its
    arguments unchanged, as in scikit-learn, and `parameters` names them all.

    Attributes
    ----------
    name : str
        That by which the solver is registered.
    tags : SolverTags
    parameters : mapping of str to Parameter
        What each parameter may be.
    iteration_limit : str
        The parameter that bounds the number of iterations, for messages and progress bars.
    """

    name: ClassVar[str]
    tags: ClassVar[SolverTags]
    iteration_limit: ClassVar[str] = "max_iter"
    _if_vanishing: ClassVar[str] = "No model of this kind has less loss on these data"

    @classmethod
    def split_open(cls, name: str) -> tuple[OpenParameters | None, str]:
        """Of ``params__NAME``, what the library's parameters may be, and NAME; else None."""
        mapping, _, inner = name.partition("__")
        library = cls.parameters.get(mapping) if inner else None
        return (library, inner) if isinstance(library, OpenParameters) else (None, name)

    def set_params(self, **params: Any) -> Self:
        """Set parameters; ``params__NAME`` is one of a mapping of a library's parameters."""
        given = [name for name in params if self.split_open(name)[0] is not None]
        super().set_params(**{name: params[name] for name in params if name not in given})
        for name in given:
            mapping, _, inner = name.partition("__")
            setattr(self, mapping, {**(getattr(self, mapping) or {}), inner: params[name]})
        return self

    @classmethod
    def search_space(cls, data: Data | None = None) -> SearchSpace:
        """`tuning_space` of the solver with its default parameters."""
        return cls().tuning_space(data)

    def tuning_space(self, data: Data | None = None) -> SearchSpace:
        """The parameters worth tuning, each with its Optuna distribution; to be overridden.

        Ranges may depend on the parameters that are not searched and, with `data`, are fitted to
        their size and scale. A solver without anything to tune returns an empty dict.
        """
        return {}

    def takes_missing_values(self) -> bool:
        """Whether features may be missing (NaN) with these parameters; by default as tagged."""
        return self.tags.missing_values

    def takes_document_weights(self) -> bool:
        """Whether rows may have weights with these parameters; by default as tagged."""
        return self.tags.document_weights

    def uses_validation(self) -> bool:
        """Whether validation data change what comes out with these parameters; as tagged."""
        return self.tags.validation

    def describe_objective(self) -> Objective | None:
        """What is minimised with these parameters; None where nothing stated is.

        The values that solvers with equal objectives reach are drawn in one picture. By default
        all parameters count but the tolerance, the limit of iterations and those of early stopping,
        and no other solver has this objective.
        """
        if not self.tags.exact:
            return None
        how = {"tol", self.iteration_limit, "early_stopping_rounds", "eval_metric"}
        params = self.get_params(deep=False)
        return Objective(self.name, {key: params[key] for key in params if key not in how})

    def solve(
        self,
        data: AnyData,
        *,
        valid: Data | None = None,
        watch: Mapping[str, Data] | None = None,
        init: SolverResult | Model | None = None,
        callback: Callback | None = None,
        random_state: RandomState = None,
        time_limit: float | None = None,
    ) -> SolverResult:
        """Train on `data`.

        Parameters
        ----------
        data : RankingData, LabelRankingData or RemoteRankingData
            The last for solvers tagged `distributed`.
        valid : RankingData or LabelRankingData, optional
            Validation data with the features of `data`. Solvers with `early_stopping_rounds` stop
            early by them, those tagged `validation` choose by them; the others leave them aside.
        watch : mapping of str to RankingData or LabelRankingData, optional
            Data to be measured after each iteration, by their names in `SolverResult.evals`. The
            metric is the solver's `eval_metric`, if it has one, else ndcg@10, or kendall_tau of
            labels; pairwise_accuracy where the labels are no gains.
        init : SolverResult or Model, optional
            Where to start, for solvers tagged `warm_start` or `takes_init`; what to add to, for
            those tagged `continues`, which leave it as it is and return a model that holds both.
        callback : callable, optional
            Called with a `Progress` after each iteration; a true return value stops. Its errors
            end the call.
        random_state : int, Generator, RandomState or None
        time_limit : float, optional
            Seconds after which to stop with what was reached (checked after each iteration, and
            by online and dual solvers within an epoch).

        Raises
        ------
        ParameterError
            If a parameter has a value it cannot have, or the solver cannot go on from `init`.
        DataError
            If the solver cannot take such data, there is no preference pair in them, or numbers
            overflow.

        Notes
        -----
        Ctrl-C, or SIGTERM, stops the solver with what was reached, and an `InterruptionWarning`.
        A second one within ten seconds has its usual effect, and so has one before there is a
        model, or if the program handles that signal itself; see `rankplug.system.interruption`.
        """
        self.check(data)
        watch = watch or {}
        for one in (valid, *watch.values()):
            check_validation(data, one)
        check_kinds_beside(self, valid, watch)
        model = initial_model(self.name, self.tags, data, init)
        check_parameters("solve", {"time_limit": Optional(Real(0))}, {"time_limit": time_limit})
        named = getattr(self, "eval_metric", None)
        metric = None if named is None else parse_metric(named)
        monitor = Monitor(callback, time_limit, name=self.name, watched=watch, metric=metric)
        monitor.stopping = self._stop_early(valid, monitor)
        validation = {"valid": valid} if self.tags.validation else {}
        rng = as_generator(random_state)
        # Numbers that overflow show in the result, which is checked.
        with interruptible(self.name), within_time(time_limit), np.errstate(all="ignore"):
            with self._overflow_refused(monitor):
                # Only solvers that can do with remote data get them.
                result = self._solve(cast(Data, data), model, monitor, rng, **validation)
            return self._finish(result, monitor, data)

    def check(self, data: AnyData) -> None:
        """Raise what `solve` would raise about the parameters and the data."""
        self.check_values()
        if isinstance(data, RemoteRankingData):
            self._check_remote(data)
        else:
            self._check_local(data)
        check_kinds(self, data)
        check_document_weights(self, data)
        data.require_pairs()

    def _check_remote(self, data: RemoteRankingData) -> None:
        if not self.tags.distributed:
            raise DataError(
                f"{self.name} needs all rows in one place and does not run on a cluster; "
                f"{', '.join(data.suitable_solvers())} do: take one of them, or train on "
                "RankingData"
            )

    def _check_local(self, data: Data) -> None:
        if not isinstance(data, RankingData | LabelRankingData):
            raise DataError(
                f"{self.name} needs RankingData or LabelRankingData, not {type(data).__name__}: "
                "make them with RankingData.from_arrays(X, y, qid)"
            )
        if data.task not in self.tags.tasks:
            raise DataError(f"{self.name} solves {', '.join(self.tags.tasks)}, not {data.task}")
        if sparse.issparse(data.X) and not self.tags.sparse:
            raise DataError(f"{self.name} takes dense features only: pass X.toarray()")
        if 8 * data.n_features * (data.n_labels or 1) > physical_memory():
            raise DataError(
                f"{data.n_features:,} features: this machine's memory does not hold a weight for "
                "each; is an index in the data wrong?"
            )

    @abstractmethod
    def _solve(
        self, data: Data, init: Model | None, monitor: Monitor, rng: np.random.Generator
    ) -> SolverResult:
        """Compute; parameters and data are valid, `monitor.report` hears of every iteration.

        Where that returns False, the solver ends as "stopped"; `FloatingPointError` says that
        numbers are too large. A solver tagged `validation` declares one argument more,
        ``valid: Data | None = None``.
        """

    def _stop_early(self, valid: Data | None, monitor: Monitor) -> EarlyStopping | None:
        """What watches the validation data, if they are to end the run."""
        return None

    @contextmanager
    def _overflow_refused(self, monitor: Monitor, **weight: float) -> Iterator[None]:
        """Make `FloatingPointError` a `DataError` that names the weight of the loss, C or lam."""
        try:
            yield
        except FloatingPointError as error:
            if error is monitor.failure:
                raise
            params = self.get_params(deep=False)
            weight = weight or {key: params[key] for key in ("C", "lam") if key in params}
            values = ", ".join(f"{key}={value:g}" for key, value in weight.items())
            raise DataError(
                f"{self.name} cannot go on{f' with {values}' if values else ''}: {error}; scale "
                "the features, for example each to a largest absolute value of 1, or regularise "
                "more"
            ) from None

    def _solve_path(
        self, data: Data, Cs: Sequence[float], rng: np.random.Generator
    ) -> Iterable[SolverResult]:
        """Solve for each C in turn, from the solution of the one before where possible.

        Best as a generator, so that a caller can look at each result, and stop.
        """
        result = None
        for C in Cs:
            solver = clone(self).set_params(C=C)
            init = result if self.tags.warm_start else None
            result = solver.solve(data, init=init, random_state=rng)
            yield result

    def _finish(self, result: SolverResult, monitor: Monitor, data: AnyData) -> SolverResult:
        """Add time, history, names and the reason of a stop; warn without convergence.

        Where validation data prefer an earlier model, the result is of that one.

        Raises
        ------
        DataError
            If the objective or the duality gap is no finite number.
        """
        _require_finite(self.name, result)
        status = result.status
        if status == "stopped" and monitor.interruption is None and monitor.is_late():
            monitor.interruption = "time_limit"  # which long work has found out
        if status == "stopped" and (monitor.interruption is not None or interrupted()):
            status = monitor.interruption or "stopped"
        else:
            kept = self._keeps_promise(result)
            if status in ("stopped", "converged") and kept is not None:
                status = "converged" if kept else "stopped"
            if status in ("stopped", "max_iter"):
                self._warn_of_no_convergence(result)
            result = replace(result, status=status)
        stopping = monitor.stopping
        if stopping is not None and stopping.prefers(result.model):
            result = _go_back(result, stopping)
            if status == "converged" and not self._keeps_promise(result):
                status = "stopped"
            reason = self._explain_equal_scores(result, data)
        else:
            reason = self._explain_vanishing(result, monitor, data) if self.tags.learns else None
        if reason is not None:
            warn_caller(f"{self.name}: {reason}")
        result.model.feature_names = data.feature_names
        result.model.categories = dict(data.categories)
        if not isinstance(data, LabelRankingData) and data.n_queries > 1:
            result.model.query_column = data.query_column or tables.QUERY_COLUMN
        result.model.id_columns = getattr(data, "id_columns", ())
        result.model.zero_based = bool(getattr(data, "zero_based", False))
        return replace(
            result,
            status=status,
            history=tuple(monitor.history),
            seconds=time.perf_counter() - monitor.started,
            interrupted=interrupted(),
            evals=monitor.finished_evals(result.model),
        )

    def _keeps_promise(self, result: SolverResult) -> bool | None:
        """Whether the certificate proves what "converged" promises; None if there is none.

        By default: the certified gap is at most the share `tol` of the objective. This alone, not
        what the solver believes, decides between "converged" and "stopped". A solver whose
        tolerance is one of something else, which it certifies itself, overrides it.
        """
        tol = self.get_params(deep=False).get("tol")
        if tol is None or result.objective is None or result.duality_gap is None:
            return None
        return bool(result.duality_gap <= tol * abs(result.objective) * (1.0 + _ROUNDING))

    def _warn_of_no_convergence(self, result: SolverResult) -> None:
        """Say how far a solver came that ran out of iterations or of digits."""
        reached = {"objective": result.objective, "duality gap": result.duality_gap}
        values = ", ".join(f"{k} {v:.6g}" for k, v in reached.items() if v is not None)
        why, remedy = "", f"raise {self.iteration_limit} or tol, "
        if result.status != "max_iter":
            why, remedy = ", as rounding errors allow no more progress,", "raise tol, "
        warn_caller(
            f"{self.name} stopped after {result.n_iter} iterations{why} before reaching its "
            f"tolerance{f' ({values})' if values else ''}: {remedy}scale the features, for example "
            "to mean 0 and standard deviation 1, or regularise more",
            ConvergenceWarning,
        )

    def _explain_vanishing(
        self, result: SolverResult, monitor: Monitor, data: AnyData
    ) -> str | None:
        """Why the model ranks nothing, and what to try; None if it ranks something."""
        if result.status != "converged" or isinstance(data, RemoteRankingData):
            return None
        value, zero = result.objective, monitor.objective_of_zero
        if value is not None and zero is not None and value >= zero:
            why = f"is no better than w = 0 (objective {value:g}, that of 0 {zero:g}), which ranks"
            return self._name_remedies(why)
        return self._explain_equal_scores(result, data)

    def _explain_equal_scores(self, result: SolverResult, data: AnyData) -> str | None:
        """The same, if all scores are equal; None if some differ."""
        if isinstance(data, RemoteRankingData) or tells_apart(result.model, data):
            return None
        items = "rows of a query" if data.n_labels is None else "labels of an instance"
        return self._name_remedies(f"gives the same score to all {items}, which ranks")

    def _name_remedies(self, why: str) -> str:
        remedies = "scale the features, add others, or regularise less"
        return f"the model {why} nothing. {self._if_vanishing}; {remedies}"


def as_generator(random_state: RandomState) -> np.random.Generator:
    """A NumPy generator from what scikit-learn calls a random state."""
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31))
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError):
        raise ParameterError(
            f"random_state={random_state!r} must be None, an integer >= 0 or a NumPy generator"
        ) from None


def _go_back(result: SolverResult, stopping: EarlyStopping) -> SolverResult:
    """The result with the best model; its gap is the distance from the same lower bound."""
    assert stopping.best is not None
    n_iter, _, model, objective = stopping.best
    end, gap = result.objective, result.duality_gap
    if objective is None or end is None or gap is None:
        gap = None
    else:
        gap = max(objective - (end - gap), 0.0)
    return replace(result, model=model, objective=objective, duality_gap=gap, best_iter=n_iter)


def _require_finite(name: str, result: SolverResult) -> None:
    numbers = {"objective": result.objective, "duality gap": result.duality_gap}
    for what, value in numbers.items():
        if value is not None and not math.isfinite(value):
            raise DataError(
                f"{name}: the {what} is {value}, because numbers overflow: scale the features, for "
                "example to mean 0 and standard deviation 1, scale the relevance if it is large, "
                "or regularise more"
            )
    if result.objective is None or result.duality_gap is None:
        return
    if result.duality_gap < -_ROUNDING * (1.0 + abs(result.objective)):
        raise DataError(
            f"{name}: the lower bound of the objective is above it by {-result.duality_gap:.3g}, "
            "because rounding errors outweigh what is to be learnt: scale the features, for "
            "example to mean 0 and standard deviation 1"
        )
