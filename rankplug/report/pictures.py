"""Figures of single solvers as SVG files, which stand alone."""

from __future__ import annotations

import io
import re
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from rankplug.report.plots.canvas import Canvas, Plot
from rankplug.report.plots.convergence import convergence
from rankplug.report.plots.maps import refits, shapes
from rankplug.report.plots.tradeoffs import learning
from rankplug.report.plots.weights import weights
from rankplug.report.report import Report

_ALONE: dict[str, Callable[[Report, Canvas], list[Plot]]] = {
    "convergence": convergence,
    "learning": learning,
    "shapes": shapes,
    "trees": refits,
}
"""Figures that are drawn of a report with this solver alone."""


class _FileCanvas(Canvas):
    """Makes pictures on white, in colours of their own."""

    def svg(self, axes: Any, label: str) -> str:
        """The figure of these axes as a file; `label` is its title."""
        stream = io.BytesIO()
        metadata = {"Creator": None, "Date": None, "Title": label}
        axes.figure.savefig(stream, format="svg", facecolor="white", metadata=metadata)
        return stream.getvalue().decode()


def draw_pictures(report: Report) -> dict[str, dict[str, str]]:
    """The figures that concern one solver: by its name, SVG by name of the file.

    They have the colours of the report, and its features in the same order. Of several panels each
    is a file with a number, ``convergence_1.svg``: that against passes is the first.
    """
    canvas = _FileCanvas([one.name for one in report.outcomes], report.baseline)
    found: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for plot in canvas.draw(weights, report):  # one pass over the test set for all of them
        found[plot.title]["features.svg"] = plot.svg
    for outcome in report.competitors:
        alone = replace(report, outcomes=(outcome,))
        for name, draw in _ALONE.items():
            files = [file for plot in canvas.draw(draw, alone) for file in _split(plot.svg)]
            for number, file in enumerate(files, 1):
                suffix = f"_{number}" if len(files) > 1 else ""
                found[outcome.name][f"{name}{suffix}.svg"] = file
    return dict(found)


def _split(svg: str) -> list[str]:
    """The files of panels, which a page shows below each other."""
    return re.split(r"\n(?=<\?xml )", svg)
