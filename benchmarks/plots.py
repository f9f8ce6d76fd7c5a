"""What the figures of experiments share: panels, and lines over a column of a table."""

from __future__ import annotations

from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter


def figure_of(n_panels: int):  # type: ignore[no-untyped-def]
    figure = Figure(figsize=(5 * n_panels, 4), layout="constrained")
    return figure, figure.subplots(1, n_panels, squeeze=False)[0]


def draw_line(axis, table, column, label, time="wall_s") -> None:  # type: ignore[no-untyped-def]
    x = [float(row[column]) for row in table]
    y = [float(row[time]) for row in table]
    axis.loglog(x, y, marker="o", label=label)
    axis.xaxis.set_minor_formatter(NullFormatter())
