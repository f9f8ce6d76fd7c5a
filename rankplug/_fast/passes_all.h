/* The passes of passes.h for float64 and float32 features. */
#ifndef RANKPLUG_PASSES_ALL_H
#define RANKPLUG_PASSES_ALL_H

#include <float.h>
#include <math.h>

#include "weighted.h"

#define RP_LINE 64                  /* bytes of a cache line */
#define RP_CHUNK 16384              /* bytes worked on while the next ones are fetched */
#define RP_BLOCK 262144             /* most bytes to fetch ahead: they must stay in cache */

#define RP_FEW 64                   /* rows that are summed in their own precision */

#if defined(__GNUC__)
/* Four numbers at once: compilers use such by themselves in loops, but do not keep sums in them. */
#define RP_FOUR(type) __attribute__((vector_size(4 * sizeof(type))))
typedef double rp_four RP_FOUR(double);
#define RP_LOAD(four, from)                                                                       \
    ({                                                                                            \
        four loaded;                                                                              \
        memcpy(&loaded, (from), sizeof loaded);                                                   \
        __builtin_convertvector(loaded, rp_four);                                                 \
    })
#endif

/* Fetches a block into cache bit by bit, so that memory and arithmetic work at once. */
typedef struct {
    const char *next;
    const char *stop;
    int64_t step;
} rp_fetch;

/* A block to be fetched in so many equal steps. */
RP_INLINE rp_fetch rp_fetch_block(const void *block, int64_t bytes, int64_t steps) {
    const char *start = (const char *)block;
    int64_t fetched = bytes < RP_BLOCK ? bytes : RP_BLOCK;
    return (rp_fetch){start, start + fetched, steps > 0 ? fetched / steps + 1 : 0};
}

RP_INLINE void rp_fetch_more(rp_fetch *fetch) {
    const char *until = fetch->next + fetch->step, *p = fetch->next;
    if (until > fetch->stop) until = fetch->stop;
    for (; p < until; p += RP_LINE) RP_PREFETCH(p);
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
