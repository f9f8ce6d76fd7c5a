"""The base class of estimators: a solver, its result, and scikit-learn's checks of features."""

from __future__ import annotations

import contextlib
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from rankplug.data import tables
from rankplug.data.arrays import non_numeric_columns, refuse_masked
from rankplug.exceptions import DataError, ParameterError, RankplugError
from rankplug.metrics import weighted_mean
from rankplug.models import LabelLinearModel, LinearModel, Model
from rankplug.solver import Data, Solver, SolverResult, make_solver


class _DataTypeError(DataError, TypeError):
    """A `DataError` where scikit-learn's conventions ask for a `TypeError`."""


class SolverEstimator(BaseEstimator):  # type: ignore[misc]
    """An estimator that trains a model with a solver.

    The `fit` of a subclass takes a new solver, checks features and target, makes ranking data of
    them, and trains; what it keeps is in the attributes.

    Parameters
    ----------
    solver : str or Solver
        A registered name, which means that solver's defaults, or a solver with its
        parameters. It is cloned; its parameters are tuned as ``solver__C``.
    random_state : int, RandomState or None, default=None
        For solvers that draw random numbers.

    Attributes
    ----------
    model_ : Model
        The trained model; it predicts, saves and loads without this estimator.
    result_ : SolverResult
        Status, objective, duality gap and history of the training.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Only if the training features were a table with string column names.
    """

    model_: Model
    result_: SolverResult

    def __init__(
        self, solver: str | Solver, random_state: int | np.random.RandomState | None = None
    ) -> None:
        self.solver = solver
        self.random_state = random_state

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Scores of the rows of `X`, in their order; higher is better.

        Parameters
        ----------
        X : array, sparse matrix or table of shape (n_samples, n_features)

        Returns
        -------
        float64 ndarray of shape (n_samples,), or (n_samples, n_labels) for `LabelRanker`
        """
        check_is_fitted(self)
        return self.model_.predict(self._features(X))

    @property
    def coef_(self) -> NDArray[np.float64]:
        """Weights of the features, of shape (n_features,) or (n_labels, n_features).

        There are none (`AttributeError`) if the model is not linear.
        """
        check_is_fitted(self)
        model = self.model_
        if not isinstance(model, LinearModel | LabelLinearModel):
            raise AttributeError(f"a model of kind {model.kind!r} has no coef_: it is not linear")
        return model.coef

    @property
    def feature_importances_(self) -> NDArray[np.float64]:
        """How much each feature counts, >= 0, of shape (n_features,).

        There are none (`AttributeError`) if the model does not tell; linear ones have `coef_`.
        """
        check_is_fitted(self)
        importances = self.model_.feature_importances()
        if importances is None:
            raise AttributeError(f"a model of kind {self.model_.kind!r} tells no importances")
        return importances

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters of the estimator and, as ``solver__C``, of its solver, named or not."""
        params: dict[str, Any] = super().get_params(deep=deep)
        if deep and isinstance(self.solver, str):
            with contextlib.suppress(RankplugError):  # an unknown name is told by fit
                solver = make_solver(self.solver)
                params |= {f"solver__{key}": value for key, value in solver.get_params().items()}
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters; ``solver__C`` turns a solver that is named into one with that C."""
        if "solver" in params:
            self.solver = params.pop("solver")
        if isinstance(self.solver, str) and any(key.startswith("solver__") for key in params):
            self.solver = make_solver(self.solver)
        return super().set_params(**params)  # type: ignore[no-any-return]

    def _new_solver(self) -> Solver:
        """The solver to train with; the parameter itself is never touched."""
        if isinstance(self.solver, str):
            return make_solver(self.solver)
        if isinstance(self.solver, Solver):
            return clone(self.solver)  # type: ignore[no-any-return]
        raise ParameterError(
            f"solver={self.solver!r} must be the name of a solver or a Solver, such as "
            "make_solver('tree-tron', C=1)"
        )

    def _features(self, X: Any, *, reset: bool = False) -> Any:
        """Features as scikit-learn checks them; data and models look for NaN and infinity."""
        if hasattr(X, "get_label"):
            raise DataError(
                f"X is a {type(X).__name__} of a boosting library: take data = "
                "rankplug.boosting.ranking_data(X), and pass data.X, data.relevance, qid=data.qid"
            )
        refuse_masked(X, "X")
        if isinstance(X, np.ndarray):
            X = tables.numbers_or_same(X)
        own = tables.is_table(X)  # converted here, as scikit-learn's errors name no columns
        try:
            with np.errstate(over="ignore"):
                checked = validate_data(
                    self,
                    X,
                    reset=reset,
                    accept_sparse="csr",
                    dtype=[np.float64, np.float32],
                    ensure_all_finite=False,
                    skip_check_array=own,
                )
        except (OverflowError, TypeError, ValueError) as error:
            kind = _DataTypeError if isinstance(error, TypeError) else DataError
            wrong = non_numeric_columns(X) if isinstance(X, np.ndarray) else None
            text = str(error).split("\n[")[0]  # without the whole array
            raise kind(f"{text}: {wrong}" if wrong else text) from None
        return tables.to_matrix(X) if own else checked

    def _names(self) -> list[str] | None:
        names = getattr(self, "feature_names_in_", None)
        return None if names is None else list(names)

    def _require_target(self, y: Any) -> None:
        if y is None:
            raise DataError(
                f"This {type(self).__name__} estimator requires y to be passed, but the target y "
                "is None"
            )

    def _train(self, solver: Solver, data: Data, valid: Data | None) -> Self:
        self.result_ = solver.solve(data, valid=valid, random_state=self.random_state)
        self.model_ = self.result_.model
        return self

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        try:
            solver = self._new_solver()
            tags.input_tags.sparse = solver.tags.sparse
            tags.input_tags.allow_nan = solver.takes_missing_values()
        except RankplugError:  # told by fit; tags are read for the mere repr
            tags.input_tags.sparse = False
        return tags


def one_validation_set(eval_set: Any, eval_qid: Any = None) -> tuple[Any, Any, Any]:
    """``(X, y, qid)`` of ``(X, y)`` or of the last pair of ``[(X, y), ...]``, as in XGBoost."""
    several = isinstance(eval_set, list) and (
        len(eval_set) == 1 or all(isinstance(pair, tuple) for pair in eval_set)
    )
    pairs = eval_set if several else [eval_set]
    if not pairs or not all(isinstance(pair, list | tuple) and len(pair) == 2 for pair in pairs):
        raise ParameterError("eval_set must be one pair (X, y), or a list of pairs")
    if several and eval_qid is not None:
        if not isinstance(eval_qid, list | tuple) or len(eval_qid) != len(pairs):
            arrays = "one array" if len(pairs) == 1 else f"{len(pairs)} arrays"
            raise ParameterError(f"eval_qid must be a list of {arrays}, one for each of eval_set")
        eval_qid = eval_qid[-1]
    X, y = pairs[-1]
    return X, y, eval_qid


def mean_of_defined(values: NDArray[np.float64], weights: NDArray[np.float64], what: str) -> float:
    """The weighted mean of the values that are defined; raises `DataError` if none counts."""
    if np.any(weights < 0):
        raise DataError(f"sample_weight is negative at row {np.flatnonzero(weights < 0)[0]}")
    mean = weighted_mean(values, weights)
    if np.isnan(mean):
        raise DataError(f"the score is undefined: no {what}, or only where sample_weight is zero")
    return mean
