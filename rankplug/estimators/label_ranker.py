"""`LabelRanker`: any solver as a scikit-learn estimator for label ranking."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from rankplug.data import LabelRankingData, Preferences, Task, read_preferences, real_vector, tables
from rankplug.estimators.answers import split_columns, table_of_rows
from rankplug.estimators.base import SolverEstimator, model_to_go_on_from
from rankplug.estimators.watching import make_callback, validation_sets
from rankplug.exceptions import DataError
from rankplug.metrics import mean_of_defined, per_instance
from rankplug.models import Model
from rankplug.solver import Solver


class LabelRanker(SolverEstimator):
    """Learns to order a fixed set of labels for each row (instance).

    Parameters and attributes are those of `SolverEstimator`, the solver by default "sopopo", and:

    Attributes
    ----------
    labels_ : ndarray of shape (n_labels,)
        Names of the columns of `predict` and `rank`.
    classes_ : ndarray of shape (n_labels,)
        The same, if trained on classes.
    ranks_ : bool
        Whether `fit` and `score` take ranks from 1, the best, instead of relevance.
    orders_ : bool or None
        Whether they take orders of names, as `fit` was told; None lets the values say it.
    """

    task: ClassVar[Task] = "label-ranking"

    __metadata_request__fit = dict.fromkeys(
        ("ranks", "orders", "eval_set", "init", "callbacks", "verbose"), True
    )
    __metadata_request__partial_fit = dict.fromkeys(
        ("classes", "ranks", "orders", "callbacks", "verbose"), True
    )
    __metadata_request__score = {"sample_weight": True}

    def __init__(
        self,
        solver: str | Solver = "sopopo",
        random_state: int | np.random.RandomState | None = None,
        **solver_params: Any,
    ) -> None:
        super().__init__(solver, random_state, **solver_params)

    @classmethod
    def from_model(
        cls, model: Model | str | Path, solver: str | Solver | None = None, *, ranks: bool = False
    ) -> Self:
        """As `SolverEstimator.from_model`; `ranks` says what `score` takes, as in `fit`."""
        estimator = super().from_model(model, solver)
        labels = getattr(estimator.model_, "labels", None)
        estimator.labels_ = np.arange(estimator.model_.n_labels or 0) if labels is None else labels
        estimator.ranks_, estimator.orders_ = ranks, None
        return estimator

    def fit(
        self,
        X: Any,
        Y: Any,
        *,
        ranks: bool | None = None,
        orders: bool | None = None,
        eval_set: Any = None,
        init: Any = None,
        callbacks: Any = None,
        verbose: bool | int = False,
    ) -> Self:
        """Train on the preferences between the labels of each row.

        Parameters
        ----------
        X : array, sparse matrix or table of shape (n_samples, n_features)
        Y : array-like or table of shape (n_samples, n_labels) or (n_samples,)
            Relevance of each label, the higher, the better, NaN for labels that are not
            compared; or one class per row, which is preferred to every other; or orders of names,
            texts such as ``"a>b=c"``, or columns, and lists, with the names on each place, the
            best first. Labels that an order does not name are not compared; places may be empty.
        ranks : bool, optional
            Whether a two-dimensional `Y` holds ranks from 1, the best, here and in `score`. If it
            is not said, `Y` is relevance, and a `DataWarning` tells when it looks like ranks.
        orders : bool, optional
            Whether `Y` holds orders of names, here and in `score`. If it is not said, texts that
            all have the form ``a>b`` do, and columns of texts.
        eval_set : (X, Y) or [(X, Y), ...], optional
            Validation data, measured each iteration in `evals_result_`. Solvers that stop early do
            it by the last of several.
        init : Model, SolverResult, fitted ranker, str or Path, optional
            An earlier model, or its folder, from which to go on: linear solvers start at its
            weights, "sopopo", "larank" and "a2dm2" at dual variables made of its scores; boosted
            trees are added to its trees (`n_estimators` more, in a model that holds all). The
            other solvers refuse it.
        callbacks : list of callable, optional
            Each is called after each iteration with a `rankplug.solver.Progress`, whose ``str`` is
            a line that tells it; training stops where one returns True. Their errors come through.
        verbose : bool or int, default=False
            Print a line each iteration, or every so many.

        Raises
        ------
        DataError, ParameterError
            If the data or the solver's parameters are not valid.
        """
        solver, init = self._new_solver(), model_to_go_on_from(init)
        callback, sets = make_callback(callbacks, verbose), validation_sets(eval_set)
        data = self._first_data(X, Y, None, ranks, orders)
        held_out = [self._data(*one[:2], data) for one in sets]
        return self._train(solver, data, held_out, init=init, callback=callback)

    @available_if(SolverEstimator._online_solver)  # type: ignore[untyped-decorator]
    def partial_fit(
        self,
        X: Any,
        Y: Any,
        *,
        classes: Any = None,
        ranks: bool | None = None,
        orders: bool | None = None,
        callbacks: Any = None,
        verbose: bool | int = False,
    ) -> Self:
        """Learn from new rows alone, on top of what was learnt before.

        As `Ranker.partial_fit`, of label rankers with online solvers ("larank"); the other
        parameters are those of `fit`.

        Parameters
        ----------
        classes : sequence, optional
            All labels, for the first call, if its rows do not name them all. Later calls, and those
            after `fit` and `from_model`, know them.
        """
        solver, callback = self._online_solver(), make_callback(callbacks, verbose)
        model = getattr(self, "model_", None)
        if model is None:
            data = self._first_data(X, Y, classes, ranks, orders)
        else:
            data = self._with_target(self._features(X), self._target(Y), model)
        return self._train(solver, data, [], init=model, callback=callback)

    def _first_data(
        self, X: Any, Y: Any, labels: Any, ranks: bool | None, orders: bool | None
    ) -> LabelRankingData:
        """The data of a first training; what they say of labels and targets is kept."""
        self._require_target(Y)
        features = self._features(X, reset=True)
        known = None if labels is None else np.asarray(labels)
        target = read_preferences(Y, known=known, ranks=ranks, orders=orders)
        data = self._with_target(features, target)
        self.ranks_, self.orders_ = bool(ranks), orders
        self.labels_ = data.labels
        if target.are_classes:
            self.classes_ = data.labels
            if len(self.classes_) == 1:
                (only,) = self.classes_.tolist()
                raise DataError(f"Y has 1 class only, {only!r}: at least two are needed to rank")
        elif hasattr(self, "classes_"):
            del self.classes_
        return data

    def rank(self, X: Any) -> NDArray[np.int64]:
        """Rank of each label for each row, 1 = best; labels with equal scores keep their order.

        `X` is that of `predict`; the ranks have the shape (n_samples, n_labels).
        """
        best_first = np.argsort(-self.predict(X), axis=1, kind="stable")
        return np.argsort(best_first, axis=1) + 1

    def classify(self, X: Any) -> NDArray[Any]:
        """The label with the highest score for each row, of shape (n_samples,).

        `X` is that of `predict`.
        """
        best = np.argmax(self.predict(X), axis=1)
        return self.labels_[best]  # type: ignore[no-any-return]

    def predict_order(self, X: Any) -> NDArray[Any]:
        """The labels of each row by their names, the best first.

        `X` is that of `predict`; the names have the shape (n_samples, n_labels).
        """
        return self.labels_[np.argsort(-self.predict(X), axis=1, kind="stable")]

    def top_k(self, X: Any, k: int = 10) -> Any:
        """The `k` best labels of each row, best first, as a table.

        Parameters
        ----------
        X : array, sparse matrix or table of shape (n_samples, n_features)
            A table may have columns beside the features of the training, if these have names.
        k : int, default=10

        Returns
        -------
        DataFrame of pandas or polars, or Arrow Table
            Of the kind of `X`, of pandas for arrays: the columns of `X` that are no features, then
            ``label``, ``rank``, 1 = best, and ``score``. A pandas DataFrame keeps its index;
            otherwise ``row`` is the position in `X`, from 0.
        """
        from rankplug.models.answers import answer, parse_form

        check_is_fitted(self)
        form = parse_form({"output": "top_k", "k": k})
        X = tables.collected(X)
        features, others = split_columns(X, self.model_.feature_names)
        if self._names() is None:
            features, others = X, []
        scores = self.predict(features)
        best = answer(scores, form, labels=np.arange(scores.shape[1]))
        last = {name: best[name].to_numpy() for name in ("label", "rank", "score")}
        last["label"] = self.labels_[last["label"]]
        return table_of_rows(X, best["row"].to_numpy(), others, {}, last)

    def score(self, X: Any, y: Any, *, sample_weight: ArrayLike | None = None) -> float:
        """How well the labels are ranked, on average over the rows; the higher, the better.

        Kendall's tau of relevance and scores, from -1 to 1; with one class per row the share of
        rows whose highest score is that of their class, as of a classifier.

        Parameters
        ----------
        X : array, sparse matrix or table of shape (n_samples, n_features)
        y : array-like or table of shape (n_samples, n_labels) or (n_samples,)
            What `fit` takes as `Y`; scikit-learn's scorers call it `y`.
        sample_weight : array-like of shape (n_samples,), optional
            The weight of each row in the mean.

        Raises
        ------
        DataError
            If the data are not valid or no row prefers a label.
        """
        check_is_fitted(self)
        target, scores = self._target(y), self.predict(X)
        if len(scores) != len(target.relevance):
            raise DataError(f"X has {len(scores)} rows but Y has {len(target.relevance)}")
        metric = "top1_error" if target.are_classes else "kendall_tau"
        values = per_instance(target.relevance, scores, metric)[metric]
        if metric == "top1_error":
            values = 1.0 - values
        weights = np.ones(len(scores))
        if sample_weight is not None:
            weights = real_vector(sample_weight, "sample_weight", len(scores))
        return mean_of_defined(values, weights, "the score is undefined: no row prefers a label")

    def _data(self, X: Any, Y: Any, like: LabelRankingData) -> LabelRankingData:
        """Data with the labels and features of the training data."""
        return self._with_target(self._features(X), self._target(Y), like)

    def _target(self, Y: Any) -> Preferences:
        """The relevance of the labels of the training data."""
        self._require_target(Y)
        return read_preferences(Y, known=self.labels_, ranks=self.ranks_, orders=self.orders_)

    def _with_target(
        self, features: Any, target: Preferences, like: Any = None
    ) -> LabelRankingData:
        data = LabelRankingData.from_arrays(
            features,
            target.relevance,
            labels=target.labels,
            ranks=False,
            orders=False,
            **self._reading(like),
        )
        return data if self._names() is not None else data.with_facts(feature_names=None)
