import math
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from rankplug.exceptions import DataError, UnknownNameError
from rankplug.report import statistics
from rankplug.report.statistics import compare, holm

NOT_DISTINGUISHABLE = "not distinguishable at 95 %"


def one_comparison(own, other, **options):
    values = {"base": np.asarray(other, float), "new": np.asarray(own, float)}
    (found,) = compare(values, "base", "ndcg@10", **options)
    return found


@pytest.fixture
def quick(monkeypatch):
    """Fewer resamples, where it is many simulations that count."""
    monkeypatch.setattr(statistics, "_n_resamples", lambda n: 999)


def simulated(seed, n_queries, shift):
    """Values of two rankers on the same queries, as per-query metrics are: skewed, dependent."""
    rng = np.random.default_rng(seed)
    difficulty = rng.beta(2, 2, n_queries)
    noise = rng.normal(0, 0.1, (2, n_queries))
    return difficulty + noise[0], difficulty + noise[1] + shift


def test_identical_rankers_are_not_distinguishable_in_95_percent_of_repetitions(quick):
    n = 200
    verdicts = [one_comparison(*simulated(seed, 40, 0.0)).verdict for seed in range(n)]
    wrong = sum(verdict != NOT_DISTINGUISHABLE for verdict in verdicts)
    # 1e-4 of all seeds would fall outside, were the true rate 5 %.
    assert stats.binom.ppf(5e-5, n, 0.05) <= wrong <= stats.binom.ppf(1 - 5e-5, n, 0.05)


def test_holm_keeps_the_error_of_a_whole_table_at_5_percent(quick):
    n, wrong = 50, 0
    for seed in range(n):
        rng = np.random.default_rng(seed)
        values = {f"solver {i}": rng.normal(size=30) for i in range(6)}
        wrong += any(
            one.verdict != NOT_DISTINGUISHABLE for one in compare(values, "solver 0", "ndcg@10")
        )
    assert wrong <= stats.binom.ppf(1 - 1e-4, n, 0.05)


def test_intervals_cover_the_true_difference(quick):
    n, covered = 120, 0
    for seed in range(n):
        other, own = simulated(seed, 60, 0.03)
        found = one_comparison(own, other)
        covered += found.low <= 0.03 <= found.high
    # The percentile bootstrap is a little too narrow: 94 % for 60 queries.
    assert covered >= stats.binom.ppf(1e-4, n, 0.94)
    assert covered < n


def test_a_planted_improvement_is_found_and_so_is_a_planted_harm(quick):
    for seed in range(20):
        other, own = simulated(seed, 100, 0.08)
        assert one_comparison(own, other).verdict == "better"
        assert one_comparison(other, own).verdict == "worse"


def test_of_an_error_less_is_better():
    other, own = simulated(0, 100, 0.08)
    found = one_comparison(own, other, greater_is_better=False)
    assert found.verdict == "worse"
    assert found.difference > 0
    assert found.wins < found.losses


def test_a_ranker_compared_with_itself_ties_everywhere():
    values = np.random.default_rng(0).random(25)
    found = one_comparison(values + 1e-15, values)
    assert (found.wins, found.ties, found.losses) == (0, 25, 0)
    assert (found.difference, found.low, found.high, found.p_value) == (0, 0, 0, 1)
    assert found.verdict == NOT_DISTINGUISHABLE


def test_the_p_value_of_few_queries_is_exact():
    # Only all signs + and all signs - are as extreme: 2 of 2^6.
    found = one_comparison([0.1, 0.2, 0.3, 0.4, 0.5, 0.6], np.zeros(6))
    assert found.p_value == pytest.approx(2 / 64)
    assert found.smallest_p == 2 / 64
    assert found.verdict == "better"


def test_queries_without_difference_change_the_interval_but_not_the_test():
    own = [0.1, 0.2, -0.05, 0.3, 0.15]
    alone, among = one_comparison(own, np.zeros(5)), one_comparison([*own, *[0] * 20], np.zeros(25))
    assert among.p_value == pytest.approx(alone.p_value)
    assert among.high - among.low < alone.high - alone.low


def test_a_single_differing_query_shows_nothing():
    found = one_comparison([0.5, 1.0, 0.3], [0.5, 0.0, 0.3])
    assert found.p_value == 1
    assert (found.wins, found.ties, found.losses) == (1, 2, 0)


def test_five_queries_cannot_show_anything():
    found = one_comparison(np.ones(5), np.zeros(5))
    assert found.smallest_p > 0.05
    assert found.verdict == NOT_DISTINGUISHABLE


def test_a_single_query_allows_no_test():
    found = one_comparison([0.9], [0.1])
    assert found.verdict == "no test possible (1 query)"
    assert found.difference == pytest.approx(0.8)
    assert math.isnan(found.low)
    assert math.isnan(found.p_holm)


def test_no_common_query_allows_nothing():
    found = one_comparison([np.nan, 0.5], [0.5, np.nan])
    assert found.n_queries == 0
    assert found.verdict == "no test possible (0 queries)"
    assert math.isnan(found.difference)


def test_undefined_queries_are_left_out_for_both():
    own, other = np.array([0.5, np.nan, 0.3, 0.9]), np.array([0.4, 0.8, np.nan, 0.8])
    found = one_comparison(own, other)
    assert found.n_queries == 2
    assert found.difference == pytest.approx(0.1)


def test_equal_data_give_equal_numbers_whoever_else_is_compared():
    other, own = simulated(3, 50, 0.02)
    alone = one_comparison(own, other)
    assert alone == one_comparison(own, other)
    more = compare({"first": own[::-1], "base": other, "new": own}, "base", "ndcg@10")
    assert (more[1].low, more[1].high, more[1].p_value) == (alone.low, alone.high, alone.p_value)
    assert more[1].p_holm >= alone.p_holm


def test_many_queries_need_little_time_and_no_warning():
    other, own = simulated(0, 5000, 0.01)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = one_comparison(own, other)
    assert found.verdict == "better"
    assert found.smallest_p == pytest.approx(2 / 2000)


def test_only_values_of_the_same_queries_can_be_compared():
    with pytest.raises(DataError, match=r"different queries: .*'new': 3"):
        one_comparison([0.1, 0.2, 0.3], [0.1, 0.2])
    with pytest.raises(UnknownNameError, match="unknown baseline 'bass'; did you mean 'base'"):
        compare({"base": np.zeros(3)}, "bass", "ndcg@10")


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm_is_the_step_down_of_bonferroni(p_values):
    found = holm(p_values)
    assert all(own <= corrected <= 1 for own, corrected in zip(p_values, found, strict=True))
    assert min(found) == pytest.approx(min(1.0, len(p_values) * min(p_values)))
    order = np.argsort(p_values, kind="stable")
    assert np.all(np.diff(np.array(found)[order]) >= 0)


def test_holm_by_hand():
    assert holm([0.01, math.nan, 0.04, 0.03]) == pytest.approx(
        [0.03, math.nan, 0.06, 0.06], nan_ok=True
    )
    assert holm([]) == []


@settings(max_examples=20, deadline=None)
@given(st.lists(st.floats(-1, 1), min_size=2, max_size=12))
def test_exchanging_the_two_rankers_mirrors_everything(differences):
    own, other = np.array(differences), np.zeros(len(differences))
    there, back = one_comparison(own, other), one_comparison(other, own)
    assert there.p_value == pytest.approx(back.p_value)
    assert there.difference == pytest.approx(-back.difference)
    assert (there.wins, there.losses) == (back.losses, back.wins)
    assert there.low <= there.difference + 1e-12
    assert there.difference - 1e-12 <= there.high
