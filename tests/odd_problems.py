"""Odd problems and an independent interior-point solver, for what a solver's status promises.

All exact solvers minimise ``1/2 R |w|^2 + sum over groups g of c_g max(0, max_k m_k - d_k.w)^p``
over pairs k of items, each with a margin and a difference of rows. Clarabel solves that as a
quadratic program; whatever its accuracy, the value at its w is an upper bound of the minimum.
"""

from __future__ import annotations

import itertools
import warnings
from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy import sparse

import rankplug
from rankplug.data import LabelRankingData, RankingData
from rankplug.exceptions import ConvergenceWarning, DataError
from tests.oracles import better_and_worse, bipartite_graphs

VARIANTS: dict[str, list[dict[str, Any]]] = {
    "tree-tron": [{}, {"method": "tron"}, {"preconditioner": "diagonal"}, {"pairs": "adjacent"}],
    "cutting-plane": [{}, {"method": "bmrm"}, {"method": "smoothed-newton"}, {"pairs": "adjacent"}],
    "toppush": [{}, {"method": "apg"}],
    "a2dm2": [{"lam1": 1e-9, "lam2": 1e-9}],
    "sopopo": [{}, {"decomposition": "adjacent-layers"}, {"decomposition": "top-vs-rest"}],
    "larank": [{}, {"schedule": "cyclic"}, {"patterns": "items"}],
}
LIMITS = {"larank": {"epochs": 300}, "sopopo": {"max_epochs": 300}, "a2dm2": {"max_iter": 500}}


class Terms(NamedTuple):
    """The groups of pairs: differences, margins and group of each pair, weight of each group."""

    differences: np.ndarray
    margins: np.ndarray
    group: np.ndarray
    weight: np.ndarray
    power: int
    regulariser: float

    def value(self, w: np.ndarray) -> float:
        worst = np.zeros(len(self.weight))
        np.maximum.at(worst, self.group, self.margins - self.differences @ w)
        loss = float(self.weight @ worst**self.power)
        return 0.5 * self.regulariser * float(w @ w) + loss

    def upper_bound(self) -> float:
        """The least value of w = 0 and of the interior-point solution."""
        clarabel: Any = pytest.importorskip("clarabel")
        d, n = self.differences.shape[1], len(self.weight)
        scale = np.abs(self.differences).max() or 1.0
        slack = np.full(n, 2.0 if self.power == 2 else 0.0) * self.weight
        P = sparse.diags_array(np.append(np.full(d, self.regulariser / scale**2), slack)).tocsc()
        q = np.append(np.zeros(d), self.weight if self.power == 1 else np.zeros(n))
        of_group = sparse.csr_array(
            (np.ones(len(self.group)), self.group, np.arange(len(self.group) + 1)),
            shape=(len(self.group), n),
        )
        rows = sparse.hstack((sparse.csr_array(self.differences / scale), of_group))
        positive = sparse.hstack((sparse.csr_array((n, d)), sparse.eye_array(n)))
        A = -sparse.vstack((rows, positive)).tocsc()
        b = np.append(-self.margins, np.zeros(n))
        settings = clarabel.DefaultSettings()
        settings.verbose, settings.max_threads = False, 1
        settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-10
        cones = [clarabel.NonnegativeConeT(A.shape[0])]
        x = np.array(clarabel.DefaultSolver(P, q, A, b, cones, settings).solve().x)[:d] / scale
        found = self.value(x) if np.isfinite(x).all() else np.inf
        return min(self.value(np.zeros(d)), found)


def odd_data(seed: int) -> tuple[RankingData | LabelRankingData, float]:
    """Few rows, more features than rows, ties, offsets and scales, and a weight of the loss."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(4, 20)), int(rng.choice([1, 2, 5, 30]))
    size = 10.0 ** rng.integers(-2, 3)
    X = rng.normal(size=(n, d)) * size
    if rng.random() < 0.3:
        X = np.round(X / size) * size
    if rng.random() < 0.3:
        X += size * 10.0 ** rng.integers(0, 4)
    C = 10.0 ** rng.integers(-3, 5) / size**2
    if rng.random() < 0.3:
        return LabelRankingData.from_arrays(X, rng.integers(0, 3, (n, 3)).astype(float)), C
    y, qid = rng.integers(0, int(rng.choice([2, 3, 9])), n), np.arange(n) % rng.integers(1, 4)
    y[:2], qid[:2] = [0, 1], 0
    return RankingData.from_arrays(X, y, qid), C


def terms_of(solver: Any, data: RankingData | LabelRankingData) -> Terms:
    """What this solver minimises."""
    differences, margins, group, weight = [], [], [], []

    def add(rows: np.ndarray, margin: list[float], share: float) -> None:
        differences.extend(rows)
        margins.extend(margin)
        group.extend([len(weight)] * len(margin))
        weight.append(share)

    labels = data.n_labels is not None
    power = 1 if solver.name in ("cutting-plane", "sopopo", "larank") else 2
    for rows, y in _examples(data):
        for a, beaten, share in _groups(solver, y, labels):
            margin = [1.0] * len(beaten)
            if solver.name == "sopopo":
                margin = [y[i] - y[j] for i, j in itertools.product(a, beaten)]
            add(
                np.array([rows[i] - rows[j] for i, j in itertools.product(a, beaten)]),
                margin,
                share,
            )
    regulariser = getattr(solver, "lam", 1.0)
    total = sum(weight) if "lam" in solver.get_params() else 1.0 / solver.C
    return Terms(
        np.array(differences),
        np.array(margins),
        np.array(group),
        np.array(weight) / total,
        power,
        regulariser,
    )


def _examples(data: Any) -> Any:
    if data.n_labels is not None:
        eye = np.eye(data.n_labels)
        return [(np.kron(eye, x[None]), y) for x, y in zip(data.X, data.relevance, strict=True)]
    return [(data.X[b:e], data.relevance[b:e]) for b, e in itertools.pairwise(data.query_ptr)]


def _groups(solver: Any, y: np.ndarray, labels: bool) -> Any:
    """Better items, beaten items and weight of each group of one query or instance."""
    found = better_and_worse(y, getattr(solver, "pairs", "all"))
    pairs = [([i], [j], 1.0) for i, j in zip(*found, strict=True)]
    if solver.name in ("toppush", "a2dm2"):
        positive, negative = np.flatnonzero(y > 0), np.flatnonzero(y <= 0)
        if len(negative) == 0:
            return []
        return [([i], list(negative), 1.0 / len(positive)) for i in positive]
    if solver.name == "sopopo":
        name = solver.decomposition
        if name == "auto":
            name = "adjacent-layers" if labels else "all-pairs"
        return [(a, b, 1.0) for a, b in bipartite_graphs(y, name)]
    if solver.name == "larank" and (labels or solver.patterns == "items"):
        beaten = [
            [np.flatnonzero(y == level) for level in np.unique(y[y < own])]
            if labels
            else [np.flatnonzero(y < own)] * bool((y < own).any())
            for own in y
        ]
        return [([i], list(some), 1.0) for i, sets in enumerate(beaten) for some in sets]
    return pairs


def check_status(name: str, params: dict[str, Any], seed: int) -> str | None:
    """Solve an odd problem, and assert that the status is no more than what is proved."""
    data, C = odd_data(seed)
    top = name in ("toppush", "a2dm2")
    if top and isinstance(data, LabelRankingData):
        return None
    if top:
        y = data.relevance[: data.n_samples]
        if not any(len(np.unique(part > 0)) == 2 for _, part in _examples(data)) or y.min() > 0:
            return None
    weight = {"lam": 1.0 / C} if top else {"C": C}
    limits = LIMITS.get(name, {"max_iter": 1000})
    solver = rankplug.make_solver(name, tol=1e-3, **weight, **limits, **params)
    if top:
        solver.set_params(threshold=0.0)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            result = solver.solve(data, random_state=seed)
        except DataError:
            return "refused"
    terms = terms_of(solver, data)
    upper = terms.upper_bound()
    where = f"{name} {params} of problem {seed}: {result}, against {upper}"
    value = terms.value(np.asarray(result.model.coef).ravel())
    digits = 1e-6 * (1 + abs(upper)) * (1 + abs(value))
    assert abs(result.objective - value) <= 1e-6 * abs(value) + digits, where
    assert result.objective - result.duality_gap <= upper * (1 + 1e-6) + digits, where
    if result.status == "converged":
        if name != "a2dm2":
            assert result.duality_gap <= solver.tol * abs(result.objective) * (1 + 1e-6), where
        assert result.objective <= upper * (1 + 2 * solver.tol) + digits, where
    else:
        assert any(issubclass(one.category, ConvergenceWarning) for one in told), where
    return result.status
