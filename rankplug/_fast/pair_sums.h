/* The sums above and below every position of a query that has many levels, see pairs.h.
 *
 * Included by laplacian.h for doubles and by active.h for whole numbers that count rows, with SUM
 * the type of the sums, VALUE(t) the value at position t, and NAME(x) the name of x for that
 * type. */

/* ---- a 16-ary tree of exclusive prefix sums ------------------------------------------------- */

/* Entry c of a node holds the sum of its children before c. */
RP_INLINE void NAME(rp_tree_add)(const rp_tree *tree, SUM *restrict sums, int32_t level, SUM x) {
    for (int h = 0; h < tree->height; h++) {
        SUM *restrict node = sums + tree->offset[h] + (level & ~(RP_FAN - 1));
        int child = level & (RP_FAN - 1);
#pragma omp simd
        for (int c = 0; c < RP_FAN; c++) node[c] += c > child ? x : 0;
        level /= RP_FAN;
    }
}

/* Sum of everything added below `level`. */
RP_INLINE SUM NAME(rp_tree_before)(const rp_tree *tree, const SUM *restrict sums, int32_t level) {
    SUM total = 0;
    for (int h = 0; h < tree->height; h++) {
        total += sums[tree->offset[h] + level];
        level /= RP_FAN;
    }
    return total;
}

/* The leaf of a random level is seldom in cache, and known long before it is needed. */
RP_INLINE void NAME(rp_tree_fetch)(const SUM *sums, int32_t level) {
    const char *node = (const char *)(sums + (level & ~(RP_FAN - 1)));
    for (size_t line = 0; line < RP_FAN * sizeof *sums; line += 64) RP_PREFETCH(node + line);
}

RP_INLINE void NAME(rp_above_tree)(const rp_query *q, const double *restrict value,
                                   SUM *restrict sums, SUM *restrict above) {
    rp_tree tree = rp_tree_layout(q->n_levels);
    int32_t n = q->n_rows, t = 0, left = 0, highest = q->n_levels - 1;
    memset(sums, 0, (size_t)tree.size * sizeof *sums);
    /* Levels are turned round, so that "higher" becomes "before". */
    for (int32_t p = 0; p < n; p++) {
        for (; t < q->end[p]; t++) {
            if (t + RP_AHEAD < n)
                NAME(rp_tree_fetch)(sums, highest - q->sorted_level[t + RP_AHEAD]);
            NAME(rp_tree_add)(&tree, sums, highest - q->sorted_level[t], VALUE(t));
        }
        for (; q->straight_end && left < q->straight_end[p]; left++)
            NAME(rp_tree_add)(&tree, sums, highest - q->sorted_level[left], -VALUE(left));
        above[p] = NAME(rp_tree_before)(&tree, sums, highest - q->sorted_level[p]);
    }
}

RP_INLINE void NAME(rp_below_tree)(const rp_query *q, const double *restrict value,
                                   SUM *restrict sums, SUM *restrict below) {
    rp_tree tree = rp_tree_layout(q->n_levels);
    int32_t n = q->n_rows, t = n - 1, left = n - 1;
    memset(sums, 0, (size_t)tree.size * sizeof *sums);
    for (int32_t p = n - 1; p >= 0; p--) {
        for (; t >= q->begin[p]; t--) {
            if (t >= RP_AHEAD) NAME(rp_tree_fetch)(sums, q->sorted_level[t - RP_AHEAD]);
            NAME(rp_tree_add)(&tree, sums, q->sorted_level[t], VALUE(t));
        }
        for (; q->straight_begin && left >= q->straight_begin[p]; left--)
            NAME(rp_tree_add)(&tree, sums, q->sorted_level[left], -VALUE(left));
        below[p] = NAME(rp_tree_before)(&tree, sums, q->sorted_level[p]);
    }
}

/* ---- all pairs: the sums of levels ---------------------------------------------------------- */

/* Where nothing is learned yet, no pair has reached the margin. */
RP_INLINE int NAME(rp_all_active)(const rp_query *q) {
    return !q->straight_end && q->end[0] == q->n_rows && q->begin[q->n_rows - 1] == 0;
}

RP_INLINE void NAME(rp_sums_of_all)(const rp_query *q, const double *restrict value,
                                    SUM *restrict sums, SUM *restrict above, SUM *restrict below) {
    int32_t n = q->n_rows;
    SUM before = 0;
    memset(sums, 0, (size_t)q->n_levels * sizeof *sums);
    for (int32_t t = 0; t < n; t++) sums[q->sorted_level[t]] += VALUE(t);
    for (int32_t p = 0; p < n; p++) above[p] = sums[q->sorted_level[p]];
    for (int32_t level = 0; level < q->n_levels; level++) {
        SUM own = sums[level];
        sums[level] = before;
        before += own;
    }
    for (int32_t p = 0; p < n; p++) {
        below[p] = sums[q->sorted_level[p]];
        above[p] = before - (below[p] + above[p]);
    }
}

/* ---- either of both ------------------------------------------------------------------------ */

RP_INLINE void NAME(rp_sums_by_levels)(const rp_query *q, const double *value, SUM *sums,
                                       SUM *above, SUM *below) {
    if (NAME(rp_all_active)(q)) {
        NAME(rp_sums_of_all)(q, value, sums, above, below);
    } else {
        NAME(rp_above_tree)(q, value, sums, above);
        NAME(rp_below_tree)(q, value, sums, below);
    }
}
