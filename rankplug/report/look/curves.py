"""Curves of linear and additive models: what each feature adds at its values."""

from __future__ import annotations

from typing import Any

import numpy as np

from rankplug.report.look.entrants import Explained
from rankplug.report.look.values import short

_MOST_POINTS = 33  # of the picture of a curve
_HANDLES = 7  # places of a curve that can be moved


class Curves:
    """What each feature of a linear or additive model adds at its values, from rows seen."""

    def __init__(self) -> None:
        self._seen: dict[str, dict[float, float]] = {}
        self._strength: dict[str, list[float]] = {}

    def add(self, found: Explained) -> None:
        """Look at more rows."""
        for j, name in enumerate(found.names):
            added = found.parts.values[:, j]
            self._strength.setdefault(name, []).append(float(np.ptp(added)))
            points = self._seen.setdefault(name, {})
            for value, height in zip(found.values[j], added.tolist(), strict=True):
                if isinstance(value, int | float):
                    points.setdefault(float(value), height)

    def tell(self) -> list[dict[str, Any]] | None:
        """The features, the strongest first, with points of their curves and places of handles."""
        if not self._seen:
            return None
        order = sorted(self._strength, key=lambda name: -max(self._strength[name]))
        return [{"feature": name, **_draw(self._seen[name])} for name in order]


def _draw(points: dict[float, float]) -> dict[str, Any]:
    """Points of a curve at quantiles of the values, and the places of its handles."""
    if len(points) < 2:
        return {"points": [], "handles": []}
    places = sorted(points)
    shown = _spread(places, _MOST_POINTS)
    return {
        "points": [[short(x), short(points[x])] for x in shown],
        "handles": [short(x) for x in _spread(places, _HANDLES)],
    }


def _spread(values: list[float], most: int) -> list[float]:
    """Some of them, evenly chosen, with the first and the last."""
    chosen = np.unique(np.linspace(0, len(values) - 1, most).round().astype(int))
    return [values[k] for k in chosen]
