/* Pairs that count differently: the pair (i, j) of a query counts
 *
 *     c_ij = winner[i] loser[j] (height[i] - height[j])       i the more relevant,
 *
 * where each of the three may be left out. That is of rank two at most, and never negative if the
 * weights are not, as heights are those of levels and ascend with them. So sums over the partners
 * of a row are those of pairs.h with other values:
 *
 *     above[p] = loser[p]  sum of winner[t] (height[t] - height[p]) value[t]
 *     below[p] = winner[p] sum of loser[t]  (height[p] - height[t]) value[t]
 *
 * over the same t. Few levels take two prefix sums in the place of one, and every number in them is
 * a sum of what counts: nothing cancels, however far the weights lie apart. Only sums of values, of
 * which there is no sign, take one where both sides have the same weights and no heights. */
#ifndef RANKPLUG_WEIGHTED_H
#define RANKPLUG_WEIGHTED_H

#include "laplacian.h"

/* What a value of one level counts beside a row of another one. */
RP_INLINE double rp_step(const double *height, int32_t high, int32_t low) {
    return height ? height[high] - height[low] : 1.0;
}

/* How many lanes: one for each level but the highest or, for `down`, the lowest; 0 for a tree. */
RP_INLINE int rp_weighted_lane_count(int64_t n_levels) {
    if (n_levels <= 5) return 4;
    if (n_levels <= 9) return 8;
    return rp_lanes(n_levels);
}

/* Entry r of `steps` at a level: what it is above level r, 0 if it is not. With `down`, what it is
 * below level r + 1. */
RP_INLINE void rp_fill_steps(const rp_query *q, double *restrict steps, int lanes, int down) {
    for (int32_t level = 0; level < q->n_levels; level++)
        for (int32_t r = 0; r < lanes; r++) {
            int32_t high = down ? r + 1 : level, low = down ? level : r;
            int counts = high > low && high < q->n_levels;
            steps[level * lanes + r] = counts ? rp_step(q->weights.height, high, low) : 0.0;
        }
}

/* Lane r of sums[t] holds the sum of the first t values by their steps above level r; with `down`,
 * of the values from t on by their steps below level r + 1. */
RP_INLINE void rp_fill_weighted(const rp_query *q, const double *restrict value,
                                double *restrict sums, int lanes, int down) {
    double steps[RP_MOST_LANES * RP_MOST_LANES], total[RP_MOST_LANES] = {0.0};
    int32_t n = q->n_rows;
    rp_fill_steps(q, steps, lanes, down);
    for (int32_t i = 0; i < n; i++) {
        int32_t t = down ? n - 1 - i : i;
        const double *restrict step = steps + (int64_t)q->sorted_level[t] * lanes;
        double *restrict sum = sums + (int64_t)(down ? t + 1 : t) * lanes, x = value[t];
#pragma omp simd
        for (int r = 0; r < lanes; r++) {
            sum[r] = total[r];
            total[r] += step[r] * x;
        }
    }
    for (int r = 0; r < lanes; r++) sums[(int64_t)(down ? 0 : n) * lanes + r] = total[r];
}

/* The sums at the ends of the windows, without those at the ends of the straight ones. */
RP_INLINE void rp_read_weighted(const rp_query *q, const double *restrict sums,
                                const int32_t *window, const int32_t *straight,
                                double *restrict out, int lanes, int down) {
    int32_t n_lanes = q->n_levels - 1;
    for (int32_t p = 0; p < q->n_rows; p++) {
        int32_t lane = q->sorted_level[p] - down, none = lane < 0 || lane >= n_lanes;
        double sum = sums[(int64_t)window[p] * lanes + (none ? 0 : lane)];
        if (straight) sum -= sums[(int64_t)straight[p] * lanes + (none ? 0 : lane)];
        out[p] = none ? 0.0 : sum;
    }
}

RP_INLINE void rp_weighted_lanes(const rp_query *q, const double *value, double *sums, double *out,
                                 int lanes, int down) {
    rp_fill_weighted(q, value, sums, lanes, down);
    if (down) rp_read_weighted(q, sums, q->begin, q->straight_begin, out, lanes, 1);
    else rp_read_weighted(q, sums, q->end, q->straight_end, out, lanes, 0);
}

/* The same by trees, one of values and one of values times their heights. */
RP_INLINE void rp_weighted_tree(const rp_query *q, double *value, const rp_workspace *space,
                                double *restrict out, int down) {
    const double *height = q->weights.height;
    if (down) rp_below_tree(q, value, space->sums, out);
    else rp_above_tree(q, value, space->sums, out);
    if (!height) return;
    for (int32_t p = 0; p < q->n_rows; p++) {
        value[p] *= height[q->sorted_level[p]];
        out[p] *= height[q->sorted_level[p]];
    }
    if (down) rp_below_tree(q, value, space->sums, space->other);
    else rp_above_tree(q, value, space->sums, space->other);
    for (int32_t p = 0; p < q->n_rows; p++)
        out[p] = down ? out[p] - space->other[p] : space->other[p] - out[p];
}

/* One of both sums: values times the weights of partners, and sums times those of rows. */
RP_INLINE void rp_weighted_side(const rp_query *q, const double *value, const double *of_partner,
                                const double *of_row, const rp_workspace *space,
                                double *restrict out, int down) {
    double *restrict weighted = space->weighted;
    int lanes = rp_weighted_lane_count(q->n_levels);
    for (int32_t p = 0; p < q->n_rows; p++)
        weighted[p] = of_partner ? of_partner[p] * value[p] : value[p];
    if (lanes == 4) rp_weighted_lanes(q, weighted, space->sums, out, 4, down);
    else if (lanes == 8) rp_weighted_lanes(q, weighted, space->sums, out, 8, down);
    else if (lanes == 16) rp_weighted_lanes(q, weighted, space->sums, out, 16, down);
    else rp_weighted_tree(q, weighted, space, out, down);
    if (!of_row) return;
    for (int32_t p = 0; p < q->n_rows; p++) out[p] *= of_row[p];
}

RP_CLONES static void rp_weighted_sums(const rp_query *q, const double *value,
                                       const rp_workspace *space, double *above, double *below) {
    const rp_weights *w = &q->weights;
    rp_weighted_side(q, value, w->sorted_winner, w->sorted_loser, space, above, 0);
    rp_weighted_side(q, value, w->sorted_loser, w->sorted_winner, space, below, 1);
}

/* The same of values that have no sign, which may cancel. */
RP_INLINE void rp_weighted_value_sums(const rp_query *q, const double *value,
                                      const rp_workspace *space, double *restrict above,
                                      double *restrict below) {
    const double *restrict own = q->weights.sorted_winner;
    if (!own || own != q->weights.sorted_loser || q->weights.height || !rp_lanes(q->n_levels)) {
        rp_weighted_sums(q, value, space, above, below);
        return;
    }
    double *restrict weighted = space->weighted;
    for (int32_t p = 0; p < q->n_rows; p++) weighted[p] = own[p] * value[p];
    rp_sums(q, weighted, space->sums, above, below);
    for (int32_t p = 0; p < q->n_rows; p++) {
        above[p] *= own[p];
        below[p] *= own[p];
    }
}

/* What the pairs of every row within the query's windows count. */
RP_INLINE void rp_weighted_count(const rp_query *q, const rp_workspace *space,
                                 double *restrict count, double *restrict difference) {
    for (int32_t p = 0; p < q->n_rows; p++) space->value[p] = 1.0;
    rp_weighted_sums(q, space->value, space, space->above, space->below);
    for (int32_t p = 0; p < q->n_rows; p++) {
        /* Trees subtract, and may leave less than nothing. */
        double above = space->above[p] > 0.0 ? space->above[p] : 0.0;
        double below = space->below[p] > 0.0 ? space->below[p] : 0.0;
        count[p] = below + above;
        difference[p] = below - above;
    }
}

/* The weights of the rows in the order of their scores. */
RP_INLINE void rp_sort_weights(const rp_query *q) {
    const rp_weights *w = &q->weights;
    for (int32_t p = 0; w->winner && p < q->n_rows; p++)
        w->sorted_winner[p] = w->winner[q->order[p]];
    if (w->sorted_loser == w->sorted_winner) return;
    for (int32_t p = 0; w->loser && p < q->n_rows; p++) w->sorted_loser[p] = w->loser[q->order[p]];
}

RP_CLONES static void rp_weighted_laplacian(const rp_pairs *pairs, int64_t i, const double *z,
                                            double *out) {
    const rp_workspace *space = &pairs->space;
    rp_query query = rp_weighted_query_at(pairs, i), *q = &query;
    int32_t n = q->n_rows;
    for (int32_t p = 0; p < n; p++) space->value[p] = z[q->order[p]];
    rp_weighted_value_sums(q, space->value, space, space->above, space->below);
    for (int32_t p = 0; p < n; p++)
        out[q->order[p]] = q->weight
            * (q->weights.count[p] * space->value[p] - (space->above[p] + space->below[p]));
}

/* out = weight * sum over curved pairs (i, j) of c_ij (z_i - z_j) (e_i - e_j), for query i, which
 * is q: nobody else learns of the address of q, so that it stays in registers. */
RP_INLINE void rp_any_laplacian(const rp_pairs *pairs, int64_t i, const rp_query *q,
                                const double *z, double *out) {
    if (pairs->weights.count) rp_weighted_laplacian(pairs, i, z, out);
    else rp_laplacian(q, z, &pairs->space, out);
}

#endif
