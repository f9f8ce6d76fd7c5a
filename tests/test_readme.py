"""What the README shows works, and names what exists."""

import re
from pathlib import Path

import pytest

import rankplug
from rankplug.recipe.loader import packaged_recipes

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^## (.+)\n((?:(?!^## ).*\n)*)", README, flags=re.MULTILINE))


def test_the_example_runs(capsys):
    (code,) = re.findall(r"```python\n(.*?)```", SECTIONS["From Python"], flags=re.DOTALL)
    names = {}
    exec(code, names)
    ndcg, result = capsys.readouterr().out.splitlines()
    assert 0.6 < float(ndcg) < 0.8
    assert result.endswith("converged")
    assert len(names["scores"]) == names["data"].test.n_samples


def test_the_table_lists_the_solvers_that_come_along():
    listed = set(re.findall(r"^\| `([\w-]+)` \|", SECTIONS["Solvers"], flags=re.MULTILINE))
    own = {one.name for one in rankplug.list_solvers() if one.package == "rankplug"}
    assert listed == own


def test_the_recipes_exist():
    linked = re.findall(r"\(recipes/([\w]+)\.yaml\)", README)
    assert linked
    assert set(linked) <= set(packaged_recipes())


@pytest.mark.parametrize("path", sorted(set(re.findall(r"\]\(([\w./]+)\)", README))))
def test_links_lead_somewhere(path):
    assert (ROOT / path).exists()
