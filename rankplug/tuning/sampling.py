"""Samplers, which choose the parameters of each trial, and pruning, which gives trials up.

This module imports optuna: it is itself imported in functions only.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np
from optuna import Study, Trial
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.pruners import BasePruner, MedianPruner, WilcoxonPruner
from optuna.samplers import BaseSampler, QMCSampler, RandomSampler, TPESampler
from optuna.search_space import IntersectionSearchSpace
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState, create_trial

from rankplug.exceptions import ParameterError
from rankplug.tuning.evaluation import Evaluation
from rankplug.tuning.records import Pruner, Sampler, TrialStep, uses_budget

Distributions: TypeAlias = Mapping[str, BaseDistribution]

_GRID_VALUES = 8  # of a range: about one for each power of ten of a usual range of C
_MOST_POINTS = 10_000  # more trials than anybody waits for; all points are kept in memory

_SCORES = "rankplug.scores"  # an attribute of stored trials, in studies of all versions
_FEWEST_QUERIES = 15  # SciPy takes seconds to test fewer with ties among them


class TrialSampler(BaseSampler):
    """One sampler for each trial, so that its seed can be the study's and the trial's number.

    Trial 7 then draws the same numbers whichever process runs it, before or after a restart,
    and no two processes draw the same. A value may also be chosen instead of sampled: the C of
    a path, which is known at the end of its trial only.

    Parameters
    ----------
    make : callable
        The sampler of a trial, from its number.
    distributions : dict
        What is sampled.
    open : bool
        Whether each trial says itself what is sampled.
    """

    def __init__(
        self,
        make: Callable[[int], BaseSampler],
        distributions: Distributions,
        open: bool = False,  # noqa: A002
    ) -> None:
        self.distributions = dict(distributions)
        self.open = open
        self._make = make
        self._of_trial: dict[int, BaseSampler] = {}
        self._chosen: dict[int, dict[str, float]] = {}
        self._ended = False

    def choose(self, number: int, **values: float) -> None:
        """Give a trial these values when it asks for them."""
        self._chosen[number] = values

    def end(self) -> None:
        """Let there be no further trial, as samplers ask for by `Study.stop`."""
        self._ended = True

    def exhausted(self, study: Study) -> bool:
        """Whether there is nothing left to try."""
        if self._ended or self.distributions or self.open:
            return self._ended
        return any(map(uses_budget, study.get_trials(deepcopy=False)))

    def before_trial(self, study: Study, trial: FrozenTrial) -> None:
        """Make the trial's sampler."""
        self._of_trial[trial.number] = self._make(trial.number)
        self._of_trial[trial.number].before_trial(study, trial)

    def infer_relative_search_space(
        self, study: Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        """What the trial's sampler samples together, without what is chosen."""
        space = self._of_trial[trial.number].infer_relative_search_space(study, trial)
        return {name: space[name] for name in space if self.open or name in self.distributions}

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """As the trial's sampler."""
        return self._of_trial[trial.number].sample_relative(study, trial, search_space)

    def sample_independent(
        self,
        study: Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        """The chosen value, else as the trial's sampler."""
        chosen = self._chosen.get(trial.number, {})
        if param_name in chosen:
            return chosen[param_name]
        sampler = self._of_trial[trial.number]
        return sampler.sample_independent(study, trial, param_name, param_distribution)

    def after_trial(
        self, study: Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None
    ) -> None:
        """Forget the trial, which another process may have begun."""
        self._chosen.pop(trial.number, None)
        sampler = self._of_trial.pop(trial.number, None)
        if sampler is not None:
            sampler.after_trial(study, trial, state, values)


def make_sampler(
    name: Sampler | BaseSampler,
    distributions: Distributions,
    seed: int,
    *,
    open: bool = False,  # noqa: A002
) -> TrialSampler:
    """The sampler of that name, or one of Optuna's as it is.

    Raises
    ------
    ParameterError
        If a grid would have too many points, or there is no space to lay it out in.
    """
    if isinstance(name, BaseSampler):
        return TrialSampler(lambda _: name, distributions, open)
    if open and name in ("grid", "qmc"):
        raise ParameterError(
            f"sampler={name!r} needs a space of ranges and choices, not a function of a trial: "
            "take 'tpe' or 'random'"
        )
    if name == "grid":
        return _GridSampler(distributions, seed)
    if name == "qmc":
        # All trials share one sequence, whose state is in the storage.
        return TrialSampler(lambda _: _Qmc(distributions, seed), distributions)
    known = IntersectionSearchSpace(include_pruned=True)

    def make(number: int) -> BaseSampler:
        own = int(np.random.SeedSequence([seed, number]).generate_state(1)[0])
        return _Tpe(own, known) if name == "tpe" else RandomSampler(own)

    return TrialSampler(make, distributions, open)


class _Tpe(TPESampler):
    """Shares with the samplers of other trials what parameters earlier trials had in common.

    Otherwise each would look through all of the trials.
    """

    def __init__(self, seed: int, known: IntersectionSearchSpace) -> None:
        super().__init__(seed=seed)
        self._search_space = known


class _Qmc(QMCSampler):
    """Knows its space from the beginning, instead of from the first trial."""

    def __init__(self, distributions: Distributions, seed: int) -> None:
        super().__init__(scramble=True, seed=seed, warn_independent_sampling=False)
        self._distributions = dict(distributions)

    def infer_relative_search_space(
        self, study: Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        return {name: dist for name, dist in self._distributions.items() if not dist.single()}


class _GridSampler(TrialSampler):
    """The points of a grid in random order, those of killed trials again.

    Optuna's own takes the point of a killed trial as done, and ends `Study.optimize`, which is
    not used here.
    """

    def __init__(self, distributions: Distributions, seed: int) -> None:
        super().__init__(lambda _: RandomSampler(seed), distributions)
        axes = {name: _grid_values(one) for name, one in distributions.items()}
        size = math.prod(len(axis) for axis in axes.values())
        if size > _MOST_POINTS:
            sizes = " x ".join(f"{len(axis)} of {name}" for name, axis in axes.items())
            raise ParameterError(
                f"a grid of {sizes} has {size:,} points, more than {_MOST_POINTS:,}: give "
                "choices or fixed values in space, or take another sampler"
            )
        points = [
            dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())
        ]
        self._points = [points[i] for i in np.random.default_rng(seed).permutation(size)]

    def exhausted(self, study: Study) -> bool:
        """Whether each point was tried or is being tried."""
        return next(self._untried_points(study), None) is None

    def before_trial(self, study: Study, trial: FrozenTrial) -> None:
        """Choose the next point."""
        super().before_trial(study, trial)
        self.choose(trial.number, **next(self._untried_points(study), self._points[0]))

    def choose(self, number: int, **values: Any) -> None:
        """Give a trial these values in addition to those of its point."""
        super().choose(number, **{**self._chosen.get(number, {}), **values})

    def _untried_points(self, study: Study) -> Iterator[dict[str, Any]]:
        trials = study.get_trials(deepcopy=False)
        tried = {self._key(trial.params) for trial in trials if uses_budget(trial)}
        return (point for point in self._points if self._key(point) not in tried)

    def _key(self, params: Mapping[str, Any]) -> str:
        # As text, in which True is not 1.
        return repr([params.get(name) for name in self.distributions])


def _grid_values(distribution: BaseDistribution) -> list[Any]:
    """All choices, or up to eight values from the lowest to the highest."""
    if isinstance(distribution, CategoricalDistribution):
        return list(distribution.choices)
    assert isinstance(distribution, FloatDistribution | IntDistribution)
    low, high = distribution.low, distribution.high
    values = (np.geomspace if distribution.log else np.linspace)(low, high, _GRID_VALUES)
    if distribution.step is not None:
        # The nearest that the steps allow, in a set because several may be the same.
        steps = np.unique(np.rint((values - low) / distribution.step))
        values = low + distribution.step * steps
    if isinstance(distribution, IntDistribution):
        return [int(value) for value in np.rint(values)]
    return [float(value) for value in values if low <= value <= high]


class NoPruning:
    """Every trial runs to its end."""

    reads_reports = False
    """Whether it asks the storage for what the trial has reached."""

    def after_step(self, trial: Trial, evaluation: Evaluation, step: TrialStep) -> bool:
        """Whether to give up the trial now."""
        return False

    def keep(self, trial: Trial, evaluation: Evaluation) -> None:
        """Keep of a complete trial what later ones are compared with."""


class OptunaPruning(NoPruning):
    """By a pruner of Optuna's, from values at the same step: fold, or fold and C of a path."""

    reads_reports = True

    def __init__(self, study: Study, pruner: BasePruner) -> None:
        study.pruner = pruner

    def after_step(self, trial: Trial, evaluation: Evaluation, step: TrialStep) -> bool:
        """Ask Optuna's pruner, which knows the reported values."""
        return trial.should_prune()


class _Duel(NamedTuple):
    """What Optuna's pruner asks a study for; one that is in memory takes longer than the test."""

    direction: StudyDirection
    best_trial: FrozenTrial


class WilcoxonPruning(NoPruning):
    """Significantly worse than the best trial on the queries scored so far, after each fold.

    At least 15 queries are needed for that, and p < 0.1.

    A trial of a path is judged by its best C. The scores of single queries are kept once a
    trial, not reported one by one, which would take longer than most trainings; for the test
    they become intermediate values.
    """

    def __init__(self, study: Study) -> None:
        self._study = study
        self._pruner = WilcoxonPruner(n_startup_steps=_FEWEST_QUERIES)
        self._best: tuple[int, float, dict[int, float]] = (0, math.nan, {})

    def after_step(self, trial: Trial, evaluation: Evaluation, step: TrialStep) -> bool:
        """Ask Optuna's pruner about the best complete trial and this one."""
        if not step.ends_fold:
            return False
        value, known = self._best_so_far()
        if not known:
            return False
        scores = evaluation.best.scores()
        common = sorted(scores.keys() & known.keys())
        of_best = {query: known[query] for query in common}
        best = create_trial(value=value, intermediate_values=of_best)
        own = {query: scores[query] for query in common}
        trial_now = create_trial(state=TrialState.RUNNING, intermediate_values=own)
        return self._pruner.prune(cast(Study, _Duel(self._study.direction, best)), trial_now)

    def _best_so_far(self) -> tuple[float, dict[int, float]]:
        """The value and the scores of the best trial, which is asked for when there are more."""
        n_complete = len(self._study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,)))
        if n_complete != self._best[0]:
            try:
                best = self._study.best_trial  # a copy
            except ValueError:  # there is none, as all break constraints
                return math.nan, {}
            scores = {int(query): one for query, one in best.user_attrs.get(_SCORES, {}).items()}
            assert best.value is not None
            self._best = (n_complete, best.value, scores)
        return self._best[1:]

    def keep(self, trial: Trial, evaluation: Evaluation) -> None:
        """Keep the scores of single queries."""
        trial.set_user_attr(_SCORES, evaluation.best.scores())


def make_pruning(name: Pruner | BasePruner | None, study: Study) -> NoPruning:
    """The pruning of that name, or by that pruner.

    None where several objectives leave open what is worse.
    """
    if name is None or len(study.directions) > 1:
        return NoPruning()
    if name == "wilcoxon":
        return WilcoxonPruning(study)
    return OptunaPruning(study, MedianPruner() if name == "median" else name)
