"""A few of the forged recipes and texts of LightGBM's that the attacks of this folder make."""

import importlib.util

import pytest

from tests.long import fuzz_lightgbm, mutate_recipes


def harm(counts):
    return {word: count for word, count in counts.items() if word[:2].isupper()}


def test_forged_recipes(tmp_path):
    counts = mutate_recipes.run(tmp_path, seed=5, n_recipes=150, keep=None)
    assert counts.total() == 150
    assert not harm(counts)
    assert counts["refused"] > 100
    assert counts["would run"] > 1


@pytest.mark.skipif(importlib.util.find_spec("lightgbm") is None, reason="needs LightGBM")
def test_forged_texts_of_lightgbm():
    counts = fuzz_lightgbm.run(seed=5, n_texts=600)
    assert counts.total() == 600
    assert not harm(counts)
    assert counts["scored"] > 60
