"""SVG files of Matplotlib as elements of a page, of which there may be many."""

from __future__ import annotations

import re
from collections.abc import Mapping
from xml.etree import ElementTree

__all__ = ["inline_svg"]


def inline_svg(picture: bytes, prefix: str, label: str, colours: Mapping[str, str]) -> str:
    """The element ``svg`` without what a page must not have twice or at all.

    Parameters
    ----------
    picture : bytes
        An SVG file.
    prefix : str
        Before all ids, so that they differ from those of other pictures.
    label : str
        Describes the picture for those who do not see it.
    colours : mapping of str
        What stands in the page for each colour of the picture.
    """
    root = ElementTree.fromstring(picture)
    needed = set(re.findall(r'(?:url\(#|href="#)([^)"]+)', picture.decode()))
    # Their rules would hold for the whole page.
    for parent in root.iter():
        for child in list(parent):
            if child.tag.endswith(("}style", "}metadata")):
                parent.remove(child)
    for element in root.iter():
        attributes = {_local(key): value for key, value in element.items()}
        if attributes.get("id") not in needed:
            attributes.pop("id", None)
        element.tag = _local(element.tag)
        element.attrib.clear()
        for key, value in attributes.items():
            element.set(key, _adapted(key, value, prefix, colours))
        _drop_line_breaks(element)
    for size in ("width", "height", "version"):
        root.attrib.pop(size, None)
    root.attrib |= {"role": "img", "aria-label": label}
    return ElementTree.tostring(root, encoding="unicode")


def _local(name: str) -> str:
    """A name without its namespace, which a page has for all its elements."""
    return name.rpartition("}")[2]


def _drop_line_breaks(element: ElementTree.Element) -> None:
    element.tail = (element.tail or "").strip()
    if element.tag not in ("text", "tspan"):
        element.text = (element.text or "").strip()


def _adapted(key: str, value: str, prefix: str, colours: Mapping[str, str]) -> str:
    if key == "id":
        return prefix + value
    if key == "href":
        return value.replace("#", f"#{prefix}", 1)
    if key == "d":
        return " ".join(value.split())
    value = value.replace("url(#", f"url(#{prefix}")
    # The page has its own font.
    value = re.sub(r"font: ([\d.]+px)[^;]*", r"font-size: \1", value)
    return re.sub(r"#[0-9a-f]{6}\b", lambda found: colours.get(found[0], found[0]), value)
