"""Plots of models of mapped features."""

import re

import numpy as np
import pytest

import rankplug
import rankplug.cli
from rankplug.data import Scaling
from rankplug.models import ScaledModel


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("maps")
    (folder / "maps.yaml").write_text(
        "data: {dataset: web-search, params: {n_queries: 30, docs_per_query: 8, seed: 1}}\n"
        "metrics: [ndcg@10]\n"
        "solvers:\n"
        "  - {solver: mapped, name: additive, params: {map: {splines: {n_knots: 4}}, C: 1e-3}}\n"
        "  - {solver: mapped, name: trees, params: {map: {leaves: {n_estimators: 5}}, C: 1e-3}}\n"
        "  - {solver: mapped, name: waves, params: {map: {fourier: {n_components: 8}}, C: 1e-3}}\n"
    )
    arguments = ["run", str(folder / "maps.yaml"), "--quiet", "--output", str(folder / "out")]
    assert rankplug.cli.main(arguments) == 0
    report = folder / "out" / "report.html"
    return report.read_text(encoding="utf-8")


def test_shapes_of_additive_models(page):
    titles = re.findall(r"<figcaption>(additive: [^<]+)</figcaption>", page)
    assert len(titles) == 8
    assert "Shapes" in page
    assert "Shape of additive: " in page


def test_trees_before_and_after(page):
    assert "Trees of trees before and after" in page
    assert "Leaves of trees before and after" in page
    assert "Trees of waves" not in page


def test_shapes_add_up_to_the_scores():
    from rankplug.report.plots.maps import _shape

    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3))
    data = rankplug.RankingData.from_arrays(X, rng.integers(0, 3, 80), np.arange(80) // 10)
    model = rankplug.make_solver("mapped", map="splines + identity", C=0.01).solve(data).model
    factor = np.array([2.0, 0.5, -1.0])
    for own in (model, ScaledModel(model, Scaling(None, factor))):
        shapes = [_shape(own, X, j, X[:, j]) for j in range(3)]
        np.testing.assert_allclose(np.sum(shapes, axis=0), own.predict(X), atol=1e-9)
