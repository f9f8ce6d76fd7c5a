"""Patterns and their dual variables."""

cdef struct Beaten:
    int64_t position
    double alpha


cdef struct Pair:  # of positions: beta rises at `plus` and falls at `minus`, by `limit` at most
    int64_t plus
    int64_t minus
    double difference
    double limit


@final
cdef class Patterns:
    """The patterns with those of their dual variables that are not 0; at first all are.

    Items stand at positions, group by group: ``group_ptr[g]:group_ptr[g + 1]`` is group g and
    ``item[q]`` names the item at position q. Pattern p belongs to ``group[p]``, its own item
    stands at ``own[p]`` and beats those at ``begin[p]:end[p]``, by a margin of 1 or, if `graded`,
    of the difference of their `relevance`. ``bound[p]`` is C times its weight.
    """

    cdef readonly int64_t n_patterns
    cdef readonly int64_t n_support
    cdef readonly int64_t n_vectors
    cdef const int64_t[::1] item
    cdef const double[::1] relevance
    cdef const int64_t[::1] group_ptr
    cdef const int64_t[::1] group
    cdef const int64_t[::1] own
    cdef const int64_t[::1] begin
    cdef const int64_t[::1] end
    cdef const double[::1] bound
    cdef bint graded
    cdef int64_t largest_group
    cdef Beaten **beaten
    cdef readonly int64_t[::1] size
    cdef int64_t[::1] room

    def __cinit__(self, const int64_t[::1] item not None, const double[::1] relevance not None,
                  const int64_t[::1] group_ptr not None, const int64_t[::1] group not None,
                  const int64_t[::1] own not None, const int64_t[::1] begin not None,
                  const int64_t[::1] end not None, const double[::1] bound not None,
                  bint graded):
        cdef int64_t p
        self.n_patterns = group.shape[0]
        assert item.shape[0] == relevance.shape[0]
        assert own.shape[0] == begin.shape[0] == end.shape[0] == bound.shape[0] == self.n_patterns
        self.item, self.relevance, self.group_ptr = item, relevance, group_ptr
        self.group, self.own, self.begin, self.end = group, own, begin, end
        self.bound, self.graded = bound, graded
        self.largest_group = int(np.diff(group_ptr).max(initial=0))
        self.size = np.zeros(self.n_patterns, dtype=np.int64)
        self.room = np.zeros(self.n_patterns, dtype=np.int64)
        self.beaten = <Beaten **> realloc(NULL, max(1, self.n_patterns) * sizeof(Beaten *))
        if self.beaten == NULL:
            raise MemoryError("no memory for the dual variables")
        for p in range(self.n_patterns):
            self.beaten[p] = NULL

    def __dealloc__(self):
        cdef int64_t p
        if self.beaten != NULL:
            for p in range(self.n_patterns):
                free(self.beaten[p])
            free(self.beaten)

    cdef inline double margin(self, int64_t p, int64_t position) noexcept nogil:
        if self.graded:
            return self.relevance[self.own[p]] - self.relevance[position]
        return 1.0

    cdef Pair widest(self, int64_t p, const double *of_group, bint among_support) noexcept nogil:
        """The feasible pair of items with the largest difference of derivatives.

        `of_group` has the scores of the group's items, of which only those with dual variables
        are looked at if `among_support`. ``plus`` is -1 if no beta can rise.
        """
        cdef const double *score = of_group - self.group_ptr[self.group[p]]
        cdef const Beaten *beaten = self.beaten[p]
        cdef int64_t i, q, own = self.own[p], n = self.size[p]
        cdef double g, least = -score[own], most = 0.0, total = 0.0
        cdef Pair pair
        pair.plus, pair.minus, pair.difference, pair.limit = -1, own, 0.0, 0.0
        if not among_support:
            for q in range(self.begin[p], self.end[p]):
                g = -self.margin(p, q) - score[q]
                if g < least:
                    least, pair.minus = g, q
        for i in range(n):
            q = beaten[i].position
            total += beaten[i].alpha
            g = -self.margin(p, q) - score[q]
            if g < least:
                least, pair.minus = g, q
            if pair.plus < 0 or g > most:
                most, pair.plus, pair.limit = g, q, beaten[i].alpha
        if self.bound[p] - total > KAPPA * self.bound[p] and (pair.plus < 0 or -score[own] >= most):
            most, pair.plus, pair.limit = -score[own], own, self.bound[p] - total
        if pair.plus >= 0 and most - least > TAU * (abs(most) + abs(least)):
            pair.difference = most - least
        return pair

    cdef int shift(self, int64_t p, Pair pair, double amount) except -1 nogil:
        """Let the beta of ``pair.plus`` rise and that of ``pair.minus`` fall."""
        cdef int64_t before = self.size[p]
        if pair.plus != self.own[p]:
            self.change(p, pair.plus, 0.0 if amount == pair.limit else -amount,
                        amount == pair.limit)
        if pair.minus != self.own[p]:
            self.change(p, pair.minus, amount, False)
        # A pattern's own item is a support vector with its first beaten one.
        self.n_vectors += self.size[p] - before + (self.size[p] > 0) - (before > 0)
        self.n_support += (self.size[p] > 0) - (before > 0)
        return 0

    cdef int change(self, int64_t p, int64_t position, double amount, bint remove) except -1 nogil:
        cdef Beaten *beaten = self.beaten[p]
        cdef int64_t i, n = self.size[p]
        for i in range(n):
            if beaten[i].position == position:
                if remove:
                    memmove(beaten + i, beaten + i + 1, (n - i - 1) * sizeof(Beaten))
                    self.size[p] -= 1
                else:
                    beaten[i].alpha += amount
                return 0
        if n == self.room[p]:
            self.make_room(p)
        beaten = self.beaten[p]
        beaten[n].position, beaten[n].alpha = position, amount
        self.size[p] += 1
        return 0

    cdef int make_room(self, int64_t p) except -1 nogil:
        cdef int64_t room = max(2, 2 * self.room[p])
        cdef Beaten *larger = <Beaten *> realloc(self.beaten[p], room * sizeof(Beaten))
        if larger == NULL:
            with gil:
                raise MemoryError("no memory for the dual variables")
        self.beaten[p], self.room[p] = larger, room
        return 0

    def move_to(self, const double[::1] score not None, double h):
        """Set the dual variables to those at these scores of a loss that is smoothed by h.

        In each pattern they are the projection of ``(margin - (s_own - s)) / h`` onto the feasible
        ones, which are not negative and have a sum of at most the bound.
        """
        cdef int64_t p, q, i, n
        cdef double own, value, total, shift, before
        cdef Beaten *beaten
        self.n_support = self.n_vectors = 0
        with nogil:
            for p in range(self.n_patterns):
                self.size[p] = n = 0
                own, total = score[self.item[self.own[p]]], 0.0
                for q in range(self.begin[p], self.end[p]):
                    value = (self.margin(p, q) - own + score[self.item[q]]) / h
                    if value > 0.0:
                        if n == self.room[p]:
                            self.make_room(p)
                        self.beaten[p][n].position, self.beaten[p][n].alpha = q, value
                        total += value
                        n += 1
                beaten = self.beaten[p]
                shift = 0.0
                while total - n * shift > self.bound[p]:  # those that would be negative go
                    before, shift = shift, (total - self.bound[p]) / n
                    i = 0
                    while i < n:
                        if beaten[i].alpha <= shift:
                            total -= beaten[i].alpha
                            n -= 1
                            beaten[i] = beaten[n]
                        else:
                            i += 1
                    if shift <= before:
                        break
                for i in range(n):
                    beaten[i].alpha -= shift
                self.size[p] = n
                self.n_support += n > 0
                self.n_vectors += n + (n > 0)

    def net(self, double[::1] beta not None):
        """Write the sum of the betas of each item over all patterns."""
        cdef int64_t p, i
        cdef double alpha
        with nogil:
            for i in range(beta.shape[0]):
                beta[i] = 0.0
            for p in range(self.n_patterns):
                for i in range(self.size[p]):
                    alpha = self.beaten[p][i].alpha
                    beta[self.item[self.own[p]]] += alpha
                    beta[self.item[self.beaten[p][i].position]] -= alpha

    def evaluate(self, const double[::1] score not None, double[::1] gap not None):
        """Loss and linear part of the dual objective, at the scores of all items.

        The share of each pattern in the duality gap is written to `gap`: they add up to it.
        """
        cdef int64_t p, q, i
        cdef double own, worst, linear, used, total_loss = 0.0, total_linear = 0.0, m
        assert gap.shape[0] == self.n_patterns
        with nogil:
            for p in range(self.n_patterns):
                own = score[self.item[self.own[p]]]
                worst = linear = used = 0.0
                for q in range(self.begin[p], self.end[p]):
                    worst = max(worst, self.margin(p, q) + score[self.item[q]] - own)
                for i in range(self.size[p]):
                    q = self.beaten[p][i].position
                    m = self.margin(p, q)
                    linear += self.beaten[p][i].alpha * m
                    used += self.beaten[p][i].alpha * (m + score[self.item[q]] - own)
                total_loss += self.bound[p] * worst
                total_linear += linear
                gap[p] = self.bound[p] * worst - used
        return total_loss, total_linear
