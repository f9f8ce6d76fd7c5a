"""LightGBM's own ranking objectives, and the exact loss of all pairs, as solvers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from rankplug.data import RankingData
from rankplug.exceptions import DataError
from rankplug.parameters import Choice, Integer, Parameter
from rankplug.solver import Data, SolverTags
from rankplug_plugins.boosting.all_pairs import AllPairsLoss
from rankplug_plugins.boosting.lightgbm_trees import LightGBMTrees
from rankplug_plugins.boosting.relevance import gains, levels

__all__ = ["LightGBMAllPairs", "LightGBMLambdarank"]

_LARGEST_QUERY = 10_000
_STEPS = 1_000


@dataclass(kw_only=True, repr=False, eq=False)
class LightGBMLambdarank(LightGBMTrees):
    """Boosted trees for NDCG: LightGBM's ``lambdarank`` [1]_, or its ``rank_xendcg`` [2]_.

    Grades, integers from 0 to 31, have the gain ``2^y - 1``. For ``lambdarank``, any other
    relevance has the linear gain ``y - min(y)`` of its query, as in `Ranker.score`, in 1,000
    steps, because LightGBM takes integers only.

    Parameters
    ----------
    objective : "lambdarank" or "rank_xendcg"
        ``rank_xendcg`` takes grades only.
    truncation_level : int
        ``lambdarank`` counts pairs with one of so many rows at the top.
    n_estimators, learning_rate, ...
        See `LightGBMTrees`.

    Notes
    -----
    LightGBM takes at most 10,000 rows of a query. Weights are multiplied to each row's
    derivatives. Zeros are values, with dense and sparse features.

    References
    ----------
    .. [1] Ke et al., LightGBM: a highly efficient gradient boosting decision tree, NIPS 2017.
    .. [2] Bruch, An alternative cross entropy loss for learning-to-rank, WWW 2021.
    """

    name: ClassVar[str] = "lightgbm-lambdarank"
    tags: ClassVar[SolverTags] = SolverTags(
        tasks=("query-document",),
        problem="boosted trees on pairs with a top row, logistic loss weighed by change in NDCG",
        reference="Ke et al., LightGBM: a highly efficient gradient boosting decision tree, 2017",
        exact=False,
        validation=True,
        requires=("lightgbm",),
    )
    parameters: ClassVar[dict[str, Parameter]] = {
        **LightGBMTrees.parameters,
        "objective": Choice(("lambdarank", "rank_xendcg")),
        "truncation_level": Integer(1, 2**31 - 1),
    }

    objective: Literal["lambdarank", "rank_xendcg"] = "lambdarank"
    truncation_level: int = 30

    def check(self, data: Data) -> None:
        """Raise what `solve` would raise about the parameters and the data."""
        super().check(data)
        assert isinstance(data, RankingData)
        largest = int(np.diff(data.query_ptr).max())
        if largest > _LARGEST_QUERY:
            raise DataError(
                f"{self.name}: LightGBM takes {_LARGEST_QUERY:,} rows of a query, but one has "
                f"{largest:,}: use lightgbm-all-pairs, which has no limit"
            )
        if self.objective == "rank_xendcg" and not data.is_graded:
            raise DataError(
                f"{self.name}: objective='rank_xendcg' takes integer relevance from 0 to 31 only: "
                "use objective='lambdarank'"
            )

    def _native_objective(self, data: RankingData) -> dict[str, Any]:
        if self.objective == "rank_xendcg":
            return {"objective": "rank_xendcg"}
        gain = 2.0 ** np.arange(32) - 1 if data.is_graded else np.arange(_STEPS + 1.0)
        return {
            "objective": "lambdarank",
            "lambdarank_truncation_level": self.truncation_level,
            "label_gain": gain.tolist(),
        }

    def _labels(self, data: RankingData) -> dict[str, Any]:
        labels = data.relevance
        if not data.is_graded:
            gain = gains(data)
            labels = np.round(gain / gain.max() * _STEPS)
        return {"label": labels, "group": np.diff(data.query_ptr)}


@dataclass(kw_only=True, repr=False, eq=False)
class LightGBMAllPairs(AllPairsLoss, LightGBMTrees):
    """LightGBM's trees for a loss of all pairs, exactly; see `XGBoostAllPairs`.

    Any real relevance and queries of any size are taken, other than by LightGBM's own ranking
    objectives.

    Parameters
    ----------
    loss : "squared-hinge" or "logistic"
    pair_weight : "sum" or "query-mean"
        What a pair counts: its query's weight, or that divided by the number of its pairs.
    n_estimators, learning_rate, ...
        See `LightGBMTrees`.

    References
    ----------
    .. [1] Ke et al., LightGBM: a highly efficient gradient boosting decision tree, NIPS 2017.
    .. [2] Lee and Lin, Large-scale linear rankSVM, Neural Computation 26 (2014).
    """

    name: ClassVar[str] = "lightgbm-all-pairs"
    tags: ClassVar[SolverTags] = SolverTags(
        tasks=("query-document",),
        problem="boosted trees on all pairs, squared hinge max(0, 1 - (s_i - s_j))^2",
        reference="Ke et al., LightGBM (2017), with the loss of Lee and Lin (2014)",
        exact=False,
        validation=True,
        requires=("lightgbm",),
    )
    parameters: ClassVar[dict[str, Parameter]] = {
        **LightGBMTrees.parameters,
        **AllPairsLoss.parameters,
    }

    def _native_objective(self, data: RankingData) -> dict[str, Any]:
        queries = np.repeat(np.arange(data.n_queries), np.diff(data.query_ptr))
        return {"objective": self._pair_loss(data, queries)}

    def _labels(self, data: RankingData) -> dict[str, Any]:
        return {"label": levels(data)}
