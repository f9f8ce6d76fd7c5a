"""Online multiclass machines with kernels: the averaged perceptron, and MIRA.

Both meet one example after the other and change nothing but its own dual variables, one for each
class, which sum to 0. A value of the kernel is counted when it is needed for the first time, as if
a cache held all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankplug.kernels import Kernel

Vector = NDArray[np.float64]
Update = Callable[[Vector, int, float], Vector | None]
"""From scores of the classes, the own class and k(x, x) to the change of the dual variables."""

_CHUNK = 256  # examples whose kernels are computed at once


@dataclass(frozen=True)
class Trained:
    """Dual variables of shape (n_examples, n_classes), and what they have cost."""

    dual: NDArray[np.float64]
    n_evaluations: int
    n_arg_max: int
    n_epochs: int
    status: str = "max_iter"
    objective: float | None = None
    gap: float | None = None


def averaged_perceptron(
    X: Any, y: NDArray[np.int64], kernel: Kernel, *, n_epochs: int, seed: int = 0
) -> Trained:
    """Freund and Schapire (1998), Collins (2002): the mean of all perceptrons on the way."""
    return _learn(X, y, kernel, n_epochs, _perceptron_step, seed, averaged=True)


def mira(X: Any, y: NDArray[np.int64], kernel: Kernel, *, C: float, seed: int = 0) -> Trained:
    """Crammer and Singer (2003), one epoch, with a margin of 1.

    The new weights minimise half of their squared distance from the old ones plus C times the loss
    of the example. From weights of 0, another margin gives the same weights but for their scale,
    as long as no step reaches C; without any margin they would stay 0.
    """

    def update(scores: Vector, own: int, norm: float) -> Vector | None:
        loss = scores + 1.0
        loss[own] = scores[own]
        if loss.argmax() == own:
            return None
        return solve_example(loss, own, norm, C)

    return _learn(X, y, kernel, 1, update, seed, averaged=False)


def solve_example(loss: Vector, own: int, norm: float, C: float) -> Vector:
    """The dual variables of one example that are best for given others.

    They minimise ``norm/2 |beta|^2 + loss.beta`` for ``beta <= C e_own`` and a sum of 0, where
    `loss` holds the scores that the others make, plus the margin of each other class: C e_own less
    the projection of ``C e_own + loss / norm`` on the simplex of radius C.
    """
    target = loss / norm
    target[own] += C
    ordered = np.sort(target)[::-1]
    level = (np.cumsum(ordered) - C) / np.arange(1, len(target) + 1)
    beta = -np.maximum(0.0, target - level[ordered > level][-1])
    beta[own] += C
    return beta


def _perceptron_step(scores: Vector, own: int, _norm: float) -> Vector | None:
    best = int(scores.argmax())
    if best == own:
        return None
    step = np.zeros(len(scores))
    step[own], step[best] = 1.0, -1.0
    return step


def _learn(
    X: Any,
    y: NDArray[np.int64],
    kernel: Kernel,
    n_epochs: int,
    update: Update,
    seed: int,
    *,
    averaged: bool,
) -> Trained:
    """Epochs over the examples, each in a new random order."""
    n, rng = len(y), np.random.default_rng(seed)
    norms = kernel.diagonal(X)
    dual, by_time = np.zeros((2, n, int(y.max()) + 1))
    support = np.empty(n, dtype=np.int64)  # the first n_support examples, in order of their entry
    n_support = n_evaluations = time = 0
    known = np.zeros(n, dtype=np.int64)  # how many support patterns each example has met
    for _ in range(n_epochs):
        order = rng.permutation(n)
        for chunk in (order[begin : begin + _CHUNK] for begin in range(0, n, _CHUNK)):
            old = support[:n_support]
            scores = kernel(X[chunk], X[old]) @ dual[old] if n_support else dual[chunk] * 0.0
            among = kernel(X[chunk], X[chunk])
            for position, i in enumerate(chunk):
                n_evaluations += n_support - known[i]
                known[i] = n_support
                time += 1
                step = update(scores[position], int(y[i]), norms[i])
                if step is None:
                    continue
                if not dual[i].any() and i not in support[:n_support]:
                    support[n_support] = i
                    n_support += 1
                dual[i] += step
                by_time[i] += time * step
                scores[position + 1 :] += among[position, position + 1 :, None] * step
    if averaged:
        dual = dual - by_time / (time + 1)
    return Trained(dual, int(n_evaluations), n_epochs * n, n_epochs)
