"""Every solver under hostile data and parameters: right, or refused with one clear error."""

import re
import warnings

import numpy as np
import pytest
from attacks import (
    BASE,
    DATA_ATTACKS,
    EITHER,
    NONSENSE,
    NUMBERS,
    PARAMETER_ATTACKS,
    RANDOM_STATES,
    SAME,
    Refused,
    assert_refused,
    available_solvers,
    cheap,
    quietly,
    refusal,
)
from scipy import sparse

from rankplug.data import LabelRankingData, RankingData
from rankplug.kernels import Kernel, default_gamma
from tests.oracles import graph_loss, pair_differences

pytestmark = pytest.mark.usefixtures("no_hang")

VARIANTS = {
    "tree-tron": ({}, {"method": "tron"}, {"preconditioner": "diagonal", "reduction": "mean"}),
    "cutting-plane": (
        {"max_iter": 60},
        {"method": "bmrm", "max_iter": 60},
        {"method": "smoothed-newton", "reduction": "mean", "max_iter": 100},
    ),
    "toppush": (
        {"max_iter": 60},
        {"method": "apg", "max_iter": 30},
        {"scope": "global", "max_iter": 60},
    ),
    "a2dm2": ({"max_iter": 60}, {"variant": "a2dm2-restart", "max_iter": 20}),
    "larank": (
        {"epochs": 12},
        {"schedule": "cyclic", "margin": "graded", "epochs": 12},
        {"kernel": "rbf", "gamma": 0.5, "epochs": 12},
        {"kernel": "poly", "gamma": 0.5, "epochs": 12},
    ),
    "sopopo": (
        {"max_epochs": 12},
        {"decomposition": "all-pairs", "weights": "mean", "max_epochs": 12},
        {"kernel": "rbf", "max_epochs": 12},
        {"kernel": "poly", "gamma": 0.5, "max_epochs": 12},
    ),
    "pointwise": (
        {},
        {"regressor": "linear-svr"},
        {"regressor": "random-forest"},
        {"regressor": "hist-gradient-boosting"},
    ),
    "lightgbm-all-pairs": ({}, {"loss": "logistic"}),
    "lightgbm-lambdarank": ({}, {"objective": "rank_xendcg"}),
    "xgboost-all-pairs": ({}, {"loss": "logistic"}),
    "xgboost-pairwise": ({}, {"objective": "rank:ndcg"}),
}
TARGETS = [
    pytest.param(
        info.name, task, params, id=f"{info.name}-{task[:5]}-{'-'.join(map(str, params.values()))}"
    )
    for info in available_solvers()
    for params in VARIANTS.get(info.name, ({},))
    for task in info.tasks
    # sopopo's kernels are for labels only, which its own tests check
    if not (info.name == "sopopo" and task == "query-document" and "kernel" in params)
]


def solved(solver, inputs):
    """The data, the result and the training scores, all as they must always be."""
    data = inputs.data()
    result = quietly(solver.solve, data, random_state=0)
    scores = quietly(result.model.predict, data.X)
    assert np.isfinite(scores).all()
    for value in (result.objective, result.duality_gap):
        assert value is None or np.isfinite(value), f"objective or gap is {value}"
    for row in result.history:
        assert np.isfinite(list(row.values())).all(), f"the history has the row {row}"
    return data, result, scores


# Every attack and every target is among those that are not long, and all of huge and tiny features.
ATTACKED = [
    pytest.param(
        *target.values,
        attack,
        id=f"{target.id}-{attack}",
        marks=() if (row + column) % 8 == 0 or "X times" in str(attack) else pytest.mark.long,
    )
    for row, target in enumerate(TARGETS)
    for column, attack in enumerate(DATA_ATTACKS)
]


@pytest.mark.parametrize(("name", "task", "params", "attack"), ATTACKED)
def test_data(name, task, params, attack):
    solver, base = cheap(name, **params), BASE[task]()
    changed = attack.change(base)
    if isinstance(attack.outcome, Refused):
        assert_refused(attack.outcome.message, lambda: solver.solve(changed.data()))
        return
    if attack.outcome == SAME and solver.tags.exact:
        check_same(solver, base, changed)
        return
    check_answer(solver, changed, may_refuse=attack.outcome == EITHER or not solver.tags.exact)


def check_same(solver, base, changed):
    """The changed data, solved to the same tolerance, give the scores of the plain ones."""
    data, result, _ = solved(solver, changed)
    plain, expected, scores = solved(solver, base)
    check_optimal(solver, data, result)
    X = plain.X
    if data.n_features > plain.n_features:
        X = np.column_stack((X, np.zeros((len(X), data.n_features - X.shape[1]))))
    found = result.model.predict(X)
    if result.status == expected.status == "converged":
        # Strong convexity: both are within sqrt(2 gap / modulus) of the same minimiser.
        norms = np.sqrt(np.square(plain.X).sum(axis=1).max())
        modulus = getattr(solver, "lam", 1.0)
        gap = max(result.duality_gap or 0, 0) + max(expected.duality_gap or 0, 0)
        if getattr(solver, "kernel", "linear") != "linear":
            norms = np.sqrt(result.model.kernel.diagonal(plain.X).max())
        slack = 2.0 * norms * np.sqrt(2.0 * gap / modulus) + 1e-9 * (1.0 + np.ptp(scores))
        assert np.abs(found - scores).max() <= slack


def check_answer(solver, inputs, *, may_refuse):
    error = refusal(solved, solver, inputs)
    if error is None:
        data, result, _ = solved(solver, inputs)
        if solver.tags.exact:
            check_optimal(solver, data, result)
    else:
        assert may_refuse, str(error)
        assert re.search(NUMBERS, str(error)), f"this says not what to do: {error}"


def check_optimal(solver, data, result):
    """The objective is that of the stated problem, and no point nearby is clearly better.

    "Nearby" is enough as the problems are convex. What is certified is looked at where the
    solver says that it has converged.
    """
    if getattr(solver, "kernel", "linear") != "linear":
        return  # the points nearby are those of a space we cannot list; the gap is checked
    f = stated_objective(solver, data)
    w = np.array(result.model.coef, dtype=np.float64).ravel()
    at_zero = f(0.0 * w)
    # Scores lose digits where features are large; so do squares of what is left of them.
    loss = 1e-9 * max(abs(at_zero), abs(result.objective)) + 1e-300 + _lost_digits(data, w, at_zero)
    assert abs(f(w) - result.objective) <= 1e-6 * abs(result.objective) + loss
    assert result.objective <= at_zero + max(result.duality_gap, 0.0) + loss
    if result.status != "converged":
        return
    if solver.name not in ("tree-tron", "a2dm2"):  # these stop by gradients, and by residuals
        assert result.duality_gap <= 1.01 * solver.tol * abs(result.objective) + loss
    size = float(np.linalg.norm(w)) or 1.0
    rng = np.random.default_rng(5)
    steps = [w, -w, *(size * row for row in rng.normal(size=(6, len(w))) / np.sqrt(len(w)))]
    for step in steps:
        for length in (1e-3, 0.03, 0.5):
            better = result.objective - f(w + length * step)
            assert better <= result.duality_gap + 1e-6 * abs(result.objective) + loss


def _lost_digits(data, w, at_zero):
    """How much a loss may err, as scores are rounded to the digits of their largest product."""
    stored = data.X.data if sparse.issparse(data.X) else data.X
    largest = float(np.abs(stored).max(initial=0.0)) * float(np.abs(w).max(initial=0.0))
    error = 100 * np.finfo(np.float64).eps * largest
    return at_zero * error * (2.0 + error)


def stated_objective(solver, data):
    """The problem in the solver's documentation, item by item, as a function of the weights."""
    X = data.X.toarray() if sparse.issparse(data.X) else np.asarray(data.X)
    X = X.astype(np.longdouble)

    def scores(w):
        if isinstance(data, LabelRankingData):
            return X @ np.reshape(w, (data.n_labels, -1)).astype(np.longdouble).T
        return X @ w.astype(np.longdouble)

    def squared_norm(w):
        return (w.astype(np.longdouble) ** 2).sum()

    def value(w):
        with np.errstate(all="ignore"):
            s = scores(w)
            return float(_half(solver) * squared_norm(w) + _weight(solver) * _loss(solver, data, s))

    return value


def _half(solver):
    return np.longdouble(0.5) * getattr(solver, "lam", 1.0)


def _weight(solver):
    return np.longdouble(getattr(solver, "C", 1.0))


def _groups(data, scores):
    if isinstance(data, LabelRankingData):
        return [
            (y[~np.isnan(y)], s[~np.isnan(y)]) for y, s in zip(data.relevance, scores, strict=True)
        ]
    spans = zip(data.query_ptr[:-1], data.query_ptr[1:], strict=True)
    return [(data.relevance[b:e], scores[b:e]) for b, e in spans]


def _loss(solver, data, scores):
    if solver.name in ("tree-tron", "cutting-plane"):
        power = 2 if solver.name == "tree-tron" else 1
        slacks = [
            np.maximum(0, 1 - (s[:, None] - s[None, :]))[y[:, None] > y[None, :]] ** power
            for y, s in _groups(data, scores)
        ]
        slacks = np.concatenate(slacks)
        return slacks.mean() if solver.reduction == "mean" else slacks.sum()
    if solver.name == "larank":
        return sum(
            _larank_loss(y, s, solver.margin, isinstance(data, RankingData))
            for y, s in _groups(data, scores)
        )
    if solver.name == "sopopo":
        decomposition = solver.decomposition
        if decomposition == "auto":
            decomposition = "all-pairs" if data.n_labels is None else "adjacent-layers"
        return graph_loss(data, scores, decomposition, solver.weights)
    return _top_loss(solver, data, scores)


def _larank_loss(y, s, margin, by_pair):
    total = np.longdouble(0)
    for a in range(len(y)):
        lower = np.flatnonzero(y < y[a])
        sets = lower[:, None] if by_pair else [y == level for level in np.unique(y[lower])]
        for beaten in sets:
            wanted = y[a] - y[beaten] if margin == "graded" else 1.0
            total += max(0, np.max(wanted - (s[a] - s[beaten])))
    return total


def _top_loss(solver, data, scores):
    """Positives above the highest negative, the mean over the positives of each query."""
    groups = [(y, s) for y, s in _groups(data, scores) if len(np.unique(y)) > 1]
    threshold = min(y.min() for y, _ in groups)
    if solver.scope == "global":
        groups = [tuple(np.concatenate(part) for part in zip(*groups, strict=True))]
    of_query = []
    for y, s in groups:
        positive = y > threshold
        if positive.any() and not positive.all():
            top = np.sort(s[~positive])[-getattr(solver, "top_k", 1) :].mean()
            of_query.append((np.maximum(0, 1 + top - s[positive]) ** 2).mean())
    return np.mean(of_query)


def test_the_oracle_lists_the_pairs_of_rankplugs_own():
    data = BASE["query-document"]().data()
    differences, _ = pair_differences(data)
    w = np.arange(4.0)
    expected = 0.5 * w @ w + np.maximum(0, 1 - differences @ w).sum()
    assert stated_objective(cheap("cutting-plane"), data)(w) == pytest.approx(expected)


@pytest.mark.parametrize(("name", "task", "params"), TARGETS)
def test_parameters_at_their_limits(name, task, params):
    known = cheap(name).get_params(deep=False)
    for parameter, values in PARAMETER_ATTACKS.items():
        if parameter not in known:
            continue
        for value, outcome in values.items():
            if parameter in ("tol", "max_iter", "n_threads", "gamma") or not params.get("kernel"):
                solver = cheap(name, **{**params, parameter: value})
                check_answer(solver, BASE[task](), may_refuse=outcome == EITHER)


def test_kernels_of_features_far_from_0_lose_no_digits():
    X = BASE["query-document"]().X
    far = X + 2.0**30  # exact: the features are multiples of 1/4
    assert default_gamma(far) == pytest.approx(default_gamma(X), rel=1e-12)
    assert default_gamma(X) == pytest.approx(1.0 / (4.0 * X.var()), rel=1e-12)
    assert default_gamma(sparse.csr_array(X)) == pytest.approx(default_gamma(X), rel=1e-12)
    rbf = Kernel("rbf", gamma=0.5)
    np.testing.assert_allclose(rbf(far, far[:5]), rbf(X, X[:5]), rtol=1e-9)


@pytest.mark.parametrize("info", available_solvers(), ids=lambda info: info.name)
def test_nonsense_in_a_parameter_is_named(info):
    data = BASE[info.tasks[0]]().data()
    known = cheap(info.name).get_params(deep=False)
    for parameter, values in NONSENSE.items():
        for value in values if parameter in known else ():
            solver = cheap(info.name, **{parameter: value})
            if solver.parameters[parameter].accepts(value):
                continue  # such as a float in place of an integer that has no type of its own
            assert_refused(rf"{parameter}=.*must be", solver.solve, data)
    for value in RANDOM_STATES:
        assert_refused("random_state=.* must be", cheap(info.name).solve, data, random_state=value)


def test_a_guard_refuses_what_is_not_finite_or_contradicts_itself():
    class Wrong(type(cheap("tree-tron"))):
        def _solve(self, data, init, monitor, rng):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                result = super()._solve(data, init, monitor, rng)
            from dataclasses import replace

            return replace(result, **self.changes)

    data = BASE["query-document"]().data()
    for changes, message in (
        ({"objective": np.nan}, "the objective is nan"),
        ({"duality_gap": np.inf}, "the duality gap is inf"),
        ({"duality_gap": -1.0}, "lower bound of the objective is above it by 1"),
    ):
        solver = Wrong()
        solver.changes = changes
        assert_refused(message, solver.solve, data)
