from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from rankplug.exceptions import RecipeError
from rankplug.recipe.strict_yaml import dump, parse_override, parse_text

HERE = Path("here")


def parsed(text):
    return parse_text(text, "r.yaml", HERE)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-3", 0.001),
        ("1E+3", 1000.0),
        ("-2e5", -200000.0),
        (".5", 0.5),
        ("1.", 1.0),
        ("1.5e-7", 1.5e-7),
        ("12", 12),
        ("-3", -3),
        ("007", 7),
        ("true", True),
        ("False", False),
        ("null", None),
        ("~", None),
        ("", None),
        # What YAML 1.1 takes for truth values, numbers in base 60, dates, ...
        ("no", "no"),
        ("on", "on"),
        ("1:30", "1:30"),
        ("2024-01-01", "2024-01-01"),
        ("1_000", "1_000"),
        ("0x10", "0x10"),
        (".inf", ".inf"),
        ("1e", "1e"),
        ("'1e-3'", "1e-3"),
        ('"12"', "12"),
        ("ndcg@10", "ndcg@10"),
        ("[1, 1e1, a]", [1, 10.0, "a"]),
        ("{a: {b: 1e0}}", {"a": {"b": 1.0}}),
    ],
)
def test_plain_scalars_follow_yaml_1_2(text, value):
    node, problems = parsed(f"key: {text}")
    assert problems == []
    assert node.plain() == {"key": value}
    assert type(node.plain()["key"]) is type(value)


@pytest.mark.parametrize("text", ["", "\n\n", "# only a comment\n", "---\n"])
def test_an_empty_text_is_null(text):
    node, problems = parsed(text)
    assert node.plain() is None
    assert problems == []


def test_every_value_knows_its_line_and_key():
    node, _ = parsed("a: 1\nb:\n  c:\n    - x\n    - d: 2\n\n  e: 3\n")
    assert node.place == "r.yaml:1"
    c = node.value["b"].value["c"]
    assert node.value["b"].place == "r.yaml:2: b"
    assert c.place == "r.yaml:3: b.c"
    assert c.value[0].place == "r.yaml:4: b.c.0"
    assert c.value[1].value["d"].place == "r.yaml:5: b.c.1.d"
    assert node.value["b"].value["e"].place == "r.yaml:7: b.e"
    assert c.folder == HERE


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: 1\nb: 2\na: 3", "r.yaml:3: a: the key occurs twice (first in line 1)"),
        ("- x\n- b: 1\n  c: 2\n  b: 1", "r.yaml:4: 1.b: the key occurs twice (first in line 2)"),
        ("a: 1\n2: b", "r.yaml:2: a key must be text: quote it"),
        ("a: 1\ntrue: b", "r.yaml:2: a key must be text: quote it"),
        ("? [x]\n: 1", "r.yaml:1: a key must be text: quote it"),
        (
            "a: !!python/object:os.system x",
            "r.yaml:1: a: the tag !!python/object:os.system is not allowed",
        ),
        ("a: 1\nb: !mine {c: 1}", "r.yaml:2: b: the tag !mine is not allowed"),
        ("a: !!set {c, d}", "r.yaml:1: a: the tag !!set is not allowed"),
        ("a: !!int ten", "r.yaml:1: a: the tag !!int is not allowed"),
        ("a: 1\nb: !!str 12", "r.yaml:2: b: the tag !!str is not allowed"),
        ("a: !!seq [1]", "r.yaml:1: a: the tag !!seq is not allowed"),
        ("a: !!map {b: 1}", "r.yaml:1: a: the tag !!map is not allowed"),
        ("a: ! 12", "r.yaml:1: a: the tag ! is not allowed"),
        ("a: [1, !!float 2]", "r.yaml:1: a.1: the tag !!float is not allowed"),
        ("!!str a: 1", "r.yaml:1: the tag !!str is not allowed"),
        ("!!map {a: 1}", "r.yaml:1: the tag !!map is not allowed"),
    ],
)
def test_what_is_no_plain_data_is_a_problem(text, problem):
    assert parsed(text)[1] == [problem]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("a: 1\nb: [1, 2", "r.yaml:2:9: "),
        ("a: 1\nb: c: d", "r.yaml:2:5: "),
        ("a: 1\n\tb: 2", "r.yaml:2:1: "),
        ("a: 'open", "r.yaml:1:9: "),
        ("a: 1\n b: 2", "r.yaml:2:3: "),
        ("a: 1\n---\nb: 1", "r.yaml:2:1: "),
        ("a: &x 1\nb: 2", "r.yaml:1:4: "),
        ("a: 1\nb: *x", "r.yaml:2:4: "),
        ("a: 1\nb: \x07", "r.yaml:2: "),
        ("a:\n - " + "[" * 2000, "r.yaml:2:52: "),
        ("a: 1\nb: '\x00'", "r.yaml:2: "),
        ('a: 1\nb: "\\U00110000"', "r.yaml:2:7: "),
        ('a: 1\nb: "\\UFFFFFFFF"', "r.yaml:2:7: "),
        ("a:\n" + " - 1\n" * 100_001, "r.yaml:99999:4: "),
        ("a" * 1_000_001, "r.yaml: "),
    ],
)
def test_what_is_no_yaml_is_an_error_with_its_place(text, place):
    with pytest.raises(RecipeError) as caught:
        parsed(text)
    assert str(caught.value).startswith(place + "not valid YAML: ")
    assert "\n" not in str(caught.value)


def test_an_override_is_known_by_its_key():
    node, problems = parse_override("{C: 1e-2, tol: [x]}", "solvers.0.params", HERE)
    assert problems == []
    assert node.plain() == {"C": 0.01, "tol": ["x"]}
    assert node.place == "--set solvers.0.params"
    assert node.value["tol"].value[0].place == "--set solvers.0.params.tol.0"


@pytest.mark.parametrize("text", ["[1", "@x", "a: b: c", "'", "*x", "\x07"])
def test_an_override_that_is_no_yaml_is_an_error(text):
    with pytest.raises(RecipeError, match=r"--set a\.b: .* is not valid YAML: "):
        parse_override(text, "a.b", HERE)


def test_an_empty_override_is_null():
    assert parse_override("", "a", HERE)[0].plain() is None


TEXTS = st.text(st.characters(exclude_categories=["C", "Zl", "Zp"]) | st.sampled_from("\n\t"))
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    TEXTS,
    st.sampled_from(
        ["1e-3", "no", "1:30", "~", "true", "0o7", "2024-01-01", ".5", "", "a: b", "#"]
    ),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(TEXTS, VALUES, max_size=4))
def test_what_is_dumped_reads_back_also_by_others(value):
    text = dump(value)
    node, problems = parsed(text)
    assert problems == []
    assert node.plain() == value
    assert yaml.safe_load(text) == value
