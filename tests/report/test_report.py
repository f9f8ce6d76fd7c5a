import csv
import io
import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankplug.models import LinearModel
from rankplug.report import (
    REPORT_FILES,
    Outcome,
    Report,
    TuningSummary,
    tables,
    text_table,
    to_csv,
    to_html,
    to_markdown,
    to_per_query_csv,
    to_text,
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


def cells(table, column):
    return [row[table.header.index(column)].text for row in table.rows]


def compared(difference, **values):
    """Two solvers on 40 queries, the second one better by about `difference`."""
    rng = np.random.default_rng(0)
    base = rng.random(40)
    other = base + difference + rng.normal(0, 0.01, 40)
    per_query = [{"ndcg@10": one, "top1_error": one} for one in (base, other)]
    outcomes = [
        outcome(name, one["ndcg@10"].mean(), 0.5, per_query=one)
        for name, one in zip(("base", "new"), per_query, strict=True)
    ]
    return report(*outcomes, baseline="base", query_ids=np.arange(40), **values)


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


def test_the_results_show_what_is_known_and_a_dash_for_the_rest():
    one = report(outcome("a", 0.5, 0.25, result=result(duality_gap=None, n_passes=7)), failure())
    table = tables.results(one)
    assert table.header == (
        "solver", "ndcg@10", "top1_error", "train s", "passes", "duality gap", "status",
    )  # fmt: skip
    assert [cell.text for cell in table.rows[0]] == [
        "a", "0.5000", "0.2500", "1.25", "7.0", "-", "converged",
    ]  # fmt: skip
    assert [cell.text for cell in table.rows[1]] == ["broken", "-", "-", "-", "-", "-", "failed"]
    assert [cell.best for cell in table.rows[0]] == [False, True, True, False, False, False, False]


def test_words_say_who_is_better_than_the_baseline():
    for difference, verdict in (
        (0.1, "better"),
        (-0.1, "worse"),
        (0, "not distinguishable at 95 %"),
    ):
        one = compared(difference)
        assert cells(tables.results(one), "against base") == ["-", verdict]
        assert cells(tables.comparisons(one), "verdict") == [verdict]
        assert verdict in to_text(one)
        assert verdict in to_markdown(one)


def test_the_comparison_has_difference_interval_p_and_counts():
    table = tables.comparisons(compared(0.1))
    assert table.title == "ndcg@10 against base"
    assert float(cells(table, "difference")[0]) == pytest.approx(0.1, abs=0.01)
    low, high = map(float, cells(table, "95 % interval")[0].split(" to "))
    assert low < 0.1 < high or low == pytest.approx(0.1, abs=0.01)
    assert cells(table, "p (Holm)") == ["< 0.001"]
    assert [cells(table, title) for title in ("wins", "ties", "losses")] == [["40"], ["0"], ["0"]]
    assert "40 queries" in table.notes[0]
    assert "Holm" in table.notes[0]


def test_a_difference_of_another_mean_than_the_results_show_is_explained():
    one = compared(0.1)
    assert not any("counts alike" in note for note in tables.comparisons(one).notes)
    weighted = outcome("new", 0.9, 0.5, per_query=one.outcomes[1].per_query)
    other = report(one.outcomes[0], weighted, baseline="base")
    assert any("counts alike" in note for note in tables.comparisons(other).notes)


@pytest.mark.parametrize(
    ("n_queries", "words"), [(1, "no test on 1 query"), (4, "too few"), (12, "too narrow")]
)
def test_few_queries_are_named(n_queries, words):
    values = np.linspace(0, 1, n_queries)
    outcomes = [
        outcome(name, 0.5, 0.5, per_query={"ndcg@10": values + i})
        for i, name in enumerate(("base", "new"))
    ]
    table = tables.comparisons(report(*outcomes, baseline="base"))
    assert any(words in note for note in table.notes)


def test_there_is_no_comparison_without_a_baseline_that_ran():
    assert report(outcome("a", 0.5, 0), outcome("b", 0.6, 0)).comparisons == ()
    one = report(failure("a"), outcome("b", 0.5, 0), baseline="a")
    assert one.comparisons == ()
    assert tables.comparisons(one) is None


def test_costs_are_shown_where_they_were_measured():
    costs = {"model_bytes": 12_345.0, "predict_us_1": 21.5, "train_peak_bytes": 3.2e9}
    one = report(outcome("a", 0.5, 0.2, costs=costs), outcome("b", 0.5, 0.2), failure())
    table = tables.costs(one)
    assert cells(table, "solver") == ["a", "b"]
    assert cells(table, "model") == ["12.3 kB", "-"]
    assert cells(table, "memory") == ["3.2 GB", "-"]
    assert cells(table, "µs/row alone") == ["21.5", "-"]
    assert cells(table, "training s") == ["1.25", "1.25"]
    assert "of 100" not in table.header
    assert tables.costs(report(outcome("a", 0.5, 0.2))) is None


def test_tuning_and_repetitions_have_tables():
    summary = TuningSummary(9, 2, 1, 12.34, "ndcg@5", 0.75, {"C": 0.012345, "method": "newton"})
    repeats = ({"ndcg@10": 0.5}, {"ndcg@10": 0.7})
    one = report(outcome("a", 0.6, 0.2, tuning=summary, repeats=repeats), outcome("b", 0.5, 0.1))
    tuning = tables.tuning(one)
    assert [cell.text for cell in tuning.rows[0]] == [
        "a", "9", "2", "1", "12.3", "0.7500", "C=0.01235, method=newton",
    ]  # fmt: skip
    repeated = tables.repeats(one)
    assert [cell.text for cell in repeated.rows[0]] == ["a", "0.6000", "0.1414", "0.5000", "0.7000"]
    assert {"Tuning", "ndcg@10 of each repetition"} <= {
        table.title for table in tables.report_tables(one)
    }
    assert tables.tuning(report()) is None
    assert tables.repeats(report()) is None


def test_the_queries_of_largest_disagreement_come_first():
    values = {"a": [0.1, 0.5, np.nan, 0.3], "b": [0.9, 0.5, 0.2, 0.1]}
    outcomes = [
        outcome(name, 0.5, 0.5, per_query={"ndcg@10": np.array(own)})
        for name, own in values.items()
    ]
    one = report(*outcomes, query_ids=np.array(["w", "x", "y", "z"]))
    table = tables.disagreements(one)
    assert cells(table, "query") == ["w", "z"]
    assert cells(table, "spread") == ["0.8000", "0.2000"]
    assert [[cell.best for cell in row] for row in table.rows] == [
        [False, False, False, True],
        [False, False, True, False],
    ]
    assert tables.disagreements(report(outcomes[0])) is None


def test_text_is_aligned_and_marks_winners_and_failures():
    one = report(outcome("short", 0.4, 0.2), outcome("a long name", 0.6, 0.3), failure())
    text = to_text(one)
    lines = text.splitlines()
    assert lines[0].split() == [
        "solver", "ndcg@10", "top1_error", "train", "s", "passes", "duality", "gap", "status",
    ]  # fmt: skip
    assert "0.6000*" in lines[3]
    assert "0.4000 " in lines[2]
    assert lines[2].index("0.4000") == lines[3].index("0.6000")
    assert lines[5:] == ["* best on the test set", "ndcg@10: gain 2^y-1", "broken: no convergence"]


def test_every_form_says_which_gain_an_ndcg_has():
    one = report(outcome("a", 0.5, 0.5))
    assert "ndcg@10: gain 2^y-1" in to_text(one)
    assert "gain 2^y-1" in to_markdown(one)
    assert "gain 2^y-1" in to_html(one)


def test_a_table_without_rows_is_its_header():
    assert text_table(["a", "bc"], [], "<>") == "a  bc\n-  --"


def test_sanity_rankers_stand_in_the_tables_only():
    sane = outcome("a", 0.5, 0.5), outcome("b", 0.6, 0.4)
    base = outcome("zero", 0.1, 0.9, solver="constant")
    one = report(*sane, base, failure())
    assert [competitor.name for competitor in one.competitors] == ["a", "b"]
    assert cells(tables.results(one), "solver") == ["a", "b", "zero", "broken"]
    assert "zero" not in tables.disagreements(one).header
    against = report(*sane, base, baseline="zero")
    assert [competitor.name for competitor in against.competitors] == ["a", "b", "zero"]


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
    assert "did not start" in to_text(report(cut))
    assert "did not start" not in to_text(report(failure()))


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


def test_csv_has_comparison_and_costs():
    one = compared(0.1)
    costly = report(
        *one.outcomes,
        outcome("c", 0.1, 0.1, costs={"model_bytes": 7.0}, per_query={}),
        baseline="base",
    )
    rows = list(csv.DictReader(io.StringIO(to_csv(costly))))
    assert rows[0]["verdict"] == rows[0]["p_value"] == rows[0]["model_bytes"] == ""
    assert rows[1]["verdict"] == "better"
    assert float(rows[1]["low"]) < float(rows[1]["difference"]) < float(rows[1]["high"])
    assert (rows[1]["wins"], rows[1]["losses"]) == ("40", "0")
    assert rows[2]["model_bytes"] == "7.0"


def test_per_query_csv_has_a_row_for_each_solver_and_query():
    text = to_per_query_csv(report(outcome("a", 0.5, 0.25), outcome("b", 0.75, 0.0), failure()))
    assert text.splitlines() == [
        "name,qid,ndcg@10,top1_error",
        "a,q1,0.5,0.25",
        "a,q2,,0.5",
        "b,q1,0.75,0.0",
        "b,q2,,0.5",
    ]


def test_digests_stand_at_the_end():
    text = to_markdown(report(outcome("a", 0.5, 0.25), digests={"recipe": "abc123"}))
    assert text.endswith("## To get the same numbers\n\n- recipe: abc123\n")


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
    assert {file.name for file in tmp_path.iterdir()} == {"results.csv", "per_query.csv"}
