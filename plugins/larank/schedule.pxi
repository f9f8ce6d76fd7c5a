"""Operations and schedules."""

cdef enum:  # operations
    OPTIMIZE
    PROCESS_OLD
    PROCESS_NEW

# The adaptive schedule: weight of the last gain in the running means, the least odds of an
# operation as a share of all, and how many steps of OPTIMIZE count as one operation.
cdef double MU = 0.05
cdef double LEAST_ODDS = 0.05
cdef int AT_ONCE = 10
# The cyclic schedule: most steps in a visit, and the share of the first step's violation below
# which the next step is not worth its time.
cdef int MAX_STEPS = 20
cdef double WORTHWHILE = 0.1


@final
cdef class Schedule:
    """Chooses patterns and takes steps; what it learns of its operations lasts over epochs.

    PROCESSOLD and OPTIMIZE may be left out of the adaptive schedule by `old` and `optimize`.
    """

    cdef readonly int64_t n_steps
    cdef readonly int64_t n_visits
    cdef Patterns patterns
    cdef Scores scores
    cdef uint64_t random_state
    cdef double[3] gain_rate
    cdef bint[3] allowed
    cdef int64_t[3] count
    cdef double[::1] score
    cdef int64_t[::1] pool
    cdef int64_t[::1] where
    cdef int64_t n_pool
    cdef int64_t group

    def __init__(self, Patterns patterns not None, Scores scores not None, uint64_t seed,
                 bint old=True, bint optimize=True):
        cdef int s
        self.allowed[PROCESS_NEW] = True
        self.allowed[PROCESS_OLD], self.allowed[OPTIMIZE] = old, optimize
        self.patterns, self.scores, self.random_state = patterns, scores, seed
        self.group = -1
        for s in range(3):
            self.gain_rate[s], self.count[s] = 1.0, 0
        self.score = np.zeros(patterns.largest_group)
        self.pool = np.empty(patterns.n_patterns, dtype=np.int64)
        self.where = np.full(patterns.n_patterns, -1)

    @property
    def counts(self):
        """How often each operation was carried out: (optimize, process_old, process_new)."""
        return self.count[OPTIMIZE], self.count[PROCESS_OLD], self.count[PROCESS_NEW]

    cdef uint64_t draw(self, uint64_t n) noexcept nogil:
        """A random number below n (Steele, Lea and Flood's SplitMix64)."""
        cdef uint64_t z
        self.random_state += <uint64_t> 0x9E3779B97F4A7C15
        z = self.random_state
        z = (z ^ (z >> 30)) * <uint64_t> 0xBF58476D1CE4E5B9
        z = (z ^ (z >> 27)) * <uint64_t> 0x94D049BB133111EB
        return (z ^ (z >> 31)) % n

    def adaptive(self, const int64_t[::1] order not None, bint again=False):
        """Process these patterns as new ones, and old ones between them as that pays.

        With `again` they go on with those of the last call, and no row came or went since.
        """
        cdef int64_t k = 0, n = order.shape[0]
        cdef int operation
        cdef double gain, cost
        with nogil:
            if not again:
                self.fill_pool()
            while k < n:
                operation = self.pick()
                if operation == OPTIMIZE:
                    gain, cost = self.optimize(), 2.0 * AT_ONCE
                elif operation == PROCESS_OLD:
                    gain = self.process(self.pool[self.draw(self.n_pool)], PROCESS_OLD, &cost)
                else:
                    gain = self.process(order[k], PROCESS_NEW, &cost)
                    k += 1
                self.gain_rate[operation] += MU * (gain / cost - self.gain_rate[operation])

    cdef int pick(self) noexcept nogil:
        """An operation with odds of its gain for its work, or the least odds."""
        cdef double[3] odds
        cdef double draw, total = 0.0, least = 0.0
        cdef int s
        if self.n_pool == 0:
            return PROCESS_NEW
        for s in range(3):
            least += LEAST_ODDS * self.gain_rate[s]
        for s in range(3):
            odds[s] = max(self.gain_rate[s], least) if least > 1e-300 else 1.0
            if not self.allowed[s]:
                odds[s] = 0.0
            total += odds[s]
        draw = total * (<double> self.draw(1 << 53) / <double> (1 << 53))
        if draw < odds[OPTIMIZE]:
            return OPTIMIZE
        return PROCESS_OLD if draw < odds[OPTIMIZE] + odds[PROCESS_OLD] else PROCESS_NEW

    cdef double process(self, int64_t p, int operation, double *cost) except? -1.0 nogil:
        """PROCESSNEW or PROCESSOLD of the paper; returns the rise of the dual objective."""
        cost[0] = 3.0 + self.patterns.end[p] - self.patterns.begin[p]
        if operation == PROCESS_NEW and self.patterns.size[p] > 0:
            return 0.0
        self.count[operation] += 1
        if operation == PROCESS_NEW:
            cost[0] += self.scores.cost_of_row
        self.scores.read(self.patterns.group[p], &self.score[0])
        return self.step(p, self.patterns.widest(p, &self.score[0], False))

    cdef double optimize(self) except? -1.0 nogil:
        """Ten times OPTIMIZE of the paper: steps among existing support vectors."""
        cdef int _i
        cdef int64_t p, j, q, first
        cdef double gain = 0.0
        for _i in range(AT_ONCE):
            if self.n_pool == 0:
                break
            self.count[OPTIMIZE] += 1
            p = self.pool[self.draw(self.n_pool)]
            first = self.patterns.group_ptr[self.patterns.group[p]]
            q = self.patterns.own[p]
            self.score[q - first] = self.scores.read_one(q)
            for j in range(self.patterns.size[p]):
                q = self.patterns.beaten[p][j].position
                self.score[q - first] = self.scores.read_one(q)
            gain += self.step(p, self.patterns.widest(p, &self.score[0], True))
        return gain

    cdef double step(self, int64_t p, Pair pair) except? -1.0 nogil:
        """SMOSTEP of the paper; returns the rise of the dual objective."""
        cdef double amount, curvature
        if pair.difference == 0.0 or not self.scores.can_move(pair.plus, pair.minus):
            return 0.0
        curvature = self.scores.curvature(pair.plus, pair.minus)
        amount = self.amount(pair, curvature)
        self.patterns.shift(p, pair, amount)
        self.scores.move(pair.plus, pair.minus, amount)
        self.n_steps += 1
        if self.patterns.size[p] > 0:
            self.enter_pool(p)
        else:
            self.leave_pool(p)
        return amount * (pair.difference - 0.5 * amount * curvature)

    cdef inline double amount(self, Pair pair, double curvature) noexcept nogil:
        if pair.difference >= curvature * pair.limit:
            return pair.limit
        return pair.difference / curvature

    cdef void fill_pool(self) noexcept nogil:
        """The support patterns that can move."""
        cdef int64_t p, own
        self.n_pool = 0
        for p in range(self.patterns.n_patterns):
            self.where[p] = -1
            own = self.patterns.own[p]
            if self.patterns.size[p] > 0 and self.scores.can_move(own, own):
                self.enter_pool(p)

    cdef void enter_pool(self, int64_t p) noexcept nogil:
        if self.where[p] < 0:
            self.where[p] = self.n_pool
            self.pool[self.n_pool] = p
            self.n_pool += 1

    cdef void leave_pool(self, int64_t p) noexcept nogil:
        cdef int64_t last
        if self.where[p] >= 0:
            self.n_pool -= 1
            last = self.pool[self.n_pool]
            self.pool[self.where[p]] = last
            self.where[last] = self.where[p]
            self.where[p] = -1

    def cyclic(self, const int64_t[::1] order not None, bint again=False):
        """Visit these patterns, with a few steps each; patterns of a group stand together.

        With `again` they go on with those of the last call.
        """
        cdef int64_t n, p
        cdef int i
        cdef double amount, first = 0.0
        cdef double *score = &self.score[0]
        cdef Pair pair
        if not again:
            self.group = -1
        with nogil:
            for n in range(order.shape[0]):
                p = order[n]
                if self.patterns.group[p] != self.group:
                    self.group = self.patterns.group[p]
                    self.scores.read(self.group, score)
                self.n_visits += 1
                for i in range(MAX_STEPS):
                    pair = self.patterns.widest(p, score, False)
                    if i == 0:
                        first = pair.difference
                    if pair.difference == 0.0 or pair.difference < WORTHWHILE * first:
                        break
                    if not self.scores.can_move(pair.plus, pair.minus):
                        break
                    amount = self.amount(pair, self.scores.curvature(pair.plus, pair.minus))
                    self.patterns.shift(p, pair, amount)
                    self.scores.move(pair.plus, pair.minus, amount)
                    self.scores.follow(self.group, pair, amount, score)
                    self.n_steps += 1
