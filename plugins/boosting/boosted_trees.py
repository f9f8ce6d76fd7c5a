"""The base of all solvers that grow boosted trees, with XGBoost, LightGBM or CatBoost."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, TypeAlias

import numpy as np

from rankplug.boosting import ranking_metric
from rankplug.exceptions import DataError, ParameterError, RankplugError
from rankplug.models import Model
from rankplug.parameters import Count, Integer, OpenParameters, Parameter, Real, Threads
from rankplug.shards import RemoteRankingData
from rankplug.solver import Data, Monitor, SearchSpace, Solver, SolverResult, require_validation
from rankplug.system.cores import available_cores, survive_forks
from rankplug_plugins.boosting.constraints import read_constraints
from rankplug_plugins.boosting.open_parameters import LibraryParameters, first_sentence

_LARGEST_SEED = 2**31 - 1  # the libraries keep it in 32 bits

Share: TypeAlias = Annotated[float, Real(0, 1, high_open=False)]
NotNegative: TypeAlias = Annotated[float, Real(0, low_open=False)]


class _MetricName(Parameter):
    """The name of a metric of rankplug that is to be made large."""

    def accepts(self, value: Any) -> bool:
        """Whether there is such a metric."""
        try:
            return isinstance(value, str) and ranking_metric(value).greater_is_better
        except RankplugError:
            return False

    def __str__(self) -> str:
        return "the name of a metric that is better the greater, such as 'ndcg@10'"


@dataclass(frozen=True)
class Training:
    """What a library needs to grow trees.

    Attributes
    ----------
    data : RankingData, LabelRankingData or RemoteRankingData
    valid : data of the same kind, or None
        None if all rounds are to be built.
    native : dict
        The parameters of trees under the library's names; those of the objective are not in it.
    given : dict
        The caller's own, `BoostedTrees.params`, which come last.
    monitor : Monitor
    start : Model or None
        To whose scores the trees add; None is 0.
    init : XGBoostModel, LightGBMModel or None
        Trees of an earlier training, to which these are added.
    """

    data: Any
    valid: Data | None
    native: dict[str, Any]
    given: dict[str, Any]
    monitor: Monitor
    start: Model | None
    init: Any


class BoostedTrees(Solver):
    """Boosted trees; a subclass says of which library, and another one for which loss.

    Training takes four steps: the validation data are checked if they are to be used, the
    parameters are put in the library's words, `_grow` trains with them and reports each round
    to the monitor, and errors of the library become `DataError`.

    There is no convex problem and no tolerance: the result has no objective and no duality gap,
    and is "converged" when all rounds were built or early stopping ended them. `n_iter` and
    `n_passes` are the rounds built, those after the best one included.

    Parameters
    ----------
    n_estimators : int
        Boosting rounds, one tree each.
    learning_rate : float in (0, 1]
    subsample, colsample_bytree : float in (0, 1]
        Shares of rows and features that each tree sees.
    reg_lambda : float
        L2 penalty of the leaf values.
    max_bin : int
        Histogram bins of a feature.
    early_stopping_rounds : int, optional
        Stop when `eval_metric` of the validation data, which `solve` then needs, has not
        improved for so many rounds; the model keeps the trees up to the best round. None
        builds all rounds and leaves validation data aside.
    eval_metric : str
        A metric of rankplug, as in reports, not the library's: XGBoost's gives 1.0 to queries
        without a relevant document.
    n_threads : int, optional
        None leaves the choice to the library: all processors.
    params : mapping, optional
        Any other parameters of the library by its own names, such as ``{"max_delta_step": 1,
        "monotone_constraints": {"price": -1}}``; one of them is set, or searched by `tune`, as
        ``params__max_delta_step``. Constraints name columns, or number them from 0. Names that
        the library does not know are refused, and so is what would not leave a ranker.
    """

    library: ClassVar[str]
    refused_characters: ClassVar[str]
    """Of names of features, by the library or by the format of its files."""
    iteration_limit = "n_estimators"

    n_estimators: Count = 100
    learning_rate: Share = 0.1
    subsample: Share = 1.0
    colsample_bytree: Share = 1.0
    reg_lambda: NotNegative = 0.0
    max_bin: Annotated[int, Integer(2, 65535)] = 255
    early_stopping_rounds: Count | None = None
    eval_metric: Annotated[str, _MetricName()] = "ndcg@10"
    n_threads: Threads = None
    params: Annotated[Mapping[str, Any] | None, OpenParameters()] = None

    def check(self, data: Data | RemoteRankingData) -> None:
        """Raise what `solve` would raise about the parameters and the data."""
        super().check(data)
        self._read_params(data)

    def _read_params(self, data: Data | RemoteRankingData) -> dict[str, Any]:
        """The caller's parameters of the library, features by number."""
        if not self.params:
            return {}
        library = self.parameters["params"]
        assert isinstance(library, LibraryParameters)
        given = library.resolve(self.params)
        names = getattr(data, "feature_names", None)
        return {**given, **read_constraints(given, names, data.n_features)}

    def tuning_space(self, data: Data | None = None) -> SearchSpace:
        """Number, shrinkage and size of the trees, and what each of them sees."""
        from optuna.distributions import FloatDistribution, IntDistribution

        # About the libraries' defaults, a factor of three to a hundred on both sides.
        return {
            "n_estimators": IntDistribution(30, 1000, log=True),
            "learning_rate": FloatDistribution(0.01, 0.5, log=True),
            **self._size_space(),
            "subsample": FloatDistribution(0.4, 1.0),
            "colsample_bytree": FloatDistribution(0.4, 1.0),
            "reg_lambda": FloatDistribution(0.01, 100.0, log=True),
        }

    @abstractmethod
    def _size_space(self) -> SearchSpace:
        """The parameters that bound a tree's size."""

    @abstractmethod
    def _native_parameters(self, rng: np.random.Generator) -> dict[str, Any]:
        """The same settings under the library's names."""

    @abstractmethod
    def _native_objective(self, data: Data) -> dict[str, Any]:
        """The library's parameters that say what to minimise, if they do."""

    @abstractmethod
    def _labels(self, data: Data) -> Any:
        """The relevance that the training sees."""

    @abstractmethod
    def _check_init(self, init: Model) -> None:
        """Raise `ParameterError` if these trees cannot be added to that model."""

    @abstractmethod
    def _grow(self, training: Training) -> Model:
        """The trees that the library grows, each round reported to the monitor."""

    def _solve(
        self,
        data: Data,
        init: Model | None,
        monitor: Monitor,
        rng: np.random.Generator,
        valid: Data | None = None,
        start: Model | None = None,
    ) -> SolverResult:
        """Grow trees that add to the scores of `start`, which are 0 if it is None."""
        if init is not None:
            self._check_init(init)
        survive_forks()
        held_out, native = self._check_valid(valid), self._native_parameters(rng)
        given = self._read_params(data)
        with self._translate_errors(monitor):
            model = self._grow(Training(data, held_out, native, given, monitor, start, init))
        n_rounds = int(monitor.history[-1]["n_iter"]) if monitor.history else 0
        return SolverResult(
            model=model,
            status=monitor.interruption or "converged",
            objective=None,
            duality_gap=None,
            n_iter=n_rounds,
            n_passes=float(n_rounds),
        )

    def _check_valid(self, valid: Data | None) -> Data | None:
        """Return the validation data if they are to be used, checked."""
        if self.early_stopping_rounds is None:
            return None
        return require_validation(self.early_stopping_rounds, valid)

    @contextmanager
    def _translate_errors(self, monitor: Monitor) -> Iterator[None]:
        """Make errors of the library a `DataError`, without its stack traces."""
        try:
            yield
        except Exception as error:
            module = type(error).__module__.split(".")[0].lstrip("_")
            own = module == self.library.lower()
            if not own or error is monitor.failure:
                raise
            message = str(error).split("\nStack trace")[0]
            reason = re.sub(r"^\S+/\S+:\d+: ", "", message.split("Check failed: ")[-1].strip())
            remedy = ""
            if "too large" in reason:
                remedy = "; features must be below 3.4e38, the limit of float32: rescale them"
            elif "invalid float value" in reason or "should be non-zero" in reason:
                remedy = "; numbers overflow or vanish: scale the features, or parameters"
            if self.params and not remedy:
                reason = first_sentence(error)
                raise ParameterError(
                    f"{self.library} refuses the data or params={dict(self.params)!r}: {reason}"
                ) from None
            raise DataError(f"{self.library} refuses the data: {reason}{remedy}") from None

    def _feature_names(self, data: Data) -> list[str] | None:
        """The names of the columns for the library, what it does not take as "_"; None if none."""
        if data.feature_names is None:
            return None
        unfit = self.refused_characters
        names = [
            "".join("_" if c in unfit or not c.isprintable() else c for c in name)
            for name in data.feature_names
        ]
        if data.n_labels is not None:
            names.append("label")
        return names if all(names) and len(set(names)) == len(names) else None

    def _seed(self, rng: np.random.Generator) -> int:
        return int(rng.integers(_LARGEST_SEED))

    def _threads(self) -> int | None:
        """No more than there are processors: more cannot be made, or be written in C."""
        return None if self.n_threads is None else min(self.n_threads, available_cores())


def log_name(metric: str) -> str:
    """The name of a validation metric in the history: "@" is not allowed in logged ones."""
    return f"valid_{ranking_metric(metric).metric.log_name}"
