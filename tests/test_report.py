import csv
import io
import json
import math
import re
from html.parser import HTMLParser

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankplug.models import LinearModel
from rankplug.report import Outcome, Report, text_table
from rankplug.report_files import (
    REPORT_FILES,
    to_csv,
    to_html,
    to_markdown,
    to_per_query_csv,
    write_report,
)
from rankplug.solver import SolverResult

METRICS = ("ndcg@10", "top1_error")


def result(**values):
    known = {"status": "converged", "objective": 1.0, "duality_gap": 2.5e-4, "n_iter": 3}
    return SolverResult(LinearModel([1.0]), **{**known, "n_passes": 12, **values})


def outcome(name, ndcg, error, **values):
    scores = {"ndcg@10": ndcg, "top1_error": error}
    known = {
        "solver": "tree-tron",
        "params": {"C": 0.1},
        "status": "converged",
        "result": result(),
        "metrics": {"train": {"ndcg@10": 1.0, "top1_error": 0.0}, "test": scores},
        "per_query": {"ndcg@10": np.array([ndcg, np.nan]), "top1_error": np.array([error, 0.5])},
        "train_seconds": 1.25,
        "train_cpu_seconds": 1.5,
        "predict_seconds": 0.01,
    }
    return Outcome(name, **{**known, **values})


def failure(name="broken", error="no convergence", status="failed"):
    return Outcome(name, "tree-tron", {"C": 1.0}, status, error)


def report(*outcomes, **values):
    known = {
        "recipe": "name: demo\n",
        "splits": {"train": "9 queries", "test": "2 queries, 20 rows"},
        "query_ids": np.array(["q1", "q2"]),
    }
    return Report("demo", METRICS, outcomes, **{**known, **values})


def cells(one, column):
    header, rows = one.table()
    return [row[header.index(column)] for row in rows]


def test_the_winner_has_the_highest_value_or_the_lowest_error():
    one = report(outcome("a", 0.4, 0.2), outcome("b", 0.6, 0.3))
    assert one.winners("ndcg@10") == {"b"}
    assert one.winners("top1_error") == {"a"}


def test_all_who_tie_are_winners():
    one = report(outcome("a", 0.6, 0.2), outcome("b", 0.6, 0.3), outcome("c", 0.5, 0.2))
    assert one.winners("ndcg@10") == {"a", "b"}
    assert one.winners("top1_error") == {"a", "c"}


def test_a_difference_that_the_table_does_not_show_decides_nevertheless():
    assert report(outcome("a", 0.60001, 0), outcome("b", 0.60002, 0)).winners("ndcg@10") == {"b"}


def test_missing_and_undefined_values_never_win():
    one = report(failure(), outcome("a", math.nan, 0.2), outcome("b", 0.1, math.nan))
    assert one.winners("ndcg@10") == {"b"}
    assert one.winners("top1_error") == {"a"}
    assert report(failure()).winners("ndcg@10") == frozenset()


@given(st.lists(st.sampled_from([-1.0, 0.0, 0.25, 0.5, math.nan]), max_size=6))
def test_winners_are_those_whom_nobody_beats(values):
    one = report(*(outcome(str(i), value, value) for i, value in enumerate(values)))
    for metric, sign in (("ndcg@10", 1), ("top1_error", -1)):
        assert one.winners(metric) == {
            str(i)
            for i, value in enumerate(values)
            if not math.isnan(value) and not any(sign * other > sign * value for other in values)
        }


def test_the_table_shows_what_is_known_and_a_dash_for_the_rest():
    one = report(outcome("a", 0.5, 0.25, result=result(duality_gap=None, n_passes=7)), failure())
    header, rows = one.table()
    assert header == [
        "solver", "ndcg@10", "top1_error", "train s", "passes", "duality gap", "status",
    ]  # fmt: skip
    assert [cell.text for cell in rows[0]] == [
        "a", "0.5000", "0.2500", "1.25", "7.0", "-", "converged",
    ]  # fmt: skip
    assert [cell.text for cell in rows[1]] == ["broken", "-", "-", "-", "-", "-", "failed"]
    assert [cell.best for cell in rows[0]] == [False, True, True, False, False, False, False]


def test_others_are_compared_with_the_baseline():
    one = report(
        outcome("a", 0.5, 0), outcome("b", 0.625, 0), outcome("c", 0.25, 0), failure(), baseline="a"
    )
    texts = [cell.text for cell in cells(one, "vs a")]
    assert texts == ["-", "+0.1250", "-0.2500", "-"]
    assert one.table()[0][:4] == ["solver", "ndcg@10", "vs a", "top1_error"]


def test_a_failed_baseline_leaves_the_differences_open():
    one = report(failure("a"), outcome("b", 0.5, 0), baseline="a")
    assert [cell.text for cell in cells(one, "vs a")] == ["-", "-"]


def test_text_is_aligned_and_marks_winners_and_failures():
    text = report(outcome("short", 0.4, 0.2), outcome("a long name", 0.6, 0.3), failure()).to_text()
    lines = text.splitlines()
    assert lines[0].split() == [
        "solver", "ndcg@10", "top1_error", "train", "s", "passes", "duality", "gap", "status",
    ]  # fmt: skip
    assert "0.6000*" in lines[3]
    assert "0.4000 " in lines[2]
    assert lines[2].index("0.4000") == lines[3].index("0.6000")
    assert lines[-2:] == ["* best on the test set", "broken: no convergence"]


def test_a_table_without_rows_is_its_header():
    assert text_table(["a", "bc"], [], "<>") == "a  bc\n-  --"


def test_only_a_solver_without_result_counts_as_failed_or_interrupted():
    stopped = outcome("early", 0.5, 0.5, status="stopped")
    assert not report(stopped).interrupted
    assert report(stopped).failed == ()
    cut = failure("cut", "interrupted by the user", status="stopped")
    assert report(stopped, cut).interrupted
    assert report(stopped, cut, failure()).failed == (cut, failure())
    assert not report(failure()).interrupted


def test_an_interrupted_run_says_so():
    cut = failure("cut", "interrupted by the user", status="stopped")
    assert "did not start" in report(cut).to_text()
    assert "did not start" not in report(failure()).to_text()


def test_markdown_has_the_sizes_the_table_and_the_notes():
    text = to_markdown(report(outcome("a", 0.5, 0.25), failure()))
    assert text.startswith("# demo\n\n- train: 9 queries\n- test: 2 queries, 20 rows\n")
    assert "| a | **0.5000** | **0.2500** | 1.25 | 12.0 | 0.00025 | converged |" in text
    assert "- broken: no convergence" in text
    table = [line for line in text.splitlines() if line.startswith("|")]
    assert {line.count("|") for line in table} == {8}


def test_markdown_escapes_names_and_errors():
    text = to_markdown(report(failure("a|b *c*", "line one\nline <two>")))
    assert r"a\|b \*c\*" in text
    assert r"line one line \<two\>" in text


def test_csv_has_full_precision_and_reads_back():
    third = 1 / 3
    rows = list(
        csv.DictReader(io.StringIO(to_csv(report(outcome("a, b", third, 0.25), failure()))))
    )
    assert rows[0]["name"] == "a, b"
    assert float(rows[0]["test ndcg@10"]) == third
    assert float(rows[0]["train ndcg@10"]) == 1.0
    assert rows[0]["best"] == "ndcg@10 top1_error"
    assert float(rows[0]["duality_gap"]) == 2.5e-4
    assert json.loads(rows[0]["params"]) == {"C": 0.1}
    assert rows[1]["status"] == "failed"
    assert rows[1]["error"] == "no convergence"
    assert {rows[1][key] for key in ("test ndcg@10", "train_seconds", "objective", "best")} == {""}


def test_per_query_csv_has_a_row_for_each_solver_and_query():
    text = to_per_query_csv(report(outcome("a", 0.5, 0.25), outcome("b", 0.75, 0.0), failure()))
    assert text.splitlines() == [
        "name,qid,ndcg@10,top1_error",
        "a,q1,0.5,0.25",
        "a,q2,,0.5",
        "b,q1,0.75,0.0",
        "b,q2,,0.5",
    ]


class Page(HTMLParser):
    """Collects the tags, the texts and the links of a page."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.texts, self.links = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.links += [value for key, value in attrs if key in ("src", "href")]

    def handle_data(self, data):
        self.texts.append(data.strip())


def test_the_page_needs_no_other_file():
    page = Page(to_html(report(outcome("a", 0.5, 0.25), failure())))
    assert {"table", "strong", "img", "pre"} <= set(page.tags)
    assert "script" not in page.tags
    assert all(link.startswith("data:image/svg+xml;base64,") for link in page.links)
    assert {"demo", "a", "0.5000", "broken: no convergence", "name: demo"} <= set(page.texts)


def test_the_page_escapes_everything():
    evil = "<script>alert('x')</script> $name ${name} & $\\frac$"
    outcomes = outcome(evil, 0.5, 0.2), failure("f", evil)
    one = Report(evil, METRICS, outcomes, evil, {"test": evil}, baseline=evil)
    page = Page(to_html(one))
    assert "script" not in page.tags
    assert page.texts.count(evil) >= 3


def test_a_page_without_any_result_has_no_plot_of_nothing():
    page = Page(to_html(report(failure())))
    assert "broken: no convergence" in page.texts


def test_all_files_are_written_and_nothing_else(tmp_path):
    write_report(report(outcome("a", 0.5, 0.25)), tmp_path)
    assert {file.name for file in tmp_path.iterdir()} == set(REPORT_FILES)
    assert (tmp_path / "recipe.yaml").read_text() == "name: demo\n"


def test_a_file_that_cannot_be_finished_is_not_left_behind(tmp_path, monkeypatch):
    def explode(report):
        raise ZeroDivisionError

    monkeypatch.setitem(REPORT_FILES, "report.md", explode)
    with pytest.raises(ZeroDivisionError):
        write_report(report(outcome("a", 0.5, 0.25)), tmp_path)
    assert not [file for file in tmp_path.iterdir() if re.search(r"part|report\.md", file.name)]
