/* Active pairs of linear rankSVMs, counted by each of the structures of Lee and Lin (2014).

   For row i of a query, with levels of relevance y and scores s, over the rows j of the query:

     above: y_j > y_i and s_j - s_i < 1        below: y_j < y_i and s_i - s_j < 1

   How many there are, and the sum of their z. Section numbers are those of the paper. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum structure { DIRECT, PRSVM, SELECTION, RED_BLACK, AVL, AA, RED_BLACK_OF_SCORES };

typedef struct {
    double count, sum;
} total;

/* One query: rows by ascending score, by ascending level, and where the answers go. */
typedef struct {
    int32_t n, n_levels;
    const int32_t *level, *by_score, *by_level;
    const double *score, *z;
    total *above, *below;
} query;

static void add(total *to, double count, double sum)
{
    to->count += count;
    to->sum += sum;
}

/* ---- Balanced binary search trees (2.3, 2.5): equal keys share a node. ---- */

enum { DEEPEST = 128 };

typedef struct {
    double key;
    total own, all; /* of the node, of its subtree */
    int32_t child[2];
    int32_t rank; /* AVL: height; AA: level; red-black: 1 if red */
} node;

typedef struct {
    enum structure kind;
    node *nodes; /* the first is no node, with totals of 0 */
    int32_t n_nodes, root;
} tree;

/* What a question is about: the keys on one side of a bound. */
typedef enum { GREATER, LESS, BELOW_NEXT, ABOVE_LAST } side;

static int is_inside(side which, double key, double x)
{
    switch (which) {
    case GREATER: return key > x;
    case LESS: return key < x;
    case BELOW_NEXT: return key - x < 1.0;
    default: return x - key < 1.0;
    }
}

static total tree_total(const tree *t, side which, double x)
{
    int end = which == GREATER || which == ABOVE_LAST; /* 1 if the keys asked for lie right */
    total found = {0.0, 0.0};
    int32_t at = t->root;
    while (at) {
        const node *n = &t->nodes[at];
        if (is_inside(which, n->key, x)) {
            const node *rest = &t->nodes[n->child[!end]];
            add(&found, n->all.count - rest->all.count, n->own.sum + t->nodes[n->child[end]].all.sum);
            at = n->child[!end];
        } else {
            at = n->child[end];
        }
    }
    return found;
}

static void sum_up(tree *t, int32_t at)
{
    node *n = &t->nodes[at], *left = &t->nodes[n->child[0]], *right = &t->nodes[n->child[1]];
    n->all.count = n->own.count + left->all.count + right->all.count;
    n->all.sum = n->own.sum + left->all.sum + right->all.sum;
}

/* Put the child on that side in the place of its parent, which is `*link`. */
static void rotate(tree *t, int32_t *link, int from)
{
    int32_t down = *link, up = t->nodes[down].child[from];
    t->nodes[down].child[from] = t->nodes[up].child[!from];
    t->nodes[up].child[!from] = down;
    *link = up;
    sum_up(t, down);
    sum_up(t, up);
}

static int32_t height(const tree *t, int32_t at)
{
    return at ? t->nodes[at].rank : 0;
}

static void set_height(tree *t, int32_t at)
{
    int32_t left = height(t, t->nodes[at].child[0]), right = height(t, t->nodes[at].child[1]);
    t->nodes[at].rank = 1 + (left > right ? left : right);
}

static void rebalance_avl(tree *t, int32_t **link, int depth)
{
    for (int d = depth - 1; d >= 0; d--) {
        int32_t at = *link[d], before = t->nodes[at].rank;
        int32_t *child = t->nodes[at].child;
        int32_t lean = height(t, child[1]) - height(t, child[0]);
        if (lean > 1 || lean < -1) {
            int heavy = lean > 1;
            int32_t *grand = t->nodes[child[heavy]].child;
            if (height(t, grand[!heavy]) > height(t, grand[heavy])) {
                int32_t lower = child[heavy];
                rotate(t, &child[heavy], !heavy);
                set_height(t, lower);
            }
            rotate(t, link[d], heavy);
            set_height(t, at);
            at = *link[d];
        }
        set_height(t, at);
        if (t->nodes[at].rank == before)
            return;
    }
}

static void rebalance_aa(tree *t, int32_t **link, int depth)
{
    node *nodes = t->nodes;
    for (int d = depth - 1; d >= 0; d--) {
        int32_t at = *link[d], left = nodes[at].child[0];
        if (left && nodes[left].rank == nodes[at].rank) /* skew */
            rotate(t, link[d], 0);
        at = *link[d];
        int32_t right = nodes[at].child[1], outer = right ? nodes[right].child[1] : 0;
        if (outer && nodes[outer].rank == nodes[at].rank) { /* split */
            rotate(t, link[d], 1);
            nodes[*link[d]].rank++;
        }
    }
}

static void rebalance_red_black(tree *t, int32_t **link, int depth)
{
    node *nodes = t->nodes;
    int d = depth;
    while (d >= 2 && nodes[*link[d - 1]].rank) {
        int32_t parent = *link[d - 1], grand = *link[d - 2];
        int from = nodes[grand].child[1] == parent;
        int32_t uncle = nodes[grand].child[!from];
        nodes[grand].rank = 1;
        if (uncle && nodes[uncle].rank) {
            nodes[parent].rank = nodes[uncle].rank = 0;
            d -= 2;
            continue;
        }
        if (nodes[parent].child[from] != *link[d])
            rotate(t, link[d - 1], !from);
        rotate(t, link[d - 2], from);
        nodes[*link[d - 2]].rank = 0;
        break;
    }
    nodes[t->root].rank = 0;
}

static void tree_insert(tree *t, double key, double z)
{
    int32_t *link[DEEPEST];
    int depth = 0;
    link[0] = &t->root;
    while (*link[depth]) {
        node *n = &t->nodes[*link[depth]];
        add(&n->all, 1.0, z);
        if (n->key == key) {
            add(&n->own, 1.0, z);
            return;
        }
        depth++;
        link[depth] = &n->child[key > n->key];
    }
    *link[depth] = ++t->n_nodes;
    t->nodes[t->n_nodes] = (node){key, {1.0, z}, {1.0, z}, {0, 0}, 1};
    if (t->kind == AVL)
        rebalance_avl(t, link, depth);
    else if (t->kind == AA)
        rebalance_aa(t, link, depth);
    else
        rebalance_red_black(t, link, depth);
}

/* ---- What holds the rows of a window by level: totals a level, or trees over the levels. ---- */

typedef struct {
    tree balanced;
    total *totals; /* direct: of levels; selection tree (2.4): children of m are 2m and 2m + 1 */
    int32_t n_levels, n_leaves;
} store;

static void clear(store *s, enum structure kind, int32_t n_levels)
{
    s->n_levels = n_levels;
    for (s->n_leaves = 1; s->n_leaves < n_levels; s->n_leaves *= 2)
        ;
    if (kind == DIRECT || kind == SELECTION)
        memset(s->totals, 0, 2 * (size_t) s->n_leaves * sizeof(total));
    s->balanced.kind = kind;
    s->balanced.n_nodes = s->balanced.root = 0;
}

static void insert(store *s, int32_t level, double z)
{
    switch (s->balanced.kind) {
    case DIRECT:
        add(&s->totals[level], 1.0, z);
        break;
    case SELECTION:
        for (int32_t m = s->n_leaves + level; m; m /= 2)
            add(&s->totals[m], 1.0, z);
        break;
    default:
        tree_insert(&s->balanced, level, z);
    }
}

static total ask(const store *s, side which, int32_t level)
{
    total found = {0.0, 0.0};
    switch (s->balanced.kind) {
    case DIRECT: {
        int32_t first = which == GREATER ? level + 1 : 0;
        int32_t end = which == GREATER ? s->n_levels : level;
        for (int32_t y = first; y < end; y++)
            add(&found, s->totals[y].count, s->totals[y].sum);
        return found;
    }
    case SELECTION: {
        int odd = which == LESS; /* the sibling counts if it lies on that side */
        for (int32_t m = s->n_leaves + level; m > 1; m /= 2)
            if ((m & 1) == odd)
                add(&found, s->totals[m ^ 1].count, s->totals[m ^ 1].sum);
        return found;
    }
    default:
        return tree_total(&s->balanced, which, level);
    }
}

/* Algorithm 2, whose second loop runs from l down to 1. */
static void count_by_level(const query *q, store *s, enum structure kind)
{
    const double *score = q->score;
    int32_t j = 0;
    clear(s, kind, q->n_levels);
    for (int32_t p = 0; p < q->n; p++) {
        int32_t i = q->by_score[p];
        for (; j < q->n && score[q->by_score[j]] - score[i] < 1.0; j++)
            insert(s, q->level[q->by_score[j]], q->z[q->by_score[j]]);
        q->above[i] = ask(s, GREATER, q->level[i]);
    }
    j = q->n - 1;
    clear(s, kind, q->n_levels);
    for (int32_t p = q->n - 1; p >= 0; p--) {
        int32_t i = q->by_score[p];
        for (; j >= 0 && score[i] - score[q->by_score[j]] < 1.0; j--)
            insert(s, q->level[q->by_score[j]], q->z[q->by_score[j]]);
        q->below[i] = ask(s, LESS, q->level[i]);
    }
}

/* The other way round (2.3, end): rows by level, a tree of scores. */
static void count_by_score(const query *q, tree *t)
{
    int32_t begin, end;
    t->kind = RED_BLACK;
    t->n_nodes = t->root = 0;
    for (end = q->n; end > 0; end = begin) {
        int32_t y = q->level[q->by_level[end - 1]];
        for (begin = end; begin > 0 && q->level[q->by_level[begin - 1]] == y; begin--)
            q->above[q->by_level[begin - 1]] =
                tree_total(t, BELOW_NEXT, q->score[q->by_level[begin - 1]]);
        for (int32_t p = begin; p < end; p++)
            tree_insert(t, q->score[q->by_level[p]], q->z[q->by_level[p]]);
    }
    t->n_nodes = t->root = 0;
    for (begin = 0; begin < q->n; begin = end) {
        int32_t y = q->level[q->by_level[begin]];
        for (end = begin; end < q->n && q->level[q->by_level[end]] == y; end++)
            q->below[q->by_level[end]] = tree_total(t, ABOVE_LAST, q->score[q->by_level[end]]);
        for (int32_t p = begin; p < end; p++)
            tree_insert(t, q->score[q->by_level[p]], q->z[q->by_level[p]]);
    }
}

/* Chapelle and Keerthi's PRSVM+ (3.1): each level against all that are above it. */
typedef struct {
    double score, z;
    int32_t level, row;
} entry;

static void count_by_two_levels(const query *q, entry *e)
{
    int32_t n = q->n;
    memset(q->below, 0, (size_t) n * sizeof(total));
    for (int32_t p = 0; p < n; p++) {
        int32_t i = q->by_score[p];
        e[p] = (entry){q->score[i], q->z[i], q->level[i], i};
        q->above[i] = (total){0.0, 0.0};
    }
    for (int32_t y = 0; y + 1 < q->n_levels; y++) {
        total high = {0.0, 0.0}, low = {0.0, 0.0};
        for (int32_t p = 0, j = 0; p < n; p++) {
            if (e[p].level != y)
                continue;
            for (; j < n && e[j].score - e[p].score < 1.0; j++)
                if (e[j].level > y)
                    add(&high, 1.0, e[j].z);
            q->above[e[p].row] = high;
        }
        for (int32_t p = n - 1, j = n - 1; p >= 0; p--) {
            if (e[p].level == y)
                continue;
            for (; j >= 0 && e[p].score - e[j].score < 1.0; j--)
                if (e[j].level == y)
                    add(&low, 1.0, e[j].z);
            add(&q->below[e[p].row], low.count, low.sum);
        }
        int32_t kept = 0;
        for (int32_t p = 0; p < n; p++)
            if (e[p].level > y)
                e[kept++] = e[p];
        n = kept;
    }
}

/* Rows are counted from the first one of their query; 0, or 1 if there is no memory. */
int count_pairs(int structure, int64_t n_queries, const int64_t *query_ptr, const int32_t *n_levels,
                const int32_t *level, const int32_t *by_score, const int32_t *by_level,
                const double *score, const double *z, total *above, total *below)
{
    int64_t largest = 1;
    for (int64_t i = 0; i < n_queries; i++)
        if (query_ptr[i + 1] - query_ptr[i] > largest)
            largest = query_ptr[i + 1] - query_ptr[i];
    store s = {.balanced = {.nodes = calloc((size_t) largest + 1, sizeof(node))},
               .totals = malloc(4 * (size_t) largest * sizeof(total))};
    entry *entries = malloc((size_t) largest * sizeof(entry));
    int failed = !s.balanced.nodes || !s.totals || !entries;
    for (int64_t i = 0; i < n_queries && !failed; i++) {
        int64_t b = query_ptr[i];
        query q = {(int32_t) (query_ptr[i + 1] - b), n_levels[i], level + b, by_score + b,
                   by_level + b, score + b, z + b, above + b, below + b};
        if (structure == PRSVM)
            count_by_two_levels(&q, entries);
        else if (structure == RED_BLACK_OF_SCORES)
            count_by_score(&q, &s.balanced);
        else
            count_by_level(&q, &s, structure);
    }
    free(s.balanced.nodes);
    free(s.totals);
    free(entries);
    return failed;
}
