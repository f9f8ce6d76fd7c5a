"""``rankplug evaluate --qrels --run``: one run, and several against each other."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from rankplug import cli
from rankplug.io import write_qrels, write_run
from rankplug.metrics import evaluate_run


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    rng = np.random.default_rng(0)
    ids = {"query_id": np.repeat(np.arange(40), 12), "doc_id": [f"d{i}" for i in range(480)]}
    relevance = rng.choice([0, 0, 1, 2], 480) * (ids["query_id"] > 0)
    qrels = pd.DataFrame({**ids, "relevance": relevance})
    write_qrels(qrels, folder / "qrels.txt")
    for name, noise in (("weak", 4.0), ("strong", 0.5)):
        scores = (relevance + noise * rng.normal(size=480)).round(1)
        run = pd.DataFrame({**ids, "score": scores})
        write_run(run[run["query_id"] != 7], folder / f"{name}.run.gz")
    other = pd.DataFrame({"query_id": ["x", "1"], "doc_id": ["d1", "new"], "score": [1.0, 2.0]})
    write_run(other, folder / "small.run")
    return folder


def run(folder, *names, options=()):
    runs = [option for name in names for option in ("--run", str(folder / name))]
    return cli.main(["evaluate", "--qrels", str(folder / "qrels.txt"), *runs, *options])


def test_a_run_has_means_and_intervals(folder, capsys):
    assert run(folder, "strong.run.gz", options=["--metric", "nDCG@5,AP(rel=2)@10", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert list(found) == ["ndcg@5", "map@10[threshold=1]"]
    expected = evaluate_by_hand(folder, "strong.run.gz", ["ndcg@5", "map@10[threshold=1]"])
    assert {name: one["value"] for name, one in found.items()} == pytest.approx(expected)
    assert all(one["low"] < one["value"] < one["high"] for one in found.values())
    assert found["ndcg@5"]["n_queries"] == 40
    assert found["ndcg@5"]["about"] == "gain 2^y-1"


def evaluate_by_hand(folder, name, metrics, **options):
    from rankplug.io import read_qrels, read_run

    return evaluate_run(
        read_qrels(folder / "qrels.txt"), read_run(folder / name), metrics, **options
    )


def test_what_was_done_is_said(folder, capsys):
    assert run(folder, "strong.run.gz") == 0
    out = capsys.readouterr().out
    assert "gain 2^y-1" in out
    assert "by falling id, as in trec_eval" in out
    assert "1 queries have no relevant document and count 0" in out
    assert "strong: 1 queries of the qrels are not in it and count 0, as with trec_eval -c" in out
    assert run(folder, "small.run", options=["--skip-missing", "--ties", "expected"]) == 0
    out = capsys.readouterr().out
    assert "the expected value over their orders" in out
    assert "small: 39 queries of the qrels are not in it and are left out" in out
    assert "small: 1 queries are not in the qrels and are left out" in out
    assert "small: 1 documents are not judged and count as not relevant" in out


def test_several_runs_are_compared(folder, capsys):
    options = ["--metric", "nDCG@5", "--metric", "RR"]
    assert run(folder, "weak.run.gz", "strong.run.gz", options=options) == 0
    out = capsys.readouterr().out
    lines = out.splitlines()
    assert lines[0].split("  ")[0] == "run"
    assert "ndcg@5 (gain 2^y-1)" in lines[0]
    expected = evaluate_by_hand(folder, "weak.run.gz", ["ndcg@5"])["ndcg@5"]
    assert lines[2].startswith("weak")
    assert f"{expected:.4f} (" in lines[2]
    assert "ndcg@5 against weak" in out
    verdict = next(line for line in lines if line.startswith("strong") and "better" in line)
    assert "< 0.001" in verdict
    assert "paired randomisation test" in out
    assert run(folder, "weak.run.gz", "strong.run.gz", options=[*options, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found["runs"]) == {"weak", "strong"}
    assert found["comparisons"][0]["verdict"] == "better"
    options += ["--baseline", "strong", "--skip-missing", "--json"]
    assert run(folder, "weak.run.gz", "strong.run.gz", "small.run", options=options) == 0
    found = json.loads(capsys.readouterr().out)
    verdicts = {one["name"]: one["verdict"] for one in found["comparisons"]}
    assert verdicts == {"weak": "worse", "small": "no test possible (1 query)"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "name MODEL and DATA, or --qrels and --run"),
        (["model"], "name MODEL and DATA, or --qrels and --run"),
        (["--run", "{}/weak.run.gz"], "go together"),
        (["--qrels", "{}/qrels.txt"], "go together"),
        (["model", "data", "--qrels", "{}/qrels.txt", "--run", "{}/weak.run.gz"], "go together"),
        (["--qrels", "{}/weak.run.gz", "--run", "{}/weak.run.gz"], "6 fields instead of the 4"),
        (["--qrels", "{}/qrels.txt", "--run", "{}/week.run.gz"], "did you mean"),
        (["--qrels", "{}/qrels.txt", "--run", "{}/weak.run.gz", "--baseline", "x"], "one run only"),
        (["--qrels", "{}/qrels.txt", "--run", "{}/weak.run.gz", "--metric", "auc"], "no meaning"),
        (
            ["--qrels", "{}/qrels.txt", *["--run", "{}/weak.run.gz"] * 2],
            "named twice",
        ),
        (
            ["--qrels", "{}/qrels.txt", "--run", "{}/weak.run.gz", "--run", "{}/small.run",
             "--baseline", "smal"],
            "did you mean 'small'",
        ),
        (
            ["--qrels", "{}/qrels.txt", "--run", "{}/weak.run.gz", "--label", "y", "--qid", "q",
             "--no-zero-based", "--decimal", ".", "--tracking-uri", "x"],
            "--tracking-uri, --label, --qid, --zero-based, --decimal: for MODEL and DATA, not",
        ),
        (
            ["model", "data", "--skip-missing", "--ties", "trec", "--baseline", "x"],
            "--baseline, --ties, --skip-missing: for --run, not for MODEL and DATA",
        ),
    ],
)  # fmt: skip
def test_mistakes_are_said(folder, capsys, arguments, message):
    assert cli.main(["evaluate", *(one.format(folder) for one in arguments)]) == 2
    assert message in capsys.readouterr().err
