"""Thousands of odd problems against an interior-point solver: statuses say what is proved."""

from collections import Counter

import pytest

from tests.odd_problems import VARIANTS, check

pytestmark = pytest.mark.long

_AT_ONCE = 100
_PARTS = 10


@pytest.mark.parametrize(
    ("variant", "part"),
    [
        (variant, part)
        for variant in VARIANTS
        for part in range(_PARTS // 2 if variant == "mapped" else _PARTS)
    ],
)
def test_a_status_says_what_is_proved(variant, part):
    seeds = range(_AT_ONCE * part, _AT_ONCE * (part + 1))
    found = [check(variant, seed) for seed in seeds]
    # Both sides have found about the minimum, mostly: the checks are sharp.
    counts = Counter(one.status for one in found)
    assert counts["converged"] > _AT_ONCE / 3, counts
    assert counts["refused"] < _AT_ONCE / 5, counts
    assert sum(one.sharp for one in found) > 0.9 * _AT_ONCE
