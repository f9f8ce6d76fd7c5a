"""The page: complete in itself, well-formed, safe whatever names contain."""

import math
import re
import warnings
from dataclasses import replace
from html.parser import HTMLParser
from importlib.metadata import EntryPoint

import numpy as np
import pytest

import rankplug
from rankplug.data import LabelRankingData, RankingData, Scaling
from rankplug.metrics import evaluate, per_query
from rankplug.models import LinearModel, ScaledModel
from rankplug.parameters import Real
from rankplug.report import LearningPoint, Outcome, ParetoTrials, Report, TuningSummary, to_html
from rankplug.report.plots import weights
from rankplug.report.plots.canvas import shorten
from rankplug.report.plots.convergence import same_objective
from rankplug.report.plots.curves import roc_curve
from rankplug.report.plots.tradeoffs import front
from rankplug.solver import Objective, SolverResult, registry

METRICS = ("ndcg@10", "auc")
EVIL = "\x01<script>alert('x')</script> $name ${name} & $\\frac$ \"'#)"
VOID = {"meta", "br", "link", "img", "hr", "input"}
COSTS = {
    "train_seconds": 1.0,
    "model_bytes": 2e3,
    "train_peak_bytes": 1e6,
    "predict_us_1": 20.0,
    "predict_us_100": 1.0,
    "predict_us_10000": 0.1,
}


class Page(HTMLParser):
    """Collects what a page consists of; fails where a tag is closed that was not opened."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.texts, self.ids, self.links, self.labels = [], [], [], [], []
        self._open = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        for key, value in attrs:
            if key == "id":
                self.ids.append(value)
            elif key in ("src", "href", "srcset", "action", "data", "poster"):
                self.links.append(value)
            elif key == "aria-label":
                self.labels.append(value)
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self._open.pop()

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data.strip())


def ranking_data(n_queries=12, size=20):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_queries * size, 3))
    relevance = (X[:, 0] + rng.normal(size=len(X)) > 1).astype(float)
    return RankingData.from_arrays(X, relevance, np.repeat(np.arange(n_queries), size))


def outcome(name, coef, data, *, params=None, **values):
    scores = data.X @ np.asarray(coef, float)
    history = tuple(
        {"n_iter": i, "seconds": 0.1 * i, "n_passes": 2.0 * i, "objective": 5 + 2.0**-i,
         "duality_gap": 2 * 2.0**-i}
        for i in range(1, 6)
    )  # fmt: skip
    result = SolverResult(LinearModel(coef), "converged", 5 + 2**-5, 2**-4, 5, 10.0, history, 0.5)
    arguments = data.relevance, scores, data.qid, METRICS
    trials = tuple((i, float(i), math.nan if i % 4 == 3 else 0.1 * i, {"C": i}) for i in range(8))
    known = {
        "result": result,
        "metrics": {"test": evaluate(*arguments)},
        "per_query": per_query(*arguments),
        "costs": COSTS,
        "scores": scores,
        "tuning": TuningSummary(8, 1, 1, 7.0, "ndcg@10", 0.6, {"C": 6.0}, trials),
        "repeats": ({"ndcg@10": 0.5}, {"ndcg@10": 0.6}),
        "learning_curve": (LearningPoint(1, 0.1, 0.4), LearningPoint(2, 0.2, 0.5)),
    }
    known |= {"solver": "tree-tron", "params": {"C": 0.1} if params is None else params}
    return Outcome(name, status="converged", **{**known, **values})


def report(*outcomes, data=None, **values):
    known = {"recipe": "name: demo\n", "splits": {"test": "12 queries"}, "test": data}
    if data is not None and isinstance(data, RankingData):
        known["query_ids"] = data.query_ids
    return Report("demo", METRICS, outcomes, **{**known, **values})


@pytest.fixture(scope="module")
def full():
    """A report with all there is, and its page."""
    data = ranking_data()
    trials = tuple((i, (0.1 * i, 10.0 - i), {"C": i}) for i in range(5))
    one = report(
        outcome("base", [1.0, 0.0, 0.0], data),
        outcome("other", [1.0, 0.3, -0.2], data, params={"C": 0.2}),
        outcome("zero", [0.0, 0.0, 0.0], data, solver="constant"),
        Outcome("broken", "tree-tron", {}, "failed", "no convergence"),
        data=data,
        baseline="base",
        digests={"recipe": "abc123"},
        pareto=(ParetoTrials("other", ("ndcg@10", "train_seconds"), (True, False), trials),),
    )
    return one, to_html(one)


def test_the_page_has_every_section_and_plot(full):
    page = Page(full[1])
    headings = {
        "Results on the test set", "ndcg@10 against base", "ndcg@10 of each repetition",
        "From the top down", "Queries of largest disagreement in ndcg@10", "Costs", "Convergence",
        "Tuning", "Features", "Recipe",
    }  # fmt: skip
    plots = {
        "Mean difference", "Query by query", "NDCG at each cutoff", "Early part of the ROC curve",
        "Quality against time", "Training time", "Memory of training", "Size of the model",
        "Prediction, one row at a time", "Trials", "Trials by time", "base", "other",
        "other: ndcg@10 and train_seconds",
    }  # fmt: skip
    assert headings | plots <= set(page.texts)
    assert {"broken: no convergence", "abc123", "name: demo"} <= set(page.texts)
    assert "zero: a check that learns next to nothing, not drawn in the plots" in page.texts
    assert page.tags.count("figure") >= len(plots)


def test_the_page_needs_no_other_file_and_no_network(full):
    page = Page(full[1])
    assert {"img", "iframe", "link", "object", "image"}.isdisjoint(page.tags)
    assert page.links
    assert all(link.startswith("#") for link in page.links)
    assert "http" not in re.sub("http-equiv|http://www.w3.org/2000/svg", "", full[1])
    assert "@import" not in full[1]
    assert "@font-face" not in full[1]
    assert all(target.startswith("#") for target in re.findall(r"url\(([^)]*)\)", full[1]))


def test_ids_are_unique_and_every_reference_has_one(full):
    page = Page(full[1])
    assert len(page.ids) == len(set(page.ids))
    references = [link[1:] for link in page.links] + re.findall(r"url\(#([^)]+)\)", full[1])
    assert set(references) <= set(page.ids)


def test_every_picture_says_what_it_shows(full):
    page = Page(full[1])
    assert "Mean difference of every solver to base in ndcg@10" in page.labels
    assert all(page.labels)


def test_pictures_follow_the_colours_of_the_page(full):
    pictures = "".join(re.findall(r"<figure>.*?</figure>", full[1], re.DOTALL))
    assert "currentColor" in pictures
    assert "var(--c0)" in pictures
    assert not re.findall(r"#[0-9a-f]{6}\b", pictures)


def test_the_same_report_gives_the_same_page(full):
    assert to_html(full[0]) == full[1]


def test_the_page_escapes_everything():
    data = ranking_data()
    names = RankingData.from_arrays(
        data.X, data.relevance, data.qid, feature_names=[EVIL, "b", "c"]
    ).feature_names
    one = outcome(EVIL, [1.0, 0.5, 0.0], data)
    one.result.model.feature_names = names
    text = to_html(
        Report(
            EVIL,
            METRICS,
            (one, outcome("b", [0.0, 1.0, 0.0], data), Outcome("f", "x", {}, "failed", EVIL)),
            EVIL,
            {"test": EVIL},
            data.query_ids,
            baseline=EVIL,
            digests={EVIL: EVIL},
            test=data,
        )
    )
    page = Page(text)
    assert page.tags.count("script") == text.count("<script") == 2  # the page's own, and its data
    assert page.texts.count(EVIL) >= 3
    assert f"f: {EVIL}" in page.texts


def test_a_figure_and_rankings_that_fail_cost_no_report(full, monkeypatch):
    def curves(report, canvas=None):
        raise IndexError("beyond <all>")

    monkeypatch.setattr("rankplug.report.html.curves", curves)
    monkeypatch.setattr("rankplug.report.html.look_at", curves)
    with (
        pytest.warns(UserWarning, match="figures of curves are left out"),
        pytest.warns(UserWarning, match="report: rankings are left out, as they cannot be shown"),
    ):
        page = Page(to_html(full[0]))
    texts = page.texts
    for what in ("figures of curves are", "rankings are"):
        assert any(f"{what} left out" in text and "beyond <all>" in text for text in texts)
    assert "script" not in page.tags
    assert {"Mean difference", "Query by query", "Trials"} <= set(texts)
    assert "From the top down" not in texts


def test_a_page_without_any_result_has_no_plots():
    page = Page(to_html(report(Outcome("broken", "x", {}, "failed", "no convergence"))))
    assert "broken: no convergence" in page.texts
    assert "figure" not in page.tags


def test_what_the_data_do_not_allow_is_left_out():
    data = ranking_data()
    graded = RankingData.from_arrays(data.X, data.relevance * 2 - 1, data.qid)  # no gain
    one = outcome("a", [1.0, 0.0, 0.0], data, tuning=None, repeats=(), learning_curve=(), costs={})
    texts = Page(to_html(report(one, data=graded))).texts
    assert "NDCG at each cutoff" not in texts
    assert "Early part of the ROC curve" in texts
    of_query = RankingData.from_arrays(data.X, data.row_query == 0, data.qid)  # none has both
    texts_of_query = Page(to_html(report(one, data=of_query))).texts
    assert "Early part of the ROC curve" not in texts_of_query
    for title in ("Costs", "Tuning", "Quality against time", "Mean difference"):
        assert title not in texts
    more = RankingData.from_arrays(data.X, data.relevance + (data.X[:, 1] > 0), data.qid)
    texts = Page(to_html(report(one, data=more))).texts
    assert "NDCG at each cutoff" in texts
    assert "Early part of the ROC curve" not in texts


def test_degenerate_numbers_break_no_plot():
    data = ranking_data()
    row = {"n_iter": 1, "seconds": 0.0, "n_passes": 0.0, "objective": 0.0, "duality_gap": 0.0}
    result = SolverResult(LinearModel([0.0, 0.0, 0.0]), "stopped", 0.0, 0.0, 0, 0.0, (row, row))
    base = outcome("base", [0.0, 0.0, 0.0], data, result=result)
    third = np.full(len(data.query_ids), 0.1 + 0.2)
    shifted = {"ndcg@10": third + 0.1, "auc": third}
    other = outcome(
        "other", [0.0, 0.0, 0.0], data,
        result=result, per_query=shifted, costs={"train_seconds": 0.0, "model_bytes": math.nan},
        learning_curve=(LearningPoint(1, 0.1, math.nan), LearningPoint(2, 0.1, math.nan)),
        tuning=TuningSummary(1, 1, 0, 0.0, "auc", math.nan, {}, ((0, 0.0, math.nan, {}),)),
    )  # fmt: skip
    one = report(replace(base, per_query={"ndcg@10": third, "auc": third}), other, data=data,
                 baseline="base")  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Page(to_html(one))


def test_label_ranking_has_a_curve_of_its_labels():
    rng = np.random.default_rng(0)
    data = LabelRankingData.from_arrays(rng.normal(size=(30, 3)), rng.integers(0, 4, 30))
    result = SolverResult(LinearModel([1.0]), "converged", None, None, 1, 1.0)
    scores = rng.normal(size=(30, 4))
    one = Outcome("a", "sopopo", {}, "converged", result=result, scores=scores)
    texts = Page(to_html(report(one, data=data))).texts
    assert "NDCG at each cutoff" in texts
    assert "Early part of the ROC curve" not in texts


def test_the_roc_curve_begins_at_pos_at_top_and_has_the_area_auc():
    data = ranking_data(n_queries=1, size=200)
    scores = np.round(data.X[:, 0], 1)  # with ties
    positive = data.relevance > 0
    n_negative = int((~positive).sum())
    rates = np.arange(n_negative + 1) / n_negative
    curve = roc_curve(positive, scores, data.query_ptr, rates)
    expected = evaluate(data.relevance, scores, None, ["pos@top", "auc"])
    assert curve[0] == expected["pos@top"]
    assert curve[-1] == 1
    # Ties count as lost here and as half in the AUC.
    tied = (scores[positive][:, None] == scores[~positive]).mean()
    assert curve[:-1].mean() == pytest.approx(expected["auc"] - tied / 2)


def test_the_roc_curve_of_several_queries_is_the_mean_of_theirs():
    data = ranking_data()
    positive, scores = data.relevance > 0, data.X[:, 0]
    rates = np.array([0.0, 0.1, 0.5])
    parts = [slice(a, b) for a, b in zip(data.query_ptr[:-1], data.query_ptr[1:], strict=True)]
    single = [
        roc_curve(positive[part], scores[part], np.array([0, 20]), rates)
        for part in parts
        if positive[part].any() and not positive[part].all()
    ]
    whole = roc_curve(positive, scores, data.query_ptr, rates)
    np.testing.assert_allclose(whole, np.mean(single, axis=0))


def test_names_in_pictures_are_short_and_printable():
    assert shorten("a\x00b\nc") == "a b c"
    assert shorten("x" * 30) == "x" * 23 + "…"


def test_the_front_is_what_nobody_beats():
    points = [(1.0, 0.5), (2.0, 0.4), (3.0, 0.9), (1.0, 0.6), (4.0, 0.9)]
    assert front(points) == [3, 2]
    assert front([]) == []


def test_only_solvers_of_the_same_problem_share_a_panel():
    data = ranking_data(n_queries=3)
    coef = [1.0, 0.0, 0.0]
    make = {
        "a": {"C": 0.1, "tol": 1e-3, "method": "newton"},
        "b": {"C": 0.1, "tol": 1e-6, "method": "tron"},
        "c": {"C": 0.2},
    }
    outcomes = tuple(outcome(name, coef, data, params=params) for name, params in make.items())
    groups = same_objective(outcomes)
    assert [[one.name for one in group] for group in groups] == [["a", "b"], ["c"]]


class Elsewhere(rankplug.Solver):
    """Another package's solver of what tree-tron minimises."""

    name = "elsewhere"
    tags = rankplug.make_solver("tree-tron").tags
    parameters = {"strength": Real(0), "accuracy": Real(0)}

    def __init__(self, strength=1.0, accuracy=1e-3):
        self.strength = strength
        self.accuracy = accuracy

    def describe_objective(self):
        return Objective("squared hinge loss of pairs", {"C": self.strength, "reduction": "sum"})

    def _solve(self, data, init, monitor, rng):
        raise NotImplementedError


def test_solvers_of_other_packages_share_a_panel_where_they_say_so(monkeypatch):
    points = registry._SOLVERS.points() | {
        "elsewhere": EntryPoint("elsewhere", f"{__name__}:Elsewhere", "rankplug.solvers")
    }
    monkeypatch.setattr(type(registry._SOLVERS), "points", lambda _: points)
    data = ranking_data(n_queries=3)
    make = {
        "ours": ("tree-tron", {"C": 0.1}),
        "theirs": ("elsewhere", {"strength": 0.1, "accuracy": 0.2}),
        "hinge": ("cutting-plane", {"C": 0.1}),
        "another": ("elsewhere", {"strength": 0.2}),
        "unknown": ("not-installed", {"C": 0.1}),
        "unstated": ("constant", {}),
        "unstated too": ("constant", {}),
    }
    outcomes = tuple(
        outcome(name, [1.0, 0.0, 0.0], data, solver=solver, params=params)
        for name, (solver, params) in make.items()
    )
    groups = [[one.name for one in group] for group in same_objective(outcomes)]
    rest = ["hinge", "another", "unknown", "unstated", "unstated too"]
    assert groups == [["ours", "theirs"], *([name] for name in rest)]


def test_importances_stand_beside_weights():
    data = ranking_data()
    trees = rankplug.make_solver("xgboost-pairwise", n_estimators=5).solve(data, random_state=0)
    importances = trees.model.feature_importances()
    assert importances.shape == (3,)
    assert importances.argmax() == 0
    scaling = Scaling(None, np.array([2.0, 1.0, 1.0]))
    linear = outcome("linear", [0.5, -0.5, 0.1], data)
    scaled = replace(linear.result, model=ScaledModel(linear.result.model, scaling))
    one = report(
        replace(linear, result=scaled), outcome("trees", [1, 0, 0], data, result=trees), data=data
    )
    spread = data.X.std(axis=0)
    with pytest.MonkeyPatch.context() as patch:
        shown = {}
        patch.setattr(weights, "_draw_panel", lambda own, *_: shown.update({own.name: own}))
        weights.weights(one, None)
    np.testing.assert_allclose(shown["linear"].values, [1.0, -0.5, 0.1] * spread)
    assert shown["linear"].signed
    np.testing.assert_array_equal(shown["trees"].values, importances)
    assert not shown["trees"].signed
