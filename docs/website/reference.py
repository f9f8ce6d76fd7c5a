"""The reference, written before the site is read: departments, solvers and maps."""

import importlib
import inspect
from itertools import chain
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.pycode import ModuleAnalyzer

import rankplug
from rankplug.maps import list_maps, map_class
from rankplug.solver import list_solvers, solver_class

DEPARTMENTS = (
    "data",
    "io",
    "datasets",
    "solver",
    "maps",
    "models",
    "metrics",
    "estimators",
    "clicks",
    "explain",
    "report",
    "tuning",
    "mlflow",
    "dask",
    "boosting",
    "exchange",
    "recipe",
    "objectives",
    "shards",
    "testing",
)


def setup(app: Sphinx) -> dict[str, bool]:
    """Write the pages when the builder is there."""
    app.connect("config-inited", lambda app, _: _write(Path(app.srcdir, "generated")))
    return {"parallel_read_safe": True}


def _write(folder: Path) -> None:
    for module in ("rankplug", *(f"rankplug.{name}" for name in DEPARTMENTS)):
        _page(folder / f"api/{module}.rst", module, _department(module))
    exceptions = [".. automodule:: rankplug.exceptions", "   :members:", "   :show-inheritance:"]
    _page(folder / "api/rankplug.exceptions.rst", "rankplug.exceptions", exceptions)
    for info in list_solvers():
        if info.package == "rankplug":
            _page(folder / f"solvers/{info.name}.rst", info.name, _class(solver_class(info.name)))
    maps = [line for info in list_maps() for line in _class(map_class(info.name))]
    _page(folder / "maps.rst", "Maps of features", maps)


def _page(file: Path, title: str, lines: list[str]) -> None:
    write_page(file, [title, "=" * len(title), "", *lines])


def write_page(file: Path, lines: list[str]) -> None:
    """Write a page, unless it is there as it would be: Sphinx reads again what is newer."""
    text = "\n".join([*lines, ""])
    file.parent.mkdir(parents=True, exist_ok=True)
    if not file.exists() or file.read_text(encoding="utf-8") != text:
        file.write_text(text, encoding="utf-8")


def _department(name: str) -> list[str]:
    """List what a face offers, then describe what no other page describes."""
    module = importlib.import_module(name)
    homes = {
        one: _home(name, one, getattr(module, one))
        for one in module.__all__
        if not one.startswith("_")
    }
    own = [one for one, home in homes.items() if home == name]
    again = [f":obj:`{one} <{home}.{one}>`" for one, home in homes.items() if home != name]
    lines = [f".. automodule:: {name}", "   :no-members:", "", f".. currentmodule:: {name}", ""]
    if again:
        lines += [f"Described on another page: {', '.join(again)}.", ""]
    lines += [".. autosummary::", "   :nosignatures:", ""]
    lines += [f"   {one}" for one in own if _is_described(getattr(module, one))] + [""]
    return lines + list(chain.from_iterable(_entry(name, one, getattr(module, one)) for one in own))


def _home(face: str, name: str, value: Any) -> str:
    """Return the face on whose page it stands: the package, or the department that defines it."""
    if not _is_described(value):
        return face
    if name in rankplug.__all__:
        return "rankplug"
    home = ".".join(value.__module__.split(".")[:2])
    there = importlib.import_module(home) if home.removeprefix("rankplug.") in DEPARTMENTS else None
    return home if name in getattr(there, "__all__", ()) else face


def _is_described(value: Any) -> bool:
    return inspect.isclass(value) or inspect.isroutine(value)


def _entry(module: str, name: str, value: Any) -> list[str]:
    if inspect.isclass(value):
        return [f".. autoclass:: {module}.{name}", "   :members:", "   :show-inheritance:", ""]
    if inspect.isroutine(value):
        return [f".. autofunction:: {module}.{name}", ""]
    lines = [f".. py:data:: {module}.{name}", ""]
    return lines + [f"   {line}" for line in _comment(module, name)] + [""]


def _comment(module: str, name: str) -> list[str]:
    """Return what a constant's line of text says, in the file of the department that has it."""
    folder = Path(inspect.getfile(importlib.import_module(module))).parent
    for file in sorted(folder.rglob("*.py")):
        dotted = f"{module}.{file.relative_to(folder).with_suffix('')}".replace("/", ".")
        found = ModuleAnalyzer.for_file(str(file), dotted).find_attr_docs()
        if ("", name) in found:
            return found["", name]
    return []


def _class(kind: type) -> list[str]:
    """Describe a plugin by the face that it is announced with."""
    module = ".".join(kind.__module__.split(".")[:2])
    return [f".. autoclass:: {module}.{kind.__name__}", "   :show-inheritance:", ""]
