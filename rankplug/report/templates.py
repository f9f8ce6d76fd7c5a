"""The files of pages that lie beside the code: templates, which escape what varies, and styles."""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2 import Environment


def render(name: str, **values: Any) -> str:
    """The page that a template makes of the values."""
    return _environment().get_template(name).render(**values)


@cache
def own(path: str) -> str:
    """The text of a file of this package."""
    return resources.files("rankplug.report").joinpath(path).read_text(encoding="utf-8")


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=PackageLoader("rankplug.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
