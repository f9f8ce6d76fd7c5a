/* How many of a query's first positions have at least some level, in O(1): Jacobson, "Space-efficient
 * static trees and graphs", FOCS 1989, for the rank of a bit vector.
 *
 * For each level a bit a position, 64 in a word with the number of bits before it. */
#ifndef RANKPLUG_RANKS_H
#define RANKPLUG_RANKS_H

#include <stdint.h>
#include <string.h>

#include "pairs.h"

#define RP_WORD 64
#define RP_MOST_WORDS 8             /* a row: as large as sixteen prefix sums of values */

typedef struct {
    uint64_t bits;
    int32_t before;                 /* ones in the words before this one */
    int32_t total;                  /* ones of all words of the level */
} rp_word;

typedef struct {
    const rp_word *words;           /* (n_levels + 1) times n_words */
    int32_t n_words;                /* of a level, one more than are full */
    int32_t n_rows;
} rp_ranks;

RP_INLINE int64_t rp_ranks_words(int64_t n_rows) {
    return n_rows / RP_WORD + 1;
}

/* Words that a query takes; 0 if they are too many. */
RP_INLINE int64_t rp_ranks_size(int64_t n_rows, int64_t n_levels) {
    int64_t size = (n_levels + 1) * rp_ranks_words(n_rows);
    return size <= RP_MOST_WORDS * n_rows ? size : 0;
}

RP_INLINE int32_t rp_bits(uint64_t word) {
#if defined(__GNUC__)
    return __builtin_popcountll(word);
#else
    int32_t n = 0;
    for (; word; word &= word - 1) n++;
    return n;
#endif
}

RP_INLINE rp_ranks rp_fill_ranks(const rp_query *q, rp_word *words) {
    int64_t n_words = rp_ranks_words(q->n_rows), n_levels = q->n_levels;
    memset(words, 0, (size_t)((n_levels + 1) * n_words) * sizeof *words);
    for (int32_t p = 0; p < q->n_rows; p++)
        words[q->sorted_level[p] * n_words + p / RP_WORD].bits |= (uint64_t)1 << p % RP_WORD;
    for (int64_t level = n_levels - 1; level >= 0; level--) {
        rp_word *word = words + level * n_words;
        int32_t before = 0;
        for (int64_t w = 0; w < n_words; w++) {
            word[w].bits |= word[w + n_words].bits;
            word[w].before = before;
            before += rp_bits(word[w].bits);
        }
        for (int64_t w = 0; w < n_words; w++) word[w].total = before;
    }
    return (rp_ranks){words, (int32_t)n_words, q->n_rows};
}

RP_INLINE const rp_word *rp_word_of(const rp_ranks *ranks, int32_t level, int32_t position) {
    return ranks->words + (int64_t)level * ranks->n_words + (uint32_t)position / RP_WORD;
}

RP_INLINE uint64_t rp_first_bits(int32_t position) {
    return ((uint64_t)1 << (uint32_t)position % RP_WORD) - 1;
}

/* How many of the first `end` positions have at least this level. */
RP_INLINE int32_t rp_higher_before(const rp_ranks *ranks, int32_t level, int32_t end) {
    const rp_word *word = rp_word_of(ranks, level, end);
    return word->before + rp_bits(word->bits & rp_first_bits(end));
}

/* How many of the positions of the query from `begin` on have a lower level. */
RP_INLINE int32_t rp_lower_from(const rp_ranks *ranks, int32_t level, int32_t begin) {
    const rp_word *word = rp_word_of(ranks, level, begin);
    return ranks->n_rows - begin
        - (word->total - word->before - rp_bits(word->bits & rp_first_bits(begin)));
}

#endif
