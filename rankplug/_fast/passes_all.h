/* The passes of passes.h for float64 and float32 features. */
#ifndef RANKPLUG_PASSES_ALL_H
#define RANKPLUG_PASSES_ALL_H

#include <float.h>
#include <math.h>

#include "weighted.h"

#define RP_LINE 64                  /* bytes of a cache line */
#define RP_NEAR 8192                /* bytes to fetch ahead of rows that are read once */
#define RP_FAR 262144               /* and of queries, whose rows stay in cache for a second use */

#define RP_FEW 64                   /* rows that are summed in their own precision */

#if defined(__GNUC__)
/* Four numbers at once: compilers use such by themselves in loops, but do not keep sums in them. */
#define RP_FOUR(type) __attribute__((vector_size(4 * sizeof(type))))
typedef double rp_four RP_FOUR(double);
#define RP_LOAD(four, from)                                                                       \
    ({                                                                                            \
        four loaded;                                                                              \
        memcpy(&loaded, (from), sizeof loaded);                                                   \
        (rp_four){loaded[0], loaded[1], loaded[2], loaded[3]}; /* one instruction */              \
    })
#endif

/* Fetches into cache what is read some way ahead, a step a row, so that memory and arithmetic work
 * at once. Offsets are bytes from `start`. */
typedef struct {
    const char *start;
    int64_t next, until, stop, step;
} rp_fetch;

/* To be a distance ahead of what is read of a block. */
RP_INLINE rp_fetch rp_fetch_ahead(const void *block, int64_t bytes, int64_t distance, int64_t step) {
    return (rp_fetch){(const char *)block, distance, distance, bytes, step};
}

RP_INLINE void rp_fetch_more(rp_fetch *fetch) {
    int64_t until = fetch->until += fetch->step, p = fetch->next;
    if (until > fetch->stop) until = fetch->stop;
    for (; p < until; p += RP_LINE) RP_PREFETCH(fetch->start + p);
    fetch->next = p;
}

/* Fetch what a Laplacian reads of the pairs of n rows from row b on. */
RP_INLINE void rp_fetch_pairs(const rp_pairs *pairs, int64_t b, int64_t n) {
    const int32_t *parts[] = {pairs->order, pairs->sorted_level, pairs->end, pairs->begin,
                              pairs->count};
    for (int part = 0; part < 5; part++) {
        const char *p = (const char *)(parts[part] + b), *stop = (const char *)(parts[part] + b + n);
        for (; p < stop; p += RP_LINE) RP_PREFETCH(p);
    }
}

/* change = now - before - step change; the rows where that is more than a share of the largest
 * number of their query, before or now, go to `rows`, which has room for one more. */
RP_CLONES static int64_t rp_find_changes(const int64_t *query_ptr, int64_t n_queries,
                                         const double *restrict before,
                                         const double *restrict now, double step,
                                         double *restrict change, double share,
                                         int64_t *restrict rows) {
    int64_t k = 0;
    for (int64_t q = 0; q < n_queries; q++) {
        int64_t b = query_ptr[q], e = query_ptr[q + 1];
        double largest = 0.0;
#pragma omp simd reduction(max : largest)
        for (int64_t i = b; i < e; i++) {
            double size = fabs(now[i]) > fabs(before[i]) ? fabs(now[i]) : fabs(before[i]);
            change[i] = now[i] - before[i] - step * change[i];
            largest = size > largest ? size : largest;
        }
        for (int64_t i = b; i < e; i++) {
            rows[k] = i;
            k += fabs(change[i]) > share * largest;
        }
    }
    return k;
}

#define FLOAT double
#define NAME(x) x##_f64
#include "passes.h"
#undef FLOAT
#undef NAME

#define FLOAT float
#define NAME(x) x##_f32
#include "passes.h"
#undef FLOAT
#undef NAME

#endif
