"""Boosted trees that start from the scores of a linear solver, and the model of both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from rankplug.data import Matrix
from rankplug.exceptions import ModelFormatError, ParameterError
from rankplug.models import Contributions, LinearModel, Model
from rankplug.parameters import Parameter, Positive
from rankplug.shards import RemoteRankingData
from rankplug.solver import Data, Monitor, SearchSpace, Solver, SolverResult, make_solver
from rankplug_plugins.boosting.constraints import CONSTRAINTS
from rankplug_plugins.boosting.xgboost_model import XGBoostModel
from rankplug_plugins.boosting.xgboost_solvers import XGBoostAllPairs


class _SolverOrName(Parameter):
    """A solver, or the name of a registered one."""

    def accepts(self, value: Any) -> bool:
        return isinstance(value, str | Solver)

    def __str__(self) -> str:
        return "a Solver or the name of one, such as 'tree-tron'"


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
    loss, pair_weight, reduction, document_pairs, n_estimators, learning_rate, ...
        Those of the trees: see `XGBoostAllPairs`. The learning rate is lower here by default,
        because the start is a good one.

    Notes
    -----
    The history and the number of iterations are those of the trees. Interrupted before the first
    of them, the model is the linear one.
    """

    name = "linear-then-boost"
    tags = XGBoostAllPairs.tags.replace(
        tasks=("query-document",),
        problem="a linear rankSVM, then boosted trees on all pairs from its scores",
        reference="Lee and Lin (2014), then Chen and Guestrin, KDD 2016",
        missing_values=False,
        categories=False,
    )
    linear: Annotated[str | Solver, _SolverOrName()] = "tree-tron"
    C: Positive | None = None
    learning_rate: float = 0.1

    def tuning_space(self, data: Data | None = None) -> SearchSpace:
        """That of `XGBoostAllPairs`, and `C` of a linear solver that is named."""
        space = super().tuning_space(data)
        linear = {} if isinstance(self.linear, Solver) else self._linear_solver().tuning_space(data)
        return {**space, "C": linear["C"]} if "C" in linear else space

    def check(self, data: Data | RemoteRankingData) -> None:
        """Raise what `solve` would raise about the parameters and the data."""
        super().check(data)
        if any(name in CONSTRAINTS for name in self.params or {}):
            raise ParameterError(
                f"{self.name}: constraints would hold for the trees, not for the linear part: take "
                "xgboost-all-pairs"
            )
        self._linear_solver().check(data)

    def _solve(
        self,
        data: Data,
        init: Model | None,
        monitor: Monitor,
        rng: np.random.Generator,
        valid: Data | None = None,
        start: Model | None = None,
    ) -> SolverResult:
        if init is not None:
            return self._go_on(data, init, monitor, rng, valid)
        solver = self._linear_solver()
        held = valid if solver.uses_validation() else None
        linear = solver.solve(data, valid=held, random_state=rng, time_limit=monitor.time_limit)
        start = linear.model
        if not isinstance(start, LinearModel):
            raise ParameterError(
                f"linear={solver.name!r} gives a model of kind {start.kind!r}, not a linear one"
            )
        if linear.interrupted:
            return replace(linear, status="stopped", objective=None, duality_gap=None, n_iter=0)
        result = super()._solve(data, None, monitor, rng, valid, start)
        assert isinstance(result.model, XGBoostModel)
        return replace(result, model=LinearThenTreesModel(start, result.model))

    def _go_on(
        self,
        data: Data,
        init: Model,
        monitor: Monitor,
        rng: np.random.Generator,
        valid: Data | None,
    ) -> SolverResult:
        """Add trees to an earlier model, whose linear part stays."""
        if not isinstance(init, LinearThenTreesModel):
            raise ParameterError(
                f"{self.name} goes on from its own models, not from one of kind {init.kind!r}: "
                "leave out init"
            )
        result = super()._solve(data, init.trees, monitor, rng, valid, init.linear)
        assert isinstance(result.model, XGBoostModel)
        return replace(result, model=LinearThenTreesModel(init.linear, result.model))

    def _linear_solver(self) -> Solver:
        if isinstance(self.linear, Solver):
            if self.C is not None:
                raise ParameterError("C is for a linear solver that is named: set the solver's own")
            return self.linear
        return make_solver(self.linear, **({} if self.C is None else {"C": self.C}))


class LinearThenTreesModel(Model):
    """Scores ``X @ coef + trees(X)``.

    Parameters
    ----------
    linear : LinearModel
    trees : XGBoostModel
        Trained from the linear scores, with a base score of 0.
    """

    kind = "linear-then-trees"
    requires = ("xgboost",)

    def __init__(self, linear: LinearModel, trees: XGBoostModel) -> None:
        self.linear = linear
        self.trees = trees

    @property
    def n_features(self) -> int:
        """Number of features of a row."""
        return self.linear.n_features

    def _predict(self, X: Matrix) -> NDArray[np.float64]:
        return self.linear._predict(X) + self.trees._predict(X)

    def feature_importances(self) -> NDArray[np.float64]:
        """Total gain of the trees' splits that use each feature."""
        return self.trees.feature_importances()

    def _contributions(self, X: Matrix) -> Contributions:
        return self.linear._contributions(X) + self.trees._contributions(X)

    def _write(self, folder: Path) -> dict[str, Any]:
        return {"linear": self.linear._write(folder), "trees": self.trees._write(folder)}

    @classmethod
    def _read(cls, folder: Path, header: Mapping[str, Any]) -> LinearThenTreesModel:
        of_linear, of_trees = header.get("linear"), header.get("trees")
        if not (isinstance(of_linear, dict) and isinstance(of_trees, dict)):
            raise ModelFormatError(f"{folder}: the description lacks the linear part or the trees")
        linear, trees = LinearModel._read(folder, of_linear), XGBoostModel._read(folder, of_trees)
        if linear.n_features != trees.n_features:
            raise ModelFormatError(
                f"{folder}: {linear.n_features} weights, but trees of {trees.n_features} features"
            )
        return cls(linear, trees)
