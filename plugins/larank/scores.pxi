"""Scores of items, by explicit weights or by rows of the kernel matrix."""

ctypedef fused index:
    int32_t
    int64_t


cdef class Scores:
    """Scores of the items and how they follow the dual variables.

    An item is a row and a channel, ``item = row * n_channels + channel``: the labels of an
    instance share its row and have a channel each, while documents share one channel. The joint
    kernel of two items is that of their rows if they share the channel, else 0.
    """

    cdef readonly double n_reads
    cdef double cost_of_row  # of a pattern met for the first time, in scores
    cdef const int64_t[::1] item
    cdef const int64_t[::1] group_ptr
    cdef int64_t n_channels
    cdef const double[::1] diagonal

    def __init__(self, const int64_t[::1] item not None, const int64_t[::1] group_ptr not None,
                 int64_t n_channels, const double[::1] diagonal not None):
        self.item, self.group_ptr, self.n_channels = item, group_ptr, n_channels
        self.diagonal = diagonal

    cdef void read(self, int64_t group, double *score) noexcept nogil:
        """Scores of all items of a group."""

    cdef double read_one(self, int64_t position) noexcept nogil:
        """The score of one item."""
        return 0.0

    cdef double squared_distance(self, int64_t row_a, int64_t row_b) noexcept nogil:
        """Squared distance of two rows, in the kernel's space."""
        return 0.0

    cdef bint can_move(self, int64_t plus, int64_t minus) noexcept nogil:
        return True

    cdef void move(self, int64_t plus, int64_t minus, double amount) noexcept nogil:
        """Add ``amount (Phi_plus - Phi_minus)`` to the weights."""

    cdef double curvature(self, int64_t plus, int64_t minus) noexcept nogil:
        """``K(++) + K(--) - 2 K(+-)``, at least what rounding leaves of it."""
        cdef int64_t a = self.item[plus] // self.n_channels
        cdef int64_t b = self.item[minus] // self.n_channels
        if a == b:
            return 2.0 * self.diagonal[a]
        return max(self.squared_distance(a, b), FLAT * (self.diagonal[a] + self.diagonal[b]))

    cdef void follow(self, int64_t group, Pair pair, double amount, double *score) noexcept nogil:
        """Bring the scores of a group up to date after a move within it."""
        cdef int64_t first = self.group_ptr[group]
        cdef int64_t row = self.item[pair.plus] // self.n_channels
        if row == self.item[pair.minus] // self.n_channels:
            score[pair.plus - first] += amount * self.diagonal[row]
            score[pair.minus - first] -= amount * self.diagonal[row]
        else:
            self.read(group, score)


@final
cdef class DenseScores(Scores):
    """Scores by explicit weights, (n_channels, n_features), for dense rows."""

    cdef readonly double[:, ::1] weights
    cdef const double[:, ::1] X
    cdef const float[:, ::1] X_single
    cdef bint is_single
    cdef double[::1] by_channel
    cdef double[:, ::1] space

    def __init__(self, item, group_ptr, n_channels, diagonal, X not None):
        super().__init__(item, group_ptr, n_channels, diagonal)
        self.is_single = X.dtype == np.float32
        if self.is_single:
            self.X_single = X
        else:
            self.X = X
        self.weights = np.zeros((n_channels, X.shape[1]))
        self.by_channel = np.empty(n_channels)
        self.space = np.empty((2, X.shape[1]))

    cdef const double *load(self, int64_t row, int space) noexcept nogil:
        cdef int64_t j
        self.n_reads += 1
        if not self.is_single:
            return &self.X[row, 0]
        for j in range(self.X_single.shape[1]):
            self.space[space, j] = self.X_single[row, j]
        return &self.space[space, 0]

    cdef void read(self, int64_t group, double *score) noexcept nogil:
        cdef int64_t q, row, d = self.weights.shape[1], k = self.n_channels, last = -1
        cdef int64_t first = self.group_ptr[group]
        for q in range(first, self.group_ptr[group + 1]):
            row = self.item[q] // k
            if row != last:
                rp_row_scores(&self.weights[0, 0], k, d, self.load(row, 0), &self.by_channel[0])
                last = row
            score[q - first] = self.by_channel[self.item[q] - row * k]

    cdef double read_one(self, int64_t position) noexcept nogil:
        cdef int64_t row = self.item[position] // self.n_channels
        cdef int64_t channel = self.item[position] - row * self.n_channels
        cdef double score
        rp_row_scores(&self.weights[channel, 0], 1, self.weights.shape[1], self.load(row, 0),
                      &score)
        return score

    cdef double squared_distance(self, int64_t row_a, int64_t row_b) noexcept nogil:
        return rp_squared_distance(self.load(row_a, 0), self.load(row_b, 1),
                                   self.weights.shape[1])

    cdef void move(self, int64_t plus, int64_t minus, double amount) noexcept nogil:
        self.add(plus, amount)
        self.add(minus, -amount)

    cdef void add(self, int64_t position, double amount) noexcept nogil:
        cdef int64_t row = self.item[position] // self.n_channels
        cdef int64_t channel = self.item[position] - row * self.n_channels
        rp_add_row(&self.weights[channel, 0], 1, self.weights.shape[1], self.load(row, 0), &amount)


@final
cdef class SparseScores(Scores):
    """Scores by explicit weights, (n_features, n_channels), for compressed rows."""

    cdef readonly double[:, ::1] weights
    cdef const int32_t[::1] indptr
    cdef const int32_t[::1] indices
    cdef const int64_t[::1] indptr_long
    cdef const int64_t[::1] indices_long
    cdef const double[::1] values
    cdef const float[::1] values_single
    cdef bint is_long
    cdef bint is_single
    cdef double[::1] by_channel
    cdef int64_t[:, ::1] feature
    cdef double[:, ::1] value

    def __init__(self, item, group_ptr, n_channels, diagonal, X not None):
        super().__init__(item, group_ptr, n_channels, diagonal)
        self.is_long = X.indptr.dtype == np.int64
        self.is_single = X.dtype == np.float32
        if self.is_long:
            self.indptr_long, self.indices_long = X.indptr, X.indices
        else:
            self.indptr, self.indices = X.indptr, X.indices
        if self.is_single:
            self.values_single = X.data
        else:
            self.values = X.data
        longest = int(np.diff(X.indptr).max(initial=0))
        self.weights = np.zeros((X.shape[1], n_channels))
        self.by_channel = np.empty(n_channels)
        self.feature = np.empty((2, longest), dtype=np.int64)
        self.value = np.empty((2, longest))

    cdef int64_t load(self, int64_t row, int space) noexcept nogil:
        """Copy a row to ``feature[space]`` and ``value[space]``; returns its length."""
        cdef int64_t *feature = &self.feature[space, 0]
        cdef double *value = &self.value[space, 0]
        cdef int64_t begin, n
        self.n_reads += 1
        if self.is_long:
            begin = self.indptr_long[row]
            n = self.indptr_long[row + 1] - begin
            if n > 0:
                copy_of(&self.indices_long[begin], feature, n)
        else:
            begin = self.indptr[row]
            n = self.indptr[row + 1] - begin
            if n > 0:
                copy_of(&self.indices[begin], feature, n)
        if n > 0 and self.is_single:
            as_doubles(&self.values_single[begin], value, n)
        elif n > 0:
            as_doubles(&self.values[begin], value, n)
        return n

    cdef void read(self, int64_t group, double *score) noexcept nogil:
        cdef int64_t q, row, last = -1
        cdef int64_t first = self.group_ptr[group]
        for q in range(first, self.group_ptr[group + 1]):
            row = self.item[q] // self.n_channels
            if row != last:
                self.read_row(row)
                last = row
            score[q - first] = self.by_channel[self.item[q] - row * self.n_channels]

    cdef void read_row(self, int64_t row) noexcept nogil:
        cdef int64_t i, r, n = self.load(row, 0), k = self.n_channels
        cdef double x
        cdef const double *w
        cdef double *score = &self.by_channel[0]
        for r in range(k):
            score[r] = 0.0
        for i in range(n):
            x = self.value[0, i]
            w = &self.weights[self.feature[0, i], 0]
            for r in range(k):
                score[r] += x * w[r]

    cdef double read_one(self, int64_t position) noexcept nogil:
        cdef int64_t row = self.item[position] // self.n_channels
        cdef int64_t i, channel = self.item[position] - row * self.n_channels
        cdef double score = 0.0
        for i in range(self.load(row, 0)):
            score += self.value[0, i] * self.weights[self.feature[0, i], channel]
        return score

    cdef double squared_distance(self, int64_t row_a, int64_t row_b) noexcept nogil:
        cdef int64_t i = 0, j = 0, n = self.load(row_a, 0), m = self.load(row_b, 1)
        cdef double x, sum = 0.0
        while i < n or j < m:
            if j == m or (i < n and self.feature[0, i] < self.feature[1, j]):
                x = self.value[0, i]
                i += 1
            elif i == n or self.feature[1, j] < self.feature[0, i]:
                x = self.value[1, j]
                j += 1
            else:
                x = self.value[0, i] - self.value[1, j]
                i += 1
                j += 1
            sum += x * x
        return sum

    cdef void move(self, int64_t plus, int64_t minus, double amount) noexcept nogil:
        self.add(plus, amount)
        self.add(minus, -amount)

    cdef void add(self, int64_t position, double amount) noexcept nogil:
        cdef int64_t row = self.item[position] // self.n_channels
        cdef int64_t i, channel = self.item[position] - row * self.n_channels
        for i in range(self.load(row, 0)):
            self.weights[self.feature[0, i], channel] += amount * self.value[0, i]


cdef void copy_of(const index *source, int64_t *target, int64_t n) noexcept nogil:
    cdef int64_t i
    for i in range(n):
        target[i] = source[i]


cdef void as_doubles(const floating *source, double *target, int64_t n) noexcept nogil:
    cdef int64_t i
    for i in range(n):
        target[i] = source[i]


@final
cdef class KernelScores(Scores):
    """Stored scores, (n_channels, n_rows), which follow by rows of the kernel matrix.

    `rows`, `place` and `column` are those of a `KernelCache`; scores stand in the order of its
    columns, of which the first `n_columns` are kept up to date. Items cannot move if their score
    is not among those, or their row is not in the cache.
    """

    cdef public int64_t n_columns
    cdef readonly double[:, ::1] scores
    cdef const double[:, ::1] rows
    cdef const int64_t[::1] place
    cdef const int64_t[::1] column

    def __init__(self, item, group_ptr, n_channels, diagonal,
                 const double[:, ::1] rows not None, const int64_t[::1] place not None,
                 const int64_t[::1] column not None, double cost_of_row):
        super().__init__(item, group_ptr, n_channels, diagonal)
        self.cost_of_row = cost_of_row
        self.rows, self.place, self.column = rows, place, column
        self.scores = np.zeros((n_channels, place.shape[0]))

    cdef void read(self, int64_t group, double *score) noexcept nogil:
        cdef int64_t q, first = self.group_ptr[group]
        for q in range(first, self.group_ptr[group + 1]):
            score[q - first] = self.read_one(q)

    cdef double read_one(self, int64_t position) noexcept nogil:
        cdef int64_t row = self.item[position] // self.n_channels
        return self.scores[self.item[position] - row * self.n_channels, self.column[row]]

    cdef double squared_distance(self, int64_t row_a, int64_t row_b) noexcept nogil:
        cdef double product = self.rows[self.place[row_a], self.column[row_b]]
        return self.diagonal[row_a] + self.diagonal[row_b] - 2.0 * product

    cdef bint can_move(self, int64_t plus, int64_t minus) noexcept nogil:
        return (self.is_ready(self.item[plus] // self.n_channels)
                and self.is_ready(self.item[minus] // self.n_channels))

    cdef inline bint is_ready(self, int64_t row) noexcept nogil:
        return self.place[row] >= 0 and self.column[row] < self.n_columns

    cdef void move(self, int64_t plus, int64_t minus, double amount) noexcept nogil:
        self.add(plus, amount)
        self.add(minus, -amount)

    cdef void add(self, int64_t position, double amount) noexcept nogil:
        cdef int64_t row = self.item[position] // self.n_channels
        cdef int64_t channel = self.item[position] - row * self.n_channels
        rp_add_row(&self.scores[channel, 0], 1, self.n_columns, &self.rows[self.place[row], 0],
                   &amount)
