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
            _line(axis, line, "n_samples", solver, "process_cpu_s")
        axis.set(title=problem, xlabel="rows", ylabel="CPU seconds, one thread")
        axis.legend(frameon=False)
    figure.savefig(target, dpi=150)


def l1_rows(source: Path, target: Path) -> None:
    """CPU time against rows, as in Figure 1 of Airola et al. (2011)."""
    table = results.read(source)
    figure, (axis,) = _figure(1)
    for solver in dict.fromkeys(row["solver"] for row in table):
        line = [row for row in table if row["solver"] == solver]
        _line(axis, line, "n_samples", solver, "thread_cpu_s")
    axis.set(title="text-scores, hinge loss", xlabel="rows", ylabel="CPU seconds, one thread")
    axis.legend(frameon=False)
    figure.savefig(target, dpi=150)


def levels(source: Path, target: Path) -> None:
    """Time of a whole solve, and of one pass, against the number of levels."""
    table = results.read(source)
    figure, (whole, per_pass) = _figure(2)
    for row in table:
        row["a_pass_s"] = str(float(row["thread_cpu_s"]) / float(row["n_passes"]))
    _line(whole, table, "n_levels", "tree-tron", "thread_cpu_s")
    _line(per_pass, table, "n_levels", "tree-tron", "a_pass_s")
    whole.set(title="whole solve", xlabel="levels of relevance", ylabel="CPU seconds")
    per_pass.set(title="one pass", xlabel="levels of relevance", ylabel="CPU seconds")
    per_pass.set_yscale("linear")
    per_pass.set_ylim(bottom=0)
    figure.savefig(target, dpi=150)


def interior_point(source: Path, target: Path) -> None:
    """Time to a gap of 0.01 against the number of labels: Figure 7 of the SOPOPO paper."""
    table = results.read(source)
    figure, (axis,) = _figure(1)
    finished = [row for row in table if row["gap"]]
    for solver in dict.fromkeys(row["solver"] for row in table):
        _line(axis, [row for row in finished if row["solver"] == solver], "k", solver)
    for row in table:
        if row not in finished:
            axis.annotate(row["note"], (float(row["k"]), float(row["wall_s"])), ha="right")
            axis.loglog(float(row["k"]), float(row["wall_s"]), marker="^", color="tab:orange")
    axis.set(xlabel="labels k, for 10 k instances", ylabel="seconds, one thread")
    axis.legend(frameon=False)
    figure.savefig(target, dpi=150)


def phase_transition(source: Path, target: Path) -> None:
    """Rise of the dual objective and the gap by visits: Figure 8 of the SOPOPO paper."""
    table = results.read(source)
    visits = [float(row["visits"]) for row in table]
    figure, axes = _figure(2)
    for axis, column in zip(axes, ("dual_rise", "gap"), strict=True):
        axis.loglog(visits, [max(float(row[column]), 1e-16) for row in table], marker=".")
    axes[0].set(title="rise of the dual objective in an epoch", xlabel="visits to instances")
    axes[1].set(title="duality gap", xlabel="visits to instances")
    figure.savefig(target, dpi=150)


def dirty_model(source: Path, target: Path) -> None:
    """Residual and objective against iterations: Figure 1 of Kadkhodaie et al. (2015)."""
    table = results.read(source)
    figure, axes = _figure(2)
    for axis, column in zip(axes, ("primal_residual", "objective_gap"), strict=True):
        for variant in dict.fromkeys(row["variant"] for row in table):
            line = [row for row in table if row["variant"] == variant]
            axis.semilogy(
                [int(row["n_iter"]) for row in line],
                [float(row[column]) for row in line],
                label=variant,
            )
        axis.set(xlabel="iterations", ylabel=column.replace("_", " "), xscale="linear")
        axis.legend(frameon=False)
    figure.savefig(target, dpi=150)


def multiclass_online(source: Path, target: Path) -> None:
    """Test error against kernel evaluations: Figure 1 of the LaRank paper."""
    table = results.read(source)
    names = list(dict.fromkeys(row["data"] for row in table))
    figure, axes = _figure(len(names))
    for axis, name in zip(axes, names, strict=True):
        of_set = [row for row in table if row["data"] == name]
        for point, marker in (("epoch", "o"), ("gap", "s")):
            part = [row for row in of_set if row["point"] == point]
            axis.semilogx(
                [
                    float(row["kernel_evaluations"])
                    + (point == "gap") * float(row["certificate_evaluations"])
                    for row in part
                ],
                [float(row["test_error"]) for row in part],
                marker=marker,
                label={"epoch": "during the first epoch", "gap": "relative gap 1e-2"}[point],
            )
        axis.set(title=name, xlabel="kernel evaluations", ylabel="test error, %")
        axis.legend(frameon=False)
    figure.savefig(target, dpi=150)


def scaling(source: Path, target: Path) -> None:
    """Predicted and measured passes here, and predicted ones as the cluster grows."""
    table = results.read(source)
    figure, (here, growing) = _figure(2)
    measured = [row for row in table if row["name"] == "worker processes"]
    _line(here, measured, "n_workers", "measured", "measured_s")
    _line(here, measured, "n_workers", "simulator", "predicted_s")
    here.set_xticks([1, 2, 4], ["1", "2", "4"])
    rows = f"{float(measured[0]['n_rows']):,.0f} x {measured[0]['n_features']}"
    here.set(title=f"{rows}, this machine", xlabel="worker processes", ylabel="seconds a pass")
    for where in ("memory", "disk", "network"):
        line = [row for row in table if row["name"] == "growing" and row["source"] == where]
        _line(growing, line, "n_workers", f"rows in {where}", "predicted_s")
    growing.set(title="10 million rows a worker", xlabel="workers", ylabel="seconds a pass")
    for axis in (here, growing):
        axis.legend(frameon=False)
    figure.savefig(target, dpi=150)


PLOTS = {
    "scaling": scaling,
    "multiclass_online": multiclass_online,
    "dirty_model": dirty_model,
    "l1_rows": l1_rows,
    "rows": rows,
    "levels": levels,
    "interior_point": interior_point,
    "phase_transition": phase_transition,
}


def _figure(n_panels: int):  # type: ignore[no-untyped-def]
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5 * n_panels, 4), layout="constrained")
    return figure, figure.subplots(1, n_panels, squeeze=False)[0]


def _line(axis, table, column, label, time="wall_s") -> None:  # type: ignore[no-untyped-def]
    from matplotlib.ticker import NullFormatter

    x = [float(row[column]) for row in table]
    y = [float(row[time]) for row in table]
    axis.loglog(x, y, marker="o", label=label)
    axis.xaxis.set_minor_formatter(NullFormatter())
