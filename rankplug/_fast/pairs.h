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
 * which cost O(1) a row for few levels ("lanes": a prefix sum for each) and O(log levels)
 * for many (a 16-ary tree of prefix sums). A weight on the winning row of each pair needs
 * only other values: above(weight * value) and weight * below(value).
 *
 * A loss may be curved only where the slack margin - (s[i] - s[j]) is below a band, and go on
 * straight beyond it. Straight pairs are those with s[i] - s[j] < margin - band; their windows
 * straight_end <= end and straight_begin >= begin are left out of the sums above.
 */
#ifndef RANKPLUG_PAIRS_H
#define RANKPLUG_PAIRS_H

#include <stdint.h>
#include <string.h>

#include "clones.h"
#include "sorting.h"

#define RP_MOST_LANES 16            /* prefix sums kept side by side */
#define RP_FEW_LEVELS 8             /* levels found by looking at each */
#define RP_FAN 16                   /* children of a tree node */
#define RP_MAX_HEIGHT 8             /* 16^8 = 2^32 levels */
#define RP_AHEAD 12                  /* rows between fetching a leaf and using it */

/* Scratch space for one query; sizes in elements, for the largest query. */
typedef struct {
    rp_keyed_row *keyed;            /* RP_SORTING_SPACE(n) */
    double *value;                  /* n */
    double *above;                  /* n */
    double *below;                  /* n */
    double *product;                /* n: of the Laplacian, for who needs a query's only */
    double *sums;                   /* lanes: (n + 1) rows of them; tree: its nodes */
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
    int32_t *count;                 /* by position: curved pairs of the row */
    int32_t *difference;            /* by position: those it should win minus those it should lose */
    int32_t *straight_end;          /* the same of straight pairs; NULL without a band */
    int32_t *straight_begin;
    int32_t *straight_count;
    int32_t *straight_difference;
} rp_query;

/* The queries of a shard, with the arrays of all of them end to end. */
typedef struct {
    int64_t n_queries;
    double margin;
    double band;
    const int64_t *query_ptr;
    const int32_t *n_levels;        /* by query */
    const double *weight;           /* by query */
    const int32_t *level;
    int32_t *order;
    int32_t *sorted_level;
    int32_t *end;
    int32_t *begin;
    int32_t *count;
    int32_t *difference;
    int32_t *straight_end;
    int32_t *straight_begin;
    int32_t *straight_count;
    int32_t *straight_difference;
    rp_workspace space;
} rp_pairs;

/* ---- levels ---------------------------------------------------------------------------- */

/* Dense ranks of the relevance of a query's rows, by sorting; returns the number of levels. */
RP_INLINE int32_t rp_rank_by_sorting(const double *relevance, int32_t n, rp_keyed_row *space,
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

/* How many of some values are lower. */
RP_INLINE int32_t rp_rank(const double *values, int32_t n_values, double value) {
    int32_t rank = 0;
    for (int32_t r = 0; r < n_values; r++) rank += values[r] < value;
    return rank;
}

/* The same, but where there are few levels by looking at each of them. */
RP_INLINE int32_t rp_rank_levels(const double *relevance, int32_t n, rp_keyed_row *space,
                                 int32_t *level) {
    double values[RP_FEW_LEVELS];
    int32_t n_levels = 0;
    for (int32_t i = 0; i < n; i++) {
        int32_t rank = rp_rank(values, n_levels, relevance[i]);
        if (rank < n_levels && values[rank] == relevance[i]) continue;
        if (n_levels == RP_FEW_LEVELS) return rp_rank_by_sorting(relevance, n, space, level);
        memmove(values + rank + 1, values + rank, (size_t)(n_levels++ - rank) * sizeof *values);
        values[rank] = relevance[i];
    }
    for (int32_t i = 0; i < n; i++) level[i] = rp_rank(values, n_levels, relevance[i]);
    return n_levels;
}

/* ---- sums above and below ------------------------------------------------------------------ */

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

/* How many lanes a query takes, one more than levels at least; 0 for a tree. */
RP_INLINE int rp_lanes(int64_t n_levels) {
    if (n_levels < 4) return 4;
    if (n_levels < 8) return 8;
    return n_levels < RP_MOST_LANES ? RP_MOST_LANES : 0;
}

/* Elements of `rp_workspace.sums` that a query needs. */
RP_INLINE int64_t rp_sums_size(int64_t n_rows, int64_t n_levels) {
    int lanes = rp_lanes(n_levels);
    return lanes ? (n_rows + 1) * lanes : rp_tree_layout(n_levels).size;
}

#define SUM double
#define VALUE(t) value[t]
#define NAME(x) x
#include "pair_sums.h"
#undef SUM
#undef VALUE
#undef NAME

#define SUM int32_t
#define VALUE(t) 1
#define NAME(x) x##_of_ones
#include "pair_sums.h"
#undef SUM
#undef VALUE
#undef NAME

/* ---- one query ----------------------------------------------------------------------------- */

/* end and begin of every position, for pairs with a difference of scores below `margin`.
 *
 * One walk along the border between the differences below it and the others, so that each pair is
 * judged once for both of its rows; without branches, as nobody can guess its turns. */
RP_INLINE void rp_find_windows(const rp_keyed_row *sorted, int32_t n, double margin,
                               int32_t *restrict end, int32_t *restrict begin) {
    int32_t t = 0, p = 0;
    while (t < n && p < n) {
        int below = sorted[t].key - sorted[p].key < margin;
        begin[t] = p;
        end[p] = t;
        t += below;
        p += !below;
    }
    for (; t < n; t++) begin[t] = n;
    for (; p < n; p++) end[p] = n;
}

/* Number of pairs of every row within the query's windows. */
RP_INLINE void rp_count(const rp_query *q, const rp_workspace *space, int32_t *restrict count,
                        int32_t *restrict difference) {
    int32_t *above = (int32_t *)space->above, *below = (int32_t *)space->below;
    rp_sums_of_ones(q, NULL, (int32_t *)space->sums, above, below);
    for (int32_t p = 0; p < q->n_rows; p++) {
        count[p] = below[p] + above[p];
        difference[p] = below[p] - above[p];
    }
}

/* The query with its straight pairs in the place of the curved ones. */
RP_INLINE rp_query rp_straight(const rp_query *q) {
    rp_query straight = *q;
    straight.end = q->straight_end;
    straight.begin = q->straight_begin;
    straight.straight_end = straight.straight_begin = NULL;
    return straight;
}

/* Find the pairs active at `score`: order, windows, count and difference of every row. */
RP_INLINE void rp_activate(const rp_query *q, const double *score, double margin, double band,
                           const rp_workspace *space) {
    int32_t n = q->n_rows;
    /* The order before is a good start: rows that are nearly sorted move less. */
    for (int32_t p = 0; p < n; p++)
        space->keyed[p] = (rp_keyed_row){score[q->order[p]], q->order[p]};
    const rp_keyed_row *sorted = rp_sort(space->keyed, n);
    for (int32_t p = 0; p < n; p++) {
        q->order[p] = sorted[p].row;
        q->sorted_level[p] = q->level[sorted[p].row];
    }
    rp_find_windows(sorted, n, margin, q->end, q->begin);
    if (q->straight_end) {
        rp_find_windows(sorted, n, margin - band, q->straight_end, q->straight_begin);
        rp_query straight = rp_straight(q);
        rp_count(&straight, space, q->straight_count, q->straight_difference);
    }
    rp_count(q, space, q->count, q->difference);
}

/* out = weight * sum over curved pairs (i, j) of (z_i - z_j) (e_i - e_j). */
RP_INLINE void rp_laplacian(const rp_query *q, const double *z, const rp_workspace *space,
                            double *out) {
    int32_t n = q->n_rows;
    for (int32_t p = 0; p < n; p++) space->value[p] = z[q->order[p]];
    rp_sums(q, space->value, space->sums, space->above, space->below);
    for (int32_t p = 0; p < n; p++)
        out[q->order[p]] = q->weight
            * (q->count[p] * space->value[p] - (space->above[p] + space->below[p]));
}

/* ---- where a query's arrays are ---------------------------------------------------------------- */

RP_INLINE rp_query rp_query_at(const rp_pairs *pairs, int64_t q) {
    int64_t b = pairs->query_ptr[q];
    rp_query query = {
        (int32_t)(pairs->query_ptr[q + 1] - b), pairs->n_levels[q], pairs->weight[q],
        pairs->level + b, pairs->order + b, pairs->sorted_level + b, pairs->end + b,
        pairs->begin + b, pairs->count + b, pairs->difference + b, NULL, NULL, NULL, NULL,
    };
    if (pairs->straight_end) {
        query.straight_end = pairs->straight_end + b;
        query.straight_begin = pairs->straight_begin + b;
        query.straight_count = pairs->straight_count + b;
        query.straight_difference = pairs->straight_difference + b;
    }
    return query;
}

#endif
