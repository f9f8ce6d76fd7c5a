# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False, embedsignature=True
"""Active preference pairs of a shard, without ever listing a pair (see ``pairs.pxd``).

No method checks the length of its arrays beyond what memory safety needs; the callers in
`rankplug.shards` make them. All release the GIL.
"""

from libc.math cimport INFINITY
from libc.stdint cimport int32_t, int64_t

import numpy as np


cdef extern from "pairs_all.h" nogil:
    int32_t rp_rank_levels(
        const double *relevance, int32_t n, rp_keyed_row *space, int32_t *level)
    int64_t RP_SORTING_SPACE(int64_t n_rows)
    int64_t rp_sums_size(int64_t n_rows, int64_t n_levels)
    void rp_activate_all(const rp_pairs *pairs, const double *score)
    void rp_laplacian_all(
        const rp_pairs *pairs, int64_t begin, int64_t end, const double *z, double *out)
    double rp_squared_hinge_all(const rp_pairs *pairs, const double *score, double *coefficient)
    double rp_hinge_all(const rp_pairs *pairs, const double *score, double *coefficient)
    double rp_clipped_slack_all(const rp_pairs *pairs, const double *score)


cdef class Queries:
    """The queries of a shard: their rows, levels of relevance, weights, and scratch space.

    Parameters
    ----------
    query_ptr : int64 array of shape (n_queries + 1,), starting at 0
    relevance : float64 array of shape (n_rows,)
    weight : float64 array of shape (n_queries,)
        What every pair of a query counts, times what it counts itself:
    winner, loser : float64 array of shape (n_rows,), optional
        Weights >= 0 of the row of a pair that is more relevant, and of the other one.
    gain : float64 array of shape (n_rows,), optional
        Grows with relevance, and is the same where that is: a pair counts its difference.
    allocate : callable, optional
        Makes the arrays that are as long as there are rows, as `numpy.zeros` does.
    """

    def __init__(self, const int64_t[::1] query_ptr, const double[::1] relevance,
                 const double[::1] weight, *, const double[::1] winner=None,
                 const double[::1] loser=None, const double[::1] gain=None, allocate=np.zeros):
        cdef int64_t q, b, largest = 0, sums = 0
        self.query_ptr = query_ptr
        self.weight = weight
        self.n_queries = query_ptr.shape[0] - 1
        self.n_rows = query_ptr[self.n_queries]
        if relevance.shape[0] != self.n_rows or weight.shape[0] != self.n_queries:
            raise ValueError("query_ptr, relevance and weight do not fit each other")
        if self.n_rows >= 2**31:
            raise ValueError("a shard holds at most 2^31 - 1 rows")
        self.level = allocate(self.n_rows, dtype=np.int32)
        self.n_levels = np.zeros(self.n_queries, dtype=np.int32)
        if ((winner is not None and winner.shape[0] != self.n_rows)
                or (loser is not None and loser.shape[0] != self.n_rows)
                or (gain is not None and gain.shape[0] != self.n_rows)):
            raise ValueError("there must be one weight and gain a row")
        self.winner, self.loser = winner, loser
        self.height = None if gain is None else allocate(self.n_rows)
        self.weighted = not (winner is None and loser is None and gain is None)
        self.buffers = []
        if self.n_rows == 0:
            return
        for q in range(self.n_queries):
            largest = max(largest, query_ptr[q + 1] - query_ptr[q])
        # A keyed row is as large as two doubles.
        self.space.keyed = <rp_keyed_row *> self._doubles(2 * RP_SORTING_SPACE(largest))
        with nogil:
            for q in range(self.n_queries):
                b = query_ptr[q]
                if query_ptr[q + 1] > b:
                    self.n_levels[q] = rp_rank_levels(
                        &relevance[b], <int32_t> (query_ptr[q + 1] - b), self.space.keyed,
                        &self.level[b])
                sums = max(sums, rp_sums_size(query_ptr[q + 1] - b, self.n_levels[q]))
        if gain is not None:
            self._set_heights(gain)
        self.space.value = self._doubles(largest + 2)
        self.space.above = self._doubles(largest)
        self.space.below = self._doubles(largest)
        self.space.sums = self._doubles(sums)
        if self.weighted:
            self.space.weighted = self._doubles(largest)
            self.space.other = self._doubles(largest)

    cdef void _set_heights(self, const double[::1] gain):
        """The gain of each level less that of the lowest: small numbers lose fewer digits."""
        cdef int64_t q, i, b
        cdef double lowest
        for q in range(self.n_queries):
            b = self.query_ptr[q]
            for i in range(b, self.query_ptr[q + 1]):
                self.height[b + self.level[i]] = gain[i]
            if self.n_levels[q] > 0:
                lowest = self.height[b]
                for i in range(self.n_levels[q]):
                    self.height[b + i] -= lowest

    cdef double *_doubles(self, int64_t size) except NULL:
        """Scratch space that lives as long as this object, aligned to cache lines."""
        cdef double[::1] buffer = np.empty(size + 8)
        self.buffers.append(buffer)
        cdef size_t address = <size_t> &buffer[0]
        return <double *> ((address + 63) // 64 * 64)


cdef class ActivePairs:
    """The pairs (i, j), i the more relevant, with ``score[i] - score[j] < margin``.

    With a band, those with ``score[i] - score[j] < margin - band`` are straight, the others
    curved: a Laplacian is that of the curved ones.

    Holds no pair at first; call `update`. Two objects may share their `Queries`, but then not
    be used at the same time: the scratch space is one. `allocate` is as for `Queries`.
    """

    def __init__(self, Queries queries, *, allocate=np.zeros):
        cdef rp_pairs *pairs = &self.pairs
        cdef int64_t n = max(queries.n_rows, 1), q, p, b
        self.queries = queries
        self.allocate = allocate
        self.curved = allocate((6, n), dtype=np.int32)
        self.straight = self.counted_straight = None
        pairs.n_queries = queries.n_queries if queries.n_rows else 0
        if pairs.n_queries == 0:
            return
        pairs.query_ptr = &queries.query_ptr[0]
        pairs.n_levels = &queries.n_levels[0]
        pairs.weight = &queries.weight[0]
        pairs.level = &queries.level[0]
        pairs.end = &self.curved[0, 0]
        pairs.begin = &self.curved[1, 0]
        pairs.count = &self.curved[2, 0]
        pairs.difference = &self.curved[3, 0]
        pairs.order = &self.curved[4, 0]
        pairs.sorted_level = &self.curved[5, 0]
        pairs.space = queries.space
        if queries.weighted:
            self._set_weights()
        for q in range(queries.n_queries):
            b = queries.query_ptr[q]
            for p in range(queries.query_ptr[q + 1] - b):
                pairs.order[b + p] = <int32_t> p

    cdef void _set_weights(self):
        """Point to what rows count, and to arrays of what their pairs do."""
        cdef rp_weights *weights = &self.pairs.weights
        cdef Queries queries = self.queries
        cdef int64_t n = self.curved.shape[1]
        self.counted = self.allocate((2, n))
        weights.count, weights.difference = &self.counted[0, 0], &self.counted[1, 0]
        if queries.height is not None:
            weights.height = &queries.height[0]
        self.sorted_weights = self.allocate((2, n))
        if queries.winner is not None:
            weights.winner = &queries.winner[0]
            weights.sorted_winner = &self.sorted_weights[0, 0]
        if queries.loser is not None:
            weights.loser = &queries.loser[0]
            same = weights.loser == weights.winner
            weights.sorted_loser = &self.sorted_weights[0 if same else 1, 0]

    def update(self, const double[::1] score not None, double margin=1.0, double band=INFINITY):
        """Find the pairs that are active at `score`, and which of them are curved."""
        assert score.shape[0] == self.queries.n_rows
        self.pairs.margin = margin
        self._set_band(band)
        with nogil:
            rp_activate_all(&self.pairs, &score[0])

    cdef void _set_band(self, double band):
        """Point to the arrays of straight pairs, made when first needed, if there is a band."""
        self.pairs.band = band
        if band == INFINITY:
            self.pairs.straight_end = self.pairs.straight_begin = NULL
            self.pairs.straight_count = self.pairs.straight_difference = NULL
            self.pairs.weights.straight_count = self.pairs.weights.straight_difference = NULL
            return
        if self.straight is None:
            self.straight = self.allocate((4, self.curved.shape[1]), dtype=np.int32)
        self.pairs.straight_end = &self.straight[0, 0]
        self.pairs.straight_begin = &self.straight[1, 0]
        self.pairs.straight_count = &self.straight[2, 0]
        self.pairs.straight_difference = &self.straight[3, 0]
        if not self.queries.weighted:
            return
        if self.counted_straight is None:
            self.counted_straight = self.allocate((2, self.curved.shape[1]))
        self.pairs.weights.straight_count = &self.counted_straight[0, 0]
        self.pairs.weights.straight_difference = &self.counted_straight[1, 0]

    def laplacian(self, const double[::1] z not None, double[::1] out not None):
        """Write sum_q weight_q sum over q's curved pairs of (z_i - z_j)(e_i - e_j) to `out`."""
        assert z.shape[0] == self.queries.n_rows and out.shape[0] == self.queries.n_rows
        with nogil:
            rp_laplacian_all(&self.pairs, 0, self.pairs.n_queries, &z[0], &out[0])

    cdef void laplacian_of_query(self, int64_t q, const double *z, double *out) noexcept nogil:
        """`laplacian` for the rows of query q; z and out are those of all queries."""
        rp_laplacian_all(&self.pairs, q, q + 1, z, out)

    def squared_hinge(self, const double[::1] score not None, double[::1] coefficient not None):
        """Return sum_q weight_q sum over q's active pairs of slack^2.

        The slack is ``margin - (s_i - s_j)``; a straight pair has ``band (2 slack - band)``.
        `score` is what `update` was given; half the derivative by each score goes to
        `coefficient`.
        """
        cdef double loss
        assert score.shape[0] == self.queries.n_rows
        assert coefficient.shape[0] == self.queries.n_rows
        with nogil:
            loss = rp_squared_hinge_all(&self.pairs, &score[0], &coefficient[0])
        return loss

    def hinge(self, const double[::1] score not None, double[::1] coefficient not None):
        """Return sum_q weight_q sum over q's active pairs of margin - (s_i - s_j).

        `score` is what `update` was given; the derivative by each score goes to `coefficient`.
        """
        cdef double loss
        assert score.shape[0] == self.queries.n_rows
        assert coefficient.shape[0] == self.queries.n_rows
        with nogil:
            loss = rp_hinge_all(&self.pairs, &score[0], &coefficient[0])
        return loss

    def clipped_slack(self, const double[::1] score not None):
        """Return sum_q weight_q sum over q's active pairs of min(band, margin - (s_i - s_j)).

        `score` is what `update` was given.
        """
        cdef double total
        assert score.shape[0] == self.queries.n_rows
        with nogil:
            total = rp_clipped_slack_all(&self.pairs, &score[0])
        return total

    @property
    def count(self):
        """Curved pairs of every row, in the order of the rows, each as it counts in its query."""
        return self._by_row(self.pairs.count, self.pairs.weights.count)

    @property
    def difference(self):
        """Curved pairs that a row should win minus those it should lose, by row."""
        return self._by_row(self.pairs.difference, self.pairs.weights.difference)

    cdef _by_row(self, const int32_t *by_position, const double *weighted):
        cdef int64_t q, p, b
        cdef double[::1] out = np.zeros(self.queries.n_rows)
        for q in range(self.pairs.n_queries):
            b = self.queries.query_ptr[q]
            for p in range(b, self.queries.query_ptr[q + 1]):
                out[b + self.pairs.order[p]] = weighted[p] if weighted else by_position[p]
        return np.asarray(out)
