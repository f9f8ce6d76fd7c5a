"""What notebooks and consoles show of data, results, studies, reports and lists."""

import copy
import pickle
from html.parser import HTMLParser

import numpy as np
import pytest

import rankplug
from rankplug.datasets import load
from rankplug.display import Listing, html_table
from rankplug.maps import list_maps
from rankplug.report import Outcome, Report

EVIL = "<script>alert('x')</script>"


@pytest.fixture(scope="module")
def data():
    return load("digits-retrieval", n_queries=12).train


@pytest.fixture(scope="module")
def result(data):
    return rankplug.make_solver("tree-tron").solve(data)


@pytest.fixture(scope="module")
def report(data, result):
    rng = np.random.default_rng(0)
    outcomes = [
        Outcome(
            name, "tree-tron", {}, "converged", result=result,
            metrics={"test": {"map": 0.5}}, per_query={"map": rng.random(12)},
        )
        for name in ("base", EVIL)
    ]  # fmt: skip
    return Report("demo", ("map",), tuple(outcomes), baseline="base")


class Tags(HTMLParser):
    """The tags of a text; fails where one is closed that was not opened last."""

    def __init__(self, text):
        super().__init__()
        self.tags, self._open = set(), []
        self.feed(text)
        assert self._open == []

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self._open.append(tag)

    def handle_endtag(self, tag):
        assert self._open.pop() == tag


def shown(value):
    """Both forms, of which one is a line and the other well-formed and without foreign tags."""
    line, page = repr(value), value._repr_html_()
    assert "\n" not in line
    assert len(line) < 300
    assert Tags(page).tags <= {"table", "caption", "thead", "tbody", "tr", "th", "td"}
    return line, page


def test_data(data):
    line, page = shown(data)
    assert line == (
        f"<RankingData: {data.n_samples:,} rows, {data.n_queries} queries, "
        "64 features (dense, float64)>"
    )
    assert "rows of a query" in page


def test_data_of_labels():
    data = rankplug.LabelRankingData.from_arrays(np.eye(3), [[1, 2], [2, 1], [1, np.nan]])
    line, page = shown(data)
    assert line == (
        "<LabelRankingData: 3 rows, 3 instances, 2 labels, 3 features (dense, float64)>"
    )
    assert "1 to 2" in page


def test_prepared_data(tmp_path):
    (tmp_path / "a.txt").write_text("1 qid:1 1:1 2:3\n0 qid:1 1:2\n0 qid:2 2:1\n1 qid:2 1:1\n")
    rankplug.prepare(tmp_path / "a.txt", tmp_path / "out", progress=False)
    line, _ = shown(rankplug.read_data(tmp_path / "out"))
    assert line.startswith("<RankingData: 4 rows, 2 queries, 2 features (")


def test_results(result):
    line, page = shown(result)
    assert line.startswith("<SolverResult: status converged, objective ")
    assert "linear, 64 features" in page


def test_studies(data):
    found = rankplug.tune("tree-tron", data, metric="map", n_trials=2, folds=2, progress=False)
    line, page = shown(found)
    assert line.startswith("<TuneResult: solver tree-tron, trials 2 complete, best map 0.")
    assert "C=" in line
    assert "best parameters" in page


def test_reports(report):
    line, page = shown(report)
    assert line.startswith("<Report demo: map of base 0.5000, ")
    assert EVIL not in page
    assert "&lt;script&gt;" in page
    (comparison,) = report.comparisons
    assert "against base in map: " in repr(comparison)


@pytest.mark.parametrize("found", [rankplug.list_solvers, list_maps])
def test_lists_are_lists_that_show_as_tables(found):
    listed = found()
    assert isinstance(listed, list)
    assert listed == list(listed)
    assert list(listed) == listed
    title, rule, *rows = repr(listed).splitlines()
    assert title.startswith("name ")
    assert set(rule) == {"-", " "}
    assert [row.split()[0] for row in rows] == [info.name for info in listed]
    assert Tags(listed._repr_html_()).tags == {"table", "thead", "tbody", "tr", "th", "td"}
    for again in (copy.copy(listed), copy.deepcopy(listed), pickle.loads(pickle.dumps(listed))):
        assert again == listed
        assert repr(again) == repr(listed)


def test_an_empty_list():
    assert repr(Listing([], ["name"])) == "[]"


def test_everything_is_escaped():
    page = html_table([EVIL], [[EVIL, 1], ["a", EVIL]], title=EVIL, align="<>")
    assert "<script>" not in page
    assert page.count("&lt;script&gt;") == 4
