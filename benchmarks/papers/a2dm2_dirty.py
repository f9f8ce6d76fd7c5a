"""The elastic net with sparse errors ("dirty model") of the A2DM2 paper, its Figure 1."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from benchmarks import results
from rankplug.optim.a2dm2 import Variant, largest_step, splitting

Row = dict[str, Any]
Vector = NDArray[np.float64]

# The paper states neither mu nor the step. At the minimum 157, 63 and none of the 256 entries of y
# differ from 0; steps are multiples of the largest that the theorem allows.
_MUS_AND_STEPS = ((0.05, 1), (0.1, 1), (0.1, 10), (0.5, 1))
_PANELS = ("primal_residual", "objective_gap", "dual_gap")
_LONGER = 10  # than the theorem's step and the runs: with restarts it finds the minimum to 1e-9
_ALL_UP_TO, _EVERY = 20, 5  # the iterations that are rows
_EXACT = 1e-10  # of the inner solver, and of the residual that ends a run


class DirtyModel:
    """min |x|_1 + 1/2 |x|^2 + mu (|y|_1 + 1/2 |y|^2) subject to A x + y = c (equation 15)."""

    def __init__(self, m: int, n: int, mu: float) -> None:
        rng = np.random.default_rng(0)
        self._matrix = rng.normal(size=(m, n))
        x = rng.normal(size=n) * (rng.random(n) < 0.05)
        self.c: Vector = self._matrix @ x + rng.exponential(0.01, size=m)
        self._mu, self.norm = mu, float(np.linalg.norm(self._matrix, 2))
        self._last = np.zeros(n)

    def argmin_x(self, v: Vector, rho: float) -> Vector:
        """Accelerated proximal gradients from the last solution."""
        step = 1 / (1 + rho * self.norm**2)
        x = before = self._last
        momentum = (1 - np.sqrt(step)) / (1 + np.sqrt(step))
        for _ in range(5000):
            ahead = x + momentum * (x - before)
            gradient = ahead + rho * self._matrix.T @ (self._matrix @ ahead - v)
            before, x = x, _soft(ahead - step * gradient, step)
            if np.abs(x - before).max() < 0.1 * _EXACT:
                break
        self._last = x
        return x

    def argmin_y(self, v: Vector, rho: float) -> Vector:
        return _soft(rho * v, self._mu) / (rho + self._mu)

    def argmin_y_linear(self, g: Vector) -> Vector:
        return _soft(-g, self._mu) / self._mu

    def map_x(self, x: Vector) -> Vector:
        return np.asarray(self._matrix @ x)

    def map_y(self, y: Vector) -> Vector:
        return y

    def value(self, x: Vector, y: Vector) -> float:
        of_x, of_y = (np.abs(z).sum() + 0.5 * z @ z for z in (x, y))
        return float(of_x + self._mu * of_y)

    def dual_value(self, g: Vector) -> float:
        """``-f1*(-A'g) - f2*(-g) - g'c``, a lower bound of the minimum."""
        of_x = _soft(self._matrix.T @ g, 1.0)
        of_y = _soft(g, self._mu)
        return float(-0.5 * of_x @ of_x - 0.5 * of_y @ of_y / self._mu - g @ self.c)

    @property
    def safe_step(self) -> float:
        return largest_step(1.0, self._mu, self.norm, 1.0)


def dirty_model(tiny: bool, _rounds: int) -> Iterator[Row]:
    """Residual and both gaps by iteration for the paper's elastic net, m = 2^8, n = 2^9."""
    sizes, n_iter = ((12, 24), 20) if tiny else ((2**8, 2**9), 300)
    variants: tuple[Variant, ...] = ("admm", "a2dm2", "a2dm2-restart")
    for mu, times in _MUS_AND_STEPS:
        model = DirtyModel(*sizes, mu)
        exact = _iterate(model, "a2dm2-restart", _LONGER * model.safe_step, _LONGER * n_iter)
        best = max(row["dual_objective"] for row in exact)
        for variant in variants:
            model = DirtyModel(*sizes, mu)
            rows = _iterate(model, variant, times * model.safe_step, n_iter)
            first = best - rows[0]["dual_objective"]
            for row in rows:
                if row["n_iter"] > _ALL_UP_TO and row["n_iter"] % _EVERY:
                    continue
                gap = abs(row["objective"] - best) / abs(rows[0]["objective"] - best)
                dual_gap = max(best - row["dual_objective"], 0.0) / first
                yield {"mu": mu, "step": times, **row, "objective_gap": gap, "dual_gap": dual_gap}


def _iterate(model: DirtyModel, variant: Variant, rho: float, n_iter: int) -> list[Row]:
    zero = np.zeros(len(model.c))
    rows: list[Row] = []
    restarts = 0
    for step in splitting(model, variant, rho, y=zero, multiplier=zero):
        restarts += step.restarted
        rows.append(
            {
                "variant": variant,
                "n_iter": step.n_iter,
                "primal_residual": step.primal_residual,
                "dual_residual": step.dual_residual,
                "objective": model.value(step.x, step.y),
                "dual_objective": model.dual_value(step.multiplier),
                "nonzeros_of_y": int(np.count_nonzero(step.y)),
                "restarts": restarts,
            }
        )
        if step.n_iter == n_iter or step.primal_residual + step.dual_residual < _EXACT:
            break
    return rows


def _soft(v: Vector, t: float) -> Vector:
    return np.asarray(np.sign(v) * np.maximum(np.abs(v) - t, 0.0))


def plot_dirty_model(source: Path, target: Path) -> None:
    """Residual, primal and dual gap against iterations, a row of panels for each case."""
    table = results.read(source)
    cases = list(dict.fromkeys((row["mu"], row["step"]) for row in table))
    figure = Figure(figsize=(5 * len(_PANELS), 3.5 * len(cases)), layout="constrained")
    grid = figure.subplots(len(cases), len(_PANELS), squeeze=False)
    for (mu, times), axes in zip(cases, grid, strict=True):
        of_mu = [row for row in table if (row["mu"], row["step"]) == (mu, times)]
        for axis, column in zip(axes, _PANELS, strict=True):
            for variant in dict.fromkeys(row["variant"] for row in of_mu):
                line = [row for row in of_mu if row["variant"] == variant]
                x = [int(row["n_iter"]) for row in line]
                axis.semilogy(x, [max(float(row[column]), 1e-10) for row in line], label=variant)
            title = f"mu = {mu}, step {times} x the theorem's"
            axis.set(title=title, xlabel="iterations", ylabel=column.replace("_", " "))
            axis.legend(frameon=False)
    figure.savefig(target, dpi=100)
