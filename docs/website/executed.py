"""Examples are run as their page is built: what a block prints and draws stands below it."""

import contextlib
import io
import os
import re
import sys
import tempfile
from pathlib import Path
from shutil import copyfile

from sphinx.application import Sphinx

_BLOCK = re.compile(r"<!-- runs -->\n(```python\n(.*?)```\n)", flags=re.DOTALL)
_PICTURES = (".png", ".svg")


def setup(app: Sphinx) -> dict[str, bool]:
    """Run the examples when their page is read, before their links are led elsewhere."""
    app.connect("source-read", _run, priority=400)
    return {"parallel_read_safe": True}


def _run(app: Sphinx, docname: str, source: list[str]) -> None:
    if docname not in ("start", "errors") and not docname.startswith(("tutorials/", "methods/")):
        return
    page = Path(app.srcdir, "generated", docname)
    names = {"__name__": "example"}
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):

        def result(match: re.Match[str]) -> str:
            there = set(os.listdir())
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile(match[2], docname, "exec"), names)
            text, lines = match[1], printed.getvalue().replace(os.getcwd(), "/your/folder")
            if lines.strip():
                text += f"\n```{{code-block}} text\n:class: output\n\n{lines.rstrip()}\n```\n"
            for name in sorted(set(os.listdir()) - there):
                if name.endswith(_PICTURES):
                    page.mkdir(parents=True, exist_ok=True)
                    copyfile(name, page / name)
                    label = Path(name).stem.replace("-", " ")
                    text += f"\n![{label}](../generated/{docname}/{name})\n"
            return text

        source[0] = _BLOCK.sub(result, source[0])
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")
