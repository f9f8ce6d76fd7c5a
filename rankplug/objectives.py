"""The problems that solvers minimise, as losses that the optimisers understand.

Pairwise problems sum over the pairs P of all queries: (i, j) with the same query and
``y_i > y_j``. What a pair of query q counts is C times its weight, by `reduction`:

* ``"sum"``: the query's weight (1 if none is given);
* ``"mean"``: that, divided by the number of all pairs;
* ``"query-mean"``: that, divided by the number of the query's pairs and of queries with pairs.

Numbers of pairs and queries count weights too, so that a query of weight 2 is one that occurs
twice, whatever the reduction.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rankplug.data import LabelRankingData, RankingData
from rankplug.shards import Shards, open_shards

__all__ = ["Reduction", "SquaredHinge", "pair_weights", "squared_hinge_objective"]

Vector: TypeAlias = NDArray[np.float64]
Reduction: TypeAlias = Literal["sum", "mean", "query-mean"]


class SquaredHinge:
    """Squared hinge loss over all pairs, at scores that follow the optimiser.

        loss(w) = sum over (i, j) in P of c_q(i,j) max(0, 1 - (s_i - s_j))^2,   s = X w

    with ``c_q`` the weights the shards were opened with. Implements
    `rankplug.optim.newton_cg.LinearLoss`; `n_passes` counts reads of all features.
    """

    def __init__(self, shards: Shards) -> None:
        self.shards = shards
        self.n_passes = 0.0

    @property
    def n_columns(self) -> int:
        """Length of a weight vector."""
        return self.shards.n_columns

    def move_to(self, w: Vector | None) -> float:
        """Go to `w` (0 for None) and return the loss there."""
        self.n_passes += w is not None
        return float(self.shards.sum(lambda shard: shard.move_to(w)))

    def gradient(self) -> Vector:
        """Gradient of the loss by the weights."""
        self.n_passes += 1
        gradient: Vector = self.shards.sum(lambda shard: shard.gradient())
        return gradient

    def hessian_product(self, v: Vector) -> Vector:
        """Generalised Hessian of the loss times `v`."""
        self.n_passes += self.shards.passes_per_product
        product: Vector = self.shards.sum(lambda shard: shard.hessian_product(v))
        return product

    def hessian_diagonal(self) -> Vector:
        """Approximate diagonal of the Hessian at the current point, O(elements of X)."""
        self.n_passes += 1
        diagonal: Vector = self.shards.sum(lambda shard: shard.hessian_diagonal())
        return diagonal

    @property
    def has_gram(self) -> bool:
        """Whether `hessian_gram` can be asked for."""
        return self.shards.has_gram

    def hessian_gram(self) -> NDArray[np.float64]:
        """The Hessian at the current point, estimated from a sample of the queries."""
        fraction = self.shards.sample_fraction
        self.n_passes += fraction
        gram: NDArray[np.float64] = self.shards.sum(lambda shard: shard.hessian_gram(fraction))
        return gram

    def start_direction(self) -> None:
        """Forget the direction gathered so far."""
        self.shards.map(lambda shard: shard.start_direction())

    def extend_direction(self, step: float) -> None:
        """Add `step` times the ``v`` of the last Hessian product to the direction."""
        self.shards.map(lambda shard: shard.extend_direction(step))

    def loss_along(self, step: float) -> float:
        """Loss after `step` times the direction; reads no features."""
        return float(self.shards.sum(lambda shard: shard.loss_along(step)))

    def accept(self) -> None:
        """Make the step last tried the current point."""
        self.shards.map(lambda shard: shard.accept())


def pair_weights(data: RankingData | LabelRankingData, reduction: Reduction) -> Vector:
    """``c_q``: what each pair of each query (or instance) counts, before C."""
    weight = data.query_weight if isinstance(data, RankingData) else None
    n_queries = data.n_queries if isinstance(data, RankingData) else data.n_samples
    own = np.ones(n_queries) if weight is None else weight
    if reduction == "sum":
        return own
    counts = data.pair_counts
    if reduction == "mean":
        mean: Vector = own / (own @ counts)
        return mean
    per_query: Vector = own / (np.maximum(counts, 1) * own[counts > 0].sum())
    return np.where(counts > 0, per_query, 0.0)


def squared_hinge_objective(
    data: RankingData | LabelRankingData,
    w: Vector,
    C: float,
    reduction: Reduction = "sum",
) -> tuple[float, Vector]:
    """``1/2 w.w + C loss(w)`` and its gradient.

    Half the squared norm of that gradient is a duality gap: the dual point
    ``alpha_ij = 2 C c_q max(0, 1 - (s_i - s_j))`` has exactly this distance.
    """
    with open_shards(data, pair_weights(data, reduction), n_threads=1) as shards:
        loss = SquaredHinge(shards)
        value = 0.5 * float(w @ w) + C * loss.move_to(w)
        return value, w + C * loss.gradient()
