"""The contract of solvers: checks that plugin authors can run on theirs.

With pytest::

    import pytest
    from rankplug.testing import contract_checks

    @pytest.mark.parametrize("check", contract_checks(MySolver()), ids=str)
    def test_contract(check):
        check()

A check that fails raises `AssertionError`. A parameter named `tol` is taken to be what it is
everywhere in rankplug, and the one that `Solver.iteration_limit` names to bound iterations.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from rankplug.solver import Solver
from rankplug.testing import checks_of_data as data
from rankplug.testing import checks_of_solvers as solvers
from rankplug.testing.cases import Case

Check: TypeAlias = Callable[[Case], None]
Condition: TypeAlias = Callable[[Case], bool]


@dataclass(frozen=True, eq=False)
class ContractCheck:
    """One check of one solver on one task; call it to run it."""

    case: Case
    check: Check

    def __call__(self) -> None:
        """Run the check."""
        self.check(self.case)

    def __str__(self) -> str:
        return f"{self.case.solver.name}-{self.case.task}-{self.check.__name__}"


def contract_checks(solver: Solver) -> list[ContractCheck]:
    """The checks that apply to a solver with its tags, for each of its tasks.

    Parameters
    ----------
    solver : Solver
        With parameters at which 100 rows take milliseconds. It is cloned.

    Returns
    -------
    list of ContractCheck
    """
    return [
        ContractCheck(case, check)
        for case in (Case(solver, task) for task in solver.tags.tasks)
        for check, applies in _CONTRACT
        if applies(case)
    ]


def _always(_: Case) -> bool:
    return True


def _is_exact(case: Case) -> bool:
    return case.solver.tags.exact


def _has_objective(case: Case) -> bool:
    return case.solver.describe_objective() is not None


def _has_weights(case: Case) -> bool:
    return case.solver.tags.exact and case.task == "query-document"


def _starts_from_models(case: Case) -> bool:
    return case.solver.tags.warm_start or case.solver.tags.takes_init


_CONTRACT: tuple[tuple[Check, Condition], ...] = (
    (solvers.states_name_and_tags, _always),
    (solvers.copies_are_equal, _always),
    (solvers.declares_its_parameters, _always),
    (solvers.describes_its_objective, _always),
    (solvers.changes_its_objective_with_the_minimum, _has_objective),
    (solvers.agrees_with_solvers_of_its_objective, _has_objective),
    (solvers.returns_sensible_numbers, _always),
    (solvers.closes_the_gap, lambda case: case.solver.tags.duality_gap and case.has("tol")),
    (solvers.predicts_finite_scores, _always),
    (solvers.learns, lambda case: case.solver.tags.learns),
    (solvers.saves_the_same_model, _always),
    (solvers.is_deterministic, _always),
    (solvers.tells_the_callback, _always),
    (solvers.stops_for_the_callback, _always),
    (solvers.stops_for_the_time_limit, _always),
    (solvers.tells_max_iter, lambda case: case.has("tol", case.solver.iteration_limit)),
    (solvers.starts_warm, _starts_from_models),
    (solvers.adds_to_a_model, lambda case: case.solver.tags.continues),
    (solvers.refuses_init, lambda case: not _starts_from_models(case)),
    (data.nothing_is_modified, _always),
    (data.read_only_is_enough, _always),
    (data.feature_kinds_agree, _always),
    (data.sparse_is_refused, lambda case: not case.solver.tags.sparse),
    (data.missing_values_are_taken, lambda case: case.solver.takes_missing_values()),
    (data.missing_values_are_refused, lambda case: not case.solver.takes_missing_values()),
    (data.row_order_is_irrelevant, _is_exact),
    (data.silent_rows_are_legal, _always),
    (data.silent_rows_change_nothing, _is_exact),
    (data.weight_zero_drops_a_query, _has_weights),
    (data.weight_two_repeats_a_query, _has_weights),
    (data.document_weights_are_used_or_refused, lambda case: case.task == "query-document"),
    (data.any_real_relevance_is_taken, _always),
    (data.no_preference_is_refused, _always),
    (data.foreign_data_are_refused, _always),
    (data.validation_data_are_checked, _always),
    (data.validation_data_change_nothing, lambda case: not case.solver.tags.validation),
)
