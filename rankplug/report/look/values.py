"""Values as a page holds them: numbers of few digits, and texts of few letters."""

from __future__ import annotations

import math
from typing import Any

_MOST_LETTERS = 80
_DIGITS = 5


def short(value: Any) -> Any:
    """Numbers with few digits, whole ones without a point; None where there is no number."""
    if not isinstance(value, int | float):
        return value if value is None else short_text(value)
    if not math.isfinite(value):
        return None
    found = float(f"{float(value):.{_DIGITS}g}")
    return int(found) if found.is_integer() and abs(found) < 1e15 else found


def short_text(value: Any) -> str:
    """A value as text, which is cut if it is long; nothing where it is missing."""
    text = "" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)
    return text if len(text) <= _MOST_LETTERS else text[: _MOST_LETTERS - 1] + "…"
