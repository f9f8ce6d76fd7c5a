"""Bootstrap intervals of metrics: how often they cover, and that SciPy finds the same."""

import numpy as np
import pytest
from scipy.stats import bootstrap

from rankplug.exceptions import ParameterError
from rankplug.metrics import Measured, confidence_interval, confidence_intervals


def test_intervals_cover_the_mean_as_often_as_they_say():
    rng = np.random.default_rng(0)
    covered = 0
    for seed in range(200):
        values, weights = rng.beta(2, 1, size=60), rng.integers(1, 5, size=60).astype(float)
        measured = Measured(values, weights)
        low, high = confidence_interval(measured, level=0.9, n_resamples=200, seed=seed)
        covered += low <= 2 / 3 <= high
    assert 0.82 <= covered / 200 <= 0.96


def test_intervals_of_few_queries():
    assert np.isnan(confidence_interval(Measured(np.array([0.5, np.nan]), np.ones(2)))).all()
    assert confidence_interval(Measured(np.array([0.5, 0.5]), np.ones(2))) == (0.5, 0.5)
    with pytest.raises(ParameterError, match="level=1"):
        confidence_interval(Measured(np.ones(3), np.ones(3)), level=1.0)


@pytest.mark.parametrize("n", [2, 5, 300])
def test_scipy_finds_the_same(n):
    rng = np.random.default_rng(n)
    values, weights = rng.random(n), rng.integers(1, 9, n).astype(float)
    expected = bootstrap(
        (values, weights),
        lambda v, w, axis: (v * w).sum(axis) / w.sum(axis),
        paired=True,
        confidence_level=0.9,
        n_resamples=500,
        method="percentile",
        rng=np.random.default_rng(3),
    ).confidence_interval
    found = confidence_interval(Measured(values, weights), level=0.9, n_resamples=500, seed=3)
    np.testing.assert_allclose(found, [expected.low, expected.high], rtol=1e-12)


def test_metrics_of_other_queries_do_not_change_an_interval():
    rng = np.random.default_rng(0)
    values = rng.random((3, 40))
    values[1, :7] = np.nan
    several = [Measured(one, np.ones(40)) for one in values]
    together = confidence_intervals(several)
    alone = [confidence_interval(one) for one in several]
    np.testing.assert_allclose(together, alone, rtol=1e-12)


def test_many_queries_are_drawn_in_batches(monkeypatch):
    measured = Measured(np.random.default_rng(0).random(50), np.ones(50))
    expected = confidence_interval(measured)
    monkeypatch.setattr("rankplug.metrics.evaluation._CELLS", 120)
    np.testing.assert_allclose(confidence_interval(measured), expected, rtol=1e-12)
