"""Links out of docs/: pages beside it become pages of the site, files lead to the repository."""

import importlib
import inspect
import re
import tomllib
from pathlib import Path
from posixpath import normpath, relpath

from sphinx.application import Sphinx

ROOT = Path(__file__).parents[2]
URL = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]["Source"]

TAKEN = {
    "README.md": "start",
    "CONTRIBUTING.md": "contributing",
    "CHANGELOG.md": "changelog",
    "benchmarks/README.md": "benchmarks",
    "benchmarks/scaling.md": "scaling",
}
"""Files of the repository that are pages of the site, by the names of these."""

_LINK = re.compile(r"(?<=\]\()(?!\w+:|#)([^)#\s]+)(#[^)\s]*)?(?=\))")


def setup(app: Sphinx) -> dict[str, bool]:
    """Read pages through `_read`."""
    app.connect("source-read", _read)
    return {"parallel_read_safe": True}


def address_of_code(_: str, info: dict[str, str]) -> str | None:
    """Return where the repository has a class or function, for its link to the source."""
    found: object = importlib.import_module(info["module"])
    try:
        for name in info["fullname"].split("."):
            found = getattr(found, name)
        found = inspect.unwrap(found.fget if isinstance(found, property) else found)
        file, (lines, first) = inspect.getsourcefile(found), inspect.getsourcelines(found)
        path = Path(file).resolve().relative_to(ROOT)
    except (AttributeError, OSError, TypeError, ValueError):
        return None
    return f"{URL}/blob/main/{path}#L{first}-L{first + len(lines) - 1}"


def _read(_: Sphinx, docname: str, source: list[str]) -> None:
    """Put the file in the place of a page that stands for it, and lead its links somewhere."""
    if docname.startswith("generated/"):
        return
    file = next((name for name, page in TAKEN.items() if page == docname), None)
    if file is not None and docname != "start":
        source[0] = (ROOT / file).read_text(encoding="utf-8")
        folder = str(Path(file).parent)
    else:
        folder = str(Path("docs") / Path(docname).parent)
    here = str(Path(docname).parent)

    def lead(match: re.Match[str]) -> str:
        target, anchor = normpath(f"{folder}/{match[1]}"), match[2] or ""
        if target in TAKEN:
            return relpath(TAKEN[target], here) + ".md" + anchor
        suffix = Path(target).suffix
        # Pictures are taken into the site from anywhere.
        if suffix in (".png", ".svg") or (target.startswith("docs/") and suffix == ".md"):
            return relpath(target, f"docs/{here}") + anchor
        kind = "tree" if (ROOT / target).is_dir() else "blob"
        return f"{URL}/{kind}/main/{target}{anchor}"

    source[0] = _LINK.sub(lead, source[0])
