"""The losses of all pairs as the solvers of both libraries use them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from rankplug.boosting import PairwiseObjective, pairwise_logistic, pairwise_squared_hinge
from rankplug.data import RankingData
from rankplug.parameters import Choice, Parameter
from rankplug.solver import Data, Solver

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

__all__ = ["AllPairsLoss"]

# Second derivative of a pair's loss where both scores are equal.
_CURVATURE = {"squared-hinge": 2.0, "logistic": 0.25}


@dataclass(kw_only=True, repr=False, eq=False)
class AllPairsLoss(Solver):
    """The parameters of a loss of all pairs, for solvers that add them to those of trees.

    Parameters
    ----------
    loss : "squared-hinge" or "logistic"
    pair_weight : "sum" or "query-mean"
        What a pair counts: its query's weight, or that divided by the number of its pairs.
    """

    parameters: ClassVar[dict[str, Parameter]] = {
        "loss": Choice(("squared-hinge", "logistic")),
        "pair_weight": Choice(("sum", "query-mean")),
    }

    loss: Literal["squared-hinge", "logistic"] = "squared-hinge"
    pair_weight: Literal["sum", "query-mean"] = "sum"

    def tuning_space(self, data: Data | None = None) -> dict[str, BaseDistribution]:
        """That of the trees, and how much the pairs of large queries count."""
        from optuna.distributions import CategoricalDistribution

        pair_weight = CategoricalDistribution(("sum", "query-mean"))
        return {**super().tuning_space(data), "pair_weight": pair_weight}

    def _pair_loss(self, data: Data, qid: Any = None) -> Any:
        """Its gradient and Hessian, as a function of scores and the library's data set."""
        return _scaled_loss(data, self.loss, self.pair_weight, qid)


def _scaled_loss(data: Data, loss: str, pair_weight: str, qid: Any) -> Any:
    """The loss of all pairs, scaled so that second derivatives are 1 on average at the start.

    The parameters of trees that are compared with sums of second derivatives, such as
    ``min_child_weight`` and ``reg_lambda``, then mean the same for all data.
    """
    make: Any = pairwise_squared_hinge if loss == "squared-hinge" else pairwise_logistic
    objective: PairwiseObjective = make(qid, pair_weight=pair_weight)
    scale = _rows_per_pair_weight(data, pair_weight) / (2 * _CURVATURE[loss])

    def scaled(scores: Any, data_set: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        gradient, hessian = objective(scores, data_set)
        return scale * gradient, scale * hessian

    return scaled


def _rows_per_pair_weight(data: Data, pair_weight: str) -> float:
    """Rows of the queries that have pairs, divided by what all pairs count.

    A query of weight 2 is one that occurs twice, in both.
    """
    if isinstance(data, RankingData):
        sizes, weight = np.diff(data.query_ptr), data.query_weight
    else:
        sizes, weight = (~np.isnan(data.relevance)).sum(axis=1), None
    weight = np.ones(len(sizes)) if weight is None else weight
    has_pairs = data.pair_counts > 0
    pairs = data.pair_counts if pair_weight == "sum" else has_pairs
    return float(weight @ (sizes * has_pairs) / (weight @ pairs))
