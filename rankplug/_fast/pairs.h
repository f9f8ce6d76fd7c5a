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
 * for many (a 16-ary tree of prefix sums). Pairs that count differently: weighted.h.
 *
 * A loss may be curved only where the slack margin - (s[i] - s[j]) is below a band, and go on
 * straight beyond it. Straight pairs are those with s[i] - s[j] < margin - band; their windows
 * straight_end <= end and straight_begin >= begin are left out of the sums above.
 */
#ifndef RANKPLUG_PAIRS_H
#define RANKPLUG_PAIRS_H

#include <stddef.h>
#include <stdint.h>

#include "clones.h"
#include "sorting.h"

/* Scratch space for one query; sizes in elements, for the largest query. */
typedef struct {
    rp_keyed_row *keyed;            /* RP_SORTING_SPACE(n) */
    double *value;                  /* n + 2 */
    double *above;                  /* n */
    double *below;                  /* n */
    double *sums;                   /* lanes: (n + 1) rows of them; tree: its nodes */
    double *weighted;               /* n, if pairs are weighted */
    double *other;                  /* n, if there are heights and many levels */
} rp_workspace;

/* What pairs count, see weighted.h; `count` is NULL where all count the same. */
typedef struct {
    const double *winner;           /* by row; NULL: 1 */
    const double *loser;            /* by row; NULL: 1 */
    const double *height;           /* by level, from the query's first row on; NULL: none */
    double *sorted_winner;          /* by position, NULL as `winner` is */
    double *sorted_loser;           /* that of winners, if both are the same */
    double *count;                  /* as those of rp_query, but of what pairs count */
    double *difference;
    double *straight_count;
    double *straight_difference;
} rp_weights;

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
    rp_weights weights;
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
    rp_weights weights;
    rp_workspace space;
} rp_pairs;

/* Where a query's part of an array is, if there is one. */
#define RP_PART(array, b) ((array) ? (array) + (b) : NULL)

RP_INLINE rp_weights rp_weights_at(const rp_weights *all, int64_t b) {
    return (rp_weights){
        RP_PART(all->winner, b), RP_PART(all->loser, b), RP_PART(all->height, b),
        RP_PART(all->sorted_winner, b), RP_PART(all->sorted_loser, b), all->count + b,
        all->difference + b, RP_PART(all->straight_count, b),
        RP_PART(all->straight_difference, b),
    };
}

/* Where a query's arrays are, but for what its pairs count. */
RP_INLINE rp_query rp_query_at(const rp_pairs *pairs, int64_t q) {
    int64_t b = pairs->query_ptr[q];
    rp_query query = {
        (int32_t)(pairs->query_ptr[q + 1] - b), pairs->n_levels[q], pairs->weight[q],
        pairs->level + b, pairs->order + b, pairs->sorted_level + b, pairs->end + b,
        pairs->begin + b, pairs->count + b, pairs->difference + b, NULL, NULL, NULL, NULL,
        {NULL},
    };
    if (pairs->straight_end) {
        query.straight_end = pairs->straight_end + b;
        query.straight_begin = pairs->straight_begin + b;
        query.straight_count = pairs->straight_count + b;
        query.straight_difference = pairs->straight_difference + b;
    }
    return query;
}

/* Where all of a query's arrays are. */
RP_INLINE rp_query rp_weighted_query_at(const rp_pairs *pairs, int64_t q) {
    rp_query query = rp_query_at(pairs, q);
    if (pairs->weights.count)
        query.weights = rp_weights_at(&pairs->weights, pairs->query_ptr[q]);
    return query;
}

#endif
