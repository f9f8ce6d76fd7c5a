# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False, embedsignature=True
"""Epochs of dual ascent over bipartite graphs; all release the GIL.

Every graph A x B of a group (an instance or a query) has dual variables alpha on A and beta on
B. With the items' scores s, relevance g and the curvature L of the dual along the graph, a step
is the soft projection of ``alpha + (g_A - s_A) / L`` and ``beta - (g_B - s_B) / L``.
"""

import numpy as np

from cython cimport final, floating
from libc.math cimport INFINITY, fabs
from libc.stdint cimport int32_t, int64_t

from rankplug._fast.projection cimport project

ctypedef fused index:
    int32_t
    int64_t

# Sweeps over the graphs of one instance while its scores are at hand, and the share of the
# first sweep's step below which the next one is not worth its time.
cdef int MAX_SWEEPS = 10
cdef double WORTHWHILE = 0.1


cdef extern from "rows.h" nogil:
    void rp_row_scores(const double *, int64_t, int64_t, const double *, double *)
    void rp_add_row(double *, int64_t, int64_t, const double *, const double *)


@final
cdef class DualGraphs:
    """The graphs of all groups with their dual variables, which start at 0.

    `group_ptr`, `member_ptr`, `n_better` and `member` are those of `Graphs`; the items of group
    g stand at ``offset[g]:offset[g + 1]``. `bound` is the largest sum of alpha of each graph
    and `curvature` its L; where that is 0 the scores cannot change and alpha and beta stand at
    their best values from the start.
    """

    cdef readonly int64_t n_graphs
    cdef readonly double[::1] dual
    cdef const int64_t[::1] group_ptr
    cdef const int64_t[::1] member_ptr
    cdef const int32_t[::1] n_better
    cdef const int32_t[::1] member
    cdef const int64_t[::1] offset
    cdef const double[::1] relevance
    cdef const double[::1] bound
    cdef const double[::1] curvature
    cdef unsigned char[::1] active
    cdef double[::1] aim
    cdef double[::1] step
    cdef double[::1] score

    def __init__(self, const int64_t[::1] group_ptr not None,
                 const int64_t[::1] member_ptr not None, const int32_t[::1] n_better not None,
                 const int32_t[::1] member not None, const int64_t[::1] offset not None,
                 const double[::1] relevance not None, const double[::1] bound not None,
                 const double[::1] curvature not None):
        self.n_graphs = n_better.shape[0]
        assert member_ptr.shape[0] == self.n_graphs + 1
        assert bound.shape[0] == curvature.shape[0] == self.n_graphs
        assert group_ptr.shape[0] == offset.shape[0]
        self.group_ptr, self.member_ptr, self.n_better = group_ptr, member_ptr, n_better
        self.member, self.offset, self.relevance = member, offset, relevance
        self.bound, self.curvature = bound, curvature
        self.dual = np.zeros(member.shape[0])
        self.active = (np.asarray(curvature) > 0).astype(np.uint8)
        largest_graph = int(np.diff(member_ptr).max(initial=0))
        largest_group = int(np.diff(offset).max(initial=0))
        self.aim = np.empty(largest_graph)
        self.step = np.zeros(max(largest_graph, largest_group))
        self.score = np.empty(max(largest_graph, largest_group))
        self._saturate_flat_graphs()

    cdef _saturate_flat_graphs(self):
        cdef int64_t b, g, i, best_a, best_b, begin, end
        for g in range(self.group_ptr.shape[0] - 1):
            for b in range(self.group_ptr[g], self.group_ptr[g + 1]):
                if self.curvature[b] > 0.0:
                    continue
                begin, end = self.member_ptr[b], self.member_ptr[b + 1]
                best_a, best_b = begin, begin + self.n_better[b]
                for i in range(begin, begin + self.n_better[b]):
                    if self.value(g, i) > self.value(g, best_a):
                        best_a = i
                for i in range(begin + self.n_better[b], end):
                    if self.value(g, i) < self.value(g, best_b):
                        best_b = i
                self.dual[best_a] = self.bound[b]
                self.dual[best_b] = self.bound[b]

    cdef inline double value(self, int64_t g, int64_t i) noexcept nogil:
        """Relevance of the member at place i, of group g."""
        return self.relevance[self.offset[g] + self.member[i]]

    def has_active(self):
        """Whether each group has a graph to be visited."""
        cdef int64_t g, b, n_groups = self.group_ptr.shape[0] - 1
        cdef unsigned char[::1] found = np.zeros(n_groups, dtype=np.uint8)
        with nogil:
            for g in range(n_groups):
                for b in range(self.group_ptr[g], self.group_ptr[g + 1]):
                    if self.active[b]:
                        found[g] = 1
                        break
        return np.asarray(found, dtype=bool)

    def move_to(self, const double[::1] target not None):
        """Set the dual variables to the feasible ones that are closest to `target`."""
        cdef int64_t b, begin, n, n_better
        assert target.shape[0] == self.dual.shape[0]
        with nogil:
            for b in range(self.n_graphs):
                if self.curvature[b] > 0.0:
                    begin = self.member_ptr[b]
                    n_better = self.n_better[b]
                    n = self.member_ptr[b + 1] - begin
                    project(&target[begin], n_better, &target[begin + n_better], n - n_better,
                            self.bound[b], &self.dual[begin], &self.dual[begin + n_better])

    def linear(self):
        """The linear part of the dual objective, ``sum alpha g - sum beta g``."""
        cdef int64_t g, b, i, split
        cdef double total = 0.0
        with nogil:
            for g in range(self.group_ptr.shape[0] - 1):
                for b in range(self.group_ptr[g], self.group_ptr[g + 1]):
                    split = self.member_ptr[b] + self.n_better[b]
                    for i in range(self.member_ptr[b], split):
                        total += self.dual[i] * self.value(g, i)
                    for i in range(split, self.member_ptr[b + 1]):
                        total -= self.dual[i] * self.value(g, i)
        return total

    cdef double take_step(self, int64_t g, int64_t b, double *score, double *step) noexcept nogil:
        """Move the dual variables of graph b; returns the largest move times the curvature.

        `score` and `step` have one entry for each item of the group. Signed moves are added to
        `step`, and to `score` what they change if every item has weights of its own.
        """
        cdef int64_t i, begin = self.member_ptr[b], n = self.member_ptr[b + 1] - begin
        cdef int64_t n_better = self.n_better[b]
        cdef int32_t item
        cdef double move, sign, largest = 0.0, L = self.curvature[b], per_curvature = 1.0 / L
        cdef double *aim = &self.aim[0]
        for i in range(n):
            sign = per_curvature if i < n_better else -per_curvature
            item = self.member[begin + i]
            aim[i] = self.dual[begin + i] + sign * (self.value(g, begin + i) - score[item])
        project(aim, n_better, aim + n_better, n - n_better, self.bound[b], aim, aim + n_better)
        for i in range(n):
            move = aim[i] - self.dual[begin + i]
            if move == 0.0:
                continue
            self.dual[begin + i] = aim[i]
            largest = max(largest, fabs(move))
            item = self.member[begin + i]
            step[item] += move if i < n_better else -move
            score[item] += (move if i < n_better else -move) * L
        return largest * L

    cdef double visit_instance(self, int64_t g, double *score, double *step) noexcept nogil:
        """Sweep over the graphs of an instance, whose labels have weights of their own."""
        cdef int64_t b, begin = self.group_ptr[g], end = self.group_ptr[g + 1]
        cdef int sweep
        cdef double largest, first = 0.0
        for sweep in range(MAX_SWEEPS):
            largest = 0.0
            for b in range(begin, end):
                if self.active[b]:
                    largest = max(largest, self.take_step(g, b, score, step))
            if sweep == 0:
                first = largest
            if end - begin == 1 or largest <= WORTHWHILE * first:
                break
        return first

    def loss(self, const double[::1] score not None, double margin):
        """``sum_b bound_b [max_A (g - s) + max_B (s - g)]_+`` at these scores.

        Graphs whose dual variables are 0, and whose bracket is at most ``-margin``, are left
        out of the next epoch; all others are in.
        """
        cdef int64_t g, b, i, split
        cdef double total = 0.0, above, below, used
        assert score.shape[0] == self.relevance.shape[0]
        with nogil:
            for g in range(self.group_ptr.shape[0] - 1):
                for b in range(self.group_ptr[g], self.group_ptr[g + 1]):
                    split = self.member_ptr[b] + self.n_better[b]
                    above = below = -INFINITY
                    used = 0.0
                    for i in range(self.member_ptr[b], split):
                        above = max(
                            above, self.value(g, i) - score[self.offset[g] + self.member[i]])
                        used += self.dual[i]
                    for i in range(split, self.member_ptr[b + 1]):
                        below = max(
                            below, score[self.offset[g] + self.member[i]] - self.value(g, i))
                    total += self.bound[b] * max(above + below, 0.0)
                    self.active[b] = self.curvature[b] > 0.0 and (
                        used > 0.0 or above + below > -margin)
        return total


cdef inline const double *as_doubles(const floating *x, int64_t d, double *space) noexcept nogil:
    """A row in double precision, copied to `space` if it is not."""
    cdef int64_t j
    if floating is double:
        return x
    else:
        for j in range(d):
            space[j] = x[j]
        return space


def label_epoch_dense(DualGraphs graphs not None, const int64_t[::1] order not None,
                      const floating[:, ::1] X not None, double[:, ::1] W not None):
    """Visit the instances in this order; W is (n_labels, n_features).

    Returns the largest change of a score that a step of the first sweeps aimed at.
    """
    cdef int64_t n, g, r, k = W.shape[0], d = W.shape[1]
    cdef double largest = 0.0
    cdef double[::1] space = np.empty(d)
    cdef double *score = &graphs.score[0]
    cdef double *step = &graphs.step[0]
    cdef const double *x
    assert X.shape[1] == d
    with nogil:
        for n in range(order.shape[0]):
            g = order[n]
            x = as_doubles(&X[g, 0], d, &space[0])
            rp_row_scores(&W[0, 0], k, d, x, score)
            for r in range(k):
                step[r] = 0.0
            largest = max(largest, graphs.visit_instance(g, score, step))
            rp_add_row(&W[0, 0], k, d, x, step)
    return largest


def label_epoch_sparse(DualGraphs graphs not None, const int64_t[::1] order not None,
                       const index[::1] indptr not None, const index[::1] indices not None,
                       const floating[::1] values not None, double[:, ::1] W not None):
    """As `label_epoch_dense`, for compressed rows; W is (n_features, n_labels)."""
    cdef int64_t n, g, r, p, k = W.shape[1]
    cdef double x, largest = 0.0
    cdef double *score = &graphs.score[0]
    cdef double *step = &graphs.step[0]
    cdef double *w
    with nogil:
        for n in range(order.shape[0]):
            g = order[n]
            for r in range(k):
                score[r] = step[r] = 0.0
            for p in range(indptr[g], indptr[g + 1]):
                w = &W[indices[p], 0]
                x = values[p]
                for r in range(k):
                    score[r] += x * w[r]
            largest = max(largest, graphs.visit_instance(g, score, step))
            for p in range(indptr[g], indptr[g + 1]):
                w = &W[indices[p], 0]
                x = values[p]
                for r in range(k):
                    w[r] += x * step[r]
    return largest


def label_epoch_kernel(DualGraphs graphs not None, const int64_t[::1] order not None,
                       const int64_t[::1] row not None, const double[:, ::1] K not None,
                       double[:, ::1] S not None):
    """As `label_epoch_dense`, with S the scores of all instances, (n_labels, n_instances).

    Row ``row[n]`` of K holds the kernel of instance ``order[n]`` with all instances.
    """
    cdef int64_t n, g, r, k = S.shape[0], m = S.shape[1]
    cdef double largest = 0.0
    cdef double *score = &graphs.score[0]
    cdef double *step = &graphs.step[0]
    assert K.shape[1] == m and row.shape[0] == order.shape[0]
    with nogil:
        for n in range(order.shape[0]):
            g = order[n]
            for r in range(k):
                score[r] = S[r, g]
                step[r] = 0.0
            largest = max(largest, graphs.visit_instance(g, score, step))
            rp_add_row(&S[0, 0], k, m, &K[row[n], 0], step)
    return largest


def query_epoch_dense(DualGraphs graphs not None, const int64_t[::1] order not None,
                      const floating[:, ::1] X not None, double[::1] w not None):
    """Visit the queries in this order; all documents share the weights w."""
    cdef int64_t n, g, b, i, d = w.shape[0]
    cdef int32_t item
    cdef double largest = 0.0
    cdef double[::1] space = np.empty(d)
    cdef double *score = &graphs.score[0]
    cdef double *step = &graphs.step[0]
    cdef const floating *rows
    assert X.shape[1] == d
    with nogil:
        for n in range(order.shape[0]):
            g = order[n]
            rows = &X[graphs.offset[g], 0]
            for b in range(graphs.group_ptr[g], graphs.group_ptr[g + 1]):
                if not graphs.active[b]:
                    continue
                for i in range(graphs.member_ptr[b], graphs.member_ptr[b + 1]):
                    item = graphs.member[i]
                    step[item] = 0.0
                    rp_row_scores(
                        &w[0], 1, d, as_doubles(rows + item * d, d, &space[0]), &score[item])
                largest = max(largest, graphs.take_step(g, b, score, step))
                for i in range(graphs.member_ptr[b], graphs.member_ptr[b + 1]):
                    item = graphs.member[i]
                    if step[item] != 0.0:
                        rp_add_row(
                            &w[0], 1, d, as_doubles(rows + item * d, d, &space[0]), &step[item])
    return largest


def query_epoch_sparse(DualGraphs graphs not None, const int64_t[::1] order not None,
                       const index[::1] indptr not None, const index[::1] indices not None,
                       const floating[::1] values not None, double[::1] w not None):
    """As `query_epoch_dense`, for compressed rows."""
    cdef int64_t n, g, b, i, p, row
    cdef int32_t item
    cdef double largest = 0.0
    cdef double *score = &graphs.score[0]
    cdef double *step = &graphs.step[0]
    with nogil:
        for n in range(order.shape[0]):
            g = order[n]
            for b in range(graphs.group_ptr[g], graphs.group_ptr[g + 1]):
                if not graphs.active[b]:
                    continue
                for i in range(graphs.member_ptr[b], graphs.member_ptr[b + 1]):
                    item = graphs.member[i]
                    row = graphs.offset[g] + item
                    score[item] = step[item] = 0.0
                    for p in range(indptr[row], indptr[row + 1]):
                        score[item] += values[p] * w[indices[p]]
                largest = max(largest, graphs.take_step(g, b, score, step))
                for i in range(graphs.member_ptr[b], graphs.member_ptr[b + 1]):
                    item = graphs.member[i]
                    row = graphs.offset[g] + item
                    for p in range(indptr[row], indptr[row + 1]):
                        w[indices[p]] += step[item] * values[p]
    return largest


def query_epoch_kernel(DualGraphs graphs not None, const int64_t[::1] order not None,
                       const int64_t[::1] place not None, const double[:, ::1] K not None,
                       double[::1] S not None):
    """As `query_epoch_dense`, with S the scores of all documents.

    Row ``place[i]`` of K holds the kernel of document i with all; those of the queries are there.
    """
    cdef int64_t n, g, b, i, j, first, size, m = S.shape[0]
    cdef int32_t item
    cdef double largest = 0.0, move
    cdef double *score = &graphs.score[0]
    cdef double *step = &graphs.step[0]
    cdef double[::1] of_query = np.empty(graphs.score.shape[0])
    cdef double[::1] total = np.empty(graphs.score.shape[0])
    cdef const double *row
    assert K.shape[1] == m and place.shape[0] == m
    with nogil:
        for n in range(order.shape[0]):
            g = order[n]
            first = graphs.offset[g]
            size = graphs.offset[g + 1] - first
            for j in range(size):
                of_query[j], total[j] = S[first + j], 0.0
            for b in range(graphs.group_ptr[g], graphs.group_ptr[g + 1]):
                if not graphs.active[b]:
                    continue
                for i in range(graphs.member_ptr[b], graphs.member_ptr[b + 1]):
                    item = graphs.member[i]
                    step[item], score[item] = 0.0, of_query[item]
                largest = max(largest, graphs.take_step(g, b, score, step))
                for i in range(graphs.member_ptr[b], graphs.member_ptr[b + 1]):
                    item = graphs.member[i]
                    move = step[item]
                    if move == 0.0:
                        continue
                    total[item] += move
                    row = &K[place[first + item], first]
                    for j in range(size):
                        of_query[j] += move * row[j]
            for j in range(size):
                if total[j] != 0.0:
                    rp_add_row(&S[0], 1, m, &K[place[first + j], 0], &total[j])
    return largest
