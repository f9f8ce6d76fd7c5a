/* Rows sorted by a key: first into buckets of equal width, two for each row, then by insertion; by
 * merging if the keys crowd in few buckets. Stable. */
#ifndef RANKPLUG_SORTING_H
#define RANKPLUG_SORTING_H

#include <stdint.h>
#include <string.h>

#include "clones.h"

#define RP_RUN 12                   /* rows sorted by insertion before merging */
#define RP_MOST_MOVES 4             /* of insertion, a row on average */
#define RP_BUCKETS 2                /* a row: the fewer share one, the less is left to insertion */
#define RP_SORTING_SPACE(n) (3 * (n) + 1) /* rows in the space for sorting n of them */

typedef struct {
    double key;
    int32_t row;
} rp_keyed_row;

/* Whether the rows are sorted now, and not left in some order after too many moves. */
RP_INLINE int rp_insertion_sort(rp_keyed_row *rows, int32_t n, int64_t most_moves) {
    for (int32_t i = 1; i < n; i++) {
        rp_keyed_row moved = rows[i];
        int32_t j = i;
        for (; j > 0 && rows[j - 1].key > moved.key; j--) rows[j] = rows[j - 1];
        rows[j] = moved;
        most_moves -= i - j;
        if (most_moves < 0) return 0;
    }
    return 1;
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

/* Rows sorted by key, in `from` or in `to`, which have room for n rows each. */
RP_INLINE rp_keyed_row *rp_merge_sort(rp_keyed_row *from, rp_keyed_row *to, int32_t n) {
    for (int32_t b = 0; b < n; b += RP_RUN)
        rp_insertion_sort(from + b, n - b < RP_RUN ? n - b : RP_RUN, INT64_MAX);
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

/* The bucket of a key, of buckets from 0 to `last`; NaN goes to 0. */
RP_INLINE int32_t rp_bucket(double key, double lowest, double scale, double last) {
    double bucket = (key - lowest) * scale;
    bucket = bucket > 0.0 ? bucket : 0.0;
    return (int32_t)(bucket < last ? bucket : last);
}

/* Rows in the order of their buckets; `space` has room for (RP_BUCKETS + 1) n + 1 numbers. */
RP_INLINE void rp_spread(const rp_keyed_row *from, int32_t n, double lowest, double highest,
                         int32_t *restrict space, rp_keyed_row *restrict to) {
    int32_t *bucket = space, *start = space + n;
    /* A bucket's number has 32 bits. */
    int64_t n_buckets = n <= INT32_MAX / RP_BUCKETS ? RP_BUCKETS * (int64_t)n : n;
    double last = (double)(n_buckets - 1), scale = last / (highest - lowest);
    for (int32_t i = 0; i < n; i++) bucket[i] = rp_bucket(from[i].key, lowest, scale, last);
    memset(start, 0, (size_t)(n_buckets + 1) * sizeof *start);
    for (int32_t i = 0; i < n; i++) start[bucket[i] + 1]++;
    for (int64_t b = 0; b < n_buckets; b++) start[b + 1] += start[b];
    for (int32_t i = 0; i < n; i++) to[start[bucket[i]]++] = from[i];
}

/* Rows sorted by key, somewhere in the RP_SORTING_SPACE that starts with `rows`; ties stay in the
 * order they are in. */
RP_INLINE rp_keyed_row *rp_sort(rp_keyed_row *rows, int32_t n) {
    rp_keyed_row *to = rows + n;
    if (n <= RP_RUN) {
        rp_insertion_sort(rows, n, INT64_MAX);
        return rows;
    }
    double lowest = rows[0].key, highest = rows[0].key;
    for (int32_t i = 1; i < n; i++) {
        lowest = rows[i].key < lowest ? rows[i].key : lowest;
        highest = rows[i].key > highest ? rows[i].key : highest;
    }
    if (!(lowest < highest)) return rows;
    rp_spread(rows, n, lowest, highest, (int32_t *)(to + n), to);
    if (rp_insertion_sort(to, n, RP_MOST_MOVES * (int64_t)n)) return to;
    return rp_merge_sort(to, rows, n);
}

#endif
