"""The tables of docs/coming-from.md and docs/evaluation.md hold, row by row."""

from __future__ import annotations

import contextlib
import re
import shlex
from pathlib import Path

import pytest

from rankplug import cli
from rankplug.metrics import METRICS, parse_metric

DOCS = Path(__file__).parents[1] / "docs"
COMING = (DOCS / "coming-from.md").read_text(encoding="utf-8")
EVALUATION = (DOCS / "evaluation.md").read_text(encoding="utf-8")


HERE = re.findall(r"^\| .* \| `([^`]+)` \|$", COMING, flags=re.MULTILINE)


@pytest.fixture(scope="module")
def example(tmp_path_factory):
    """The names and files that the page makes at its beginning."""
    pytest.importorskip("lightgbm")
    pytest.importorskip("catboost")
    (code,) = re.findall(r"<!-- runs -->\n```python\n(.*?)```", COMING, flags=re.DOTALL)
    folder = tmp_path_factory.mktemp("page")
    names = {}
    with contextlib.chdir(folder):
        exec(code, names)
    return folder, names


def test_every_row_has_code_on_our_side():
    lines = [line for line in COMING.splitlines() if re.match(r"\| (?!---)", line)]
    headers = sum(line.startswith(f"| {tool} |") for line in lines for tool in (
        "XGBoost", "LightGBM", "CatBoost", "there", "SVMrank"
    ))  # fmt: skip
    assert headers == 5
    assert len(HERE) == len(lines) - headers > 35


@pytest.mark.parametrize("code", HERE)
def test_what_is_typed_here_works(example, code, monkeypatch, capsys):
    folder, names = example
    monkeypatch.chdir(folder)
    if code.startswith("rankplug "):
        assert cli.main(shlex.split(code)[1:]) == 0, capsys.readouterr().err
        return
    found = eval(code, dict(names))
    if code.startswith("Ranker(") and code.endswith(")"):
        assert len(found.predict(names["X"])) == len(names["y"])


def test_the_names_of_other_tools_mean_what_the_table_says():
    section = EVALUATION.split("## Names")[1].split("## Runs")[0]
    checked = 0
    for line in section.splitlines():
        cells = [cell.strip(" `") for cell in line.strip("|").split("|")]
        if line.startswith("| `"):
            for spelled in filter(None, cells):
                assert str(parse_metric(spelled)) == cells[0], spelled
                checked += 1
    assert checked > 30


def test_all_metrics_stand_on_the_page():
    named = set(re.findall(r"^\| `([^`@\[]+(?:@top)?)", EVALUATION, flags=re.MULTILINE))
    assert set(METRICS) <= named
