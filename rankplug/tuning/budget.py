"""How much a study may spend."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rankplug.tuning.trials import counts

if TYPE_CHECKING:
    from optuna import Study

__all__ = ["Budget"]


@dataclass(frozen=True)
class Budget:
    """How many trials the study may have, and how long this process begins new ones."""

    n_trials: int | None
    timeout: float | None
    started: float = field(default_factory=time.monotonic)

    @property
    def out_of_time(self) -> bool:
        """Whether no trial may begin any more."""
        return self.timeout is not None and time.monotonic() - self.started >= self.timeout

    def spent(self, study: Study, before: float = math.inf) -> bool:
        """Whether the trials numbered lower than `before` are as many as there may be."""
        if self.n_trials is None:
            return False
        trials = study.get_trials(deepcopy=False)
        return sum(counts(one) for one in trials if one.number < before) >= self.n_trials
