"""The site of the documentation: ``sphinx-build -W docs docs/_build`` makes it."""

import sys
import tomllib
from pathlib import Path

from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx

import rankplug

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from website.links import address_of_code  # noqa: E402

ABOUT = tomllib.loads((HERE.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]

project = ABOUT["name"]
author = "The rankplug developers"
project_copyright = author
version = release = rankplug.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.linkcode",
    "numpydoc",
    "website.links",
    "website.reference",
    "website.keys",
    "website.docstrings",
    "website.executed",
    "website.mathml",
]
exclude_patterns = ["_build", "examples", "website"]

# Pages are written for GitHub, whose headings have these anchors.
myst_heading_anchors = 3

linkcode_resolve = address_of_code
toc_object_entries_show_parents = "hide"
autosummary_generate = False
autodoc_member_order = "bysource"
autodoc_typehints = "none"
autodoc_preserve_defaults = True
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
# What stands in backticks is a link if it is a name.
default_role = "py:obj"

html_theme = "pydata_sphinx_theme"
html_title = project
html_static_path = ["website/static"]
html_css_files = ["rankplug.css"]
html_sidebars = {"index": [], "start": []}
html_copy_source = False
html_show_sourcelink = False
html_math_renderer = "mathml"
html_theme_options = {
    "github_url": ABOUT["urls"]["Source"],
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}
html_context = {"default_mode": "auto"}


def setup(app: Sphinx) -> None:
    """Show diagrams, which GitHub draws, as their text: nothing is fetched to draw them."""
    app.add_lexer("mermaid", TextLexer)
