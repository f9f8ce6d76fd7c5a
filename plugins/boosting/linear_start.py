"""Boosted trees that start from the scores of a linear solver."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from rankplug.exceptions import ParameterError
from rankplug.models import LinearModel, Model
from rankplug.parameters import Optional, Parameter, Real
from rankplug.solver import Data, Monitor, Solver, SolverResult, SolverTags, make_solver
from rankplug_plugins.boosting.linear_start_model import LinearThenTreesModel
from rankplug_plugins.boosting.xgboost_model import XGBoostModel
from rankplug_plugins.boosting.xgboost_solvers import XGBoostAllPairs

if TYPE_CHECKING:
    import numpy as np
    from optuna.distributions import BaseDistribution

__all__ = ["LinearThenBoost"]


class _SolverOrName(Parameter):
    """A solver, or the name of a registered one."""

    def accepts(self, value: Any) -> bool:
        return isinstance(value, str | Solver)

    def __str__(self) -> str:
        return "a Solver or the name of one, such as 'tree-tron'"


@dataclass(kw_only=True, repr=False, eq=False)
class LinearThenBoost(XGBoostAllPairs):
    """A linear ranker first, then boosted trees that correct it, as one model.

    The scores of the linear solver are the start of XGBoost's trees, which minimise the loss of
    all pairs from there (see `XGBoostAllPairs`). With the squared hinge and "tree-tron" both
    parts have the same loss. The score is ``X @ coef + trees(X)``.

    Parameters
    ----------
    linear : str or Solver
        The linear solver, or its registered name, for its defaults.
    C : float > 0, optional
        The parameter `C` of a linear solver that is named; None leaves it at its default.
    loss, pair_weight, n_estimators, learning_rate, ...
        See `XGBoostAllPairs`. The learning rate is lower here by default, because the start is
        a good one.

    Notes
    -----
    The history and the number of iterations are those of the trees. Interrupted before the first
    of them, the model is the linear one.
    """

    name: ClassVar[str] = "linear-then-boost"
    tags: ClassVar[SolverTags] = SolverTags(
        tasks=("query-document",),
        problem="a linear rankSVM, then boosted trees on all pairs from its scores",
        reference="Lee and Lin (2014), then Chen and Guestrin, KDD 2016",
        exact=False,
        validation=True,
        requires=("xgboost",),
    )
    parameters: ClassVar[dict[str, Parameter]] = {
        **XGBoostAllPairs.parameters,
        "linear": _SolverOrName(),
        "C": Optional(Real(0)),
    }

    linear: str | Solver = "tree-tron"
    C: float | None = None
    learning_rate: float = 0.1

    def tuning_space(self, data: Data | None = None) -> dict[str, BaseDistribution]:
        """That of `XGBoostAllPairs`, and `C` of a linear solver that is named."""
        space = super().tuning_space(data)
        linear = {} if isinstance(self.linear, Solver) else self._linear_solver().tuning_space(data)
        return {**space, "C": linear["C"]} if "C" in linear else space

    def check(self, data: Data) -> None:
        """Raise what `solve` would raise about the parameters and the data."""
        super().check(data)
        self._linear_solver().check(data)

    def _solve(
        self,
        data: Data,
        init: Model | None,
        monitor: Monitor,
        rng: np.random.Generator,
        valid: Data | None = None,
    ) -> SolverResult:
        solver = self._linear_solver()
        linear = solver.solve(data, random_state=rng, time_limit=monitor.time_limit)
        start = linear.model
        if not isinstance(start, LinearModel):
            raise ParameterError(
                f"linear={solver.name!r} gives a model of kind {start.kind!r}, not a linear one"
            )
        if linear.interrupted:
            return replace(linear, status="stopped", objective=None, duality_gap=None, n_iter=0)
        result = self._boost(data, valid, monitor, rng, start)
        assert isinstance(result.model, XGBoostModel)
        return replace(result, model=LinearThenTreesModel(start, result.model))

    def _linear_solver(self) -> Solver:
        if isinstance(self.linear, Solver):
            if self.C is not None:
                raise ParameterError("C is for a linear solver that is named: set the solver's own")
            return self.linear
        return make_solver(self.linear, **({} if self.C is None else {"C": self.C}))
