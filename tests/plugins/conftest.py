"""Data of the tests of trees and baselines, made as each file says in its `make_ranking`."""

import pytest


@pytest.fixture(scope="module")
def data(request):
    return request.module.make_ranking()


@pytest.fixture(scope="module")
def valid(request):
    return request.module.make_ranking(seed=1)
