"""What the README and the pages of docs/ show works, and names what exists."""

import re
from pathlib import Path

import pytest

import rankplug
from rankplug.recipe.loader import packaged_recipes

ROOT = Path(__file__).parents[1]
PAGES = {
    str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
    for path in [
        ROOT / "README.md",
        *sorted((ROOT / "docs").glob("*.md")),
        *sorted(ROOT.glob("docs/methods/*.md")),
        *sorted(ROOT.glob("docs/papers/*.md")),
        *sorted(ROOT.glob("docs/tutorials/*.md")),
    ]
}
LINKS = sorted(
    {(page, link) for page in PAGES for link in re.findall(r"\]\(([\w./-]+)\)", PAGES[page])}
)
RUNNABLE = {
    page: "\n".join(re.findall(r"<!-- runs -->\n```python\n(.*?)```", text, flags=re.DOTALL))
    for page, text in PAGES.items()
    if "<!-- runs -->" in text and not page.startswith("docs/tutorials/")
}
"""The examples of a page, one after the other; those that need files of the reader's do not run.

Tutorials run as the site is built, where an error in one ends the build."""


def test_the_first_example_runs(capsys):
    (code,) = re.findall(r"```python\n(.*?)```", PAGES["README.md"], flags=re.DOTALL)
    names = {}
    exec(code, names)
    ndcg, result = capsys.readouterr().out.splitlines()
    assert 0.6 < float(ndcg) < 0.8
    assert result.endswith("converged")
    assert len(names["scores"]) == names["data"].test.n_samples


@pytest.mark.parametrize("page", RUNNABLE)
def test_examples_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(compile(RUNNABLE[page], page, "exec"), {"__name__": "example"})


def test_the_table_lists_the_solvers_that_come_along():
    listed = set(re.findall(r"^\| `([\w-]+)` \|", PAGES["docs/solvers.md"], flags=re.MULTILINE))
    own = {one.name for one in rankplug.list_solvers() if one.package == "rankplug"}
    assert listed == own


@pytest.mark.parametrize("page", PAGES)
def test_the_recipes_exist(page):
    named = re.findall(r"\(\.\./recipes/([\w]+)\.yaml\)", PAGES[page])
    named += re.findall(r"rankplug (?:run|tune|compare) ([a-z_]+) ", PAGES[page])
    named += re.findall(r"recipe=([a-z_]+)", PAGES[page])
    assert set(named) <= set(packaged_recipes())


@pytest.mark.parametrize(("page", "link"), LINKS)
def test_links_lead_somewhere(page, link):
    assert ((ROOT / page).parent / link).exists()
