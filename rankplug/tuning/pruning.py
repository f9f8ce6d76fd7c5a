"""Pruning: trials that are given up after a fold, as no better than earlier ones.

This module imports optuna: it is itself imported in functions only.
"""

from __future__ import annotations

import optuna
from optuna import Study, Trial
from optuna.pruners import MedianPruner, WilcoxonPruner
from optuna.trial import FrozenTrial, TrialState, create_trial

from rankplug.tuning.evaluation import Evaluation
from rankplug.tuning.records import Pruner, TrialStep

__all__ = ["NoPruning", "make_pruning"]

_SCORES = "rankplug.scores"  # an attribute of stored trials, in studies of all versions
_FEWEST_QUERIES = 15  # SciPy takes seconds to test fewer with ties among them


class NoPruning:
    """Every trial runs to its end."""

    def after_step(self, trial: Trial, evaluation: Evaluation, step: TrialStep) -> bool:
        """Whether to give up the trial now."""
        return False

    def keep(self, trial: Trial, evaluation: Evaluation) -> None:
        """Keep of a complete trial what later ones are compared with."""


class MedianPruning(NoPruning):
    """Below the median of earlier trials at the same step: fold, or fold and C of a path."""

    def __init__(self, study: Study) -> None:
        study.pruner = MedianPruner()

    def after_step(self, trial: Trial, evaluation: Evaluation, step: TrialStep) -> bool:
        """Ask Optuna's pruner, which knows the reported values."""
        return trial.should_prune()


class WilcoxonPruning(NoPruning):
    """Significantly worse than the best trial on the queries scored so far, after each fold.

    At least 15 queries are needed for that, and p < 0.1.

    A trial of a path is judged by its best C. The scores of single queries are kept once a
    trial, not reported one by one, which would take longer than most trainings; for the test
    they become the intermediate values of a study in memory.
    """

    def __init__(self, study: Study) -> None:
        self._study = study
        self._pruner = WilcoxonPruner(n_startup_steps=_FEWEST_QUERIES)

    def after_step(self, trial: Trial, evaluation: Evaluation, step: TrialStep) -> bool:
        """Ask Optuna's pruner about the best complete trial and this one."""
        best = self._best()
        if best is None or not step.ends_fold:
            return False
        scores = evaluation.best.scores()
        known = {int(query): value for query, value in best.user_attrs[_SCORES].items()}
        common = sorted(scores.keys() & known.keys())
        duel = optuna.create_study(direction=self._study.direction)
        duel.add_trial(
            create_trial(
                value=best.value, intermediate_values={query: known[query] for query in common}
            )
        )
        own = create_trial(
            state=TrialState.RUNNING,
            intermediate_values={query: scores[query] for query in common},
        )
        return self._pruner.prune(duel, own)

    def keep(self, trial: Trial, evaluation: Evaluation) -> None:
        """Keep the scores of single queries."""
        trial.set_user_attr(_SCORES, evaluation.best.scores())

    def _best(self) -> FrozenTrial | None:
        try:
            best = self._study.best_trial
        except ValueError:
            return None
        return best if _SCORES in best.user_attrs else None


def make_pruning(name: Pruner | None, study: Study) -> NoPruning:
    """The pruning of that name; none where several objectives leave open what is worse."""
    if name is None or len(study.directions) > 1:
        return NoPruning()
    return {"median": MedianPruning, "wilcoxon": WilcoxonPruning}[name](study)
