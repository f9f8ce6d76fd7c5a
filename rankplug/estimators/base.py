"""The base class of estimators: a solver, its result, and scikit-learn's checks of features."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from rankplug.data import Task, columns_of_features, is_sound, tables
from rankplug.data.arrays import non_numeric_columns, refuse_masked
from rankplug.exceptions import DataError, DataWarning, ParameterError, RankplugError, warn_caller
from rankplug.models import LabelLinearModel, LinearModel, Model, load_model
from rankplug.parameters import require_names
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
    **solver_params
        Parameters of the solver: ``Ranker("tree-tron", C=0.1)`` is short for
        ``Ranker(make_solver("tree-tron", C=0.1))``, and has the parameters of that.

    Attributes
    ----------
    model_ : Model
        The trained model; it predicts, saves and loads without this estimator.
    result_ : SolverResult
        Status, objective, duality gap and history of the training; not after `from_model`.
    evals_result_ : dict of dict of list
        Metrics of `eval_set` after each iteration, ``evals_result_["validation_0"]["ndcg@10"]``;
        of the model alone, where the solver does not show its models on the way.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
        Only if the training features were a table with string column names.
    """

    __signature__: ClassVar[inspect.Signature]
    task: ClassVar[Task]
    model_: Model
    result_: SolverResult
    evals_result_: dict[str, dict[str, list[float]]]

    def __init__(
        self,
        solver: str | Solver,
        random_state: int | np.random.RandomState | None = None,
        **solver_params: Any,
    ) -> None:
        self.solver = with_parameters(solver, solver_params)
        self.random_state = random_state

    def __init_subclass__(cls, **kwargs: Any) -> None:
        # scikit-learn's parameters are those with a name: others become the solver's at once.
        super().__init_subclass__(**kwargs)
        _, *named = inspect.signature(cls.__init__).parameters.values()
        cls.__signature__ = inspect.Signature([p for p in named if p.kind != p.VAR_KEYWORD])

    @classmethod
    def from_model(cls, model: Model | str | Path, solver: str | Solver | None = None) -> Self:
        """An estimator of a model that was trained before: it predicts, ranks and scores at once.

        Parameters
        ----------
        model : Model, str or Path
            A model, or the folder of one that was saved.
        solver : str or Solver, optional
            With which `fit` would train another one; by default the class's.

        Raises
        ------
        ModelFormatError
            If the folder holds no model that can be read.
        ParameterError
            If it is none, or ranks labels where rows are to be ranked, or the reverse.
        """
        params: dict[str, Any] = {} if solver is None else {"solver": solver}
        estimator = cls(**params)
        model = _find_model(model, "model")
        ranks_labels = model.n_labels is not None
        if ranks_labels != (cls.task == "label-ranking"):
            what, other = ("labels", "LabelRanker") if ranks_labels else ("rows", "Ranker")
            raise ParameterError(f"the model ranks {what}: use {other}.from_model")
        estimator.model_ = model
        estimator.n_features_in_ = model.n_features
        if model.feature_names is not None:
            estimator.feature_names_in_ = np.array(model.feature_names, dtype=object)
        return estimator

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Scores of the rows of `X`, in their order; higher is better.

        Parameters
        ----------
        X : array, sparse matrix or table of shape (n_samples, n_features)

        Returns
        -------
        float64 ndarray of shape (n_samples,), or (n_samples, n_labels) for `LabelRanker`
        """
        if self._is_plain(X):
            return self.model_.predict(X)
        check_is_fitted(self)
        X = tables.collected(X)
        names = self.model_.feature_names
        there = tables.column_names(X) if tables.is_table(X) else []
        if names and there != self._names() and columns_of_features(names, there) == tuple(there):
            return self.model_.predict(X)  # lists in place of their elements, or the reverse
        free = getattr(self.model_, "free_features", None)
        if free is None or not free():
            return self.model_.predict(self._features(X))
        # A pipeline's model, which encodes what is no number.
        try:
            validate_data(self, X, reset=False, skip_check_array=True)
        except ValueError as error:
            raise DataError(str(error)) from None
        return self.model_.predict(X)

    def _is_plain(self, X: Any) -> bool:
        """Whether scikit-learn, which takes as long as a thousand scores, would find nothing in X.

        So with finite numbers in the right form, where no names of features are to be missed.
        """
        known = vars(self)
        model = known.get("model_")
        return (
            isinstance(model, Model)
            and is_sound(X)
            and X.shape[1] == known.get("n_features_in_")
            and "feature_names_in_" not in known
            and not model.free_features()
        )

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
        """Set parameters; ``solver__C``, or ``C``, gives a solver that is named parameters."""
        if "solver" in params:
            self.solver = params.pop("solver")
        own = self._get_param_names()
        if isinstance(self.solver, str) and any(key not in own for key in params):
            self.solver = make_solver(self.solver)
        if isinstance(self.solver, Solver):
            known = self.solver.get_params(deep=False)
            heads = {key: key.partition("__")[0] for key in params}
            short = [key for key, head in heads.items() if head in known and head not in own]
            params |= {f"solver__{key}": params.pop(key) for key in short}
        try:
            return super().set_params(**params)  # type: ignore[no-any-return]
        except ValueError as error:
            raise ParameterError(str(error)) from None

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
        X = tables.collected(X)
        if reset:
            _warn_of_unnamed(X)
        own = tables.is_table(X)  # its columns are read later, as scikit-learn's errors name none
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
        return X if own else checked

    def _names(self) -> list[str] | None:
        names = getattr(self, "feature_names_in_", None)
        return None if names is None else list(names)

    def _reading(self, like: Data | None = None) -> dict[str, Any]:
        """How features are read: as those of the data, or in `fit` anew, else as the model's."""
        known: Any = like
        if like is None:
            return {
                "feature_names": self._names(),
                "category_numbers": self._new_solver().tags.categories,
            }
        return {
            "feature_names": known.feature_names or self._names(),
            "categories": known.categories,
        }

    def _require_target(self, y: Any) -> None:
        if y is None:
            raise DataError(
                f"This {type(self).__name__} estimator requires y to be passed, but the target y "
                "is None"
            )

    def _online_solver(self) -> Solver:
        """The solver of `partial_fit`.

        Raises
        ------
        AttributeError
            If it learns from all rows at once: then there is no `partial_fit`.
        """
        try:
            solver = self._new_solver()
        except RankplugError as error:
            raise AttributeError(str(error)) from None
        if not solver.tags.online:
            raise AttributeError(
                f"{solver.name} learns from all rows at once, so that it has no partial_fit: take "
                "'larank', which learns online, or fit with init"
            )
        return solver.set_params(online=True)

    def _train(self, solver: Solver, data: Data, held_out: Sequence[Data], **others: Any) -> Self:
        """Train, and keep what comes of it; `others` are further arguments of `Solver.solve`.

        All data that are held out are measured; solvers that stop early do it by the last.
        """
        result = solver.solve(
            data,
            valid=held_out[-1] if held_out else None,
            watch={f"validation_{number}": one for number, one in enumerate(held_out)},
            random_state=self.random_state,
            **others,
        )
        self.result_, self.model_ = result, result.model
        self.evals_result_ = {
            name: {metric: list(values) for metric, values in metrics.items()}
            for name, metrics in result.evals.items()
        }
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


def _warn_of_unnamed(X: Any) -> None:
    """Warn of columns that look like an index which was written along with a table."""
    names = tables.column_names(X) if tables.is_table(X) else []
    found = [name for name in names if name and tables.is_unnamed(name)]
    if found:
        warn_caller(
            f"X has a column {', '.join(map(repr, found))}, which looks like an index that was "
            "written along with the table; it is taken as a feature: drop it if it is none",
            DataWarning,
        )


def with_parameters(solver: str | Solver, params: Mapping[str, Any]) -> str | Solver:
    """The solver with these parameters; as it is if there are none.

    Raises
    ------
    ParameterError
        If it has no such parameter; `UnknownNameError` if there is no solver of the name.
    """
    if not params:
        return solver
    if isinstance(solver, str):
        return make_solver(solver, **params)
    if not isinstance(solver, Solver):
        raise ParameterError(f"parameters {', '.join(params)} are given, but no solver with them")
    require_names(solver.name, solver.get_params(deep=False), params)
    return clone(solver).set_params(**params)  # type: ignore[no-any-return]


def model_to_go_on_from(init: Any) -> Model | SolverResult | None:
    """The model of what `fit` is given as `init`: a model, its folder, or what was fitted.

    Raises
    ------
    ParameterError
        If there is no model in it; `ModelFormatError` if the folder holds none.
    """
    return init if init is None or isinstance(init, SolverResult) else _find_model(init, "init")


def _find_model(given: Any, name: str) -> Model:
    if isinstance(given, str | Path):
        return load_model(given)
    if isinstance(given, SolverEstimator):
        check_is_fitted(given)
        given = given.model_
    if not isinstance(given, Model):
        raise ParameterError(
            f"{name} is a {type(given).__name__}: it must be a Model, the folder of a saved one, "
            "or a fitted ranker"
        )
    return given
