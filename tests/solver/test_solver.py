import dataclasses
import pickle
import re
import time
import warnings
from typing import Annotated, ClassVar, Literal

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import rankplug
from rankplug import (
    LabelRanker,
    LabelRankingData,
    Ranker,
    RankingData,
    Solver,
    SolverResult,
    SolverTags,
    make_solver,
    metrics,
    path,
)
from rankplug.exceptions import ConvergenceWarning, DataError, ParameterError
from rankplug.models import LabelLinearModel, LinearModel
from rankplug.parameters import Choice, Count, Integer, Optional, Positive, Real, Threads
from rankplug.solver import Monitor
from rankplug.solver.base import as_generator
from rankplug.testing import PairDirection, make_problem


class Counting(Solver):
    """Counts to `steps`, and notes what it was given."""

    name = "counting"
    tags = SolverTags(
        ("query-document", "label-ranking"), "none", "none", warm_start=True, validation=True
    )
    parameters = {"C": Real(0), "steps": Integer(0), "max_iter": Integer(1)}

    def __init__(self, C=1.0, steps=3, max_iter=5):
        self.C = C
        self.steps = steps
        self.max_iter = max_iter

    def _solve(self, data, init, monitor, rng, valid=None):
        type(self).seen = {"init": init, "rng": rng, "valid": valid}
        n_iter, status = 0, "converged"
        while n_iter < self.steps:
            if n_iter == self.max_iter:
                status = "max_iter"
                break
            n_iter += 1
            if not monitor.report(n_iter, objective=10.0 - n_iter):
                status = monitor.interruption
                break
        start = np.zeros(data.n_features) if init is None else init.coef
        return SolverResult(LinearModel(start + self.C), status, 7.0, None, n_iter, float(n_iter))


@pytest.fixture
def data():
    return make_problem("query-document").data()


# parameters


class Declared(Counting):
    """Its parameters are lines of its body."""

    steps: Annotated[int, Integer(0)] = 2
    max_iter: Count = 5
    C: Positive = dataclasses.field(default=2.0, kw_only=False)
    how: Literal["up", "down"] = "up"
    aloud: bool = False
    seed: Annotated[int, Integer(0)] | None = None


class Extended(Declared):
    how: Literal["sideways"] = "sideways"
    threads: Threads = None
    tags: ClassVar = Counting.tags


def test_parameters_are_declared_where_they_have_their_defaults(data):
    assert Declared.parameters == {
        "steps": Integer(0),
        "max_iter": Integer(1, most=2**31 - 1),
        "C": Real(0),
        "how": Choice(("up", "down")),
        "aloud": Choice((True, False)),
        "seed": Optional(Integer(0)),
    }
    solver = Declared(3.0, how="down")
    assert solver.get_params() == {
        "steps": 2, "max_iter": 5, "C": 3.0, "how": "down", "aloud": False, "seed": None
    }  # fmt: skip
    assert repr(solver) == "Declared(C=3.0, how='down')"
    assert clone(solver).get_params() == pickle.loads(pickle.dumps(solver)).get_params()
    assert clone(solver).get_params() == solver.get_params()
    assert solver != clone(solver)
    assert (solver.solve(data).model.coef == 3.0).all()
    with pytest.raises(TypeError, match="positional"):
        Declared(3.0, 2)
    with pytest.raises(ParameterError, match=r"Declared: steps=-1 .*; aloud=1 \(must be one of T"):
        Declared(steps=-1, aloud=1).solve(data)


def test_parameters_are_inherited_and_may_change():
    assert Extended.parameters == {
        **Declared.parameters,
        "how": Choice(("sideways",)),
        "threads": Optional(Integer(1, most=2**31 - 1)),
    }
    assert Extended(1.0).get_params() == {
        **Declared(1.0).get_params(), "how": "sideways", "threads": None
    }  # fmt: skip


def test_what_a_parameter_may_be_has_to_be_said():
    with pytest.raises(TypeError, match="Silent does not say what loudness may be"):

        class Silent(Counting):
            other: bool = True
            loudness: float = 1.0


@dataclasses.dataclass(repr=False, eq=False)
class Older(Counting):
    """A dataclass that lists its parameters itself."""

    parameters: ClassVar = {"C": Real(0), "steps": Integer(0), "max_iter": Integer(1)}
    C: float = 1.0
    steps: "int" = 3
    max_iter: "Known only to type checkers" = 5  # noqa: F722


@pytest.mark.parametrize("solver", [Counting(2.0, 4), Older(2.0, 4)], ids=["init", "dataclass"])
def test_a_class_may_write_its_own_init_and_parameters(solver, data):
    assert solver.get_params() == {"C": 2.0, "steps": 4, "max_iter": 5}
    assert clone(solver).get_params() == solver.get_params()
    assert (clone(solver).set_params(C=3.0).solve(data).model.coef == 3.0).all()
    with pytest.raises(ParameterError, match=r"C=0 .*; steps=1.5 \(must be an integer"):
        clone(solver).set_params(C=0, steps=1.5).solve(data)


# solve


def test_the_result_carries_history_time_and_names(data):
    named = dataclasses.replace(data, feature_names=tuple("abcde"))
    result = Counting().solve(named)
    assert [row["n_iter"] for row in result.history] == [1, 2, 3]
    assert [row["objective"] for row in result.history] == [9.0, 8.0, 7.0]
    assert 0 <= result.history[0]["seconds"] <= result.history[-1]["seconds"] <= result.seconds
    assert result.model.feature_names == tuple("abcde")
    assert result.status == "converged"


def test_the_callback_sees_every_iteration(data):
    seen = []
    Counting().solve(data, callback=lambda progress: seen.append(progress))
    assert [(p.n_iter, p.values) for p in seen] == [
        (1, {"objective": 9.0}),
        (2, {"objective": 8.0}),
        (3, {"objective": 7.0}),
    ]


def test_the_callback_stops(data):
    result = Counting(steps=100).solve(data, callback=lambda progress: progress.n_iter == 2)
    assert (result.status, result.n_iter, len(result.history)) == ("stopped", 2, 2)


def test_errors_in_the_callback_are_not_swallowed(data):
    def interrupt(progress):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Counting().solve(data, callback=interrupt)


def test_the_time_limit_stops(data):
    result = Counting(steps=100).solve(data, time_limit=1e-9)
    assert (result.status, result.n_iter) == ("time_limit", 1)
    slow = Counting().solve(data, time_limit=0.001, callback=lambda progress: time.sleep(0.002))
    assert (slow.status, slow.n_iter) == ("time_limit", 2)


def test_the_callbacks_wish_comes_before_the_time_limit():
    monitor = Monitor(callback=lambda progress: True, time_limit=1e-9)
    assert not monitor.report(1)
    assert monitor.interruption == "stopped"


def test_running_out_of_iterations_warns_at_the_call(data):
    with pytest.warns(ConvergenceWarning, match=r"counting stopped after 5 .*objective 7\)") as log:
        Counting(steps=9).solve(data)
    assert log[0].filename == __file__


def test_the_warning_does_without_an_objective(data):
    class Unstated(Counting):
        def _solve(self, *args, **kwargs):
            result = super()._solve(*args, **kwargs)
            return dataclasses.replace(result, objective=None)

    with pytest.warns(ConvergenceWarning, match="before reaching its tolerance: raise max_iter"):
        Unstated(steps=9).solve(data)


def test_an_end_by_rounding_errors_warns_at_the_call():
    rng = np.random.default_rng(0)
    X, y, qid = rng.normal(size=(200, 5)), rng.integers(0, 3, 200), np.arange(200) // 20
    X[:, 0] *= 1e9
    text = r"as rounding errors allow no more progress.*\(objective .*, duality gap .*\): .*scale"
    with pytest.warns(ConvergenceWarning, match=text) as log:
        result = make_solver("cutting-plane").solve(RankingData.from_arrays(X, y, qid))
    assert result.status == "stopped"
    assert result.duality_gap > 0.1 * result.objective
    assert [one.filename for one in log] == [__file__]
    with pytest.warns(ConvergenceWarning, match=text) as log:
        Ranker("cutting-plane").fit(X, y, qid=qid)
    assert [one.filename for one in log] == [__file__]


class Stuck(Counting):
    """Ends after a step, as if rounding errors ruled, or as if all were well."""

    ends: ClassVar = "stopped"

    parameters: ClassVar = {**Counting.parameters, "tol": Real(0), "gap": Real(0)}

    def __init__(self, C=1.0, steps=3, max_iter=5, tol=1e-3, gap=0.1):
        super().__init__(C, steps, max_iter)
        self.tol = tol
        self.gap = gap

    def _solve(self, data, init, monitor, rng, valid=None):
        result = super()._solve(data, init, monitor, rng, valid)
        return dataclasses.replace(result, status=self.ends, objective=7.0, duality_gap=self.gap)


class Sure(Stuck):
    ends: ClassVar = "converged"


def test_a_stop_that_somebody_asked_for_does_not_warn(data):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Stuck().solve(data, callback=lambda progress: True).status == "stopped"
        assert Stuck().solve(data, time_limit=1e-9).status == "time_limit"


@pytest.mark.parametrize("solver", [Stuck, Sure])
def test_the_certificate_says_what_is_convergence(data, solver):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert solver(gap=0.007).solve(data).status == "converged"
    with pytest.warns(ConvergenceWarning, match="gap 0.0071"):
        assert solver(gap=0.0071).solve(data).status == "stopped"


def noisy_documents():
    """Documents in which every query has exceptions, so that losses of the worst pair want 0."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 5))
    utility = X @ [2, -1, 0.5, 1, 0] + 2 * rng.normal(size=400)
    return RankingData.from_arrays(X, np.digitize(utility, [0, 2]), np.arange(400) // 100)


def constant_features():
    rng = np.random.default_rng(0)
    return RankingData.from_arrays(np.ones((40, 2)), rng.integers(0, 3, 40), np.arange(40) // 10)


WORST = {"larank": {"patterns": "items"}, "sopopo": {"decomposition": "adjacent-layers"}}
"""What makes a loss of the worst pairs, not of all."""
TWO_KINDS = {name: {"threshold": 0.0} for name in ("toppush", "a2dm2")}


@pytest.mark.parametrize(
    ("name", "make_data", "reason"),
    [
        ("larank", noisy_documents, "no better than w = 0 .*191.*worst pair.*patterns='pairs'"),
        ("sopopo", noisy_documents, r"no better than w = 0 .* 8\).*decomposition='all-pairs'"),
        ("toppush", noisy_documents, "optimum is w = 0.*top_k > 1"),
        ("a2dm2", noisy_documents, "optimum is w = 0.*toppush.*top_k > 1"),
        ("tree-tron", constant_features, "the same score to all rows of a query.*add others"),
        ("cutting-plane", constant_features, "the same score to all rows of a query.*add others"),
        ("pointwise", constant_features, "the same score to all rows of a query.*add others"),
        ("xgboost-pairwise", constant_features, "the same score to all rows of a query"),
    ],
)
def test_a_model_that_ranks_nothing_warns_at_the_call(name, make_data, reason):
    with pytest.warns(UserWarning, match=f"{name}: .*ranks nothing.*") as log:
        make_solver(name, **(WORST | TWO_KINDS).get(name, {})).solve(make_data())
    assert re.search(reason, str(log[0].message))
    assert [one.filename for one in log] == [__file__]


@pytest.mark.parametrize("name", WORST)
def test_documents_that_are_noisy_are_learned_by_default(name):
    data = noisy_documents()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = make_solver(name, C=0.01).solve(data, random_state=0)
    scores = result.model.predict(data.X)
    found = metrics.evaluate(data.relevance, scores, data.qid, ["pairwise_accuracy"])
    assert found["pairwise_accuracy"] == pytest.approx(0.86, abs=0.005)


def test_labels_of_the_same_score_are_told():
    data = LabelRankingData.from_arrays(np.zeros((6, 2)), [0, 1, 2] * 2)
    with pytest.warns(UserWarning, match="the same score to all labels of an instance"):
        make_solver("tree-tron").solve(data)


@pytest.mark.parametrize(
    ("solver", "change"),
    [
        (make_solver("constant"), 1.0),  # a sanity ranker
        (make_solver("tree-tron", C=1e-14), 1.0),  # little, but in the right direction
        (make_solver("tree-tron"), 1e-20),
        (make_solver("sopopo", decomposition="all-pairs", C=1e-9), 1.0),
        (make_solver("sopopo", C=1e-6), 1.0),
    ],
)
def test_small_weights_are_not_nothing(solver, change):
    data = noisy_documents()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        solver.solve(dataclasses.replace(data, X=data.X * change))


def test_convergence_does_not_warn(data):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Counting().solve(data)


@pytest.mark.parametrize(
    ("params", "arguments", "message"),
    [
        ({"C": 0, "steps": 1.5}, {}, r"Counting: C=0 .*; steps=1.5 \(must be an integer"),
        ({}, {"time_limit": 0}, "time_limit=0 "),
        ({}, {"time_limit": "soon"}, "time_limit='soon'"),
        ({}, {"time_limit": np.nan}, "time_limit=nan"),
        ({}, {"random_state": "seed"}, "random_state='seed' must be None, an integer"),
        ({}, {"random_state": -1}, "random_state=-1"),
        ({}, {"init": [1.0]}, "init must be a SolverResult or a Model, not list"),
        ({}, {"init": LinearModel(np.ones(4))}, "init has 4 features but the data have 5"),
        ({}, {"init": LabelLinearModel(np.ones((3, 5)))}, "init scores 3 labels .* for rows"),
    ],
)
def test_wrong_arguments(data, params, arguments, message):
    with pytest.raises(ParameterError, match=message):
        Counting(**params).solve(data, **arguments)


def test_wrong_number_of_labels_at_the_start():
    data = make_problem("label-ranking").data()
    for init, scored in [
        (LinearModel(np.ones(5)), "rows"),
        (LabelLinearModel(np.ones((3, 5))), "3 labels"),
    ]:
        with pytest.raises(ParameterError, match=f"init scores {scored} but .* for 4 labels"):
            Counting().solve(data, init=init)


def test_wrong_data(data):
    with pytest.raises(DataError, match=r"not ndarray: make them with RankingData\.from_arrays"):
        Counting().solve(data.X)
    with pytest.raises(DataError, match="no preference pair"):
        Counting().solve(dataclasses.replace(data, relevance=np.ones(data.n_samples)))
    with pytest.raises(DataError, match="sample_weight is zero for every query"):
        Counting().solve(dataclasses.replace(data, query_weight=np.zeros(data.n_queries)))
    last = (data.relevance == data.relevance.min()).astype(float)
    with pytest.raises(DataError, match="document_weight is zero for every row above another"):
        rankplug.make_solver("tree-tron").solve(dataclasses.replace(data, document_weight=last))


def test_a_solver_of_documents_refuses_labels():
    class Documents(Counting):
        tags = SolverTags(("query-document",), "none", "none")

    with pytest.raises(DataError, match="counting solves query-document, not label-ranking"):
        Documents().solve(make_problem("label-ranking").data())


@pytest.mark.parametrize("wrap", [lambda result: result, lambda result: result.model])
def test_starting_from_a_result_or_its_model(data, wrap):
    first = Counting(C=2.0).solve(data)
    second = Counting(C=3.0).solve(data, init=wrap(first))
    assert Counting.seen["init"] is first.model
    assert second.model.coef.tolist() == [5.0] * 5


def test_a_cold_solver_refuses_to_start_warm(data):
    with pytest.raises(ParameterError, match="pair-direction cannot start from an earlier result"):
        PairDirection().solve(data, init=LinearModel(np.ones(5)))


def test_validation_data_reach_the_solvers_that_use_them(data):
    valid = make_problem("query-document", seed=1).data()
    Counting().solve(data, valid=valid)
    assert Counting.seen["valid"] is valid
    Counting().solve(data)
    assert Counting.seen["valid"] is None
    assert PairDirection().solve(data, valid=valid).status == "converged"


def test_wrong_validation_data(data):
    narrow = make_problem("query-document").data(np.ones((74, 3)))
    with pytest.raises(DataError, match="validation data have 3 features, the training data 5"):
        Counting().solve(data, valid=narrow)
    with pytest.raises(DataError, match="validation data are LabelRankingData"):
        Counting().solve(data, valid=make_problem("label-ranking").data())


def test_parameters_cannot_be_misspelt_in_init():
    with pytest.raises(TypeError, match="Cs"):
        Counting(Cs=1)


# Random states


def test_generators_from_random_states():
    def draw(random_state):
        return as_generator(random_state).integers(2**40)

    assert draw(3) == draw(3) == draw(np.int64(3))
    assert draw(np.random.RandomState(3)) == draw(np.random.RandomState(3))
    assert draw(None) != draw(None)
    generator = np.random.default_rng(0)
    assert as_generator(generator) is generator


def test_the_random_state_reaches_the_solver(data):
    Counting().solve(data, random_state=7)
    assert Counting.seen["rng"].integers(2**40) == np.random.default_rng(7).integers(2**40)


# path


def test_a_path_starts_where_the_value_before_ended(data):
    results = path(Counting(C=99.0), data, [1.0, 2.0, 4.0])
    assert [result.model.coef[0] for result in results] == [1.0, 3.0, 7.0]


def test_a_path_of_a_cold_solver_solves_each_anew(data):
    results = path(PairDirection(), data, np.array([1.0, 2.0]))
    np.testing.assert_allclose(results[1].model.coef, 2 * results[0].model.coef)


def test_a_path_leaves_the_solver_alone(data):
    solver = PairDirection(C=3.0)
    path(solver, data, [1.0])
    assert solver.C == 3.0


def test_a_path_agrees_with_single_solutions(data):
    solver = rankplug.make_solver("tree-tron", tol=1e-8, max_iter=1000)
    Cs = [1e-3, 1e-2, 1e-1]
    for C, result in zip(Cs, path(solver, data, Cs), strict=True):
        single = rankplug.make_solver("tree-tron", C=C, tol=1e-8, max_iter=1000).solve(data)
        assert result.objective == pytest.approx(single.objective, rel=1e-6)
        np.testing.assert_allclose(result.model.coef, single.model.coef, atol=1e-4)


@pytest.mark.parametrize(
    ("Cs", "message"),
    [([], "Cs is empty"), ([1.0, -1.0], r"C=-1\.0 "), (["a"], "C='a' "), ([np.inf], "C=inf ")],
)
def test_wrong_paths(data, Cs, message):
    with pytest.raises(ParameterError, match=message):
        path(PairDirection(), data, Cs)


def test_no_path_without_c(data):
    solver = rankplug.make_solver("xgboost-pairwise")
    with pytest.raises(ParameterError, match="xgboost-pairwise has no parameter C"):
        path(solver, data, [1.0])


def test_warnings_point_at_the_line_of_the_caller(data):
    """Through estimators, paths, pipelines, searches and solvers within solvers."""
    X, y, qid = data.X, data.relevance, data.qid
    weak = make_solver("tree-tron", C=100.0, tol=1e-8, max_iter=1)
    calls = {
        "solve": lambda: weak.solve(data),
        "Ranker.fit": lambda: Ranker(weak).fit(X, y, qid=qid),
        "LabelRanker.fit": lambda: LabelRanker("sopopo", C=100.0, max_epochs=1).fit(X[:20], X[:20]),
        "path": lambda: path(weak, data, [1.0, 100.0]),
        "path of a cold solver": lambda: path(make_solver("sopopo", max_epochs=1), data, [1e3]),
        "pipeline": lambda: make_pipeline(StandardScaler(), Ranker(weak)).fit(
            X, y, ranker__qid=qid
        ),
        "search": lambda: cross_val_score(Ranker(weak), with_qid(X, qid), y, cv=2),
        "mapped": lambda: make_solver("mapped", map="identity", solver=weak).solve(data),
        "vanishing": lambda: make_solver("toppush").solve(no_top),
        "a2dm2's step": lambda: make_solver("a2dm2", variant="a2dm2", rho=1e-3, max_iter=2).solve(
            no_top
        ),
        "no queries": lambda: Ranker().fit(X, y),
        "pipeline without queries": lambda: make_pipeline(Ranker()).fit(X, y),
    }
    no_top = RankingData.from_arrays(np.array([[0.0], [1.0], [2.0]]), [0, 1, 0], [0, 0, 0])
    for what, call in calls.items():
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            call()
        assert caught, what
        assert {one.filename for one in caught} == {__file__}, what


def with_qid(X, qid):
    return pd.DataFrame(X, columns=[f"f{j}" for j in range(X.shape[1])]).assign(qid=qid)
