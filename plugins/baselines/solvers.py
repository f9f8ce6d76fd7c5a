"""Baseline solvers: a constant, the best single feature, and regressions of the relevance."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import field, replace
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import clone, is_regressor
from threadpoolctl import threadpool_limits

from rankplug._fast.pairs import ActivePairs, Queries
from rankplug.data import RankingData, largest_stored, to_dense
from rankplug.exceptions import DataError
from rankplug.models import LinearModel, Model
from rankplug.parameters import Count, Parameter, Positive, Threads
from rankplug.shards import UNIFORM, RemoteRankingData, weigh_pairs
from rankplug.solver import Data, Monitor, SearchSpace, Solver, SolverResult, SolverTags
from rankplug.system.cores import available_cores, survive_forks
from rankplug.system.interruption import interrupted
from rankplug_plugins.baselines.regressor_model import (
    RegressorModel,
    convert_features,
    fills_missing,
    is_made_dense,
    takes_missing,
)

# The least positive number: two scores differ by at least that much or are tied.
_TIE = np.nextafter(0.0, 1.0)

_REGRESSORS = ("ridge", "linear-svr", "random-forest", "hist-gradient-boosting")
_TREES = _REGRESSORS[2:]
_LARGEST_SEED = 2**31 - 1  # scikit-learn takes 32 bits

# Of numbers for liblinear: wide for any sensible scale, and their squares are far from the ends of
# float64.
_MODERATE = (1e-12, 1e12)

_SANITY = SolverTags(
    tasks=("query-document",),
    problem="",
    reference="sanity check",
    exact=False,
    learns=False,
    document_weights=True,
)


class Baseline(Solver):
    """A solver of one step for documents: a subclass finds the model in `_find`.

    There is no stated convex problem: the result has no objective and no duality gap. Its one
    iteration makes as many passes over the features as `passes` says.
    """

    passes = 1.0

    @abstractmethod
    def _find(self, data: RankingData, rng: np.random.Generator) -> Model:
        """The model for these data."""

    def _solve(
        self, data: Data, init: Model | None, monitor: Monitor, rng: np.random.Generator
    ) -> SolverResult:
        assert isinstance(data, RankingData)
        model = self._find(data, rng)
        monitor.report(1)
        return SolverResult(
            model=model,
            status=monitor.interruption or "converged",
            objective=None,
            duality_gap=None,
            n_iter=1,
            n_passes=self.passes,
        )


class Constant(Baseline):
    """The same score for every row: what a metric gives to no ranking at all.

    A metric in which this ranker does well is broken, or counts queries without a relevant row.
    """

    name = "constant"
    tags = replace(_SANITY, problem="none: every row has the score 0", missing_values=True)
    passes = 0.0

    def _find(self, data: RankingData, rng: np.random.Generator) -> LinearModel:
        return LinearModel(np.zeros(data.n_features), skip_missing=True)


class SingleFeature(Baseline):
    """The one feature, rising or falling, that orders the most pairs of the training data.

    The share of all preference pairs (i, j) with ``x_i > x_j``, ties counting one half, weighted
    by query. In data whose features are scores of retrieval models, such as LETOR's, one of them
    is often hard to beat.
    """

    name = "single-feature"
    tags = replace(
        _SANITY, problem="the feature and sign with the most pairs of the training data in order"
    )

    def _find(self, data: RankingData, rng: np.random.Generator) -> LinearModel:
        balance = _wins_less_losses(data)
        best = int(np.argmax(np.abs(balance)))
        coef = np.zeros(data.n_features)
        coef[best] = 1.0 if balance[best] >= 0 else -1.0
        return LinearModel(coef)


def _wins_less_losses(data: RankingData) -> NDArray[np.float64]:
    """For each feature, the weighted number of pairs in order, less those in reverse order."""
    weight = data.weights
    row_weight = weight[data.row_query]
    factors = UNIFORM.factors(data.relevance, data.document_weight)
    pairs = ActivePairs(Queries(data.query_ptr, data.relevance, weight, **factors.given))
    total = weight @ weigh_pairs(data)
    balance = np.zeros(data.n_features)
    for j in range(data.n_features):
        if interrupted():
            break
        values = np.ascontiguousarray(to_dense(data.X[:, [j]]), dtype=np.float64).ravel()
        pairs.update(values, 0.0)
        lost = pairs.count @ row_weight / 2
        pairs.update(values, _TIE)
        lost_or_tied = pairs.count @ row_weight / 2
        balance[j] = (total - lost_or_tied) - lost
    return balance


class _RegressorOrName(Parameter):
    """A regressor of scikit-learn, or one of the names."""

    def accepts(self, value: Any) -> bool:
        """Whether it is a known name or has what a regressor has."""
        if isinstance(value, str):
            return value in _REGRESSORS
        return not isinstance(value, type) and hasattr(value, "fit") and is_regressor(value)

    def __str__(self) -> str:
        return f"a scikit-learn regressor or one of {', '.join(map(repr, _REGRESSORS))}"


class Pointwise(Baseline):
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
    out. "hist-gradient-boosting" takes dense features only, and makes sparse ones dense.
    scikit-learn's trees, forests, gradient boosting, SVR, NuSVR and KernelRidge, and pipelines
    of scalers and one of these or a linear regressor, are saved as arrays. Models of other
    regressors predict, but cannot be saved.

    References
    ----------
    .. [1] Lee and Lin, Large-scale linear rankSVM, Neural Computation 26 (2014).
    """

    name = "pointwise"
    tags = SolverTags(
        tasks=("query-document",),
        one_query=True,
        problem="regression of the relevance, row by row",
        reference="Lee and Lin, Large-scale linear rankSVM, 2014, section 4.5",
        exact=False,
        missing_values=True,
    )

    regressor: Annotated[Any, _RegressorOrName()] = field(default="ridge", kw_only=False)
    C: Positive = 1.0
    n_estimators: Count = 100
    min_samples_leaf: Count = 5
    n_threads: Threads = None

    def tuning_space(self, data: Data | None = None) -> SearchSpace:
        """The regressor, and the penalty or the trees' size, whichever it has."""
        from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

        return {
            "regressor": CategoricalDistribution(_REGRESSORS),
            "C": FloatDistribution(1e-4, 100.0, log=True),
            "n_estimators": IntDistribution(20, 300, log=True),
            "min_samples_leaf": IntDistribution(1, 100, log=True),
        }

    def takes_missing_values(self) -> bool:
        """As the regressor says of itself: trees do, linear ones do not."""
        if isinstance(self.regressor, str):
            return self.regressor in _TREES
        return takes_missing(self.regressor)

    def check(self, data: Data | RemoteRankingData) -> None:
        """Raise what `solve` would raise about the parameters and the data."""
        super().check(data)
        if not isinstance(data, RankingData) or not sparse.issparse(data.X):
            return
        regressor = self._new_regressor()
        if data.has_missing and not (is_made_dense(regressor) or fills_missing(regressor)):
            raise DataError(
                f"{self.name}: scikit-learn's trees take missing values in dense features only: "
                "pass X.toarray()"
            )

    def _find(self, data: RankingData, rng: np.random.Generator) -> Model:
        seed = int(rng.integers(_LARGEST_SEED))
        regressor = self._new_regressor()
        if regressor.get_params(deep=False).get("random_state", seed) is None:
            regressor.set_params(random_state=seed)
        if not np.isfinite(data.relevance @ data.relevance):
            raise DataError(
                f"{self.name}: the relevance is too large: its squares overflow; scale it"
            )
        if self.regressor == "linear-svr":
            _require_moderate(data, self.C)
        survive_forks()
        with threadpool_limits(self._threads()):
            _fit(regressor, data)
        coef = getattr(regressor, "coef_", None)
        if coef is None or np.size(coef) != regressor.n_features_in_:
            return RegressorModel(regressor)
        return LinearModel(np.ravel(coef))

    def _new_regressor(self) -> Any:
        named = isinstance(self.regressor, str)
        return self._make_regressor(self.regressor) if named else clone(self.regressor)

    def _make_regressor(self, name: str) -> Any:
        from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
        from sklearn.linear_model import Ridge
        from sklearn.svm import LinearSVR

        if name == "ridge":
            return Ridge(alpha=1.0 / self.C)
        if name == "linear-svr":
            # The squared loss has a smooth primal problem, which does not need the data scaled.
            return LinearSVR(C=self.C, loss="squared_epsilon_insensitive", dual=False)
        if name == "random-forest":
            return RandomForestRegressor(
                n_estimators=self.n_estimators,
                min_samples_leaf=self.min_samples_leaf,
                max_features=1 / 3,  # Breiman's advice for regression
                n_jobs=self._threads(),
            )
        return HistGradientBoostingRegressor(
            max_iter=self.n_estimators, min_samples_leaf=self.min_samples_leaf, early_stopping=False
        )

    def _threads(self) -> int | None:
        """No more than there are processors: more cannot be made."""
        return None if self.n_threads is None else min(self.n_threads, available_cores())


def _require_moderate(data: RankingData, C: float) -> None:
    """Refuse what liblinear may run in circles on, where no signal reaches it."""
    sizes = {"feature": largest_stored(data.X)}
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


def _fit(regressor: Any, data: RankingData) -> None:
    row_weight = data.row_weight
    weight = {} if row_weight is None else {"sample_weight": row_weight}
    try:
        regressor.fit(convert_features(regressor, data.X), data.relevance, **weight)
    except (ArithmeticError, TypeError, ValueError) as error:
        # The data hold no infinity, so that numbers overflowed if the message speaks of them.
        remedy = ": scale the features and the relevance" if "inf" in str(error).lower() else ""
        raise DataError(f"{type(regressor).__name__} refuses the data: {error}{remedy}") from None
