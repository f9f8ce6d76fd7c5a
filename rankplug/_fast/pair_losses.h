/* Losses of a query's active pairs and their derivatives by its scores, in O(rows) beyond two
 * sums at most. The slack of a pair is margin - (s[i] - s[j]). */
#ifndef RANKPLUG_PAIR_LOSSES_H
#define RANKPLUG_PAIR_LOSSES_H

#include "laplacian.h"

/* Only differences of scores matter: scores near zero lose fewer digits. */
RP_INLINE double rp_centre(const rp_query *q, const double *score) {
    return score[q->order[q->n_rows / 2]];
}

/* Weighted sum over active pairs of slack^2, or band (2 slack - band) if they are straight, and
 * half its derivative by s. */
RP_INLINE double rp_squared_hinge(const rp_query *q, const double *score, double margin,
                                  double band, const rp_workspace *space, double *coefficient) {
    int32_t n = q->n_rows;
    double loss = 0.0, centre = rp_centre(q, score);
    for (int32_t p = 0; p < n; p++) space->value[p] = score[q->order[p]] - centre;
    rp_sums(q, space->value, space->sums, space->above, space->below);
    for (int32_t p = 0; p < n; p++) {
        double s = space->value[p];
        double laplacian = q->count[p] * s - (space->above[p] + space->below[p]);
        double push = margin * q->difference[p];
        loss += s * (laplacian - 2.0 * push) + 0.5 * margin * margin * q->count[p];
        coefficient[q->order[p]] = q->weight * (laplacian - push);
    }
    if (!q->straight_end) return q->weight * loss;
    for (int32_t p = 0; p < n; p++) {
        double push = band * q->straight_difference[p];
        loss += band * (margin - 0.5 * band) * q->straight_count[p] - 2.0 * push * space->value[p];
        coefficient[q->order[p]] -= q->weight * push;
    }
    return q->weight * loss;
}

/* Weighted sum over active pairs of the slack, and its derivative by s. */
RP_INLINE double rp_hinge(const rp_query *q, const double *score, double margin,
                          double *coefficient) {
    double loss = 0.0, centre = rp_centre(q, score);
    for (int32_t p = 0; p < q->n_rows; p++) {
        double s = score[q->order[p]] - centre;
        double count = q->count[p], difference = q->difference[p];
        if (q->straight_end) {
            count += q->straight_count[p];
            difference += q->straight_difference[p];
        }
        loss += 0.5 * margin * count - difference * s;
        coefficient[q->order[p]] = -q->weight * difference;
    }
    return q->weight * loss;
}

/* Weighted sum over active pairs of the slack, or of the band if they are straight. */
RP_INLINE double rp_clipped_slack(const rp_query *q, const double *score, double margin,
                                  double band) {
    double sum = 0.0, centre = rp_centre(q, score);
    for (int32_t p = 0; p < q->n_rows; p++) {
        double s = score[q->order[p]] - centre;
        sum += 0.5 * margin * q->count[p] - q->difference[p] * s;
        if (q->straight_end) sum += 0.5 * band * q->straight_count[p];
    }
    return q->weight * sum;
}

#endif
