"""Epochs of dual ascent until the duality gap is small."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rankplug.solver import Monitor, SolverResult, Status
from rankplug.system.interruption import interrupted
from rankplug_plugins.larank import _larank_fast as fast
from rankplug_plugins.larank.patterns import Layout
from rankplug_plugins.larank.weights import Weights

__all__ = ["Ascent", "ScheduleName"]

Indices: TypeAlias = NDArray[np.int64]
ScheduleName: TypeAlias = Literal["adaptive", "cyclic"]

_SHRUNK = 0.1  # of the mean gap: below it the cyclic schedule passes over a pattern for an epoch
_MOST_SWEEPS = 10  # over the others in one epoch, as their gaps grow old


class Ascent:
    """Epochs of one schedule over patterns in random order.

    The duality gap is a sum over patterns of what each lacks to its optimum,

        bound_p max(0, max_b m_pb) - sum_b alpha_pb m_pb,    m_pb = margin_pb - (s_own - s_b),

    so one look at all scores after an epoch certifies it and shows where it comes from. An epoch

    1. draws the order of the patterns, those of a group one after the other;
    2. lets the compiled schedule take its steps, while `Weights` keeps up the scores it reads;
    3. visits all patterns in turn if, by chance, the adaptive schedule took no step;
    4. evaluates both objectives, and ends the ascent if the gap is small or nothing moved.
    """

    def __init__(
        self,
        layout: Layout,
        patterns: fast.Patterns,
        weights: Weights,
        schedule: ScheduleName,
        rng: np.random.Generator,
    ) -> None:
        self._layout = layout
        self._patterns = patterns
        self._weights = weights
        self._rng = rng
        self._is_cyclic = schedule == "cyclic"
        seed = int(rng.integers(2**63))
        self._schedule = fast.Schedule(patterns, weights.scores, seed)
        self._gap_of = np.full(patterns.n_patterns, np.inf)
        self._primal = np.inf
        self._dual = 0.0
        self._certified = True

    def run(self, tol: float, most_epochs: int, monitor: Monitor) -> SolverResult:
        """Ascend, and certify what was reached, unless interrupted where that takes long."""
        n_epochs, status = self._ascend(tol, most_epochs, monitor)
        return SolverResult(
            model=self._weights.model(),
            status=status,
            objective=self._primal if self._certified else None,
            duality_gap=self._gap if self._certified else None,
            n_iter=n_epochs,
            n_passes=self._weights.n_passes,
        )

    def _ascend(self, tol: float, most_epochs: int, monitor: Monitor) -> tuple[int, Status]:
        visit = self._schedule.cyclic if self._is_cyclic else self._schedule.adaptive
        for n_epochs in range(1, most_epochs + 1):
            steps = self._schedule.n_steps
            for order in self._draw_orders():
                self._weights.epoch(visit, order, self._gap_of)
            if self._schedule.n_steps == steps:  # by chance, if the schedule is the adaptive one
                order = self._shuffle(np.arange(self._patterns.n_patterns))
                self._weights.epoch(self._schedule.cyclic, order, self._gap_of)
            if interrupted() and not self._weights.explicit:
                self._certified = False
                return n_epochs, "stopped"
            self._evaluate()
            go_on = monitor.report(n_epochs, **self._collect_numbers())
            if self._gap <= tol * self._primal:
                return n_epochs, "converged"
            if not go_on:
                return n_epochs, monitor.interruption or "stopped"
            if self._schedule.n_steps == steps:
                return n_epochs, "stopped"
        return most_epochs, "max_iter"

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
        self._primal, self._dual = half + loss, linear - half

    @property
    def _gap(self) -> float:
        return max(self._primal - self._dual, 0.0)

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
