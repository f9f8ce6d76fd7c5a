"""Search spaces: a solver's own, overrides of a caller or a recipe, and paths of C."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from numbers import Integral
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from rankplug.exceptions import ParameterError, nearest
from rankplug.parameters import Integer, Optional, Parameter, Real
from rankplug.solver import Data, Solver

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution, FloatDistribution
    from optuna.trial import Trial

Define: TypeAlias = "Callable[[Trial], Mapping[str, Any] | None]"
"""From one of Optuna's trials to the solver's parameters in it."""

PathOption: TypeAlias = bool | int | Sequence[float]
"""The argument `path` of `rankplug.tune`."""

# Two or three values for each of the seven powers of ten that the range of C has by default: the
# metric seldom differs much between closer ones.
_PATH_STEPS = 16


@dataclass(frozen=True)
class Space:
    """What to search, and what to hold.

    Attributes
    ----------
    distributions : dict of optuna distributions
        The searched parameters.
    fixed : dict
        Parameters with one value for all trials.
    define : callable or None
        Asks each trial for its parameters, instead of `distributions`.
    """

    distributions: Mapping[str, BaseDistribution]
    fixed: Mapping[str, Any] = field(default_factory=dict)
    define: Callable[[Trial], dict[str, Any]] | None = None


def read_space(
    solver: Solver, overrides: Mapping[str, Any] | Define | None = None, data: Data | None = None
) -> Space:
    """The solver's search space with some parameters replaced.

    Parameters
    ----------
    solver : Solver
        Its own parameters hold wherever nothing is searched.
    overrides : mapping or callable, optional
        By parameter: ``{"low": 1e-6, "high": 10, "log": True}`` (also ``step``; what is left
        out is taken from the solver's own range), ``["a", "b"]`` or ``{"choices": ["a", "b"]}``,
        any other value to hold it, or an Optuna distribution. A parameter that a library names is
        ``params__NAME``, as in ``{"params__max_delta_step": {"low": 0.0, "high": 1.0}}``. Or a
        function that gets each of Optuna's trials, asks it by ``trial.suggest_float`` and the
        like, one value depending on another, and returns the solver's parameters in this trial
        (nothing: those that were suggested); the solver's own space is then left aside.
    data : RankingData or LabelRankingData, optional
        For ranges that depend on their scale.

    Raises
    ------
    ParameterError
        If a parameter is unknown, a range is empty or wrong, the solver would refuse a value,
        or nothing is left to search: everything that is wrong, at once.
    """
    from optuna.distributions import BaseDistribution

    if callable(overrides):
        defined = _Defined(solver, overrides)
        defined.rehearse()
        return Space({}, define=defined)
    if not isinstance(overrides, Mapping | None):
        raise ParameterError(
            f"space must be a mapping of parameters, or a function of a trial, not {overrides!r}"
        )
    distributions = solver.tuning_space(data)
    fixed: dict[str, Any] = {}
    wrong: list[str] = []
    for name, override in (overrides or {}).items():
        try:
            read = _Override(solver, name, distributions.get(name)).read(override)
        except ParameterError as error:
            wrong.append(str(error))
            continue
        if isinstance(read, BaseDistribution):
            distributions[name] = read
        else:
            fixed[name] = read
            distributions.pop(name, None)
    if wrong:
        raise ParameterError(f"search space of {solver.name}: " + "; ".join(wrong))
    if not distributions:
        raise ParameterError(
            f"search space of {solver.name}: nothing is left to search; give a range or choices "
            "for at least one parameter"
        )
    return Space(distributions, fixed)


@dataclass(frozen=True)
class _Defined:
    """A caller's function of a trial, whose answer is checked."""

    solver: Solver
    function: Define

    def __call__(self, trial: Trial) -> dict[str, Any]:
        """The solver's parameters in a trial."""
        where = f"search space of {self.solver.name}"
        answer = self.function(trial)
        params = dict(trial.params) if answer is None else answer
        if not isinstance(params, Mapping):
            raise ParameterError(f"{where}: the function must return a mapping, not {answer!r}")
        known = self.solver.get_params()
        wrong = [
            f"no parameter {name!r}{nearest(str(name), known)}"
            for name in params
            if name not in known and self.solver.split_open(str(name))[0] is None
        ]
        wrong += [f"{name}={value!r} cannot be stored" for name, value in _unstorable(params)]
        if wrong:
            raise ParameterError(f"{where}: " + "; ".join(wrong))
        return dict(params)

    def rehearse(self) -> None:
        """Call it once, with a trial of no study, so that mistakes show before there is one."""
        import optuna

        with quiet():
            sampler = optuna.samplers.RandomSampler(seed=0)
            self(optuna.create_study(sampler=sampler).ask())


@contextmanager
def quiet() -> Iterator[None]:
    """Without Optuna's line for each trial, and its warnings of what is experimental."""
    import optuna

    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            yield
    finally:
        optuna.logging.set_verbosity(verbosity)


def _unstorable(params: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Values that a study cannot keep, or would give back as something else."""
    for name, value in params.items():
        try:
            same = json.loads(json.dumps(value)) == value
        except (TypeError, ValueError):
            same = False
        if not same:
            yield name, value


@dataclass(frozen=True)
class CPath:
    """The values of C that each trial solves, ascending, and the range they are in."""

    Cs: tuple[float, ...]
    range: FloatDistribution


def plan_path(
    path: PathOption, solver: Solver, distributions: Mapping[str, BaseDistribution]
) -> CPath | None:
    """The path that is asked for; None for False.

    Raises
    ------
    ParameterError
        If the solver has no warm starts or no C, C is not searched, or `path` is wrong.
    """
    from optuna.distributions import FloatDistribution

    if path is False:
        return None
    if not solver.tags.warm_start or "C" not in solver.get_params(deep=False):
        raise ParameterError(f"path: {solver.name} has no warm starts in C; leave out path")
    if solver.uses_validation() and not solver.tags.validation:
        raise ParameterError(
            f"path: {solver.name} with early_stopping_rounds has no path; leave out path, or set "
            "early_stopping_rounds=None"
        )
    if isinstance(path, Sequence):
        values = tuple(sorted(set(path))) if all(map(Real(0).accepts, path)) else ()
        if not values:
            raise ParameterError(f"path={path!r} must name values of C above 0")
        return CPath(values, FloatDistribution(values[0], values[-1], log=True))
    if not isinstance(path, bool) and not Integer(2).accepts(path):
        raise ParameterError(f"path={path!r} must be true, false, a number >= 2, or values of C")
    own = distributions.get("C")
    if not isinstance(own, FloatDistribution) or own.step is not None:
        raise ParameterError("path: the search space must have a range of C without steps")
    spaced = np.geomspace if own.log else np.linspace
    n_steps = _PATH_STEPS if path is True else int(path)
    return CPath(tuple(map(float, spaced(own.low, own.high, n_steps))), own)


class _Override:
    """Reads the override of one parameter."""

    def __init__(self, solver: Solver, name: str, own: BaseDistribution | None) -> None:
        self._solver = solver
        self._name = name
        self._own = own
        self._allowed: Parameter | None = solver.parameters.get(name)

    def read(self, given: Any) -> Any:
        """A distribution, or the value to hold."""
        from optuna.distributions import BaseDistribution

        known = self._solver.get_params()
        library, inner = self._solver.split_open(self._name)
        if self._name not in known and library is None:
            raise ParameterError(f"no parameter {self._name!r}{nearest(str(self._name), known)}")
        if isinstance(given, Mapping):
            keys = ("choices",) if "choices" in given else ("low", "high", "log", "step")
            for key in given:
                if key not in keys:
                    raise ParameterError(f"{self._name}: no key {key!r}{nearest(str(key), keys)}")
            read = self._choices(**given) if "choices" in given else self._range(**given)
        else:
            read = self._choices(given) if isinstance(given, list | tuple) else given
        values = _extremes(read) if isinstance(read, BaseDistribution) else [read]
        for value in values:
            if self._allowed is not None and not self._allowed.accepts(value):
                raise ParameterError(f"{self._name}={value!r} (must be {self._allowed})")
            wrong = library.mistake({inner: value}) if library is not None else None
            if wrong is not None:
                raise ParameterError(f"{self._name}={value!r} ({wrong})")
        return read

    def _choices(self, choices: Any) -> BaseDistribution:
        from optuna.distributions import CategoricalDistribution

        if not isinstance(choices, list | tuple) or not choices:
            raise ParameterError(f"{self._name}: choices must be a list of values, not {choices!r}")
        for value in choices:
            if not isinstance(value, str | int | float | None):
                raise ParameterError(
                    f"{self._name}: choice {value!r} cannot be stored; choices are texts, "
                    "numbers, true, false or null"
                )
        if len({(type(value), value) for value in choices}) < len(choices):
            raise ParameterError(f"{self._name}: a choice is named twice in {list(choices)}")
        return CategoricalDistribution(list(choices))

    def _range(
        self, low: Any = None, high: Any = None, log: Any = None, step: Any = None
    ) -> BaseDistribution:
        from optuna.distributions import FloatDistribution, IntDistribution

        own = self._own if isinstance(self._own, FloatDistribution | IntDistribution) else None
        if own is not None:
            low = own.low if low is None else low
            high = own.high if high is None else high
            log = own.log and step is None if log is None else log
        self._check_range(low, high, log, step)
        if self._is_integer(low, high):
            step = 1 if step is None else int(step)
            return IntDistribution(int(low), int(high), bool(log), step)
        step = None if step is None else float(step)
        return FloatDistribution(float(low), float(high), bool(log), step)

    def _check_range(self, low: Any, high: Any, log: Any, step: Any) -> None:
        where = f"{self._name}: "
        if low is None or high is None:
            raise ParameterError(f"{where}a range needs low and high")
        for key, value in {"low": low, "high": high, "step": step}.items():
            if not (value is None and key == "step") and not Real().accepts(value):
                raise ParameterError(f"{where}{key}={value!r} must be a finite number")
            if self._is_integer(low, high) and value is not None and value != int(value):
                raise ParameterError(f"{where}{key}={value!r} must be an integer")
        if not isinstance(log, bool | None):
            raise ParameterError(f"{where}log={log!r} must be true or false")
        if low > high:
            raise ParameterError(f"{where}low={low:g} is above high={high:g}")
        if log and low <= 0:
            raise ParameterError(f"{where}a logarithmic range needs low > 0, not {low:g}")
        if step is not None and (step <= 0 or log):
            raise ParameterError(f"{where}step must be > 0, and stand without log")

    def _is_integer(self, low: Any, high: Any) -> bool:
        allowed = self._allowed.inner if isinstance(self._allowed, Optional) else self._allowed
        if allowed is not None:
            return isinstance(allowed, Integer)
        default = self._solver.get_params(deep=False).get(self._name, 0)
        return all(isinstance(value, Integral) for value in (low, high, default))


def _extremes(distribution: BaseDistribution) -> Sequence[Any]:
    """Values that the solver accepts if it accepts all of the distribution."""
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if isinstance(distribution, CategoricalDistribution):
        return distribution.choices
    assert isinstance(distribution, FloatDistribution | IntDistribution)
    return distribution.low, distribution.high
