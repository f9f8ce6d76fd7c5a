/* Losses of a query's active pairs and their derivatives by its scores, in O(rows) beyond two
 * sums at most. The slack of a pair is margin - (s[i] - s[j]).
 *
 * Each is written once for pairs that count alike and pairs that are `weighted`, a constant for the
 * compiler. */
#ifndef RANKPLUG_PAIR_LOSSES_H
#define RANKPLUG_PAIR_LOSSES_H

#include "weighted.h"

#define RP_COUNT(q, name, p) (weighted ? (q)->weights.name[p] : (double)(q)->name[p])

/* Add one of both, as the query has it; by statements, as the compiler rounds sums otherwise. */
#define RP_ADD_EITHER(total, q, function, ...)                                                    \
    do {                                                                                          \
        if ((q)->weights.count) total += function((q), __VA_ARGS__, 1);                           \
        else total += function((q), __VA_ARGS__, 0);                                              \
    } while (0)

/* Only differences of scores matter: scores near zero lose fewer digits. */
RP_INLINE double rp_centre(const rp_query *q, const double *score) {
    return score[q->order[q->n_rows / 2]];
}

/* Weighted sum over active pairs of slack^2, or band (2 slack - band) if they are straight, and
 * half its derivative by s. */
RP_INLINE double rp_squared_hinge_of(const rp_query *q, const double *score, double margin,
                                     double band, const rp_workspace *space, double *coefficient,
                                     int weighted) {
    int32_t n = q->n_rows;
    double loss = 0.0, centre = rp_centre(q, score);
    for (int32_t p = 0; p < n; p++) space->value[p] = score[q->order[p]] - centre;
    if (weighted) rp_weighted_value_sums(q, space->value, space, space->above, space->below);
    else rp_sums(q, space->value, space->sums, space->above, space->below);
    for (int32_t p = 0; p < n; p++) {
        double s = space->value[p];
        double count = RP_COUNT(q, count, p);
        double laplacian = count * s - (space->above[p] + space->below[p]);
        double push = margin * RP_COUNT(q, difference, p);
        loss += s * (laplacian - 2.0 * push) + 0.5 * margin * margin * count;
        coefficient[q->order[p]] = q->weight * (laplacian - push);
    }
    if (!q->straight_end) return q->weight * loss;
    for (int32_t p = 0; p < n; p++) {
        double push = band * RP_COUNT(q, straight_difference, p);
        loss += band * (margin - 0.5 * band) * RP_COUNT(q, straight_count, p)
            - 2.0 * push * space->value[p];
        coefficient[q->order[p]] -= q->weight * push;
    }
    return q->weight * loss;
}

/* Weighted sum over active pairs of the slack, and its derivative by s. */
RP_INLINE double rp_hinge_of(const rp_query *q, const double *score, double margin,
                             double *coefficient, int weighted) {
    double loss = 0.0, centre = rp_centre(q, score);
    for (int32_t p = 0; p < q->n_rows; p++) {
        double s = score[q->order[p]] - centre;
        double count = RP_COUNT(q, count, p), difference = RP_COUNT(q, difference, p);
        if (q->straight_end) {
            count += RP_COUNT(q, straight_count, p);
            difference += RP_COUNT(q, straight_difference, p);
        }
        loss += 0.5 * margin * count - difference * s;
        coefficient[q->order[p]] = -q->weight * difference;
    }
    return q->weight * loss;
}

/* Weighted sum over active pairs of the slack, or of the band if they are straight. */
RP_INLINE double rp_clipped_slack_of(const rp_query *q, const double *score, double margin,
                                     double band, int weighted) {
    double sum = 0.0, centre = rp_centre(q, score);
    for (int32_t p = 0; p < q->n_rows; p++) {
        double s = score[q->order[p]] - centre;
        sum += 0.5 * margin * RP_COUNT(q, count, p) - RP_COUNT(q, difference, p) * s;
        if (q->straight_end) sum += 0.5 * band * RP_COUNT(q, straight_count, p);
    }
    return q->weight * sum;
}

#endif
