"""The report's figures on axes of the user's."""

from dataclasses import replace

import matplotlib
import numpy as np
import pytest

import rankplug
from rankplug.datasets import load
from rankplug.exceptions import DataError, RankplugError
from rankplug.kernels import Kernel
from rankplug.maps import MappedModel
from rankplug.metrics import per_query
from rankplug.models import KernelModel, LinearModel
from rankplug.report import (
    Outcome,
    Report,
    TuningSummary,
    plot_convergence,
    plot_differences,
    plot_ndcg,
    plot_shapes,
    plot_tradeoffs,
    plot_tuning,
    plot_weights,
    to_html,
)

matplotlib.use("agg")
import matplotlib.pyplot as plt

EVIL = "$\\frac$ one"
SPLINES = {"map": {"splines": {"n_knots": 4}}, "C": 1e-3}


@pytest.fixture(scope="module")
def parts():
    return load("web-search", n_queries=20, docs_per_query=8, seed=1)


@pytest.fixture(scope="module")
def report(parts):
    outcomes = []
    for name, solver, params in (
        ("base", "tree-tron", {}),
        (EVIL, "mapped", SPLINES),
        ("trees", "xgboost-pairwise", {"n_estimators": 3}),
    ):
        made = rankplug.make_solver(solver, **params)
        result = made.solve(parts.train)
        scores = result.model.predict(parts.test.X)
        values = per_query(parts.test.relevance, scores, parts.test.row_query, ["ndcg@10"])
        trials = ((0, 1.0, 0.4, {}), (1, 2.0, np.nan, {}), (2, 3.0, 0.5, {}))
        outcomes.append(
            Outcome(
                name, solver, made.get_params(deep=False), result.status, result=result,
                metrics={"test": {"ndcg@10": float(np.nanmean(values["ndcg@10"]))}},
                per_query=values, train_seconds=1.0 + len(outcomes), scores=scores,
                tuning=TuningSummary(3, 0, 1, 3.0, "ndcg@10", 0.5, {}, trials),
            )
        )  # fmt: skip
    return Report("demo", ("ndcg@10",), tuple(outcomes), baseline="base", test=parts.test)


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


FIGURES = [
    plot_convergence,
    lambda report, ax: plot_convergence(report, against="seconds", ax=ax),
    plot_differences,
    lambda report, ax: plot_differences(report, by_query=True, ax=ax),
    plot_ndcg,
    plot_tradeoffs,
    plot_tuning,
    plot_weights,
]


@pytest.mark.parametrize("plot", FIGURES)
def test_figures_are_drawn_on_the_given_axes_or_new_ones(plot, report):
    _, (left, right) = plt.subplots(1, 2)
    assert plot(report, ax=right) is right
    assert right.has_data()
    assert not left.has_data()
    right.figure.canvas.draw()
    new = plot(report, ax=None)
    assert new not in (left, right)
    assert new.figure.number in plt.get_fignums()
    new.figure.canvas.draw()


def test_the_page_shows_the_same_lines(report):
    means = plot_differences(report)
    wanted = [one.difference for one in report.comparisons]
    assert [bar.lines[0].get_xdata()[0] for bar in means.containers] == wanted
    assert [label.get_text() for label in means.get_yticklabels()] == [EVIL, "trees"]
    assert 'aria-label="Mean difference of every solver to base in ndcg@10"' in to_html(report)
    curves = plot_ndcg(report)
    at_10 = [line.get_ydata()[list(line.get_xdata()).index(10)] for line in curves.lines]
    assert at_10 == pytest.approx([one.score("ndcg@10") for one in report.outcomes])


def test_convergence_of_results_and_rankers(parts):
    solver = rankplug.make_solver("tree-tron")
    axes = plot_convergence(solver.solve(parts.train))
    assert axes.get_xlabel() == "passes over the data"
    data = parts.train
    rankers = {
        name: rankplug.Ranker(name).fit(data.X, data.relevance, qid=data.row_query)
        for name in ("tree-tron", "cutting-plane")
    }
    axes = plot_convergence(rankers, against="seconds")
    assert [text.get_text() for text in axes.get_legend().texts] == list(rankers)
    assert axes.get_yscale() == "log"


def test_weights_of_anything_with_a_model(parts):
    data = parts.train
    ranker = rankplug.Ranker("tree-tron").fit(data.X, data.relevance, qid=data.row_query)
    for source in (ranker, ranker.result_, ranker.model_, {"mine": ranker.model_}):
        axes = plot_weights(source, most=3)
        share = [abs(bar.get_width()) for bar in axes.patches]
        assert len(share) == 3
        assert share[0] == pytest.approx(100)
    assert axes.get_title() == "mine"
    own = np.argsort(-np.abs(ranker.coef_))[:3]
    assert [text.get_text() for text in axes.get_yticklabels()] == [f"column {j}" for j in own]


def test_shapes(report, parts):
    axes = plot_shapes(report)
    assert axes.shape == (8,)
    model = report.outcomes[1].result.model
    _, ax = plt.subplots()
    (only,) = plot_shapes(model, parts.test, features=[2], ax=ax)
    assert only is ax
    assert only.get_title() == "column 2"
    (same,) = plot_shapes(model, parts.test.X, features=[2])
    np.testing.assert_array_equal(only.lines[0].get_ydata(), same.lines[0].get_ydata())
    several = plot_shapes(model, parts.test, features=["column 2", 0, 1, 3, 4])
    np.testing.assert_array_equal(only.lines[0].get_ydata(), several[0].lines[0].get_ydata())
    assert [one.axison for one in several[0].figure.axes] == [True] * 5 + [False] * 3
    empty = parts.test.X.copy()
    empty[:, 2] = np.nan
    with pytest.raises(DataError, match="no row has a value of column 2"):
        plot_shapes(model, empty, features=[2])
    data = rankplug.RankingData.from_arrays(empty, parts.test.relevance)
    bars = plot_weights(report, "base", data=data).patches
    assert np.isfinite([bar.get_width() for bar in bars]).all()


def flat(report):
    """A model of the same map whose weights are all 0."""
    model = report.outcomes[1].result.model
    return MappedModel(model.map, LinearModel(np.zeros(model.map.n_columns)))


def no_gains(data):
    return replace(data, relevance=np.ones_like(data.relevance) / -3)


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda report: plot_shapes(report, name="base"), "none of base is an additive model"),
        (lambda report: plot_shapes(report.outcomes[1].result), "shapes need data="),
        (lambda report: plot_shapes(report, features=[9999]), "there is no feature 9999"),
        (lambda report: plot_shapes(report, features=["colour"]), "colour"),
        (lambda report: plot_weights(report, "nobody"), "nobody"),
        (lambda report: plot_weights(3), "a model, a result or a fitted ranker is wanted, not int"),
        (lambda report: plot_convergence("x"), "a result or a fitted ranker is wanted, not str"),
        (lambda report: plot_convergence(report, against="time"), "neither 'passes' nor"),
        (lambda report: plot_tradeoffs(report, "beauty"), "beauty"),
        (lambda report: plot_tuning(report, against="time"), "neither 'trial' nor 'seconds'"),
        (
            lambda report: plot_weights(KernelModel(Kernel("linear"), np.eye(2), [1.0, 2.0])),
            "neither weights nor importances are known of",
        ),
        (
            lambda report: plot_shapes(report.outcomes[1].result, np.ones((3, 2))),
            r"data of shape \(3, 2\) for a model of",
        ),
        (lambda report: plot_shapes(report, features=[0, 1], ax=[None]), "1 axes for 2 features"),
        (lambda report: plot_shapes(flat(report), report.test), "no feature moves the scores"),
        (lambda report: plot_tradeoffs(report, "model_bytes"), "known of no solver"),
        (lambda report: plot_differences(report.outcomes[0]), "one of a Report"),
        (lambda report: plot_tuning(Report("empty", ("map",), ())), "no solver of the report was"),
        (lambda report: plot_ndcg(Report("empty", ("map",), ())), "no test set or no scores"),
        (lambda report: plot_ndcg(replace(report, test=no_gains(report.test))), "have no NDCG"),
        (lambda report: plot_differences(Report("empty", ("map",), ())), "nothing to compare"),
        (lambda report: plot_convergence({}), "no solver here recorded"),
    ],
)
def test_what_cannot_be_drawn_says_why(draw, message, report):
    with pytest.raises(RankplugError, match=message):
        draw(report)
    assert plt.get_fignums() == []
