"""Types of the values of recipes: the checks of each, and their messages."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, TypeAlias

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    ValidationError,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError

from rankplug import datasets
from rankplug.clicks import SIMULATION
from rankplug.exceptions import RankplugError, nearest
from rankplug.metrics import parse_metric
from rankplug.solver import Solver, solver_class
from rankplug.tuning import read_space

KeyPath: TypeAlias = tuple[str | int, ...]
"""Keys and numbers that lead to a value."""
Mistake: TypeAlias = tuple[KeyPath, PydanticCustomError]
"""Where in a value something is wrong, and what."""

CHOSEN, LISTED = "(chosen)", "(listed)"
"""In the paths of errors, which form of ``features`` was given; no key of a recipe."""

# Errors


def _wrong(message: str) -> PydanticCustomError:
    return PydanticCustomError("wrong", "{message}", {"message": message})


def _not(words: str) -> PydanticCustomError:
    """The value is not what the words say; `rankplug.recipe.loader` adds what it is."""
    return PydanticCustomError("not", "must be {words}", {"words": words})


def must_be(words: str) -> WrapValidator:
    """The words for all that pydantic finds wrong with a value itself, not with a part of it."""

    def check(value: Any, validate: ValidatorFunctionWrapHandler) -> Any:
        try:
            return validate(value)
        except ValidationError as error:
            if error.errors()[0]["loc"]:
                raise
            raise _not(words) from None

    return WrapValidator(check)


MOST_ITEMS = 1000  # of a list, as each is looked at


def list_of(what: str, most: int = MOST_ITEMS) -> BeforeValidator:
    """A list of at least one item, and not too many."""

    def check(value: Any) -> Any:
        if value == []:
            raise _wrong(f"must be a list of {what}, not empty")
        if isinstance(value, list) and len(value) > most:
            raise _wrong(f"must be a list of at most {most:,} {what}, not of {len(value):,}")
        if not isinstance(value, list):
            raise _not(f"a list of {what}")
        return value

    return BeforeValidator(check)


def _known_by(find: Callable[[str], object]) -> AfterValidator:
    """A name that `find` finds; what it raises otherwise is the message."""

    def check(name: str) -> str:
        try:
            find(name)
        except RankplugError as error:
            raise _wrong(str(error)) from None
        return name

    return AfterValidator(check)


def _parameters_of(
    owner: str, find_mistakes: Callable[[str, Mapping[str, Any]], Iterator[Mistake]]
) -> AfterValidator:
    """Parameters of what the key `owner` names; all that is wrong with them is said at once."""

    def check(params: Mapping[str, Any], info: ValidationInfo) -> Mapping[str, Any]:
        _raise_all(find_mistakes(info.data[owner], params) if owner in info.data else ())
        return params

    return AfterValidator(check)


def _raise_all(mistakes: Iterable[Mistake]) -> None:
    details = [InitErrorDetails(type=what, loc=where, input=None) for where, what in mistakes]
    if details:
        raise ValidationError.from_exception_data("recipe", details)


# Plain values


def _at_most(largest: int) -> AfterValidator:
    def check(value: Any) -> Any:
        if value > largest:
            raise _wrong(f"is too large: at most {largest:,}")
        return value

    return AfterValidator(check)


def _not_too_many(params: Any) -> Any:
    if len(params) > _MOST_PARAMS:
        raise _wrong(f"has {len(params):,} keys: at most {_MOST_PARAMS}")
    return params


_MOST_PARAMS = 1000
Truth: TypeAlias = Annotated[bool, Field(strict=True), must_be("true or false")]
Seed: TypeAlias = Annotated[
    int, Field(strict=True, ge=0), must_be("an integer >= 0"), _at_most(2**63 - 1)
]
Trials: TypeAlias = Annotated[
    int, Field(strict=True, ge=1), must_be("an integer >= 1"), _at_most(2**31 - 1)
]
Folds: TypeAlias = Annotated[
    int, Field(strict=True, ge=2), must_be("an integer >= 2"), _at_most(2**31 - 1)
]
Seconds: TypeAlias = Annotated[
    float, Field(strict=True, gt=0, allow_inf_nan=False), must_be("a number > 0"), _at_most(10**9)
]
Share: TypeAlias = Annotated[
    float, Field(strict=True, ge=0, lt=1), must_be("a number from 0 to less than 1")
]
Values: TypeAlias = Annotated[
    Mapping[str, Any], must_be("a mapping of parameters"), AfterValidator(_not_too_many)
]


def is_line(value: Any) -> bool:
    """Whether it is text for one line of a table, not empty."""
    return isinstance(value, str) and bool(value.strip()) and value.isprintable()


def _check_line(value: Any) -> Any:
    if not is_line(value):
        raise _not("a line of text")
    return value


_LONGEST_NAME = 200  # bytes: a folder's name, which has a date behind it, has 255


def find_wrong_name(name: str) -> str | None:
    """What is wrong with a name of which a folder's is made; None if nothing is."""
    for n, unit in ((len(name), "characters"), (len(name.encode(errors="replace")), "bytes")):
        if n > _LONGEST_NAME:
            return f"has {n:,} {unit}: at most {_LONGEST_NAME}"
    if re.fullmatch(r"\w[\w .-]*", name) is None:
        return "must be of letters, digits, '_', '-', '.' and blanks"
    return None


def name_from(text: str) -> str:
    """A name that is as near to a text as can be."""
    tidy = re.sub(r"[^\w .-]", "-", text).lstrip(" .-")
    return tidy.encode()[:_LONGEST_NAME].decode(errors="ignore") or "recipe"


def _check_name(name: str) -> str:
    wrong = find_wrong_name(name)
    if wrong is not None:
        raise _wrong(wrong)
    return name


def _find_file(value: Any, info: ValidationInfo) -> Path:
    """A file that exists; the context tells what the path of each key is relative to."""
    folder = (info.context or {}).get(info.field_name, Path())
    path: Path = folder / os.path.expanduser(_check_line(value))
    if not os.path.exists(path):  # unlike Path's, false for a name that no file can have
        raise _wrong(f"no such file: {path}")
    return path


def _check_separator(value: Any) -> Any:
    if not isinstance(value, str) or len(value) != 1:
        raise _not("one character, such as ';'")
    return value


Separator: TypeAlias = Annotated[str, BeforeValidator(_check_separator)]
Line: TypeAlias = Annotated[str, BeforeValidator(_check_line)]
Name: TypeAlias = Annotated[Line, AfterValidator(_check_name)]
Metric: TypeAlias = Annotated[
    Line, _known_by(parse_metric), AfterValidator(lambda name: str(parse_metric(name)))
]
File: TypeAlias = Annotated[Path, BeforeValidator(_find_file)]

# Parameters of solvers and data sets


def is_searched(value: Any) -> bool:
    """Whether a value of a search space is a range or choices, and not held."""
    return isinstance(value, dict | list)


def _check_space(solver: str, space: Mapping[str, Any]) -> Iterator[Mistake]:
    held = {key: value for key, value in space.items() if not is_searched(value)}
    yield from _check_params(solver, held)
    for key in filter(lambda key: key not in held, space):
        try:
            read_space(solver_class(solver)(), {key: space[key]})
        except RankplugError as error:
            yield (key,), _wrong(str(error))


def _check_params(solver: str, params: Mapping[str, Any]) -> Iterator[Mistake]:
    cls = solver_class(solver)
    known = cls._get_param_names()
    for key, value in params.items():
        library, name = cls.split_open(key)
        if library is not None:
            within = library.mistake({name: value})
            if within is not None:
                yield (key,), _wrong(within)
        elif "__" in key and key in _nested(cls, params):
            continue
        elif key not in known:
            yield (key,), _wrong(f"{cls.name} has no parameter {key!r}{nearest(key, known)}")
        elif key in cls.parameters and not cls.parameters[key].accepts(value):
            within = cls.parameters[key].mistake(value)
            yield (key,), _not(str(cls.parameters[key])) if within is None else _wrong(within)


def _nested(cls: type[Solver], params: Mapping[str, Any]) -> Mapping[str, Any]:
    """The parameters of what a solver is made of, with its own as they are given."""
    own = {key: value for key, value in params.items() if key in cls._get_param_names()}
    given: Mapping[str, Any] = cls(**own).get_params()
    return given


def _check_sizes(name: str, params: Mapping[str, Any]) -> Iterator[Mistake]:
    defaults = datasets.parameters(name)
    for key, value in params.items():
        if key not in defaults:
            yield (key,), _wrong(f"{name} has no parameter {key!r}{nearest(key, defaults)}")
            continue
        kind = type(defaults[key])
        # A whole number may stand for a real one.
        if type(value) not in ({int, float} if kind is float else {kind}):
            yield (key,), _not(f"like its default {defaults[key]!r}")


def _check_simulation(params: Mapping[str, Any]) -> Mapping[str, Any]:
    mistakes: list[Mistake] = []
    for key, value in params.items():
        if key not in SIMULATION:
            mistakes.append(((key,), _wrong(f"unknown key {key!r}{nearest(key, SIMULATION)}")))
        elif not SIMULATION[key].accepts(value):
            mistakes.append(((key,), _not(str(SIMULATION[key]))))
    _raise_all(mistakes)
    return params or {"n_sessions": 10_000}  # an empty mapping would be lost in a recipe's YAML


SolverName: TypeAlias = Annotated[Line, _known_by(solver_class)]
SolverParams: TypeAlias = Annotated[Values, _parameters_of("solver", _check_params)]
SearchSpace: TypeAlias = Annotated[Values, _parameters_of("solver", _check_space)]
DatasetName: TypeAlias = Annotated[Line, _known_by(datasets.parameters)]
DatasetParams: TypeAlias = Annotated[Values, _parameters_of("dataset", _check_sizes)]
SimulatedClicks: TypeAlias = Annotated[Values, AfterValidator(_check_simulation)]
