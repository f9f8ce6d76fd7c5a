/* Rows sorted by a key: a stable merge sort that is fast on rows that are nearly in order. */
#ifndef RANKPLUG_SORTING_H
#define RANKPLUG_SORTING_H

#include <stdint.h>
#include <string.h>

#include "clones.h"

#define RP_RUN 12                   /* rows sorted by insertion before merging */

typedef struct {
    double key;
    int32_t row;
} rp_keyed_row;

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

#endif
