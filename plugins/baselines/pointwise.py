"""Any regressor of scikit-learn as a ranker: predict the relevance, sort by it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse
from sklearn.base import clone, is_regressor
from threadpoolctl import threadpool_limits

from rankplug.data import RankingData
from rankplug.exceptions import DataError
from rankplug.models import LinearModel, Model
from rankplug.parameters import Integer, Optional, Parameter, Real
from rankplug.solver import Data, Monitor, Solver, SolverResult, SolverTags
from rankplug.system.cores import available_cores, survive_forks
from rankplug_plugins.baselines.regressor_model import RegressorModel, as_taken

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

__all__ = ["Pointwise"]

_SEEDS = 2**31 - 1
_MODERATE = (1e-12, 1e12)


class _RegressorOrName(Parameter):
    """A regressor of scikit-learn, or one of the names."""

    def accepts(self, value: Any) -> bool:
        """Whether it is a known name or has what a regressor has."""
        if isinstance(value, str):
            return value in _REGRESSORS
        return not isinstance(value, type) and hasattr(value, "fit") and is_regressor(value)

    def __str__(self) -> str:
        return f"a scikit-learn regressor or one of {', '.join(map(repr, _REGRESSORS))}"


class Pointwise(Solver):
    """Regression of the relevance on the features, without regard to queries.

        min over f of sum over rows i of c_q(i) loss(y_i, f(x_i)),   c_q the query's weight

    with the loss and penalty of the regressor; rows are ranked by f. This is what the linear
    rankSVM paper compares with in its section 4.5 [1]_.

    Parameters
    ----------
    regressor : str or scikit-learn regressor
        "ridge", "linear-svr" (support vector regression), "random-forest" or
        "hist-gradient-boosting"; or a regressor, which is cloned.
    C : float > 0
        How much the loss counts against the penalty, for "ridge" (``alpha = 1 / C``) and
        "linear-svr".
    n_estimators : int
        Trees of "random-forest" and "hist-gradient-boosting".
    min_samples_leaf : int
        Least rows of a leaf of these trees.
    n_threads : int, optional
        None leaves the choice to scikit-learn.

    Notes
    -----
    Linear regressors give a `LinearModel`: the intercept, which changes no ranking, is left
    out. Other regressors are saved by skops, without pickling. "hist-gradient-boosting" takes
    dense features only, and makes sparse ones dense.

    References
    ----------
    .. [1] Lee and Lin, Large-scale linear rankSVM, Neural Computation 26 (2014).
    """

    name = "pointwise"
    tags = SolverTags(
        tasks=("query-document",),
        problem="regression of the relevance, row by row",
        reference="Lee and Lin, Large-scale linear rankSVM, 2014, section 4.5",
        exact=False,
    )
    parameters = {
        "regressor": _RegressorOrName(),
        "C": Real(0),
        "n_estimators": Integer(1),
        "min_samples_leaf": Integer(1),
        "n_threads": Optional(Integer(1)),
    }

    def __init__(
        self,
        regressor: Any = "ridge",
        *,
        C: float = 1.0,
        n_estimators: int = 100,
        min_samples_leaf: int = 5,
        n_threads: int | None = None,
    ) -> None:
        self.regressor = regressor
        self.C = C
        self.n_estimators = n_estimators
        self.min_samples_leaf = min_samples_leaf
        self.n_threads = n_threads

    def tuning_space(self, data: Data | None = None) -> dict[str, BaseDistribution]:
        """The regressor, and the penalty or the trees' size, whichever it has."""
        from optuna.distributions import (
            CategoricalDistribution,
            FloatDistribution,
            IntDistribution,
        )

        return {
            "regressor": CategoricalDistribution(tuple(_REGRESSORS)),
            "C": FloatDistribution(1e-4, 100.0, log=True),
            "n_estimators": IntDistribution(20, 300, log=True),
            "min_samples_leaf": IntDistribution(1, 100, log=True),
        }

    def _solve(
        self, data: Data, init: Model | None, monitor: Monitor, rng: np.random.Generator
    ) -> SolverResult:
        assert isinstance(data, RankingData)
        seed = int(rng.integers(_SEEDS))
        if isinstance(self.regressor, str):
            regressor = _REGRESSORS[self.regressor](self)
        else:
            regressor = clone(self.regressor)
        if regressor.get_params(deep=False).get("random_state", seed) is None:
            regressor.set_params(random_state=seed)
        if not np.isfinite(data.relevance @ data.relevance):
            raise DataError(
                f"{self.name}: the relevance is too large: its squares overflow; scale it"
            )
        if self.regressor == "linear-svr":
            _require_moderate(data, self.C)
        survive_forks()
        with threadpool_limits(self.n_threads):
            _fit(regressor, data)
        monitor.report(1)
        return SolverResult(
            model=_model(regressor),
            status=monitor.interruption or "converged",
            objective=None,
            duality_gap=None,
            n_iter=1,
            n_passes=1.0,
        )


def _ridge(solver: Pointwise) -> Any:
    from sklearn.linear_model import Ridge

    return Ridge(alpha=1.0 / solver.C)


def _linear_svr(solver: Pointwise) -> Any:
    from sklearn.svm import LinearSVR

    # The squared loss has a smooth primal problem, which does not need the data scaled.
    return LinearSVR(C=solver.C, loss="squared_epsilon_insensitive", dual=False)


def _require_moderate(data: RankingData, C: float) -> None:
    """Refuse what liblinear may run in circles on, where no signal reaches it."""
    stored = data.X.data if sparse.issparse(data.X) else data.X
    sizes = {"feature": float(np.abs(stored).max(initial=0.0))}
    sizes["relevance"] = float(np.abs(data.relevance).max())
    low, high = _MODERATE
    wrong = [
        f"the largest absolute {what} is {size:g}"
        for what, size in sizes.items()
        if size > 0 and not low <= size <= high
    ]
    scaled = C * sizes["feature"] * sizes["feature"]
    if not wrong and scaled > 0 and not low <= scaled <= high:
        wrong.append(f"C times the square of the largest absolute feature is {scaled:g}")
    if wrong:
        raise DataError(
            f"linear-svr: {' and '.join(wrong)}, but must lie between {low:g} and {high:g}: scale "
            "the features and the relevance, or change C"
        )


def _random_forest(solver: Pointwise) -> Any:
    from sklearn.ensemble import RandomForestRegressor

    return RandomForestRegressor(
        n_estimators=solver.n_estimators,
        min_samples_leaf=solver.min_samples_leaf,
        max_features=1 / 3,
        n_jobs=None if solver.n_threads is None else min(solver.n_threads, available_cores()),
    )


def _hist_gradient_boosting(solver: Pointwise) -> Any:
    from sklearn.ensemble import HistGradientBoostingRegressor

    return HistGradientBoostingRegressor(
        max_iter=solver.n_estimators,
        min_samples_leaf=solver.min_samples_leaf,
        early_stopping=False,
    )


_REGRESSORS: dict[str, Callable[[Pointwise], Any]] = {
    "ridge": _ridge,
    "linear-svr": _linear_svr,
    "random-forest": _random_forest,
    "hist-gradient-boosting": _hist_gradient_boosting,
}


def _fit(regressor: Any, data: RankingData) -> None:
    row_weight = data.row_weight
    weight = {} if row_weight is None else {"sample_weight": row_weight}
    try:
        regressor.fit(as_taken(regressor, data.X), data.relevance, **weight)
    except (ArithmeticError, TypeError, ValueError) as error:
        # The data hold neither, so that numbers overflowed if the message speaks of them.
        remedy = ": scale the features and the relevance" if "inf" in str(error).lower() else ""
        raise DataError(f"{type(regressor).__name__} refuses the data: {error}{remedy}") from None


def _model(regressor: Any) -> Model:
    coef = getattr(regressor, "coef_", None)
    if coef is None or np.size(coef) != regressor.n_features_in_:
        return RegressorModel(regressor)
    return LinearModel(np.ravel(coef))
