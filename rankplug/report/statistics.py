"""Paired comparison of solvers over queries: bootstrap interval, randomisation test, Holm."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from rankplug.exceptions import DataError, UnknownNameError
from rankplug.metrics import Measured, confidence_interval

CONFIDENCE = 0.95
_MANY_QUERIES = 1_000  # above it 1,999 resamples, so that a comparison takes about a second
_CELLS = 1 << 22  # numbers that are resampled at once: 32 MB
_SEED = 0  # the same for all, so that a report can be made again


@dataclass(frozen=True)
class Comparison:
    """A solver against the baseline on the same queries.

    Attributes
    ----------
    name, baseline, metric : str
    greater_is_better : bool
    n_queries : int
        Queries for which the metric is defined for both.
    difference : float
        Mean over these queries of the solver's value minus the baseline's; NaN without queries.
    low, high : float
        Bootstrap interval of the difference at `CONFIDENCE`; NaN for fewer than two queries.
    p_value : float
        Of the paired randomisation test; NaN for fewer than two queries.
    p_holm : float
        The same, corrected for the number of solvers that are compared with the baseline.
    wins, ties, losses : int
        Queries on which the solver is better than, as good as, and worse than the baseline.
    """

    name: str
    baseline: str
    metric: str
    greater_is_better: bool
    n_queries: int
    difference: float
    low: float
    high: float
    p_value: float
    p_holm: float
    wins: int
    ties: int
    losses: int

    def __repr__(self) -> str:
        return (
            f"<Comparison: {self.name} against {self.baseline} in {self.metric}: "
            f"{self.difference:+.4f} [{self.low:+.4f}, {self.high:+.4f}], {self.verdict}>"
        )

    @property
    def verdict(self) -> str:
        """The words for it: better, worse, not distinguishable at 95 %, or no test possible."""
        if math.isnan(self.p_holm):
            return f"no test possible ({count(self.n_queries, 'query', 'queries')})"
        if self.p_holm > 1 - CONFIDENCE:
            return "not distinguishable at 95 %"
        return "better" if (self.difference > 0) == self.greater_is_better else "worse"

    @property
    def smallest_p(self) -> float:
        """The smallest p-value that any result on so many queries could have."""
        exact: float = 2.0 ** (1 - self.n_queries)
        return max(exact, 2 / (_n_resamples(self.n_queries) + 1))


def compare(
    values: Mapping[str, NDArray[np.float64]],
    baseline: str,
    metric: str,
    *,
    greater_is_better: bool = True,
) -> tuple[Comparison, ...]:
    """Compare every solver with the baseline.

    The difference of two solvers is ``mean_q (a_q - b_q)`` over the queries q where the metric
    is defined for both. Its interval is the percentile bootstrap's over queries: the pair of
    values of a query is drawn together. The p-value is that of the two-sided paired
    randomisation test [1]_: if both solvers were alike, each ``a_q - b_q`` could as well have
    the other sign. All sign changes are tried if there are at most 9,999, else as many random
    ones (1,999 for more than 1,000 queries, as in the bootstrap). The p-values of all solvers
    are corrected by Holm's method [2]_.

    The queries are the sample: interval and test say what to expect of the same trained models
    on other queries of the same kind, not what another training set would have given.

    The random numbers are the same in every call.

    Parameters
    ----------
    values : mapping of float64 ndarrays of shape (n_queries,)
        Of each solver, the baseline among them, the metric of each query; NaN: undefined.
    baseline : str
    metric : str
        A name, for the result.
    greater_is_better : bool

    Returns
    -------
    tuple of Comparison
        In the order of `values`, without the baseline.

    Raises
    ------
    UnknownNameError
        If there are no values of the baseline.
    DataError
        If the solvers were not scored on the same number of queries.

    References
    ----------
    .. [1] Smucker, Allan and Carterette, A comparison of statistical significance tests for
       information retrieval evaluation, CIKM 2007.
    .. [2] Holm, A simple sequentially rejective multiple test procedure, Scandinavian Journal
       of Statistics 6 (1979).
    """
    if baseline not in values:
        raise UnknownNameError("baseline", baseline, values)
    lengths = {name: len(own) for name, own in values.items()}
    if len(set(lengths.values())) > 1:
        raise DataError(
            f"solvers cannot be compared on different queries: numbers of values {lengths}"
        )
    found = []
    for name in values:
        if name == baseline:
            continue
        difference = values[name] - values[baseline]
        difference = difference[~np.isnan(difference)]
        # What differs by rounding only is a tie.
        difference[np.isclose(difference, 0.0, rtol=0.0, atol=1e-12)] = 0.0
        n = len(difference)
        gain = difference if greater_is_better else -difference
        measured = Measured(difference, np.ones(n))
        low, high = confidence_interval(
            measured, level=CONFIDENCE, n_resamples=_n_resamples(n), seed=_SEED
        )
        p_value = _p_value(difference) if n > 1 else math.nan
        found.append(
            Comparison(
                name=name,
                baseline=baseline,
                metric=metric,
                greater_is_better=greater_is_better,
                n_queries=n,
                difference=float(difference.mean()) if n else math.nan,
                low=low,
                high=high,
                p_value=p_value,
                p_holm=p_value,
                wins=int((gain > 0).sum()),
                ties=int((gain == 0).sum()),
                losses=int((gain < 0).sum()),
            )
        )
    corrected = holm([one.p_value for one in found])
    return tuple(replace(one, p_holm=p) for one, p in zip(found, corrected, strict=True))


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's corrected p-values, in the same order; NaN stays NaN and does not count.

    The i-th smallest of m becomes ``max over j <= i of min(1, (m - j + 1) p_j)``.

    Examples
    --------
    >>> holm([0.01, 0.04, 0.02])
    [0.03, 0.04, 0.04]
    """
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p)[: np.count_nonzero(~np.isnan(p))]  # NaN stands last
    corrected = np.full(len(p), np.nan)
    corrected[order] = np.maximum.accumulate(np.arange(len(order), 0, -1) * p[order]).clip(max=1.0)
    return corrected.tolist()


def count(number: int, one: str, several: str) -> str:
    """``1 query``, ``2 queries``."""
    return f"{number:,} {one if number == 1 else several}"


def _p_value(difference: NDArray[np.float64]) -> float:
    from scipy import stats

    # A difference of zero has no sign: without it the test is the same and often exact.
    differing = difference[difference != 0]
    if len(differing) < 2:  # either sign is as extreme as the other
        return 1.0
    found = stats.permutation_test(
        (differing,),
        np.mean,
        permutation_type="samples",
        vectorized=True,
        random_state=np.random.default_rng(_SEED),
        n_resamples=_n_resamples(len(differing)),
        batch=max(1, _CELLS // len(differing)),
    )
    return float(found.pvalue)


def _n_resamples(n: int) -> int:
    """One less than a round number, since the data themselves count as a resample."""
    return 9_999 if n <= _MANY_QUERIES else 1_999
