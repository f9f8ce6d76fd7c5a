"""Losses over all preference pairs: squared hinge, hinge and smoothed hinge, as functions of w.

Pairwise problems sum over the pairs P of all queries: (i, j) with the same query and
``y_i > y_j``. What a pair of query q counts, ``c_q``, depends on the reduction, see
`rankplug.shards.reductions`, and on what single pairs count, see `rankplug.shards.PairWeighting`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from rankplug._fast.pairs import ActivePairs
from rankplug.data import LabelRankingData, PreferenceData, RankingData
from rankplug.objectives.adjacent import PairChoice, adjacent_weights, split_levels
from rankplug.objectives.gradient_updates import UpdatedGradient
from rankplug.shards import (
    UNIFORM,
    Evaluate,
    PairWeighting,
    Reduction,
    RemoteRankingData,
    Shard,
    Shards,
    Vector,
    open_shards,
    pair_weights,
)


def _squared_hinge(pairs: ActivePairs, scores: Vector, coefficient: Vector) -> float:
    pairs.update(scores)
    return pairs.squared_hinge(scores, coefficient)


def _hinge(pairs: ActivePairs, scores: Vector, coefficient: Vector) -> float:
    pairs.update(scores)
    return pairs.hinge(scores, coefficient)


def _smoothed_hinge(width: float, pairs: ActivePairs, scores: Vector, coefficient: Vector) -> float:
    pairs.update(scores, band=width)
    return 0.5 / width * pairs.squared_hinge(scores, coefficient)


_MOST_READ = 0.7  # of the rows: above, all of them one after the other are read as fast
_NEGLIGIBLE = 1e-3  # share of a gap that need not be told
_OF_DUAL = 4.0  # errors of a dual value, which has the gradient's square, beside those of a loss
_LAST_DIGITS = 8 * float(np.finfo(np.float64).eps)  # of scores that differ by a margin of 1


class PairLoss:
    """A loss of all pairs, summed, at scores that follow the optimiser.

        loss(w) = sum over (i, j) in P of c_q(i,j) h(1 - (s_i - s_j)),   s = X w

    with ``c_q`` the weights the shards were opened with; a class says what h is. Implements
    `rankplug.optim.newton_cg.LinearLoss`, whose steps are those of Newton's method:

    1. `move_to` a point; `gradient` there.
    2. `start_direction`; for each `hessian_product` of the conjugate gradients `extend_direction`
       by a multiple of what was multiplied.
    3. `loss_along` the direction for one step or more, without reading the features.
    4. `accept` the last of them, and go on with `gradient`, or with `updated_gradient`.

    `n_passes` counts reads of all features.

    Shards that are far give the gradient together with the loss, where it will be asked for next:
    at a new point, and after the first step tried along a direction, which mostly is accepted.
    """

    factor = 1.0
    """From the shards' products to gradients and Hessians, see `rankplug.shards.Evaluate`."""
    evaluate: Evaluate
    """The loss of a shard's pairs at some scores; can be sent to another process."""

    def __init__(self, shards: Shards) -> None:
        self.shards = shards
        self.n_passes = 0.0
        self._gradient: Vector | None = None  # of the shards, if known before it is asked for
        self._gradient_along: Vector | None = None
        self._is_first_step = False
        self._updated = UpdatedGradient()

    @property
    def n_columns(self) -> int:
        """Length of a weight vector."""
        return self.shards.n_columns

    @property
    def n_rows(self) -> int:
        """Rows of the features."""
        return self.shards.n_rows

    @property
    def n_elements(self) -> int:
        """Elements of the features that a product with them reads."""
        return self.shards.n_elements

    def move_to(self, w: Vector | None) -> float:
        """Go to `w` (0 for None) and return the loss there."""
        self.n_passes += w is not None
        self._updated.forget()
        if not self.shards.far:
            return float(self.shards.sum(Shard.move_to, w, self.evaluate))
        loss, self._gradient = self._with_gradient(Shard.move_to_with_gradient, w)
        return loss

    def gradient(self) -> Vector:
        """Gradient of the loss by the weights."""
        known, self._gradient = self._gradient, None
        if known is None:
            self.n_passes += 1
            known = self.shards.sum(Shard.gradient)
        if self.shards.picks_rows and not self.shards.far:
            self._updated.start(known)
        return self.factor * known

    def updated_gradient(self) -> tuple[Vector, float] | None:
        """`gradient` at the point just accepted by what Hessian products and c have changed.

        Reads those rows of the features whose pairs have changed. Returns also about what rounding
        errors may make of the norm; None if too little is known, or too much has changed.
        """
        updated = self._updated.at_step
        if updated is None:
            return None
        n_rows = self.shards.sum(Shard.find_changed_rows, self._updated.step)
        if n_rows > _MOST_READ * self.n_rows:
            return None
        self.n_passes += n_rows / self.n_rows
        updated += self.shards.sum(Shard.gradient_of_changes)
        self._updated.go_on(updated)
        return self.factor * updated, self.factor * self.shards.rounding * self._updated.size

    def hessian_product(self, v: Vector) -> Vector:
        """Generalised Hessian of the loss times `v`."""
        self.n_passes += self.shards.passes_per_product
        product: Vector = self.shards.sum(Shard.laplacian, v)
        self._updated.observe(v, product)
        return self.factor * product

    def hessian_diagonal(self) -> Vector:
        """Approximate diagonal of the Hessian at the current point, O(elements of X)."""
        self.n_passes += 1
        diagonal: Vector = self.factor * self.shards.sum(Shard.laplacian_diagonal)
        return diagonal

    @property
    def has_gram(self) -> bool:
        """Whether `hessian_gram` can be asked for."""
        return self.shards.has_gram

    def hessian_gram(self) -> NDArray[np.float64]:
        """Lower half of the Hessian at the current point, estimated from some of the queries."""
        fraction = self.shards.sample_fraction
        self.n_passes += fraction
        gram: NDArray[np.float64] = self.shards.sum(Shard.laplacian_gram, fraction)
        gram *= self.factor
        return gram

    def start_direction(self) -> None:
        """Forget the direction gathered so far."""
        self._is_first_step = True
        self.shards.apply(Shard.start_direction, self._updated.start_direction())

    def extend_direction(self, step: float) -> None:
        """Add `step` times the ``v`` of the last Hessian product to the direction."""
        self._updated.extend_direction(step)
        self.shards.apply(Shard.extend_direction, step)

    def aim_at(self, w: Vector) -> None:
        """Make the way from the current point to `w` the direction."""
        self.n_passes += 1
        self._updated.forget()
        self.shards.apply(Shard.aim_at, w)

    def loss_along(self, step: float) -> float:
        """Loss after `step` times the direction; reads no features, or for the gradient there."""
        self._gradient_along = None
        self._updated.step = step
        if not (self.shards.far and self._is_first_step):
            return float(self.shards.sum(Shard.loss_along, step, self.evaluate))
        self._is_first_step = False
        loss, self._gradient_along = self._with_gradient(Shard.loss_along_with_gradient, step)
        return loss

    def accept(self) -> None:
        """Make the step last tried the current point."""
        self._gradient, self._gradient_along = self._gradient_along, None
        self.shards.apply(Shard.accept)

    def rounding(self, C: float, w: Vector, goal: float) -> float:
        """About what rounding errors make of C times the loss, and of its dual, at `w`.

        The loss stands about there. 0 where that is nothing beside `goal`, the gap that is asked
        for: unless C is huge and hardly a pair has a loss.
        """
        error = C * self._rounding()
        return error if error > _NEGLIGIBLE * goal else 0.0

    def _rounding(self) -> float:
        return 0.5 * self.factor * float(self.shards.sum(Shard.rounding))

    def _with_gradient(
        self, operation: Callable[..., Vector], argument: Vector | float | None
    ) -> tuple[float, Vector]:
        self.n_passes += 1
        found = self.shards.sum(operation, argument, self.evaluate)
        return float(found[0]), found[1:]


class SquaredHinge(PairLoss):
    """``h(t) = max(0, t)^2``."""

    factor = 2.0
    evaluate = staticmethod(_squared_hinge)

    @override
    def rounding(self, C: float, w: Vector, goal: float) -> float:
        limit = C * float(self.shards.sum(Shard.rounding_limit))
        return 0.0 if limit <= _NEGLIGIBLE * goal else super().rounding(C, w, goal)


class Hinge(PairLoss):
    """``h(t) = max(0, t)``, which has subgradients; its Hessian is of no use.

    Implements `rankplug.optim.bundle.LineLoss`.
    """

    evaluate = staticmethod(_hinge)

    @override
    def loss_along(self, step: float) -> float:
        # The slope comes with it: where shards are far away, each question costs time.
        loss, self._slope = self.shards.sum(Shard.line, step, self.evaluate)
        return float(loss)

    def slope(self) -> float:
        """Slope of the loss along the direction at the current point."""
        return float(self.shards.sum(Shard.slope))

    def slope_along(self) -> float:
        """Slope of the loss along the direction at the step last tried."""
        return float(self._slope)

    def gradient_along(self) -> Vector:
        """A subgradient of the loss by the weights at the step last tried."""
        self.n_passes += 1
        gradient: Vector = self.shards.sum(Shard.gradient_along)
        return gradient

    @override
    def rounding(self, C: float, w: Vector, goal: float) -> float:
        # Of all pairs, those count whose margin is met but for the last digits of scores.
        if C * self._at_zero * _LAST_DIGITS <= _NEGLIGIBLE * goal:
            return 0.0
        error = C * (self.move_to((1.0 - _LAST_DIGITS) * w) - self.move_to(w))
        return error if error > _NEGLIGIBLE * goal else 0.0

    @cached_property
    def _at_zero(self) -> float:
        """The loss at w = 0, for every C of a path; the loss moves there to find it."""
        return float(self.shards.sum(Shard.move_to, None, self.evaluate))


class SmoothedHinge(PairLoss):
    """``h(t) = t^2 / (2 width)`` for t in (0, width), ``t - width / 2`` above: a Huber hinge.

    Implements `rankplug.optim.smoothing.SmoothedLoss`.
    """

    def __init__(self, shards: Shards, width: float = 1.0) -> None:
        super().__init__(shards)
        self._lost = 0.0
        self._set_width(width)

    def narrow(self, width: float) -> float:
        """Change the width; return the new loss at the current point, without a pass over X."""
        self._lost = max(self._lost, super()._rounding())
        self._set_width(width)
        self._gradient = None
        self._updated.forget()
        return float(self.shards.sum(Shard.stay, self.evaluate))

    def _set_width(self, width: float) -> None:
        self.width = width
        self.factor = 1.0 / width
        self.evaluate = partial(_smoothed_hinge, width)

    def hinge(self) -> float:
        """What the loss would be without smoothing, at the current point."""
        return float(self.shards.sum(Shard.hinge))

    @override
    def _rounding(self) -> float:
        """The largest one of all widths since it was last asked for: dual values are of each."""
        lost, self._lost = max(self._lost, super()._rounding()), 0.0
        return _OF_DUAL * lost

    def total_slope(self) -> float:
        """``sum over (i, j) in P of c_q(i,j) h'(1 - (s_i - s_j))`` at the current point."""
        return self.factor * float(self.shards.sum(Shard.clipped_slack))


@contextmanager
def open_pairs(
    data: PreferenceData | RemoteRankingData,
    reduction: Reduction,
    n_threads: int | None = None,
    weighting: PairWeighting = UNIFORM,
    pairs: PairChoice = "all",
) -> Iterator[Shards]:
    """The shards of a data set, each pair with its weight; see `rankplug.shards.open_shards`.

    With "adjacent" only pairs of adjacent levels of relevance count, see `split_levels`; not of
    remote data.

    For remote data `n_threads` are those of each task on a worker, by default one.
    """
    if isinstance(data, RemoteRankingData):
        with data.open_pairs(reduction, n_threads, weighting) as remote:
            yield remote
    elif pairs == "adjacent":
        assert isinstance(data, RankingData | LabelRankingData)
        split, origin = split_levels(data)
        weight = adjacent_weights(data, split, origin, reduction, weighting)
        with open_shards(split, weight, n_threads, weighting) as shards:
            yield shards
    else:
        weight = pair_weights(data, reduction, weighting=weighting)
        with open_shards(data, weight, n_threads, weighting) as shards:
            yield shards


def squared_hinge_objective(
    data: PreferenceData,
    w: Vector,
    C: float,
    reduction: Reduction = "sum",
    weighting: PairWeighting = UNIFORM,
) -> tuple[float, Vector]:
    """``1/2 w.w + C loss(w)`` and its gradient.

    Half the squared norm of that gradient is a duality gap: the dual point
    ``alpha_ij = 2 C c_q max(0, 1 - (s_i - s_j))`` has exactly this distance.
    """
    return _objective(SquaredHinge, data, w, C, reduction, weighting)


def hinge_objective(
    data: PreferenceData,
    w: Vector,
    C: float,
    reduction: Reduction = "sum",
    weighting: PairWeighting = UNIFORM,
) -> tuple[float, Vector]:
    """``1/2 w.w + C loss(w)`` with the plain hinge, and a subgradient."""
    return _objective(Hinge, data, w, C, reduction, weighting)


def _objective(
    kind: type[PairLoss],
    data: PreferenceData,
    w: Vector,
    C: float,
    reduction: Reduction,
    weighting: PairWeighting,
) -> tuple[float, Vector]:
    with open_pairs(data, reduction, 1, weighting) as shards:
        loss = kind(shards)
        value = 0.5 * float(w @ w) + C * loss.move_to(w)
        return value, w + C * loss.gradient()
