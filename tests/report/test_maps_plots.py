"""Plots of models of mapped features."""

import re
import warnings

import numpy as np
import pandas as pd
import pytest

import rankplug
from rankplug.data import Scaling
from rankplug.models import ScaledModel, find_contributions
from rankplug.recipe import load_recipe
from rankplug.runner import run


def page_of(folder, recipe):
    (folder / "maps.yaml").write_text(recipe)
    run(load_recipe(folder / "maps.yaml"), output=folder / "out")
    return (folder / "out" / "report.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    return page_of(
        tmp_path_factory.mktemp("maps"),
        "data: {dataset: web-search, params: {n_queries: 30, docs_per_query: 8, seed: 1}}\n"
        "metrics: [ndcg@10]\n"
        "solvers:\n"
        "  - {solver: mapped, name: additive, params: {map: {splines: {n_knots: 4}}, C: 1e-3}}\n"
        "  - {solver: mapped, name: trees, params: {map: {leaves: {n_estimators: 5}}, C: 1e-3}}\n"
        "  - {solver: mapped, name: waves, params: {map: {fourier: {n_components: 8}}, C: 1e-3}}\n",
    )


def test_shapes_of_additive_models(page):
    titles = re.findall(r"<figcaption>(additive: [^<]+)</figcaption>", page)
    assert len(titles) == 8
    assert "Shapes" in page
    assert "Shape of additive: " in page


def test_trees_before_and_after(page):
    assert "Trees of trees before and after" in page
    assert "Leaves of trees before and after" in page
    assert "Features of trees before and after" in page
    assert "Trees of waves" not in page
    assert "left out" not in page


def test_shapes_add_up_to_the_scores():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3))
    data = rankplug.RankingData.from_arrays(X, rng.integers(0, 3, 80), np.arange(80) // 10)
    model = rankplug.make_solver("mapped", map="splines + identity", C=0.01).solve(data).model
    factor = np.array([2.0, 0.5, -1.0])
    for own in (model, ScaledModel(model, Scaling(None, factor))):
        effects = find_contributions(own, X).values
        np.testing.assert_allclose(effects.sum(axis=1), own.predict(X), atol=1e-9)


def test_a_column_without_a_value_in_the_test_set_costs_no_figure(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(120, 3)), columns=["empty", "b", "c"])
    frame["qid"], frame["label"] = np.arange(120) // 10, (frame["b"] > 0).astype(int)
    frame.to_csv(tmp_path / "train.csv", index=False)
    frame.assign(empty=np.nan).to_csv(tmp_path / "test.csv", index=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        page = page_of(
            tmp_path,
            "data: {train: train.csv, test: test.csv, label: label, qid: qid}\n"
            "metrics: [ndcg@10]\n"
            "sanity: false\n"
            "solvers:\n"
            "  - {solver: mapped, name: splines, params: {map: splines, C: 1e-3}}\n"
            "  - {solver: mapped, name: both, params: {map: identity + splines, C: 1e-3}}\n",
        )
    shapes = re.findall(r'aria-label="Shape of ([^"]+)"', page)
    assert sorted(shapes) == [f"{name}: {one}" for name in ("both", "splines") for one in "bc"]
    assert "left out" not in page
