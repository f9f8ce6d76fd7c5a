"""500 odd problems a solver against an interior-point solver: statuses say what is proved."""

import pytest

from tests.odd_problems import VARIANTS, check_status

pytestmark = pytest.mark.long

_AT_ONCE = 100


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize("part", range(5))
def test_a_status_says_what_is_proved(name, part):
    for seed in range(_AT_ONCE * part, _AT_ONCE * (part + 1)):
        for params in VARIANTS[name]:
            check_status(name, params, seed)
