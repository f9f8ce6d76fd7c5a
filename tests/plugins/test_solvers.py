"""The contract suite on every registered solver, and the suite itself on broken solvers."""

import dataclasses
import warnings

import numpy as np
import pytest
from scipy import sparse

import rankplug
from rankplug.models import LinearModel
from rankplug.parameters import Integer, Real
from rankplug.solver import Objective, Solver, SolverTags
from rankplug.testing import PairDirection, contract_checks, make_problem
from rankplug_plugins.tree_tron import TreeTron


def registered_solvers():
    with warnings.catch_warnings():  # a plugin that cannot be imported is no solver to check
        warnings.simplefilter("ignore")
        names = [info.name for info in rankplug.list_solvers() if info.available]
    solvers = [rankplug.make_solver(name) for name in names]
    for solver in solvers:
        if "n_threads" in solver.get_params():
            solver.set_params(n_threads=1)  # starting threads takes longer than these problems
        if solver.iteration_limit == "n_estimators":
            solver.set_params(n_estimators=20)  # trees beyond these change nothing in the rules
        if solver.name == "mapped":
            solver.set_params(map__leaves__n_estimators=5, C=1.0)
    return solvers


@pytest.mark.parametrize(
    "check",
    [check for solver in registered_solvers() for check in contract_checks(solver)],
    ids=str,
)
def test_registered_solver(check):
    check()


def test_the_solvers_of_this_distribution_are_registered():
    own = {info.name for info in rankplug.list_solvers() if info.package == "rankplug"}
    assert {"tree-tron", "xgboost-pairwise"} <= own


@pytest.mark.parametrize("check", contract_checks(PairDirection()), ids=str)
def test_the_example_in_the_documentation(check):
    check()


class SameByAnotherName(Solver):
    """Minimises what tree-tron does, with a parameter of another name."""

    name = "same-by-another-name"
    tags = TreeTron.tags
    parameters = {"strength": Real(0), "tol": Real(0), "max_iter": Integer(1)}

    def __init__(self, strength=1.0, tol=1e-3, max_iter=100):
        self.strength = strength
        self.tol = tol
        self.max_iter = max_iter

    def describe_objective(self):
        return TreeTron(self.strength).describe_objective()

    def _solve(self, data, init, monitor, rng):
        solver = TreeTron(self.strength, tol=self.tol, max_iter=self.max_iter)
        return solver._solve(data, init, monitor, rng)


@pytest.mark.parametrize("check", contract_checks(SameByAnotherName()), ids=str)
def test_two_packages_may_have_one_objective(check):
    check()


def test_which_solvers_have_one_objective():
    solvers = {name: rankplug.make_solver(name) for name in ("a2dm2", "toppush", "tree-tron")}
    described = {name: solver.describe_objective() for name, solver in solvers.items()}
    assert described["a2dm2"] == described["toppush"]
    assert solvers["toppush"].set_params(top_k=2).describe_objective() != described["a2dm2"]
    assert solvers["tree-tron"].set_params(C=2.0).describe_objective() != described["tree-tron"]
    assert rankplug.make_solver("cutting-plane").describe_objective() != described["tree-tron"]
    assert rankplug.make_solver("pointwise").describe_objective() is None
    linear, other = (rankplug.make_solver("larank", gamma=gamma) for gamma in (None, 0.5))
    assert linear.describe_objective() == other.describe_objective()
    for solver in (linear, other):
        solver.set_params(kernel="rbf")
    assert linear.describe_objective() != other.describe_objective()


def replaced(result, **changes):
    return dataclasses.replace(result, **changes)


def shifted(result, amount):
    return replaced(result, model=LinearModel(result.model.coef + amount))


class Broken(PairDirection):
    """A solver with one fault, on queries only so that the faults stay short."""

    tags = dataclasses.replace(PairDirection.tags, tasks=("query-document",))

    def _solve(self, data, init, monitor, rng):
        return self.fault(super()._solve(data, init, monitor, rng), data, monitor)

    def fault(self, result, data, monitor):
        return result


class ChangesItself(Broken):
    def fault(self, result, data, monitor):
        self.C *= 1.5
        return result


class ChangesData(Broken):
    def fault(self, result, data, monitor):
        data.relevance[:] += 1.0
        return result


class DrawsGlobally(Broken):
    def fault(self, result, data, monitor):
        np.random.rand()  # noqa: NPY002
        return result


class IsRandom(Broken):
    def fault(self, result, data, monitor):
        return shifted(result, np.random.default_rng().normal())


class IgnoresWeights(Broken):
    def _solve(self, data, init, monitor, rng):
        return super()._solve(dataclasses.replace(data, query_weight=None), init, monitor, rng)


class DependsOnOrder(Broken):
    def fault(self, result, data, monitor):
        return shifted(result, 10 * data.X[[0]].sum())


class CountsRows(Broken):
    def fault(self, result, data, monitor):
        return shifted(result, data.n_samples)


class ReadsSparseWrongly(Broken):
    def fault(self, result, data, monitor):
        return shifted(result, 5.0) if sparse.issparse(data.X) else result


class IgnoresTheCallback(Broken):
    def fault(self, result, data, monitor):
        monitor.report(2, objective=0.0)
        return replaced(result, status="converged", n_iter=2)


class CountsBackwards(Broken):
    def fault(self, result, data, monitor):
        monitor.report(0)
        return result


class ReportsNothing(Broken):
    def fault(self, result, data, monitor):
        monitor.history.clear()
        return result


class HasNoSuchStatus(Broken):
    def fault(self, result, data, monitor):
        return replaced(result, status="optimal")


class HasNoGap(Broken):
    def fault(self, result, data, monitor):
        return replaced(result, duality_gap=None)


class LearnsBackwards(Broken):
    def fault(self, result, data, monitor):
        return replaced(result, model=LinearModel(-result.model.coef))


class PredictsSingles(Broken):
    def fault(self, result, data, monitor):
        result.model._predict = lambda X: np.asarray(X @ result.model.coef, dtype=np.float32)
        return result


class HidesAParameter(Broken):
    parameters = {}


class NeverConverges(Broken):
    parameters = {"C": Real(0), "tol": Real(0), "max_iter": Integer(1)}

    def __init__(self, C=1.0, tol=1e-3, max_iter=10):
        super().__init__(C)
        self.tol = tol
        self.max_iter = max_iter

    def fault(self, result, data, monitor):
        return replaced(result, duality_gap=1.0 + abs(result.objective))


class RefusesNegatives(Broken):
    def check(self, data):
        super().check(data)
        if data.relevance.min() < 0:
            raise ValueError("no negative relevance")


class HasNoReference(Broken):
    tags = SolverTags(("query-document",), "a problem", "", duality_gap=True)


class ForgetsAParameter(Broken):
    def describe_objective(self):
        return Objective("forgetful", {})


class ClaimsAnothersObjective(Broken):
    def describe_objective(self):
        return TreeTron(self.C).describe_objective()


class StatesItsTolerance(NeverConverges):
    def describe_objective(self):
        return Objective("tolerant", {"tol": self.tol})


class UsesValidationUntold(Broken):
    def solve(self, data, *, valid=None, **arguments):
        result = super().solve(data, valid=valid, **arguments)
        return result if valid is None else shifted(result, 1.0)


@pytest.mark.parametrize(
    ("solver", "caught_by"),
    [
        (ChangesItself, "nothing_is_modified"),
        (ChangesData, "nothing_is_modified"),
        (DrawsGlobally, "nothing_is_modified"),
        (ChangesData, "read_only_is_enough"),
        (IsRandom, "is_deterministic"),
        (IgnoresWeights, "weight_zero_drops_a_query"),
        (IgnoresWeights, "weight_two_repeats_a_query"),
        (DependsOnOrder, "row_order_is_irrelevant"),
        (CountsRows, "silent_rows_change_nothing"),
        (ReadsSparseWrongly, "feature_kinds_agree"),
        (IgnoresTheCallback, "stops_for_the_callback"),
        (IgnoresTheCallback, "stops_for_the_time_limit"),
        (CountsBackwards, "returns_sensible_numbers"),
        (ReportsNothing, "returns_sensible_numbers"),
        (ReportsNothing, "tells_the_callback"),
        (HasNoSuchStatus, "returns_sensible_numbers"),
        (HasNoGap, "returns_sensible_numbers"),
        (NeverConverges, "closes_the_gap"),
        (NeverConverges, "tells_max_iter"),
        (LearnsBackwards, "learns"),
        (PredictsSingles, "predicts_finite_scores"),
        (PredictsSingles, "saves_the_same_model"),
        (HidesAParameter, "declares_its_parameters"),
        (HasNoReference, "states_name_and_tags"),
        (RefusesNegatives, "any_real_relevance_is_taken"),
        (ForgetsAParameter, "changes_its_objective_with_the_minimum"),
        (ClaimsAnothersObjective, "agrees_with_solvers_of_its_objective"),
        (StatesItsTolerance, "describes_its_objective"),
        (UsesValidationUntold, "validation_data_change_nothing"),
    ],
)
def test_the_contract_catches(solver, caught_by):
    (check,) = [c for c in contract_checks(solver()) if c.check.__name__ == caught_by]
    with pytest.raises((AssertionError, ValueError, AttributeError)) as caught:
        check()
    assert not isinstance(caught.value, AssertionError) or str(caught.value)


def test_the_unbroken_solver_passes():
    for check in contract_checks(Broken()):
        check()


def test_checks_are_named_after_solver_task_and_rule():
    names = [str(check) for check in contract_checks(PairDirection())]
    assert "pair-direction-label-ranking-is_deterministic" in names
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("task", ["query-document", "label-ranking"])
def test_problems_have_ties_zeros_and_preferences(task):
    problem = make_problem(task)
    problem.data().require_pairs()
    assert (problem.X == 0).mean() > 0.3
    assert len(np.unique(problem.y)) == 3
    assert make_problem(task, seed=1).y.shape[1:] == problem.y.shape[1:]
