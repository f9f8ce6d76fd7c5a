"""Docstrings as the site reads them: a paragraph that is indented is a formula or a file."""

import re
from typing import Any

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util.nodes import make_refnode

_LIST = re.compile(r"([-*]|\d+\.|\.\.) ")
_FREE = ("", "Notes")
"""Sections of free text: in others, what is indented describes the name above it."""


def setup(app: Sphinx) -> dict[str, bool]:
    """Read docstrings before numpydoc does."""
    app.connect("autodoc-process-docstring", _show_formulas, priority=400)
    app.connect("autodoc-skip-member", _skip)
    app.connect("missing-reference", _find_class)
    return {"parallel_read_safe": True}


def _show_formulas(*event: Any) -> None:
    """Have indented paragraphs shown as they are written."""
    lines: list[str] = event[-1]
    section, above, shown, result = "", "", False, []
    for number, line in enumerate(lines):
        if lines[number + 1 : number + 2] and re.fullmatch("-{3,}", lines[number + 1]):
            section = line.strip()
        indented = line.startswith("    ")
        if line.strip() and not indented:
            above, shown = line, False
        elif indented and not shown and section in _FREE and not lines[number - 1].strip():
            if not above.endswith("::") and not _LIST.match(above):
                result += [".. code-block:: text", ""]
            shown = True
        result.append(line)
    lines[:] = result


def _skip(*event: Any) -> bool | None:
    """Leave out what scikit-learn adds to estimators for the routing of metadata."""
    return True if re.fullmatch(r"set_\w+_request", event[2]) else None


def _find_class(
    app: Sphinx, env: BuildEnvironment, node: pending_xref, text: nodes.Element
) -> nodes.Element | None:
    """Find a class that a docstring names without its department, if only one is called so."""
    name = node.get("reftarget", "")
    if node.get("refdomain") != "py" or not re.fullmatch(r"[A-Z]\w*[a-z]\w*", name):
        return None
    objects = env.domains["py"].data["objects"]
    pages = {full: entry.docname for full, entry in objects.items() if full.endswith(f".{name}")}
    full = min(pages, key=len, default=None)
    if full is None or len({entry.node_id for one, entry in objects.items() if one in pages}) > 1:
        return None
    return make_refnode(app.builder, node["refdoc"], pages[full], full, text, full)
