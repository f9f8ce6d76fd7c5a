"""The experiments of the A2DM2 paper at tiny sizes, on data that come along."""

import matplotlib as mpl
import numpy as np
import pytest

from benchmarks import results
from benchmarks.papers import a2dm2, a2dm2_curves, a2dm2_dirty, a2dm2_runs

mpl.set_loglevel("error")


@pytest.mark.parametrize(
    ("module", "name", "solvers"),
    [
        (a2dm2, "top_stops", {"admm", "a2dm2", "a2dm2-restart"}),
        (a2dm2_curves, "top_curves", {"toppush", "admm", "a2dm2", "a2dm2-restart"}),
        (a2dm2_curves, "top_roc", {"toppush", "admm", "a2dm2", "a2dm2-restart"}),
    ],
)
def test_top_ranking(module, name, solvers, tmp_path, monkeypatch):
    monkeypatch.setattr(a2dm2_runs, "MOST_ITERATIONS", 50)
    rows = list(getattr(module, name)(True, 1))
    assert {row["solver"] for row in rows} == solvers
    assert all(0 <= row["pos_at_top"] < 150 for row in rows)
    results.write(tmp_path / "rows.csv", rows, {})
    plot = getattr(module, f"plot_{name}", None)
    if plot is not None:
        plot(tmp_path / "rows.csv", tmp_path / "rows.png")


def test_a_trial_measures_every_solver():
    trial = a2dm2.Trial(a2dm2.load("diabetes", tiny=True), 0, tiny=True)
    found = trial.run()
    assert {"toppush", *a2dm2.RHOS, "minimum of (11)", "minimum of (13)"} < set(found)
    assert all(0 < row["pos_at_top"] <= row["test_positives"] for row in found.values())
    assert not any(row["zero"] for row in found.values())
    assert found["admm"]["n_iter"] > 10


def test_dirty_model(tmp_path):
    """Both gaps close, and the dual value is the infimum of the Lagrangian."""
    rows = list(a2dm2_dirty.dirty_model(True, 1))
    last = [row for row in rows if row["n_iter"] == 20 and row["step"] == 1]
    assert all(row["objective_gap"] < 0.1 and row["dual_gap"] < 0.1 for row in last)
    active = {row["mu"]: row["nonzeros_of_y"] for row in last}
    assert active[0.05] > active[0.5]
    results.write(tmp_path / "rows.csv", rows, {})
    a2dm2_dirty.plot_dirty_model(tmp_path / "rows.csv", tmp_path / "rows.png")
    model = a2dm2_dirty.DirtyModel(2, 3, 0.1)
    g = np.array([0.3, -0.2])  # too small for x to leave zero

    def lagrangian(x, y):
        return model.value(x, y) + g @ (model.map_x(x) + y - model.c)

    least = model.dual_value(g)
    assert lagrangian(np.zeros(3), model.argmin_y_linear(g)) == pytest.approx(least)
    rng = np.random.default_rng(0)
    assert all(lagrangian(rng.normal(size=3), rng.normal(size=2)) >= least for _ in range(100))
