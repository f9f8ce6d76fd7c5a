"""LaRank for structured outputs: the paper's problem (6), with any joint kernel.

A pattern has a list of possible outputs, one of which is right, and a joint kernel compares two
pairs of a pattern and an output. Here the outputs are sequences: each letter of a word is to be
read, and which letters follow each other helps. The code below the example is a solver derived
from LaRank; ``python -m doctest docs/examples/structured_outputs.py`` runs the example.

>>> import itertools
>>> class Reading:
...     def classes(self, i):
...         return ["".join(word) for word in itertools.product("ab", repeat=len(i))]
...     def joint_kernel(self, i, y, j, z):
...         letters = itertools.product(zip(i, y), zip(j, z))
...         seen = sum(p * q for (p, r), (q, s) in letters if r == s)
...         pairs = itertools.product(itertools.pairwise(y), itertools.pairwise(z))
...         return seen + sum(p == q for p, q in pairs)
...     def margin(self, i, right, y):
...         return sum(r != s for r, s in zip(right, y))  # letters that are wrong

Large values look like an a, small ones like a b, and the letters alternate:

>>> words = ["abab", "baba", "aba", "bab", "ab", "ba"]
>>> rng = np.random.default_rng(0)
>>> def image(word):
...     return tuple(float(letter == "a") - 0.5 + 0.4 * rng.normal() for letter in word)
>>> images = [image(word) for word in words]
>>> model = solve_structured(Reading(), images, words, LaRank(C=1.0, tol=1e-4), random_state=0)
>>> model.result.status
'converged'
>>> [model.predict(i) for i in images] == words
True
>>> model.predict((0.6, 0.05, 0.4))  # the one in the middle is not clear by itself
'aba'
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rankplug.data import RankingData
from rankplug.exceptions import DataError
from rankplug.models import KernelModel
from rankplug.solver import Callback, SolverResult
from rankplug_plugins.larank import LaRank, Layout

__all__ = ["StructuredModel", "StructuredOutput", "solve_structured"]


class StructuredOutput(Protocol):
    """What is to be known of a structured output.

    A method ``margin(i, right, y)``, how much an output y != right is to be scored below the
    right one, may be added; without it, the margin is 1.
    """

    def classes(self, i: Any) -> Sequence[Any]:
        """All outputs of a pattern, each once; `i` is what `solve_structured` was given."""

    def joint_kernel(self, i: Any, y: Any, j: Any, z: Any) -> float:
        """``<Phi(i, y), Phi(j, z)>`` for patterns i and j with outputs y and z."""


@dataclass(frozen=True)
class StructuredModel:
    """Scores ``S(i, y) = sum_s dual_coef_s K(i, y, i_s, y_s)`` over support vectors s.

    Attributes
    ----------
    output : StructuredOutput
    support : list of (pattern, output)
    dual_coef : float64 ndarray of shape (n_support,)
    result : SolverResult
        How the training went; its own model is of no use here.
    """

    output: StructuredOutput
    support: list[tuple[Any, Any]]
    dual_coef: NDArray[np.float64]
    result: SolverResult

    def score(self, i: Any, y: Any) -> float:
        """The score of a pattern with an output."""
        values = [self.output.joint_kernel(i, y, j, z) for j, z in self.support]
        return float(np.dot(self.dual_coef, values))

    def predict(self, i: Any) -> Any:
        """The output with the highest score, the first one of equals."""
        return max(self.output.classes(i), key=lambda y: self.score(i, y))


class OneRight(LaRank):
    """LaRank for queries of which the last item, the right one, is to be above all others."""

    def list_patterns(self, data: RankingData) -> Layout:
        """One pattern a query."""
        begin, end = data.query_ptr[:-1], data.query_ptr[1:] - 1
        return Layout(
            item=np.arange(data.n_samples),
            relevance=data.relevance,
            group_ptr=data.query_ptr,
            n_channels=1,
            group=np.arange(data.n_queries),
            own=end,
            begin=begin,
            end=end,
            weight=np.ones(data.n_queries),
        )

    def describe_objective(self) -> None:
        """It depends on the joint kernel."""


def solve_structured(
    output: StructuredOutput,
    patterns: Sequence[Any],
    right: Sequence[Any],
    solver: LaRank | None = None,
    *,
    callback: Callback | None = None,
    random_state: int | None = None,
    time_limit: float | None = None,
) -> StructuredModel:
    """Minimise ``1/2 |w|^2 + C sum_i max(0, max_y margin_i(y) - (S(i, y_i) - S(i, y)))``.

    The outputs of every pattern are listed, so their number must be moderate. Kernels are
    computed one by one, in Python, and kept within the memory that the solver allows.

    Parameters
    ----------
    output : StructuredOutput
    patterns : sequence
        Patterns, or anything that tells `output` which they are, such as integers.
    right : sequence
        The right output of each pattern, one of its classes.
    solver : LaRank, optional
        Its C, epochs, tol, schedule, cache_mb and random_state are used.
    callback, random_state, time_limit
        See `Solver.solve`.

    Raises
    ------
    DataError
        If patterns and right outputs do not match, or the joint kernel returns no finite number.
    ParameterError
        If a parameter of the solver has a value it cannot have.
    """
    items, data = _list_items(output, patterns, right)

    def kernel(A: NDArray[Any], B: NDArray[Any]) -> NDArray[np.float64]:
        pairs = [[items[int(n)] for n in side[:, 0]] for side in (A, B)]
        values = [[output.joint_kernel(i, y, j, z) for j, z in pairs[1]] for i, y in pairs[0]]
        return np.array(values, dtype=np.float64).reshape(len(A), len(B))

    params = {} if solver is None else solver.get_params(deep=False)
    result = OneRight(**{**params, "kernel": kernel, "margin": "graded"}).solve(
        data, callback=callback, random_state=random_state, time_limit=time_limit
    )
    model = result.model
    assert isinstance(model, KernelModel)
    support = [items[int(n)] for n in np.asarray(model.support)[:, 0]]
    return StructuredModel(output, support, model.dual_coef, result)


def _list_items(
    output: StructuredOutput, patterns: Sequence[Any], right: Sequence[Any]
) -> tuple[list[tuple[Any, Any]], RankingData]:
    """Pairs of pattern and output, the right one the last of each pattern's.

    In the data each is a row with its number, so that the kernel can look it up; its relevance
    is what its score may lack to the right one's.
    """
    if len(patterns) != len(right) or len(patterns) == 0:
        raise DataError(f"{len(patterns)} patterns but {len(right)} right outputs")
    margin = getattr(output, "margin", lambda *_: 1.0)
    items: list[tuple[Any, Any]] = []
    relevance: list[float] = []
    ends = [0]
    for n, (i, best) in enumerate(zip(patterns, right, strict=True)):
        classes = list(output.classes(i))
        others = [y for y in classes if y != best]
        if len(others) != len(classes) - 1 or not others:
            raise DataError(
                f"pattern {n}: its right output {best!r} must be one of its classes, once, and "
                f"not the only one; there are {len(classes)}"
            )
        items += [(i, y) for y in [*others, best]]
        relevance += [-float(margin(i, best, y)) for y in others] + [0.0]
        ends.append(len(items))
    X = np.arange(len(items), dtype=np.float64)[:, None]
    ptr = np.array(ends)
    values = np.array(relevance)
    if not np.isfinite(values).all() or values.max() > 0:
        raise DataError("margins must be finite numbers >= 0")
    return items, RankingData(X, values, ptr, np.arange(len(patterns)))
