/* Products of a few weight vectors with one row of dense features. */
#ifndef RANKPLUG_ROWS_H
#define RANKPLUG_ROWS_H

#include <stdint.h>

#include "clones.h"

#define RP_PARTIAL 8                /* partial sums of a dot product */

RP_INLINE double rp_dot(const double *restrict w, const double *restrict x, int64_t d) {
    double sums[RP_PARTIAL] = {0.0}, sum = 0.0;
    int64_t j = 0;
    for (; j + RP_PARTIAL <= d; j += RP_PARTIAL)
        for (int r = 0; r < RP_PARTIAL; r++) sums[r] += w[j + r] * x[j + r];
    for (; j < d; j++) sum += w[j] * x[j];
    for (int r = 0; r < RP_PARTIAL; r++) sum += sums[r];
    return sum;
}

/* score[r] = W[r] . x */
RP_WIDE_CLONES static void rp_row_scores(const double *W, int64_t k, int64_t d, const double *x,
                                    double *score) {
    for (int64_t r = 0; r < k; r++) score[r] = rp_dot(W + r * d, x, d);
}

/* W[r] += step[r] x, for the steps that are not 0 */
RP_WIDE_CLONES static void rp_add_row(double *W, int64_t k, int64_t d, const double *restrict x,
                                 const double *step) {
    for (int64_t r = 0; r < k; r++) {
        double size = step[r], *restrict w = W + r * d;
        if (size == 0.0) continue;
        for (int64_t j = 0; j < d; j++) w[j] += size * x[j];
    }
}

/* |x - z|^2 */
RP_INLINE double rp_squared_distance(const double *restrict x, const double *restrict z,
                                     int64_t d) {
    double sums[RP_PARTIAL] = {0.0}, sum = 0.0;
    int64_t j = 0;
    for (; j + RP_PARTIAL <= d; j += RP_PARTIAL)
        for (int r = 0; r < RP_PARTIAL; r++)
            sums[r] += (x[j + r] - z[j + r]) * (x[j + r] - z[j + r]);
    for (; j < d; j++) sum += (x[j] - z[j]) * (x[j] - z[j]);
    for (int r = 0; r < RP_PARTIAL; r++) sum += sums[r];
    return sum;
}

#endif
