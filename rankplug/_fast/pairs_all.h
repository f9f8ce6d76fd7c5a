/* What active.h, laplacian.h and pair_losses.h do to one query, done to all queries of a shard. A
 * query of one level has no pair and is passed over. */
#ifndef RANKPLUG_PAIRS_ALL_H
#define RANKPLUG_PAIRS_ALL_H

#include "active.h"
#include "laplacian.h"
#include "levels.h"
#include "pair_losses.h"
#include "weighted.h"

RP_CLONES static void rp_activate_all(const rp_pairs *pairs, const double *score) {
    for (int64_t i = 0; i < pairs->n_queries; i++) {
        rp_query q = rp_weighted_query_at(pairs, i);
        if (q.n_levels > 1)
            rp_activate(&q, score + pairs->query_ptr[i], pairs->margin, pairs->band,
                        &pairs->space);
    }
}

/* out = L z for the rows of some queries. */
RP_CLONES static void rp_laplacian_all(const rp_pairs *pairs, int64_t begin, int64_t end,
                                       const double *z, double *out) {
    for (int64_t i = begin; i < end; i++) {
        rp_query q = rp_query_at(pairs, i);
        int64_t b = pairs->query_ptr[i];
        if (q.n_levels > 1) rp_any_laplacian(pairs, i, &q, z + b, out + b);
        else memset(out + b, 0, (size_t)q.n_rows * sizeof *out);
    }
}

RP_CLONES static double rp_squared_hinge_all(const rp_pairs *pairs, const double *score,
                                             double *coefficient) {
    double loss = 0.0;
    for (int64_t i = 0; i < pairs->n_queries; i++) {
        rp_query q = rp_weighted_query_at(pairs, i);
        int64_t b = pairs->query_ptr[i];
        if (q.n_levels > 1)
            RP_ADD_EITHER(loss, &q, rp_squared_hinge_of, score + b, pairs->margin, pairs->band,
                              &pairs->space, coefficient + b);
        else memset(coefficient + b, 0, (size_t)q.n_rows * sizeof *coefficient);
    }
    return loss;
}

RP_CLONES static double rp_hinge_all(const rp_pairs *pairs, const double *score,
                                     double *coefficient) {
    double loss = 0.0;
    for (int64_t i = 0; i < pairs->n_queries; i++) {
        rp_query q = rp_weighted_query_at(pairs, i);
        int64_t b = pairs->query_ptr[i];
        if (q.n_levels > 1)
            RP_ADD_EITHER(loss, &q, rp_hinge_of, score + b, pairs->margin, coefficient + b);
        else memset(coefficient + b, 0, (size_t)q.n_rows * sizeof *coefficient);
    }
    return loss;
}

RP_CLONES static double rp_clipped_slack_all(const rp_pairs *pairs, const double *score) {
    double sum = 0.0;
    for (int64_t i = 0; i < pairs->n_queries; i++) {
        rp_query q = rp_weighted_query_at(pairs, i);
        if (q.n_levels > 1)
            RP_ADD_EITHER(sum, &q, rp_clipped_slack_of, score + pairs->query_ptr[i], pairs->margin,
                             pairs->band);
    }
    return sum;
}

#endif
