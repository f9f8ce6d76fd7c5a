"""Problem (38) of the SOPOPO paper for Clarabel, an interior-point solver."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from rankplug.data import LabelRankingData


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
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.max_threads = 1
    settings.tol_gap_abs = settings.tol_gap_rel = gap
    settings.tol_feas = 1e-4
    solver = clarabel.DefaultSolver(quadratic, -alpha, constraints, bounds, cones, settings)
    solution = solver.solve()
    return {
        "objective": -solution.obj_val,
        "gap": abs(solution.obj_val - solution.obj_val_dual),
        "iterations": solution.iterations,
        "note": str(solution.status),
    }
