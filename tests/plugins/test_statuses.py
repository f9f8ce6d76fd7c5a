"""A small share of the odd problems that tests/long solves: a status says what is proved."""

import pytest

from tests.odd_problems import VARIANTS, check_status


@pytest.mark.parametrize("name", VARIANTS)
def test_a_status_says_what_is_proved(name):
    ends = [check_status(name, params, seed) for params in VARIANTS[name] for seed in range(8)]
    assert "converged" in ends
