"""`Shard`: some queries and all the work on their rows.

Queries do not interact, so losses, gradients and Hessian products of a data set are sums over its
shards, see `rankplug.shards`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rankplug._fast import passes
from rankplug._fast.pairs import ActivePairs, Queries
from rankplug.shards.matrices import RowMatrix, Vector
from rankplug.shards.memory import Allocate
from rankplug.shards.state import Evaluate, ShardState, changes_state, keeps_state
from rankplug.shards.weighting import NO_FACTORS, RowFactors

_SAMPLE_ROWS_PER_QUERY = 1000
"""Queries up to so many rows are in a sample as a whole; of longer ones evenly spaced rows do."""
_ROUNDING = float(np.finfo(np.float64).eps) / 4.0
"""Of a term of a sum over pairs: errors of many terms cancel in part."""
_SAME = 2.0**-45
"""Of the largest c of a query: rounding errors are at most half of it, other differences are a
thousand times as large."""


class Shard:
    """Some queries, the active pairs at the current scores, and scores to be tried.

    Little is kept: a Hessian product and `hinge` take the place of what was tried, and the pairs
    are those of the scores last looked at, found again for the current ones when needed.

    Scores never leave the shard: what goes in and out are weights of length `n_columns`,
    step lengths and losses. Which loss it is, the caller says by an `Evaluate`. The order of the
    operations is that of `rankplug.objectives.PairLoss`.

    Parameters
    ----------
    matrix : RowMatrix
    query_ptr : int64 array of shape (n_queries + 1,), starting at 0
    relevance : float64 array of shape (n_rows,)
    query_weight : float64 array of shape (n_queries,)
    factors : RowFactors
        What single pairs count beside that, by row.
    allocate : callable, optional
        Makes arrays as long as there are rows, as `numpy.zeros` does.
    """

    def __init__(
        self,
        matrix: RowMatrix,
        query_ptr: NDArray[np.int64],
        relevance: Vector,
        query_weight: Vector,
        factors: RowFactors = NO_FACTORS,
        allocate: Allocate = np.zeros,
    ) -> None:
        self.matrix = matrix
        self.query_ptr = query_ptr
        self.query_weight = query_weight
        given = factors.given
        self._counts_alike = not given
        queries = Queries(query_ptr, relevance, query_weight, **given, allocate=allocate)
        self._pairs = ActivePairs(queries, allocate=allocate)
        self.scores, self._tried, self._direction = allocate((3, matrix.n_rows))
        self._coefficient, self._tried_coefficient = allocate((2, matrix.n_rows))
        self._evaluate_again: Evaluate | None = None  # if the pairs are those of scores tried
        self._follows = False
        self._bend: Vector | None = None  # what the Hessian says that c changes by
        self._allocate = allocate

    @changes_state(ShardState.move_to)
    def move_to(self, w: Vector | None, evaluate: Evaluate) -> float:
        """Go to the scores ``X w`` (0 for None); return the loss there."""
        if w is None:
            self.scores[:] = 0.0
        else:
            self.matrix.dot(w, self.scores)
        return self.stay(evaluate)

    @changes_state(ShardState.move_to)
    def move_to_with_gradient(self, w: Vector | None, evaluate: Evaluate) -> Vector:
        """`move_to` and `gradient`, one after the other in one array."""
        return np.append(self.move_to(w, evaluate), self.gradient())

    @changes_state(ShardState.stay)
    def stay(self, evaluate: Evaluate) -> float:
        """Return the loss, which may be another one than before, at the current scores."""
        self._evaluate_again = None
        return evaluate(self._pairs, self.scores, self._coefficient)

    @keeps_state
    def gradient(self) -> Vector:
        """``X' c`` at the current scores."""
        return self.matrix.transposed_dot(self._coefficient)

    @keeps_state
    def gradient_along(self) -> Vector:
        """``X' c`` at the scores last tried."""
        return self.matrix.transposed_dot(self._tried_coefficient)

    @changes_state(ShardState.multiply)
    def laplacian(self, v: Vector) -> Vector:
        """``X' L X v``, L the Laplacian of the current pairs; remembers ``X v`` and ``L X v``."""
        product, of_product = self._tried, self._tried_coefficient
        return self.matrix.laplacian(self._current_pairs(), v, product, of_product)

    @keeps_state
    def laplacian_diagonal(self) -> Vector:
        """Approximate diagonal of ``X' L X``, see `RowMatrix.laplacian_diagonal`."""
        return self.matrix.laplacian_diagonal(self.query_ptr, self._weighted_count())

    @keeps_state
    def laplacian_gram(self, fraction: float) -> NDArray[np.float64]:
        """Lower half of ``X' L X``, estimated from a fraction of the rows."""
        rows, query_ptr = _sample_rows(self.query_ptr, fraction)
        count = self._weighted_count()
        total, taken = count.sum(), count[rows].sum()
        gram = self.matrix.laplacian_gram(rows, query_ptr, count[rows])
        gram *= total / taken if taken > 0 else 0.0
        return gram

    def _weighted_count(self) -> Vector:
        count = self._current_pairs().count
        count *= np.repeat(self.query_weight, np.diff(self.query_ptr))
        return count

    def _current_pairs(self) -> ActivePairs:
        """The pairs at the current scores, found again if others were tried without success."""
        if self._evaluate_again is not None:
            self.stay(self._evaluate_again)
        return self._pairs

    @changes_state(ShardState.start_direction)
    def start_direction(self, follow: bool = False) -> None:
        """Forget the direction gathered so far.

        With `follow`, remember what Hessian products say of c along the direction d: it changes by
        ``L X d``, as long as the pairs are the same.
        """
        self._direction[:] = 0.0
        self._follows = follow
        if follow and self._bend is None:
            self._bend = self._allocate(self.matrix.n_rows)
        elif self._bend is not None:
            self._bend[:] = 0.0

    @keeps_state
    def find_changed_rows(self, step: float) -> int:
        """Number of rows of which c, right after `accept`, is not what Hessian products said.

        They are right about all rows whose pairs are the ones that they were, up to rounding.
        """
        assert self._bend is not None
        before, now = self._tried_coefficient, self._coefficient
        self._changed_rows = passes.find_changes(
            self.query_ptr, before, now, step, self._bend, _SAME
        )
        return len(self._changed_rows)

    @keeps_state
    def gradient_of_changes(self) -> Vector:
        """``X'`` times the differences that `find_changed_rows` found."""
        rows = self._changed_rows
        if self._bend is None or len(rows) == 0:
            return np.zeros(self.matrix.n_columns)
        return self.matrix.picked_transposed_dot(rows, self._bend[rows])

    @changes_state(ShardState.extend_direction)
    def extend_direction(self, step: float) -> None:
        """Add `step` times the ``v`` of the last Hessian product to the direction."""
        if self._follows and self._bend is not None:
            passes.add_scaled(step, self._tried_coefficient, self._bend)
        passes.add_scaled(step, self._tried, self._direction)

    @changes_state(ShardState.aim_at)
    def aim_at(self, w: Vector) -> None:
        """Make the way from the current scores to ``X w`` the direction."""
        self.matrix.dot(w, self._direction)
        self._direction -= self.scores

    @changes_state(ShardState.try_step)
    def loss_along(self, step: float, evaluate: Evaluate) -> float:
        """Loss after `step` times the direction, without reading the features."""
        np.multiply(self._direction, step, out=self._tried)
        self._tried += self.scores
        self._evaluate_again = evaluate
        return evaluate(self._pairs, self._tried, self._tried_coefficient)

    @changes_state(ShardState.try_step)
    def loss_along_with_gradient(self, step: float, evaluate: Evaluate) -> Vector:
        """`loss_along` and `gradient_along`, one after the other in one array."""
        return np.append(self.loss_along(step, evaluate), self.gradient_along())

    @changes_state(ShardState.try_step)
    def line(self, step: float, evaluate: Evaluate) -> Vector:
        """`loss_along`, and ``c`` there times the direction: an array of two numbers."""
        loss = self.loss_along(step, evaluate)
        return np.array([loss, self._tried_coefficient @ self._direction])

    @keeps_state
    def slope(self) -> float:
        """``c`` at the current scores, times the direction."""
        return float(self._coefficient @ self._direction)

    @keeps_state
    def hinge(self) -> float:
        """Sum of the slacks of the current pairs, weighted."""
        return self._current_pairs().hinge(self.scores, self._tried_coefficient)

    @keeps_state
    def clipped_slack(self) -> float:
        """The same with each slack clipped at the band that the loss is curved in."""
        return self._current_pairs().clipped_slack(self.scores)

    @keeps_state
    def rounding(self) -> float:
        """About what rounding errors make of the sum of squared slacks of the current pairs.

        Sums over the partners of a row are differences of sums over its whole query, where pairs
        count alike. Squares of slacks are made of terms as large as 1 and the scores; so are those
        of a dual objective, where the scores are not taken from their mean.
        """
        count, sizes = self._weighted_count(), np.diff(self.query_ptr)
        query = np.repeat(np.arange(len(sizes)), sizes)
        mean = np.bincount(query, self.scores, len(sizes)) / np.maximum(sizes, 1)
        size = 1.0 + np.abs(self.scores - mean[query])
        of_row = count * size
        if self._counts_alike:
            of_query = self.query_weight * np.bincount(query, size, len(sizes))
            of_row += (count > 0) * of_query[query]
        return _ROUNDING * float(of_row @ (1.0 + np.abs(self.scores)))

    @keeps_state
    def rounding_limit(self) -> float:
        """What `rounding` is certainly not above: quickly, but infinite where pairs differ."""
        if not self._counts_alike:
            return np.inf
        size = float(np.abs(self.scores).max(initial=0.0))
        n_terms = 2.0 * float(self.query_weight @ np.square(np.diff(self.query_ptr)))
        return _ROUNDING * n_terms * (1.0 + 2.0 * size) * (1.0 + size)

    @changes_state(ShardState.restore)
    def restore(self, state: ShardState) -> None:
        """Bring a new shard to where another one with the same rows was."""
        if state.evaluate is None:
            return
        self.move_to(state.w, state.evaluate)
        if state.direction is not None:
            self.matrix.dot(state.direction, self._direction)
        if state.product_of is not None:
            self.matrix.dot(state.product_of, self._tried)
        if state.tried is not None:
            self.loss_along(*state.tried)

    @changes_state(ShardState.accept)
    def accept(self) -> None:
        """Make the step last tried the current point."""
        self.scores, self._tried = self._tried, self.scores
        self._coefficient, self._tried_coefficient = self._tried_coefficient, self._coefficient
        self._evaluate_again = None


def _sample_rows(
    query_ptr: NDArray[np.int64], fraction: float
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Evenly spaced queries with about a fraction of the rows, and evenly spaced rows of long ones.

    Returns the rows and where each query starts among them.
    """
    n_queries = len(query_ptr) - 1
    n_taken = max(1, min(n_queries, round(fraction * n_queries)))
    taken = (np.arange(n_taken) * n_queries) // n_taken
    most = max(_SAMPLE_ROWS_PER_QUERY, int(fraction * query_ptr[-1] / n_taken))
    rows = []
    for q in taken:
        stride = max(1, int(query_ptr[q + 1] - query_ptr[q]) // most)
        rows.append(np.arange(query_ptr[q], query_ptr[q + 1], stride))
    return np.concatenate(rows), np.cumsum([0, *map(len, rows)])
