/* Sums over the active preference pairs of queries, without ever listing a pair.
 *
 * A pair (i, j) of one query has level[i] > level[j]; it is active at scores s when
 * s[i] - s[j] < margin. With the rows of a query in ascending order of score, the partners of
 * the row at position p that have a higher level stand at positions below end[p], those of a
 * lower level at positions from begin[p] on. So everything reduces to two sums,
 *
 *     above[p] = sum of value[t] over t <  end[p]   with level[t] > level[p]
 *     below[p] = sum of value[t] over t >= begin[p] with level[t] < level[p]
 *
 * which cost O(1) a row for few levels ("lanes": one prefix sum a level) and O(log levels)
 * for many (a 16-ary tree of prefix sums). A weight on the winning row of each pair needs
 * only other values: above(weight * value) and weight * below(value).
 */
#ifndef RANKPLUG_PAIRS_H
#define RANKPLUG_PAIRS_H

#include <stdint.h>
#include <string.h>

#include "clones.h"

#define RP_LANES 8                  /* prefix sums kept side by side */
#define RP_FAN 16                   /* children of a tree node */
#define RP_MAX_HEIGHT 8             /* 16^8 = 2^32 levels */
#define RP_AHEAD 12                  /* rows between fetching a leaf and using it */
#define RP_RUN 12                   /* rows sorted by insertion before merging */

typedef struct {
    double key;
    int32_t row;
} rp_keyed_row;

/* Scratch space for one query; sizes in elements, for the largest query. */
typedef struct {
    rp_keyed_row *keyed;            /* 2 n */
    double *value;                  /* n */
    double *above;                  /* n */
    double *below;                  /* n */
    double *sums;                   /* lanes: (n + 1) * RP_LANES; tree: its nodes */
} rp_workspace;

/* One query and its active pairs; rows are numbered from the query's first one. */
typedef struct {
    int32_t n_rows;
    int32_t n_levels;
    double weight;
    const int32_t *level;           /* by row, 0 is the lowest */
    int32_t *order;                 /* position -> row, ascending scores */
    int32_t *sorted_level;          /* by position */
    int32_t *end;                   /* by position */
    int32_t *begin;                 /* by position */
    double *count;                  /* by position: active pairs of the row */
    double *difference;             /* by position: those it should win minus those it should lose */
} rp_query;

/* The queries of a shard, with the arrays of all of them end to end. */
typedef struct {
    int64_t n_queries;
    double margin;
    const int64_t *query_ptr;
    const int32_t *n_levels;        /* by query */
    const double *weight;           /* by query */
    const int32_t *level;
    int32_t *order;
    int32_t *sorted_level;
    int32_t *end;
    int32_t *begin;
    double *count;
    double *difference;
    rp_workspace space;
} rp_pairs;

/* ---- sorting ------------------------------------------------------------------------- */

RP_INLINE void rp_insertion_sort(rp_keyed_row *rows, int32_t n) {
    for (int32_t i = 1; i < n; i++) {
        rp_keyed_row moved = rows[i];
        int32_t j = i;
        for (; j > 0 && rows[j - 1].key > moved.key; j--) rows[j] = rows[j - 1];
        rows[j] = moved;
    }
}

RP_INLINE void rp_merge(const rp_keyed_row *left, const rp_keyed_row *right,
                        const rp_keyed_row *stop, rp_keyed_row *out) {
    const rp_keyed_row *middle = right;
    while (left < middle && right < stop) {
        int take_right = right->key < left->key;
        const rp_keyed_row *next = take_right ? right : left;
        *out++ = *next;
        right += take_right;
        left += !take_right;
    }
    if (left < middle) memcpy(out, left, (size_t)(middle - left) * sizeof *out);
    else memcpy(out, right, (size_t)(stop - right) * sizeof *out);
}

/* Stable merge sort by key; `rows` has room for 2 n, the result is where it returns. */
RP_INLINE rp_keyed_row *rp_sort(rp_keyed_row *rows, int32_t n) {
    rp_keyed_row *from = rows, *to = rows + n;
    for (int32_t b = 0; b < n; b += RP_RUN)
        rp_insertion_sort(rows + b, n - b < RP_RUN ? n - b : RP_RUN);
    for (int64_t width = RP_RUN; width < n; width *= 2) {
        for (int64_t b = 0; b < n; b += 2 * width) {
            int64_t middle = b + width < n ? b + width : n;
            int64_t stop = b + 2 * width < n ? b + 2 * width : n;
            rp_merge(from + b, from + middle, from + stop, to + b);
        }
        rp_keyed_row *swap = from;
        from = to;
        to = swap;
    }
    return from;
}

/* Dense ranks of the relevance of a query's rows; returns the number of levels. */
RP_INLINE int32_t rp_rank_levels(const double *relevance, int32_t n, rp_keyed_row *space,
                              int32_t *level) {
    for (int32_t i = 0; i < n; i++) space[i] = (rp_keyed_row){relevance[i], i};
    const rp_keyed_row *sorted = rp_sort(space, n);
    int32_t rank = 0;
    for (int32_t p = 0; p < n; p++) {
        if (p > 0 && sorted[p].key != sorted[p - 1].key) rank++;
        level[sorted[p].row] = rank;
    }
    return n > 0 ? rank + 1 : 0;
}

/* ---- few levels: lanes ------------------------------------------------------------------ */

/* Lane r of sums[t] holds the sum of the first t values whose level is above r. */
RP_INLINE void rp_above_lanes(const rp_query *q, const double *restrict value,
                              double *restrict sums, double *restrict above, int lanes) {
    int32_t n = q->n_rows;
    double total[RP_LANES] = {0};
    for (int32_t t = 0; t < n; t++) {
        int32_t level = q->sorted_level[t];
        double x = value[t];
#pragma omp simd
        for (int r = 0; r < lanes; r++) {
            sums[(int64_t)t * lanes + r] = total[r];
            total[r] += r < level ? x : 0.0;
        }
    }
    for (int r = 0; r < lanes; r++) sums[(int64_t)n * lanes + r] = total[r];
    int32_t highest = q->n_levels - 1;
    for (int32_t p = 0; p < n; p++) {
        int32_t level = q->sorted_level[p];
        above[p] = level < highest ? sums[(int64_t)q->end[p] * lanes + level] : 0.0;
    }
}

/* Lane r of sums[t] holds the sum of the values from t on whose level is at most r. */
RP_INLINE void rp_below_lanes(const rp_query *q, const double *restrict value,
                              double *restrict sums, double *restrict below, int lanes) {
    int32_t n = q->n_rows;
    double total[RP_LANES] = {0};
    for (int r = 0; r < lanes; r++) sums[(int64_t)n * lanes + r] = 0.0;
    for (int32_t t = n - 1; t >= 0; t--) {
        int32_t level = q->sorted_level[t];
        double x = value[t];
#pragma omp simd
        for (int r = 0; r < lanes; r++) {
            total[r] += r >= level ? x : 0.0;
            sums[(int64_t)t * lanes + r] = total[r];
        }
    }
    for (int32_t p = 0; p < n; p++) {
        int32_t level = q->sorted_level[p];
        below[p] = level > 0 ? sums[(int64_t)q->begin[p] * lanes + level - 1] : 0.0;
    }
}

/* ---- many levels: a 16-ary tree of exclusive prefix sums ------------------------------------ */

typedef struct {
    int height;
    int64_t offset[RP_MAX_HEIGHT];  /* of each layer, leaves first */
    int64_t size;
} rp_tree;

RP_INLINE rp_tree rp_tree_layout(int64_t n_levels) {
    rp_tree tree = {0, {0}, 0};
    int64_t nodes = n_levels;
    do {
        nodes = (nodes + RP_FAN - 1) / RP_FAN;
        tree.offset[tree.height++] = tree.size;
        tree.size += nodes * RP_FAN;
    } while (nodes > 1);
    return tree;
}

/* Entry c of a node holds the sum of its children before c. */
RP_INLINE void rp_tree_add(const rp_tree *tree, double *restrict sums, int32_t level, double x) {
    for (int h = 0; h < tree->height; h++) {
        double *restrict node = sums + tree->offset[h] + (level & ~(RP_FAN - 1));
        int child = level & (RP_FAN - 1);
#pragma omp simd
        for (int c = 0; c < RP_FAN; c++) node[c] += c > child ? x : 0.0;
        level /= RP_FAN;
    }
}

/* Sum of everything added below `level`. */
RP_INLINE double rp_tree_before(const rp_tree *tree, const double *restrict sums, int32_t level) {
    double total = 0.0;
    for (int h = 0; h < tree->height; h++) {
        total += sums[tree->offset[h] + level];
        level /= RP_FAN;
    }
    return total;
}

/* The leaf of a random level is seldom in cache, and known long before it is needed. */
RP_INLINE void rp_tree_fetch(const double *sums, int32_t level) {
    const double *node = sums + (level & ~(RP_FAN - 1));
    RP_PREFETCH(node);
    RP_PREFETCH(node + RP_FAN / 2);
}

RP_INLINE void rp_above_tree(const rp_query *q, const double *restrict value,
                             double *restrict sums, double *restrict above) {
    rp_tree tree = rp_tree_layout(q->n_levels);
    int32_t n = q->n_rows, t = 0, highest = q->n_levels - 1;
    memset(sums, 0, (size_t)tree.size * sizeof *sums);
    /* Levels are turned round, so that "higher" becomes "before". */
    for (int32_t p = 0; p < n; p++) {
        for (; t < q->end[p]; t++) {
            if (t + RP_AHEAD < n) rp_tree_fetch(sums, highest - q->sorted_level[t + RP_AHEAD]);
            rp_tree_add(&tree, sums, highest - q->sorted_level[t], value[t]);
        }
        above[p] = rp_tree_before(&tree, sums, highest - q->sorted_level[p]);
    }
}

RP_INLINE void rp_below_tree(const rp_query *q, const double *restrict value,
                             double *restrict sums, double *restrict below) {
    rp_tree tree = rp_tree_layout(q->n_levels);
    int32_t n = q->n_rows, t = n - 1;
    memset(sums, 0, (size_t)tree.size * sizeof *sums);
    for (int32_t p = n - 1; p >= 0; p--) {
        for (; t >= q->begin[p]; t--) {
            if (t >= RP_AHEAD) rp_tree_fetch(sums, q->sorted_level[t - RP_AHEAD]);
            rp_tree_add(&tree, sums, q->sorted_level[t], value[t]);
        }
        below[p] = rp_tree_before(&tree, sums, q->sorted_level[p]);
    }
}

/* ---- the same for any number of levels --------------------------------------------------- */

/* Elements of `rp_workspace.sums` that a query needs. */
RP_INLINE int64_t rp_sums_size(int64_t n_rows, int64_t n_levels) {
    return n_levels <= RP_LANES + 1 ? (n_rows + 1) * RP_LANES : rp_tree_layout(n_levels).size;
}

/* above and below of every position, from space->value. */
RP_INLINE void rp_sums(const rp_query *q, const rp_workspace *space) {
    if (q->n_levels <= 5) {
        rp_above_lanes(q, space->value, space->sums, space->above, 4);
        rp_below_lanes(q, space->value, space->sums, space->below, 4);
    } else if (q->n_levels <= RP_LANES + 1) {
        rp_above_lanes(q, space->value, space->sums, space->above, RP_LANES);
        rp_below_lanes(q, space->value, space->sums, space->below, RP_LANES);
    } else {
        rp_above_tree(q, space->value, space->sums, space->above);
        rp_below_tree(q, space->value, space->sums, space->below);
    }
}

/* ---- one query ----------------------------------------------------------------------------- */

RP_INLINE void rp_find_windows(rp_query *q, const rp_keyed_row *sorted, double margin) {
    int32_t n = q->n_rows, end = 0, begin = 0;
    for (int32_t p = 0; p < n; p++) {
        /* One predicate, computed as this one subtraction, in both directions: otherwise a tie
         * could make a pair active for one of its rows only. */
        while (end < n && sorted[end].key - sorted[p].key < margin) end++;
        while (begin < p && !(sorted[p].key - sorted[begin].key < margin)) begin++;
        q->end[p] = end;
        q->begin[p] = begin;
        q->order[p] = sorted[p].row;
        q->sorted_level[p] = q->level[sorted[p].row];
    }
}

/* Find the pairs active at `score`: order, windows, count and difference of every row. */
RP_INLINE void rp_activate(rp_query *q, const double *score, double margin,
                           const rp_workspace *space) {
    int32_t n = q->n_rows;
    /* The order before is a good start: nearly sorted rows are sorted faster. */
    for (int32_t p = 0; p < n; p++)
        space->keyed[p] = (rp_keyed_row){score[q->order[p]], q->order[p]};
    rp_find_windows(q, rp_sort(space->keyed, n), margin);
    for (int32_t p = 0; p < n; p++) space->value[p] = 1.0;
    rp_sums(q, space);
    for (int32_t p = 0; p < n; p++) {
        q->count[p] = space->below[p] + space->above[p];
        q->difference[p] = space->below[p] - space->above[p];
    }
}

/* out = weight * sum over active pairs (i, j) of (z_i - z_j) (e_i - e_j). */
RP_INLINE void rp_laplacian(const rp_query *q, const double *z, const rp_workspace *space,
                            double *out) {
    int32_t n = q->n_rows;
    for (int32_t p = 0; p < n; p++) space->value[p] = z[q->order[p]];
    rp_sums(q, space);
    for (int32_t p = 0; p < n; p++)
        out[q->order[p]] = q->weight
            * (q->count[p] * space->value[p] - (space->above[p] + space->below[p]));
}

/* Weighted sum over active pairs of (margin - (s_i - s_j))^2, and half its derivative by s. */
RP_INLINE double rp_squared_hinge(const rp_query *q, const double *score, double margin,
                                  const rp_workspace *space, double *coefficient) {
    int32_t n = q->n_rows;
    double loss = 0.0;
    /* Only differences matter: scores near zero lose fewer digits. */
    double centre = score[q->order[n / 2]];
    for (int32_t p = 0; p < n; p++) space->value[p] = score[q->order[p]] - centre;
    rp_sums(q, space);
    for (int32_t p = 0; p < n; p++) {
        double s = space->value[p];
        double laplacian = q->count[p] * s - (space->above[p] + space->below[p]);
        double push = margin * q->difference[p];
        loss += s * (laplacian - 2.0 * push) + 0.5 * margin * margin * q->count[p];
        coefficient[q->order[p]] = q->weight * (laplacian - push);
    }
    return q->weight * loss;
}

/* Weighted sum over active pairs of margin - (s_i - s_j), and its derivative by s. */
RP_INLINE double rp_hinge(const rp_query *q, const double *score, double margin,
                          double *coefficient) {
    int32_t n = q->n_rows;
    double loss = 0.0, centre = score[q->order[n / 2]];
    for (int32_t p = 0; p < n; p++) {
        double s = score[q->order[p]] - centre;
        loss += 0.5 * margin * q->count[p] - q->difference[p] * s;
        coefficient[q->order[p]] = -q->weight * q->difference[p];
    }
    return q->weight * loss;
}

/* ---- where a query's arrays are ---------------------------------------------------------------- */

RP_INLINE rp_query rp_query_at(const rp_pairs *pairs, int64_t q) {
    int64_t b = pairs->query_ptr[q];
    return (rp_query){
        (int32_t)(pairs->query_ptr[q + 1] - b), pairs->n_levels[q], pairs->weight[q],
        pairs->level + b, pairs->order + b, pairs->sorted_level + b, pairs->end + b,
        pairs->begin + b, pairs->count + b, pairs->difference + b,
    };
}

#endif
