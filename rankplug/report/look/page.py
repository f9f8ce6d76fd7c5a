"""The content as a part of a page, and the policy under which a browser may run its script.

The content is JSON, compressed, in letters of base64: nothing in it can end or begin an element,
and the script shows all of it as text. The policy names the page's own script and style by their
digests, and lets nothing else run or be fetched.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from rankplug.report.look.content import Limits, keep_features
from rankplug.report.templates import own, render

MOST_BYTES = 300_000
"""That rankings may add to a report."""

REPORT_LIMITS = Limits()
_SCRIPTS = ("elements.js", "rankings.js", "why.js", "panel.js", "page.js")


@dataclass(frozen=True)
class Look:
    """What a page needs to show rankings: its data in base64, its script and its style."""

    data: str
    script: str
    style: str

    @property
    def size(self) -> int:
        """Bytes that it adds to a page."""
        return sum(len(part.encode()) for part in (self.data, self.script, self.style))


def pack(content: dict[str, Any]) -> Look:
    """The content, ready for a page."""
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    packed = gzip.compress(text.encode("utf-8", "replace"), 9, mtime=0)
    return Look(base64.b64encode(packed).decode(), _script(), own("look/look.css"))


def pack_within(
    make: Callable[[Limits], dict[str, Any]], limits: Limits = REPORT_LIMITS, most: int = MOST_BYTES
) -> Look:
    """The content with as many features of each query, and then queries, as there is room for."""
    while True:
        content = make(limits)
        numbers = range(limits.fewest, limits.features + 1)
        fitting = bisect_right(numbers, most, key=lambda n: pack(keep_features(content, n)).size)
        if fitting or limits.queries == 1:
            return pack(keep_features(content, limits.fewest + max(fitting, 1) - 1))
        limits = replace(limits, queries=limits.queries // 2)


def policy(style: str, script: str = "") -> str:
    """The content security policy of a page with this style and script.

    Attributes may set styles, as those of pictures do.
    """
    allowed = [
        "default-src 'none'",
        f"style-src-elem {_digest(style)}",
        "style-src-attr 'unsafe-inline'",
        "base-uri 'none'",
        "form-action 'none'",
    ]
    if script:
        allowed.insert(1, f"script-src {_digest(script)}")
    return "; ".join(allowed)


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


@cache
def _script() -> str:
    """All scripts as one, with names of its own."""
    parts = "\n".join(own(f"look/{name}") for name in _SCRIPTS)
    return f'(() => {{\n"use strict";\n\n{parts}\nstart();\n}})();\n'


def to_page(title: str, look: Look) -> str:
    """A page of its own."""
    style = own("page.css") + look.style
    values = {"title": title, "style": style, "policy": policy(style, look.script)}
    return render("look/page.html", look=look, **values)
