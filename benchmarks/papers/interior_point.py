"""Problems (7), (19) and (38) of the SOPOPO paper for Clarabel, an interior-point solver."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rankplug.data import LabelRankingData

Vector = NDArray[np.float64]


def solve_reduced_problem(data: LabelRankingData, C: float, gap: float) -> dict[str, Any]:
    """Solve the dual in alpha and beta for bipartite feedback, to an absolute gap.

        min 1/2 sum_r |sum_i s_ir z_ir x_i|^2 - sum alpha,   z = (alpha, beta) >= 0,
        sum alpha_i = sum beta_i <= C for each instance i

    for relevance 1 and 0, with s = 1 for alpha and -1 for beta.
    """
    import clarabel

    n, k = data.relevance.shape
    better = data.relevance.T > 0
    sign = np.where(better, 1.0, -1.0)
    products = data.X @ data.X.T
    blocks = [products * np.outer(s, s) for s in sign]
    quadratic = sparse.triu(sparse.block_diag(blocks, format="csc"), format="csc")
    of_instance = sparse.kron(np.ones((1, k)), sparse.identity(n))
    alpha = better.ravel().astype(float)
    constraints = sparse.vstack(
        [
            of_instance @ sparse.diags(sign.ravel()),
            of_instance @ sparse.diags(alpha),
            -sparse.identity(n * k),
        ],
        format="csc",
    )
    bounds = np.concatenate((np.zeros(n), np.full(n, C), np.zeros(n * k)))
    cones = [clarabel.ZeroConeT(n), clarabel.NonnegativeConeT(n + n * k)]
    settings = {"tol_gap_abs": gap, "tol_gap_rel": gap, "tol_feas": 1e-4}
    solution = _solve(quadratic, -alpha, constraints, bounds, cones, **settings)
    return {
        "objective": -solution.obj_val,
        "gap": abs(solution.obj_val - solution.obj_val_dual),
        "iterations": solution.iterations,
        "note": str(solution.status),
    }


def project_with_weights(x: Vector, U: Vector, n_better: int, C: float) -> Vector:
    """The weights of the soft projection (7): those closest to U, a row a label.

        min 1/2 sum_r |w_r - u_r|^2 + C xi,   (w_a - w_b).x >= 1 - xi,   xi >= 0

    for each of the first `n_better` labels a and each of the others b.
    """
    import clarabel

    k, d = U.shape
    a, b = (index.ravel() for index in np.mgrid[:n_better, n_better:k])
    edges = np.arange(len(a))
    incidence = sparse.csc_matrix(
        (np.repeat((-1.0, 1.0), len(a)), (np.tile(edges, 2), np.append(a, b))), (len(a), k)
    )
    margins = sparse.hstack((sparse.kron(incidence, x), sparse.csc_matrix(-np.ones((len(a), 1)))))
    not_negative = sparse.csc_matrix(([-1.0], ([0], [k * d])), (1, k * d + 1))
    constraints = sparse.vstack((margins, not_negative), format="csc")
    quadratic = sparse.diags(np.append(np.ones(k * d), 0.0), format="csc")
    bounds = np.append(-np.ones(len(a)), 0.0)
    cones = [clarabel.NonnegativeConeT(len(a) + 1)]
    solution = _solve(quadratic, np.append(-U.ravel(), C), constraints, bounds, cones)
    return np.array(solution.x[:-1]).reshape(k, d)


def project_reduced(mu: Vector, nu: Vector, C: float) -> tuple[Vector, Vector]:
    """The dual variables of the soft projection (19)."""
    import clarabel

    p, n = len(mu), len(mu) + len(nu)
    sums = np.zeros((2, n))
    sums[0, :p], sums[0, p:], sums[1, :p] = 1.0, -1.0, 1.0
    constraints = sparse.vstack((sparse.csc_matrix(sums), -sparse.identity(n)), format="csc")
    bounds = np.concatenate(([0.0, C], np.zeros(n)))
    cones = [clarabel.ZeroConeT(1), clarabel.NonnegativeConeT(1 + n)]
    linear = -np.append(mu, nu)
    solution = _solve(sparse.identity(n, format="csc"), linear, constraints, bounds, cones)
    return np.array(solution.x[:p]), np.array(solution.x[p:])


def _solve(*problem: Any, **tolerances: float) -> Any:
    import clarabel

    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.max_threads = 1
    for name, value in tolerances.items():
        setattr(settings, name, value)
    return clarabel.DefaultSolver(*problem, settings).solve()
