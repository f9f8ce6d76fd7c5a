import math
import pickle
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankplug.exceptions import ParameterError, UnknownNameError
from rankplug.parameters import Choice, Integer, Optional, Parameter, Real, check_parameters


@pytest.mark.parametrize(
    ("parameter", "value", "accepted"),
    [
        (Real(0), 1e-300, True),
        (Real(0), 0, False),
        (Real(0, low_open=False), 0, True),
        (Real(0, 1), 1.0, False),
        (Real(0, 1, high_open=False), np.float32(1), True),
        (Real(), -3, True),
        (Real(), Fraction(1, 3), True),
        (Real(), np.int64(3), True),
        (Real(), math.nan, False),
        (Real(), math.inf, False),
        (Real(), 10**400, False),
        (Real(), True, False),
        (Real(), "1", False),
        (Real(), None, False),
        (Real(), [1.0], False),
        (Real(), 1j, False),
        (Integer(1), 1, True),
        (Integer(1), 10**400, True),
        (Integer(1), np.int32(7), True),
        (Integer(1), 0, False),
        (Integer(1, 3), 4, False),
        (Integer(1), 1.0, False),
        (Integer(0), True, False),
        (Integer(0), np.True_, False),
        (Integer(0), None, False),
        (Choice(("a", "b")), "a", True),
        (Choice(("a", "b")), np.str_("b"), True),
        (Choice(("a", "b")), "c", False),
        (Choice(("a", "b")), ["a"], False),
        (Choice((1, "auto")), True, False),
        (Choice((1, "auto")), 1.0, False),
        (Choice((True, False)), 1, False),
        (Choice((True, False)), False, True),
        (Choice((None, "a")), None, True),
        (Choice(("a",)), np.array(["a", "a"]), False),
        (Optional(Integer(1)), None, True),
        (Optional(Integer(1)), 0, False),
    ],
)
def test_accepts(parameter, value, accepted):
    assert parameter.accepts(value) is accepted


@given(st.floats(), st.floats(-10, 10), st.floats(-10, 10), st.booleans(), st.booleans())
def test_a_real_lies_within_its_bounds(value, low, high, low_open, high_open):
    inside = (value > low if low_open else value >= low) and (
        value < high if high_open else value <= high
    )
    assert Real(low, high, low_open, high_open).accepts(value) == inside


@pytest.mark.parametrize(
    ("parameter", "words"),
    [
        (Real(), "a finite number"),
        (Real(0), "a finite number > 0"),
        (Real(0, 1, low_open=False, high_open=False), "a finite number >= 0 and <= 1"),
        (Real(high=2.5), "a finite number < 2.5"),
        (Integer(1), "an integer >= 1"),
        (Integer(1, 10), "an integer >= 1 and <= 10"),
        (Choice(("newton", "tron")), "one of 'newton', 'tron'"),
        (Optional(Real(0)), "None or a finite number > 0"),
    ],
)
def test_it_says_what_it_may_be(parameter, words):
    assert str(parameter) == words


def test_every_wrong_value_is_reported_at_once():
    allowed = {"C": Real(0), "max_iter": Integer(1), "method": Choice(("newton", "tron"))}
    with pytest.raises(ParameterError) as caught:
        check_parameters("TreeTron", allowed, {"C": -1, "max_iter": 1.5, "method": "tron"})
    assert str(caught.value) == (
        "TreeTron: C=-1 (must be a finite number > 0); max_iter=1.5 (must be an integer >= 1)"
    )


def test_numbers_that_are_not_written_are_described():
    with pytest.raises(ParameterError, match=r"C=a number of thousands of digits \(must be"):
        check_parameters("TreeTron", {"C": Real(0)}, {"C": 10**5000})


def test_errors_of_unknown_names_come_back_from_other_processes():
    error = UnknownNameError("solver", "tree-torn", ["tree-tron", "sopopo"])
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error)
    assert "unknown solver 'tree-torn'; did you mean 'tree-tron'?" in str(again)
    assert (again.name, again.known) == ("tree-torn", ["sopopo", "tree-tron"])


def test_right_values_pass():
    check_parameters("TreeTron", {"C": Real(0)}, {"C": 1.0, "undeclared": object()})


def test_the_base_class_decides_nothing():
    with pytest.raises(NotImplementedError):
        Parameter().accepts(1)
