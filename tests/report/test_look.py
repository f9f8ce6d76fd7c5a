"""The content of rankings that one looks at: sums, samples, sizes, and hostile text."""

import base64
import gzip
import html
import json
import math
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import rankplug
from rankplug.data import RankingData, Scaling
from rankplug.kernels import Kernel
from rankplug.models import KernelModel, LinearModel, scaled_model
from rankplug.report import Outcome, Report, show_rankings, to_html
from rankplug.report.look.content import Limits, gather
from rankplug.report.look.entrants import Documents, Entrant, features_of
from rankplug.report.look.page import MOST_BYTES, policy
from rankplug.report.look.showing import look_at
from rankplug.solver import SolverResult

EVIL = "</script><script>alert(1)</script><!-- \u2028 & \U0001f600"


def ranking_data(n_queries=6, size=9, n_features=5, names=None):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_queries * size, n_features)).round(2)
    y = np.clip((X[:, 0] + rng.normal(size=len(X))).round(), 0, 3)
    qid = np.repeat([f"q{q}" for q in range(n_queries)], size)
    return RankingData.from_arrays(X, y, qid, feature_names=names)


def entrant(name, model, data):
    return Entrant(name, model.predict(data.X), model=model, features=features_of(data, model))


def unpack(packed):
    return json.loads(gzip.decompress(base64.b64decode(packed)))


def content_of(page):
    return unpack(re.search(r'id="look-data">([^<]*)<', page)[1])


def report_of(data, *models, metrics=("ndcg@10",)):
    outcomes = tuple(
        Outcome(
            f"model {k}", "tree-tron", {}, "converged",
            result=SolverResult(model, "converged", None, None, 1, 1.0),
            scores=model.predict(data.X),
        )
        for k, model in enumerate(models)
    )  # fmt: skip
    return Report("demo", metrics, outcomes, test=data, query_ids=data.query_ids)


def differences(query, k, above, below):
    one = query["entrants"][k]
    parts = one["step"] * (np.array(one["parts"])[:, above] - np.array(one["parts"])[:, below])
    return parts, one["unit"] * (one["scores"][above] - one["scores"][below])


@pytest.fixture(scope="module")
def models():
    data = ranking_data()
    solvers = {
        "linear": ("tree-tron", {}),
        "splines": ("mapped", {"map": "splines"}),
        "trees": ("xgboost-pairwise", {"n_estimators": 5}),
    }
    made = {
        name: rankplug.make_solver(solver, **params).solve(data, random_state=0).model
        for name, (solver, params) in solvers.items()
    }
    return data, made


def test_contributions_on_the_page_add_up_to_differences_of_scores(models):
    data, made = models
    entrants = [entrant(name, model, data) for name, model in made.items()]
    content = gather(Documents.of(data), entrants, None, Limits(digits=6))
    assert [one["method"] for one in content["entrants"]] == [
        "weight times value", "shape functions", "TreeSHAP"
    ]  # fmt: skip
    for query in content["queries"]:
        rows = np.cumsum(query["rows"])
        for k, model in enumerate(made.values()):
            parts, total = differences(query, k, 0, 3)
            scores = model.predict(data.X[rows])
            assert total == pytest.approx(scores[0] - scores[3], abs=3e-6 * np.ptp(scores))
            assert parts.sum() == pytest.approx(total, abs=1e-5 * np.ptp(scores))
            added = model.contributions(data.X[rows])
            names = [int(content["features"][j].removeprefix("f")) for j in query["features"]]
            np.testing.assert_allclose(
                parts, (added[0] - added[3])[names], atol=1e-5 * np.ptp(scores)
            )
            order = np.argsort(query["ranks"][k])
            assert np.all(np.diff(scores[order]) <= 0)


def test_a_query_of_one_document_ties_and_missing_values_have_a_place():
    X = np.array([[1.0, np.nan], [0.5, 1.0], [0.5, 1.0], [0.0, 2.0]])
    data = RankingData.from_arrays(X, [1, 0, 1, 0], ["one", "q", "q", "q"])
    model = LinearModel([1.0, 2.0], skip_missing=True)
    content = unpack(look_at(report_of(data, model)).data)
    alone, query = content["queries"]
    assert alone["cells"] == []
    assert alone["entrants"][0]["scores"] == [0]
    parts, total = differences(query, 0, 0, 1)
    assert not parts.any()
    assert total == 0


def test_few_of_many_are_sampled_and_the_page_says_so():
    rng = np.random.default_rng(1)
    data = ranking_data(n_queries=30, size=12)
    scores = rng.normal(size=(2, data.n_samples))
    values = rng.random(size=(2, 30))
    values[1, 7] = math.nan
    entrants = [
        Entrant(name, own, value) for name, own, value in zip("ab", scores, values, strict=True)
    ]
    content = gather(Documents.of(data), entrants, "ndcg@10", Limits(queries=9, documents=5))
    assert content["about"] == (
        "9 of 30 queries: 3 where a wins most, 3 where it loses most, 3 at random, "
        "up to 5 documents of each"
    )
    margin = np.argsort(np.nan_to_num(values[1] - values[0]))
    ids = [query["id"] for query in content["queries"]]
    assert {f"q{q}" for q in (*margin[:3], *margin[-3:])} <= set(ids)
    for query in content["queries"]:
        assert len(query["rows"]) == 5
        for ranks in query["ranks"]:
            assert 1 in ranks  # the first of each list is there
    assert content["wins"][0][1] + content["wins"][1][0] == 29


def test_what_is_sampled_of_one_entrant_and_without_values():
    rng = np.random.default_rng(1)
    data = ranking_data(n_queries=30, size=12)
    documents, scores = Documents.of(data), rng.normal(size=data.n_samples)
    values = rng.permutation(30) / 30
    limits = Limits(queries=9, documents=5)
    alone = gather(documents, [Entrant("a", scores, values)], "ndcg@10", limits)
    assert alone["about"].startswith("9 of 30 queries: 3 of the lowest values, 3 of the highest, 3")
    extremes = np.argsort(values)[[0, 1, 2, -3, -2, -1]]
    assert {f"q{q}" for q in extremes} <= {query["id"] for query in alone["queries"]}
    unlabelled = replace(documents, relevance=None)
    drawn = gather(unlabelled, [Entrant("a", scores)], None, limits)
    assert drawn["about"].startswith("9 of 30 queries, drawn at random, up to 5 documents of each")
    assert len(drawn["queries"]) == 9
    for query in drawn["queries"]:
        assert sorted(query["ranks"][0]) == [1, 2, 3, 4, 5]


def test_where_texts_are_too_long_fewer_queries_are_shown():
    data = ranking_data(150, 2, 1)
    letters = np.random.default_rng(1).integers(48, 123, (20, data.n_samples, 80), dtype=np.uint8)
    shown = pa.table(
        {f"{k}": [row.tobytes().decode() for row in one] for k, one in enumerate(letters)}
    )
    look = look_at(report_of(data.with_facts(shown=shown), LinearModel([1.0])))
    assert look.size <= MOST_BYTES
    assert unpack(look.data)["about"].startswith("50 of 150 queries")


def test_few_rows_at_once_are_explained_as_all(models, monkeypatch):
    data, made = models
    report = report_of(data, made["trees"], made["linear"])
    whole = look_at(report)
    monkeypatch.setattr("rankplug.report.look.content._BLOCK_ELEMENTS", 60)
    assert look_at(report) == whole


def test_categories_are_shown_as_the_model_knows_them():
    kinds = np.resize(["x", "y", "y"], 54)
    tables = [
        pd.DataFrame({"kind": pd.Categorical(kinds, categories=given), "a": np.arange(54.0)})
        for given in (["x", "y"], ["y", "x"])
    ]
    first, second = (
        RankingData.from_arrays(one, np.arange(54) % 3, np.repeat(range(6), 9)) for one in tables
    )
    model = rankplug.make_solver("xgboost-pairwise", n_estimators=2).solve(first).model
    rows = np.array([0, 1, 53])
    assert features_of(second, model)(rows)[:, 0].tolist() == first.X[rows, 0].tolist()
    assert second.X[rows, 0].tolist() != first.X[rows, 0].tolist()


def test_two_hundred_queries_of_twenty_documents_take_at_most_300_kb():
    rng = np.random.default_rng(1)
    names = [f"a feature with a long name, number {j}" for j in range(46)]
    data = ranking_data(200, 20, 46, names)
    titles = [f"A title of some length, and the number {i}" for i in range(data.n_samples)]
    data = data.with_facts(shown=pa.table({"title": titles, "price": rng.random(data.n_samples)}))
    weights = rng.normal(size=(2, 46)) * 0.8 ** np.arange(46)
    models = [LinearModel(one, names) for one in weights]
    report = report_of(data, *models)
    look = look_at(report)
    assert look.size <= MOST_BYTES
    content = unpack(look.data)
    assert len(content["queries"]) == 200
    assert {len(query["rows"]) for query in content["queries"]} == {20}
    assert min(len(query["features"]) for query in content["queries"]) >= 4
    assert content["queries"][3]["texts"][0] == titles[60:80]


def test_hostile_names_stay_data():
    data = ranking_data(names=[EVIL, *"bcde"])
    shown = pa.table({EVIL: [EVIL] * data.n_samples})
    data = data.with_facts(shown=shown, query_ids=np.array([f"{EVIL}{q}" for q in range(6)]))
    report = report_of(data, LinearModel(np.ones(5), data.feature_names))
    outcome = replace(report.outcomes[0], name=EVIL)
    page = to_html(replace(report, outcomes=(outcome,)))
    assert page.count("<script") == page.count("</script") == 2
    content = content_of(page)
    assert EVIL in content["features"]
    assert content["queries"][0]["texts"][0][0] == EVIL
    (told,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)
    style, script = (
        re.search(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)[1] for tag in ("style", "script")
    )
    told = html.unescape(told)
    assert told == policy(style, script)
    assert "default-src 'none'" in told
    assert "unsafe" not in re.sub("style-src-attr[^;]*", "", told)


def test_what_cannot_be_explained_is_shown_without_reasons(monkeypatch):
    rng = np.random.default_rng(1)
    data = ranking_data()
    report = report_of(data, LinearModel(np.ones(5)))
    of_another_fold = replace(report.outcomes[0], scores=rng.normal(size=data.n_samples))
    content = unpack(look_at(replace(report, outcomes=(of_another_fold,))).data)
    assert all("parts" not in query["entrants"][0] for query in content["queries"])
    assert content["entrants"][0]["method"]
    sampled = KernelModel(Kernel("rbf", 0.5), data.X[:2], [1.0, -1.0])
    one = look_at(report_of(data, sampled))
    assert unpack(one.data)["entrants"][0]["method"] == "sampled Shapley values"
    monkeypatch.setattr("rankplug.report.look.entrants._MOST_SCORES", 100)
    assert unpack(look_at(report_of(data, sampled)).data)["entrants"][0]["method"] is None


def test_very_large_trees_are_not_explained(models, monkeypatch):
    data, made = models
    scaled = scaled_model(made["trees"], Scaling(None, np.ones(5)))
    leaves = rankplug.make_solver("mapped", map={"leaves": {"n_estimators": 2}})
    refitted = leaves.solve(data, random_state=0).model

    def methods():
        told = unpack(look_at(report_of(data, scaled, refitted, made["linear"])).data)
        return [one["method"] for one in told["entrants"]]

    assert methods() == ["TreeSHAP", "TreeSHAP", "weight times value"]
    monkeypatch.setattr("rankplug.report.look.entrants._MOST_LEAVES", data.n_samples)
    assert methods() == [None, None, "weight times value"]


def test_scaled_and_prepared_data_are_shown_as_they_were():
    data = ranking_data()
    parts = rankplug.models.scale_parts(data, None, "standard")
    model = scaled_model(LinearModel(np.ones(5)), parts.scaling)
    scaled = parts.scaling.of(data)
    plain, undone = (
        unpack(look_at(replace(report_of(data, model), test=one)).data)
        for one in (data, replace(scaled, scaling=parts.scaling))
    )
    first, second = (np.array(one["queries"][0]["cells"]) for one in (plain, undone))
    np.testing.assert_allclose(first, second, atol=1e-4)
    assert plain["queries"][0]["entrants"] == undone["queries"][0]["entrants"]


def test_negative_labels_have_no_metric_but_rankings():
    data = ranking_data()
    data = replace(data, relevance=data.relevance - 1)
    content = unpack(look_at(report_of(data, LinearModel(np.ones(5)))).data)
    assert content["metric"] is None
    assert content["queries"][0]["labels"]


def test_a_page_without_labels_shows_lists(models):
    data, made = models
    documents = replace(Documents.of(data), relevance=None)
    page = show_rankings("demo", documents, [entrant("linear", made["linear"], data)])
    content = content_of(page)
    assert content["grades"] is None
    assert content["entrants"][0]["curves"] is None  # nobody said where the model is saved


def test_a_feature_of_one_value_has_no_curve():
    data = ranking_data()
    data = replace(data, X=np.column_stack((data.X[:, 0], np.full(len(data.X), 2.0))))
    model = LinearModel([1.0, 3.0], ["a", "constant"])
    shown = [entrant("linear", model, data)]
    page = show_rankings("demo", Documents.of(data), shown, {"linear": "model"})
    curves = {one["feature"]: one for one in content_of(page)["entrants"][0]["curves"]}
    assert curves["constant"] == {"feature": "constant", "points": [], "handles": []}
    for value, height in curves["a"]["points"]:
        assert height == pytest.approx(value, abs=1e-3)


def test_rows_keep_what_describes_them():
    shown = pa.table({"title": [f"t{i}" for i in range(6)]})
    data = RankingData.from_arrays(np.eye(6), range(6), [1, 2, 1, 2, 3, 3])
    data = data.with_facts(shown=shown.take(data.order))
    assert data.take([2, 0]).shown["title"].to_pylist() == ["t4", "t5", "t0", "t2"]
    both = RankingData.stack([data.take([1]), data.take([0])])
    assert both.shown["title"].to_pylist() == ["t1", "t3", "t0", "t2"]
    assert Documents.of(data).rows.tolist() == [0, 2, 1, 3, 4, 5]
