"""LaRank: multiclass machines and rankings by online and cyclic dual ascent."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Annotated, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from rankplug.exceptions import ParameterError
from rankplug.kernels import Kernel
from rankplug.models import KernelModel, Model
from rankplug.optim.bracket import Vector
from rankplug.parameters import Count, Integer, Positive
from rankplug.solver import Data, KernelSolver, Monitor, Objective, SolverResult, Status
from rankplug.system.interruption import Overdue, interrupted, is_late
from rankplug_plugins.larank import _larank_fast as fast
from rankplug_plugins.larank.patterns import Layout, list_patterns
from rankplug_plugins.larank.weights import KernelWeights, LinearWeights, Weights

Indices: TypeAlias = NDArray[np.int64]
ScheduleName: TypeAlias = Literal["adaptive", "cyclic"]
Operations: TypeAlias = Literal["all", "new", "new+old", "new+optimize"]

_MOST_EPOCHS = 1000  # the default's meaning of "until converged"
_SHRUNK = 0.1  # of the mean gap: below it the cyclic schedule passes over a pattern for an epoch
_PATIENCE = 100  # epochs of the cyclic schedule, after which it should have closed the gap by
_PROGRESS = 0.5  # half of it
_ROUNDING = 1e-13  # of C times all weights and the largest score: a loss that is none
_DECADES = 6  # of the smoothing of a start, from where hardly a dual variable is at its bound
_MOST_SWEEPS = 10  # over the others in one epoch, as their gaps grow old


class LaRank(KernelSolver):
    """Partial ranking: one item above others, as in Crammer and Singer's multiclass machine.

    A pattern p asks that one item a, the better one, is scored above each of a set B_p, and

        min_w  1/2 |w|^2 + C sum_p max(0, max_{b in B_p} (margin_ab - (s_a - s_b))).

    * Classes: a is the class of an instance, B all others.
    * Label ranking: for each label a of an instance and each level of relevance below its own,
      B is the labels of that level.
    * Query-document data: each pair is a pattern; or, with ``patterns="items"``, for each document
      a that beats another one, B is all documents of its query with less relevance. The weight of
      the query multiplies C.

    Labels have scores ``s_r(x) = <w_r, phi(x)>``, documents ``s(x) = <w, phi(x)>``.

    Parameters
    ----------
    C, kernel, gamma, degree, coef0
        See `KernelSolver`; the loss is summed over patterns. Kernels are for labels and for
        documents.
    epochs : int, optional
        At most so many visits to each pattern: 1 is the paper's LaRank x1, an online algorithm.
        By default 1000.
    tol : float, default=1e-2
        Converged when the duality gap is at most this share of the objective, or of C.
    gap : "relative" or "absolute", default="relative"
        Of what `tol` is a share: of the objective, or of C. The paper's LaRankGap is "absolute"
        with a `tol` of 1.
    schedule : "adaptive" or "cyclic", default="adaptive"
        "adaptive" is the paper's: steps on new patterns, on support patterns and on support
        vectors, as often as they raise the dual objective for their work. The work is counted in
        scores, not timed, so the same seed gives the same model. "cyclic" visits all patterns in
        turn, later only those that contribute to the duality gap, and takes a few steps each; it
        is the better one for a small `tol`. Where 100 such epochs leave more than half of the gap,
        as with a huge C, epochs of "adaptive" follow.
    operations : "all", "new", "new+old" or "new+optimize", default="all"
        Those of "adaptive": steps on new patterns alone, or also on support patterns, or among
        support vectors. For experiments as in the paper's figure 2: without the others, more is
        left to later epochs.
    cache_mb : float, default=500
        Memory for rows of the kernel matrix; those of the largest query have room in any case.
        The linear kernel needs none: its weights are explicit.
    patterns : "auto", "items" or "pairs", default="auto"
        What B is: as above, or one item, so that each pair counts. "auto" is "pairs" for documents
        and "items" for labels. With "items" one exception outweighs all other pairs of its
        document, and the optimum of noisy documents is w = 0; "pairs" lists them.
    margin : "unit" or "graded", default="unit"
        ``margin_ab``: 1, or the difference of the relevance of a and b.
    online : bool, default=False
        Whether `init` is what was learnt of other rows, as in `Ranker.partial_fit`, and stays a
        part of the model: ``|w - w_init|^2`` then stands for ``|w|^2``, as if the dual variables
        of those rows were kept as they are. Of `epochs` the default is 1, and a gap as small as
        rounding errors of the scores is none. Without it, `init` is where to start: from the dual
        variables that a smoothed loss has at its scores.
    random_state : int, optional
        Seed of the order of visits, in place of the one given to `solve`.

    Notes
    -----
    There is no intercept: add a constant feature where classes differ in size. With two classes
    it is a binary support vector machine without intercept, with 2 C in place of C.

    Visits are drawn by position, so that rows in another order give another model, within `tol` of
    the same optimum: scores that differ by some per cent of their range at the default `tol`, by
    less at a smaller one.

    Kernels: the first epoch computes only kernels between support patterns and the pattern just
    met. Those of the other rows are needed for the first duality gap; the history counts them as
    ``certificate_evaluations``. It counts operations as in the paper: ``process_new`` and
    ``process_old`` look for the largest score among all items of a pattern, ``optimize`` only
    among its support vectors. A ranking of k labels without ties makes k (k - 1) / 2 patterns.

    References
    ----------
    .. [1] Bordes, Bottou, Gallinari and Weston, "Solving MultiClass Support Vector Machines with
       LaRank", ICML 2007. Departures: the gradients in Algorithm 1 are updated with the opposite
       signs, which are printed wrongly; the odds of an operation are at least 5 % of all;
       PROCESSNEW of a pattern that has support already only costs its turn, and of another one
       also the row of the kernel matrix that it needs.
    .. [2] Crammer and Singer, "On the Algorithmic Implementation of Multiclass Kernel-based
       Vector Machines", JMLR 2 (2001).
    """

    name = "larank"
    tags = KernelSolver.tags.replace(
        problem="min 1/2 |w|^2 + C sum over patterns of max(0, max_b margin_ab - (s_a - s_b))",
        reference="Bordes, Bottou, Gallinari and Weston, LaRank, ICML 2007",
        takes_init=True,
        online=True,
    )
    iteration_limit = "epochs"
    _if_vanishing = (
        "The loss of a pattern is its worst pair, so that one exception outweighs the others: take "
        "patterns='pairs', or 'tree-tron' or 'cutting-plane' where there are too many for that"
    )

    epochs: Count | None = None
    tol: Positive = 1e-2
    gap: Literal["relative", "absolute"] = "relative"
    schedule: ScheduleName = "adaptive"
    operations: Operations = "all"
    cache_mb: Positive = 500.0
    patterns: Literal["auto", "items", "pairs"] = "auto"
    margin: Literal["unit", "graded"] = "unit"
    online: bool = False
    random_state: Annotated[int, Integer(0)] | None = None

    def describe_objective(self) -> Objective:
        """The loss of patterns."""
        own = {"C": self.C, "patterns": self.patterns, "margin": self.margin}
        parameters = own | self._kernel_parameters()
        return Objective("hinge loss of patterns", parameters)

    def list_patterns(self, data: Data) -> Layout:
        """Which item is to be above which others.

        A subclass may ask for something else, and then describes another objective.
        """
        return list_patterns(
            data, self.patterns == "pairs" or (self.patterns == "auto" and data.n_labels is None)
        )

    def _smallest_c(self, data: Data) -> float:
        """Where ``4 C max_i k(x_i, x_i) sum of all weights`` is the smallest margin.

        That bounds the difference of two scores.
        """
        margin = 1.0
        if self.margin == "graded":
            levels = np.unique(data.relevance[~np.isnan(data.relevance)])
            margin = float(np.diff(levels).min())
        largest = float(self._make_kernel(data).diagonal(data.X).max()) or 1.0
        return margin / (4.0 * largest * float(self.list_patterns(data).weight.sum()))

    def _solve(
        self, data: Data, init: Model | None, monitor: Monitor, rng: np.random.Generator
    ) -> SolverResult:
        layout = self.list_patterns(data)
        patterns = fast.Patterns(
            layout.item,
            layout.relevance,
            layout.group_ptr,
            layout.group,
            layout.own,
            layout.begin,
            layout.end,
            self.C * layout.weight,
            self.margin == "graded",
        )
        at_zero = np.zeros(data.n_samples * layout.n_channels)
        monitor.objective_of_zero, _ = patterns.evaluate(at_zero, np.empty(patterns.n_patterns))
        weights: Weights
        base = init if self.online else None
        if base is not None:
            monitor.objective_of_zero = None  # nothing new may be the best
        if self.kernel == "linear":
            weights = LinearWeights(data, layout, patterns, base)
        else:
            kernel, many_steps = self._make_kernel(data), self.schedule == "adaptive"
            if isinstance(base, KernelModel):
                kernel = self._same_kernel(base.kernel, kernel)
            weights = KernelWeights(
                data.X, data.labels, layout, patterns, kernel, self.cache_mb, many_steps, base
            )
        if self.random_state is not None:
            rng = np.random.default_rng(self.random_state)
        ascent = _Ascent(layout, patterns, weights, self.schedule, self.operations, rng)
        if base is not None:
            spread = 1.0 + float(np.abs(base.predict(data.X)).max())
            ascent.rounding = _ROUNDING * self.C * float(layout.weight.sum()) * spread
        elif init is not None:
            largest = self.C * float(layout.weight.max())
            ascent.init = np.asarray(init.predict(data.X)).ravel(), largest
        most = self.epochs or (1 if self.online else _MOST_EPOCHS)
        result = ascent.run(self._is_small, most, monitor)
        if base is not None:  # what is left is known to be none
            return result
        return self._widen(result, data, self.C * float(layout.weight.sum()))

    def _is_small(self, gap: float, objective: float) -> bool:
        """Whether a gap is as small as `tol` asks for."""
        return gap <= self.tol * (self.C if self.gap == "absolute" else objective)

    @override
    def _keeps_promise(self, result: SolverResult) -> bool | None:
        """As the base class, or by C."""
        if self.gap == "relative" or result.duality_gap is None:
            return super()._keeps_promise(result)
        return result.duality_gap <= self.tol * self.C

    def _same_kernel(self, known: Kernel, own: Kernel) -> Kernel:
        """The kernel of the model to go on from, whose gamma the default is.

        Raises
        ------
        ParameterError
            If the parameters say another one.
        """
        if self.gamma is None:
            own = replace(own, gamma=known.gamma)
        if own != known:
            raise ParameterError(f"larank goes on with the kernel of init, {known}, not with {own}")
        return known

    @override
    def _warn_of_no_convergence(self, result: SolverResult) -> None:
        """Nothing, of an online algorithm whose epochs are over."""
        if not self.online or result.status != "max_iter":
            super()._warn_of_no_convergence(result)


IsSmall: TypeAlias = Callable[[float, float], bool]
"""Of a gap and an objective: whether the ascent may end."""


class _Ascent:
    """Epochs of one schedule over patterns in random order.

    The duality gap is a sum over patterns of what each lacks to its optimum,

        bound_p max(0, max_b m_pb) - sum_b alpha_pb m_pb,    m_pb = margin_pb - (s_own - s_b),

    so one look at all scores after an epoch certifies it and shows where it comes from. An epoch

    1. draws the order of the patterns, those of a group one after the other;
    2. lets the compiled schedule take its steps, while `Weights` keeps up the scores it reads;
    3. visits all patterns in turn if, by chance, the adaptive schedule took no step;
    4. evaluates both objectives, and ends the ascent if the gap is small or nothing moved.

    A gap of at most `rounding` is none: online, new rows may leave nothing to learn.
    """

    def __init__(
        self,
        layout: Layout,
        patterns: fast.Patterns,
        weights: Weights,
        schedule: ScheduleName,
        operations: Operations,
        rng: np.random.Generator,
    ) -> None:
        self._layout = layout
        self._patterns = patterns
        self._weights = weights
        self._rng = rng
        self._is_cyclic = schedule == "cyclic"
        seed = int(rng.integers(2**63))
        old, optimize = (operations in ("all", f"new+{one}") for one in ("old", "optimize"))
        self._schedule = fast.Schedule(patterns, weights.scores, seed, old, optimize)
        self._gap_of = np.full(patterns.n_patterns, np.inf)
        self._primal = np.inf
        self._dual = 0.0
        self._n_epochs = 0
        self.rounding = 0.0
        self.init: tuple[Vector, float] | None = None  # scores, and the largest bound

    def _start_at(self, scores: Vector, largest: float) -> None:
        """Start with the dual variables at a model's scores of the smoothed loss.

        Were it smoothed by ``h/2`` times the sum of their squares, they would be projections of
        ``(margin - (s_own - s)) / h``. Of some h, the one of the highest dual objective counts.
        """
        spread = 1.0 + float(np.ptp(scores))
        best, start = 0.0, np.inf
        for h in spread / largest * np.logspace(0, -_DECADES, _DECADES + 1):
            if interrupted() or is_late():
                break
            self._move_to(scores, h)
            if self._dual > best:
                best, start = self._dual, h
        self._move_to(scores, start)

    def _move_to(self, scores: Vector, h: float) -> None:
        self._patterns.move_to(scores, h)
        self._weights.recompute()
        self._evaluate()

    def run(self, is_small: IsSmall, most_epochs: int, monitor: Monitor) -> SolverResult:
        """Ascend, and certify what was reached, unless interrupted where that takes long."""
        status: Status = "stopped"
        certified = True
        try:
            if self.init is not None:
                self._start_at(*self.init)
            status = self._ascend(is_small, most_epochs, monitor)
        except Overdue:
            certified = False
        return SolverResult(
            model=self._weights.model(last=True),
            status=status,
            objective=self._primal if certified else None,
            duality_gap=self._gap if certified else None,
            n_iter=self._n_epochs,
            n_passes=self._weights.n_passes,
        )

    def _ascend(self, is_small: IsSmall, most_epochs: int, monitor: Monitor) -> Status:
        gaps: list[float] = []
        for self._n_epochs in range(1, most_epochs + 1):
            steps = self._schedule.n_steps
            stuck = len(gaps) > _PATIENCE and gaps[-1] > _PROGRESS * gaps[-1 - _PATIENCE]
            turns = self._is_cyclic and not stuck
            visit = self._schedule.cyclic if turns else self._schedule.adaptive
            for order in self._draw_orders():
                self._weights.epoch(visit, order, self._gap_of)
            if self._schedule.n_steps == steps:  # by chance, if the schedule is the adaptive one
                order = self._shuffle(np.arange(self._patterns.n_patterns))
                self._weights.epoch(self._schedule.cyclic, order, self._gap_of)
            self._evaluate()
            gaps.append(self._gap)
            numbers = self._collect_numbers()
            go_on = monitor.report(self._n_epochs, model=self._weights.model, **numbers)
            if is_small(self._gap, self._primal):
                return "converged"
            if not go_on:
                return monitor.interruption or "stopped"
            if self._schedule.n_steps == steps:
                return "stopped"
        return "max_iter"

    def _draw_orders(self) -> Iterator[Indices]:
        """The visits of an epoch.

        The cyclic schedule leaves out shrunk patterns, and goes several times over the others:
        without enough visits, the look at all scores would be the dearer part.
        """
        everything = np.arange(self._patterns.n_patterns)
        if not self._is_cyclic:
            yield self._shuffle(everything)
            return
        active = np.flatnonzero(self._gap_of >= _SHRUNK * self._gap_of.mean())
        n_sweeps = len(everything) // len(active) if len(active) else 0
        for _ in range(min(n_sweeps, _MOST_SWEEPS)):
            yield self._shuffle(active)

    def _shuffle(self, visited: Indices) -> Indices:
        """Groups in random order, and so the patterns of each."""
        shuffled = self._rng.permutation(visited)
        rank = self._rng.permutation(len(self._layout.group_ptr) - 1)
        return shuffled[np.argsort(rank[self._layout.group[shuffled]], kind="stable")]

    def _evaluate(self) -> None:
        loss, linear = self._patterns.evaluate(self._weights.of_items(), self._gap_of)
        half = 0.5 * self._weights.squared_norm()
        linear -= self._weights.product_with_base()
        self._primal, self._dual = half + loss, linear - half

    @property
    def _gap(self) -> float:
        gap = self._primal - self._dual
        return 0.0 if gap <= self.rounding else gap

    def _collect_numbers(self) -> dict[str, float]:
        optimize, process_old, process_new = self._schedule.counts
        return {
            "objective": self._primal,
            "dual": self._dual,
            "duality_gap": self._gap,
            "kernel_evaluations": float(self._weights.n_evaluations),
            "certificate_evaluations": float(self._weights.n_certificate_evaluations),
            "support_vectors": float(self._patterns.n_vectors),
            "support_patterns": float(self._patterns.n_support),
            "process_new": float(process_new),
            "process_old": float(process_old),
            "optimize": float(optimize),
            "visits": float(self._schedule.n_visits),
            "steps": float(self._schedule.n_steps),
        }
