"""Figures from the CSV files: time against rows and against levels."""

from __future__ import annotations

from pathlib import Path

from benchmarks import results


def rows(source: Path, target: Path) -> None:
    """One panel a data set, one line a solver, both axes logarithmic."""
    table = [row for row in results.read(source) if row["wall_s"]]
    problems = list(dict.fromkeys(row["problem"] for row in table))
    figure, axes = _figure(len(problems))
    for axis, problem in zip(axes, problems, strict=True):
        of_problem = [row for row in table if row["problem"] == problem]
        for solver in dict.fromkeys(row["solver"] for row in of_problem):
            line = [row for row in of_problem if row["solver"] == solver]
            _line(axis, line, "n_samples", solver)
        axis.set(title=problem, xlabel="rows", ylabel="seconds, one thread")
        axis.legend(frameon=False)
    figure.savefig(target, dpi=150)


def levels(source: Path, target: Path) -> None:
    """Time of a whole solve, and of one pass, against the number of levels."""
    table = results.read(source)
    figure, (whole, per_pass) = _figure(2)
    _line(whole, table, "n_levels", "tree-tron")
    for row in table:
        row["wall_s"] = str(float(row["wall_s"]) / float(row["n_passes"]))
    _line(per_pass, table, "n_levels", "tree-tron")
    whole.set(title="whole solve", xlabel="levels of relevance", ylabel="seconds, one thread")
    per_pass.set(title="one pass", xlabel="levels of relevance", ylabel="seconds, one thread")
    per_pass.set_yscale("linear")
    per_pass.set_ylim(bottom=0)
    figure.savefig(target, dpi=150)


PLOTS = {"rows": rows, "levels": levels}


def _figure(n_panels: int):  # type: ignore[no-untyped-def]
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5 * n_panels, 4), layout="constrained")
    return figure, figure.subplots(1, n_panels, squeeze=False)[0]


def _line(axis, table, column, label) -> None:  # type: ignore[no-untyped-def]
    x = [float(row[column]) for row in table]
    y = [float(row["wall_s"]) for row in table]
    axis.loglog(x, y, marker="o", label=label)
