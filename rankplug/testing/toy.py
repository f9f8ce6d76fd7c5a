"""A complete solver on one page: for tests that need some solver, and to copy from."""

from __future__ import annotations

from dataclasses import field

import numpy as np
from numpy.typing import NDArray

from rankplug.models import Model, linear_model
from rankplug.parameters import Positive
from rankplug.solver import Data, Monitor, Objective, Solver, SolverResult, SolverTags


class PairDirection(Solver):
    r"""The mean direction from the worse to the better row of each pair, in closed form.

        min_w  1/2 |w|^2 - C sum over pairs (i, j), y_i > y_j, of (s_i - s_j)

    whose minimum is at ``w = C sum (x_i - x_j)``. For label ranking, each label has a w, and
    the pairs are those of an instance's labels.

    Parameters
    ----------
    C : float, default=1.0
        How much the pairs count against the length of w.
    """

    name = "pair-direction"
    tags = SolverTags(
        tasks=("query-document", "label-ranking"),
        problem="min 1/2 |w|^2 - C sum over pairs of (s_i - s_j)",
        reference="closed form",
        duality_gap=True,
    )

    C: Positive = field(default=1.0, kw_only=False)

    def describe_objective(self) -> Objective:
        """Solvers of other packages that return an equal one are compared with this one."""
        return Objective("signed distances of pairs", {"C": self.C})

    def _solve(
        self, data: Data, init: Model | None, monitor: Monitor, rng: np.random.Generator
    ) -> SolverResult:
        examples = np.split(data.relevance.ravel(), np.cumsum(data.sizes)[:-1])
        weighted = zip(examples, data.weights, strict=True)
        net_wins = np.concatenate([weight * _count_net_wins(y) for y, weight in weighted])
        w = self.C * (data.X.T @ net_wins.reshape(data.n_samples, -1)).T.ravel()
        objective = -0.5 * float(w @ w)
        goes_on = monitor.report(1, objective=objective)
        return SolverResult(
            model=linear_model(w, data),
            status="converged" if goes_on else "stopped",
            objective=objective,
            duality_gap=0.0,
            n_iter=1,
            n_passes=1.0,
        )


def _count_net_wins(y: NDArray[np.float64]) -> NDArray[np.float64]:
    """How many rows each row beats, less how many it loses to; NaN does neither."""
    better = (y[:, None] > y).astype(np.float64)
    net: NDArray[np.float64] = better.sum(axis=1) - better.sum(axis=0)
    return net
