"""The solver "mapped": a map of features, then any solver on its columns, as one model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, cast

import numpy as np
from sklearn.base import clone

from rankplug.data import PreferenceData, RankingData
from rankplug.exceptions import ParameterError, RankplugError
from rankplug.maps import FeatureMap, MappedModel, make_map
from rankplug.metrics import Metric, parse_metric
from rankplug.models import Model
from rankplug.parameters import Optional, Parameter, Positive
from rankplug.shards import pair_totals
from rankplug.solver import (
    Data,
    LinearPathSolver,
    Monitor,
    Progress,
    SearchSpace,
    Solver,
    SolverResult,
    SolverTags,
    iterate_path,
    make_solver,
)
from rankplug.system.interruption import interrupted, stopped_by
from rankplug_plugins.mapped.choosing import (
    GRID,
    CSearch,
    MappedData,
    hold_out,
    is_overdue,
    map_data,
    time_of_map,
)


@dataclass(frozen=True)
class _Readable(Parameter):
    """What a function reads without an error."""

    read: Callable[[Any], object]
    words: str

    def accepts(self, value: Any) -> bool:
        try:
            return self.read(value) is not None
        except (RankplugError, TypeError):
            return False

    def __str__(self) -> str:
        return self.words


def read_solver(spec: Any) -> Solver:
    """A solver from its name, ``{name: parameters}``, or itself."""
    if isinstance(spec, Solver):
        return spec
    name, params = _name_and_parameters(spec)
    return make_solver(name, **params)


def _name_and_parameters(spec: Any) -> tuple[str, Mapping[str, Any]]:
    if isinstance(spec, Mapping) and len(spec) == 1:
        ((name, params),) = spec.items()
        return str(name), params or {}
    if isinstance(spec, str):
        return spec, {}
    raise ParameterError(f"solver={spec!r} must be a name, {{name: parameters}} or a Solver")


def _read_metric(name: Any) -> Metric | None:
    return parse_metric(name) if isinstance(name, str) else None


_MAP = _Readable(
    make_map,
    "a map of features: names such as 'leaves + identity', {name: parameters}, or a FeatureMap; "
    "rankplug.list_maps() tells the names",
)
_SOLVER = _Readable(
    read_solver, "the name of a solver such as 'tree-tron', {name: parameters}, or a Solver"
)
_METRIC = _Readable(_read_metric, "the name of a metric, such as 'ndcg@10'")


class Mapped(Solver):
    """Any solver on mapped features: exact rankers of what is not linear.

    1. The map is fitted to the training data: trees are grown, knots are placed.
    2. `C` is chosen, unless it is given: a path of values is solved and scored on validation
       data, or on a fifth of the queries (of the rows, if there is one query) that is held out
       from a first fit of the map.
    3. The solver finds the weights of all columns, with the objective and the certified gap of
       its problem on these columns.

    Parameters
    ----------
    map : str, FeatureMap or mapping, default="leaves + identity"
        What `rankplug.make_map` takes.
    solver : str, Solver or mapping, default="tree-tron"
        The solver, its name, or ``{name: parameters}``.
    C : float, optional
        The parameter `C` of the solver; None chooses it, or leaves a solver that is given with
        its own C as it is, and one without C at its defaults.
    eval_metric : str, optional
        By which C is chosen: "ndcg@10" by default, "pairwise_accuracy" where the relevance is no
        grade, "kendall_tau" for labels.

    Notes
    -----
    Parameters of map and solver are nested as in scikit-learn: ``map__n_estimators``,
    ``map__leaves__trees``, ``solver__tol``.

    References
    ----------
    .. [1] He et al., Practical lessons from predicting clicks on ads at Facebook, ADKDD 2014.
    .. [2] Friedman and Popescu, Predictive learning via rule ensembles, Annals of Applied
       Statistics 2 (2008).
    """

    name = "mapped"
    tags = SolverTags(
        ("query-document", "label-ranking"),
        "the problem of an exact solver, on leaves of trees, splines or kernel features",
        "He et al., ADKDD 2014; Friedman and Popescu, Annals of Applied Statistics 2 (2008)",
        exact=False,
        duality_gap=True,
        validation=True,
        missing_values=True,
    )

    map: Annotated[Any, _MAP] = "leaves + identity"
    solver: Annotated[Any, _SOLVER] = "tree-tron"
    C: Positive | None = None
    eval_metric: Annotated[str | None, Optional(_METRIC)] = None

    def takes_missing_values(self) -> bool:
        """If the map does."""
        return make_map(self.map).takes_missing_values()

    def takes_document_weights(self) -> bool:
        """If the solver does."""
        return read_solver(self.solver).takes_document_weights()

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters and, with `deep`, those of map and solver, also where they are named."""
        found: dict[str, Any] = super().get_params(deep=False)
        if deep and self.parameters["map"].accepts(self.map):
            found |= _nested("map", make_map(self.map), named=not isinstance(self.map, FeatureMap))
        if deep and self.parameters["solver"].accepts(self.solver):
            named = not isinstance(self.solver, Solver)
            found |= _nested("solver", read_solver(self.solver), named=named)
        return found

    def set_params(self, **params: Any) -> Mapped:
        """Set parameters; nested ones make a map or solver of what was named only."""
        if any(key.startswith("map__") for key in params) and "map" not in params:
            self.map = make_map(self.map)
        if "solver" not in params and not isinstance(self.solver, Solver):
            # A solver that is named stays so, and its C is still chosen.
            inner = [key for key in params if key.startswith("solver__")]
            changed = {key.removeprefix("solver__"): params.pop(key) for key in inner}
            if changed:
                name, given = _name_and_parameters(self.solver)
                self.solver = {name: {**given, **changed}}
                read_solver(self.solver)
        super().set_params(**params)
        return self

    def tuning_space(self, data: Data | None = None) -> SearchSpace:
        """C, and what is worth tuning of the map."""
        inner = self._inner_solver()
        space: SearchSpace = {}
        if "C" in inner.get_params(deep=False):
            from optuna.distributions import FloatDistribution

            total = 1.0 if data is None else _unit_c(inner, data)
            # From where next to nothing is learnt to where the loss is all.
            space["C"] = FloatDistribution(0.1 * total, 1e5 * total, log=True)
        of_map = make_map(self.map).tuning_space(data)
        return {**space, **{f"map__{key}": value for key, value in of_map.items()}}

    def check(self, data: Any) -> None:
        """Raise what `solve` would raise about the parameters and the data."""
        super().check(data)
        make_map(self.map).check(data)
        inner = self._inner_solver()
        if data.task not in inner.tags.tasks:
            raise ParameterError(
                f"solver {inner.name!r} solves {', '.join(inner.tags.tasks)}, not {data.task}"
            )

    def _solve(
        self,
        data: Data,
        init: Model | None,
        monitor: Monitor,
        rng: np.random.Generator,
        valid: Data | None = None,
    ) -> SolverResult:
        inner, n_passes = self._inner_solver(), 0.0
        maps, compact = make_map(self.map), self._takes_blocks(inner, data)
        if self._chooses_c(inner):
            train, held = (data, valid) if valid is not None else hold_out(data, rng)
            limit = time_of_map(monitor, searched=train is not data)
            mapped = map_data(maps, train, valid, rng, compact, limit)
            search = CSearch(inner, _unit_c(inner, train) * GRID, monitor, rng)
            if not (interrupted() or is_overdue(monitor)):
                search.run(mapped, held)
            n_passes = search.n_passes
            inner.set_params(C=search.best_c / _unit_c(inner, train) * _unit_c(inner, data))
            if train is data:
                start = search.best if inner.tags.warm_start else None
                result = _solve_within(inner, mapped, monitor, rng, valid, start)
                return _as_result(result, mapped, n_passes + result.n_passes, monitor)
        limit = time_of_map(monitor, searched=False)
        mapped = map_data(maps, data, valid, rng, compact, limit)
        result = _solve_within(inner, mapped, monitor, rng, valid)
        return _as_result(result, mapped, n_passes + result.n_passes, monitor)

    def _solve_path(
        self, data: Data, Cs: Sequence[float], rng: np.random.Generator
    ) -> Iterator[SolverResult]:
        inner = self._inner_solver()
        compact = self._takes_blocks(inner, data)
        mapped = map_data(make_map(self.map), data, None, rng, compact, None)
        for result in iterate_path(inner, mapped.data, Cs, random_state=rng):
            monitor = Monitor(history=list(result.history))
            yield self._finish(_as_result(result, mapped, result.n_passes, monitor), monitor, data)

    def _warn_of_no_convergence(self, result: SolverResult) -> None:
        """Say nothing: the solver within has, with its own parameters."""

    def _explain_vanishing(self, result: SolverResult, monitor: Monitor, data: Any) -> None:
        """None: the solver within has looked."""

    def _inner_solver(self) -> Solver:
        """A copy of the solver, with this C if it is given."""
        inner = cast(Solver, clone(read_solver(self.solver)))
        if self.C is None:
            return inner
        if "C" not in inner.get_params(deep=False):
            raise ParameterError(f"solver {inner.name!r} has no parameter C: leave C out")
        return cast(Solver, inner.set_params(C=self.C))

    def _chooses_c(self, inner: Solver) -> bool:
        """Whether nobody has said which C to take."""
        given = isinstance(self.solver, Solver) or (
            isinstance(self.solver, Mapping) and "C" in (self.solver.get(inner.name) or {})
        )
        return self.C is None and not given and "C" in inner.get_params(deep=False)

    def _takes_blocks(self, inner: Solver, data: Data) -> bool:
        """Whether the solver sees features as shards do, and so takes blocks of columns."""
        return isinstance(inner, LinearPathSolver) and isinstance(data, RankingData)


def _nested(owner: str, made: Any, *, named: bool) -> dict[str, Any]:
    """The parameters of a map or solver; without the objects that were only made to ask them."""
    return {
        f"{owner}__{key}": value
        for key, value in made.get_params().items()
        if not (named and isinstance(value, FeatureMap | list))
    }


def _solve_within(
    inner: Solver,
    mapped: MappedData,
    monitor: Monitor,
    rng: np.random.Generator,
    valid: Data | None,
    start: SolverResult | None = None,
) -> SolverResult:
    """Solve, reporting each iteration; one step is made even if it is time to stop."""
    held = mapped.of(valid) if valid is not None and inner.uses_validation() else None
    n_before = int(monitor.history[-1]["n_iter"]) + 1 if monitor.history else 0
    watched = mapped.watched(monitor)

    def report(step: Progress) -> bool:
        if monitor.interruption is None:
            model, evals = None, None
            if step.model is not None:
                model = partial(_whole_model, mapped, step.model)
                evals = monitor.measure(step.model(), watched) if watched else None
            monitor.report(n_before + step.n_iter, model=model, evals=evals, **step.values)
        return monitor.interruption is not None and step.n_iter > 0

    if monitor.interruption is None and is_overdue(monitor):
        monitor.interruption = "time_limit"
    if monitor.interruption is None and not interrupted():
        return inner.solve(mapped.data, valid=held, init=start, random_state=rng, callback=report)
    with stopped_by(lambda: False):
        return inner.solve(
            mapped.data,
            valid=held,
            init=start,
            random_state=rng,
            callback=lambda step: step.n_iter > 0,
        )


def _whole_model(mapped: MappedData, make_inner: Callable[[], Model]) -> MappedModel:
    return MappedModel(mapped.map, make_inner())


def _as_result(
    result: SolverResult, mapped: MappedData, n_passes: float, monitor: Monitor
) -> SolverResult:
    """The result with the whole model, and what all solves took."""
    n_iter = int(monitor.history[-1]["n_iter"]) if monitor.history else result.n_iter
    best = None if result.best_iter is None else n_iter - result.n_iter + result.best_iter
    model = MappedModel(mapped.map, result.model)
    return replace(result, model=model, n_iter=n_iter, n_passes=n_passes, best_iter=best)


def _unit_c(solver: Solver, data: PreferenceData) -> float:
    """The C with which the loss counts as much as its mean over pairs, or over examples."""
    if not isinstance(solver, LinearPathSolver):
        return 1.0 / data.n_examples
    return 1.0 / pair_totals(data, solver.weighting).pairs if solver.reduction == "sum" else 1.0
