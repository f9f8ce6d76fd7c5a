"""A small share of the odd problems that tests/long solves: a status says what is proved."""

import pytest

from tests.odd_problems import VARIANTS, check

ONCE_WRONG = {
    "tree-tron": [281, 867],  # squares of slacks below rounding errors; a start that ranks nothing
    "tree-tron tron": [109, 301],  # float32 features far from 0
    "cutting-plane": [52],  # float64 ones
    "cutting-plane smoothed-newton": [69, 269, 904],  # hinges as narrow as rounding errors
    "sopopo": [34, 94, 407, 1177],  # float32 kernels, a vanishing model, kernels far from 0
    "larank": [59, 507],
    "larank cyclic": [22, 812],
}
"""Seeds of problems with wrong statuses, objectives or bounds, or without a word, once."""


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_status_says_what_is_proved(variant):
    seeds = [*range(8), *ONCE_WRONG.get(variant, [])]
    assert "converged" in [check(variant, seed).status for seed in seeds]
