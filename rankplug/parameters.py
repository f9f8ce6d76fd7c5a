"""Parameters of solvers and maps: how a class declares them, and the check of their values.

A class says in an annotation what a parameter may be, see `collect_parameters`. Every wrong
value is reported, with what is allowed.
"""

from __future__ import annotations

import inspect
import math
import numbers
import sys
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    ClassVar,
    Literal,
    Self,
    TypeAlias,
    Union,
    dataclass_transform,
    get_args,
    get_origin,
)

from sklearn.base import BaseEstimator

from rankplug.exceptions import ParameterError, nearest

__all__ = [
    "Choice",
    "ChoiceOrFunction",
    "Count",
    "Declared",
    "Integer",
    "OpenParameters",
    "Optional",
    "Parameter",
    "Positive",
    "Real",
    "Threads",
    "check_parameters",
    "collect_parameters",
]


class Parameter:
    """What a parameter may be: `accepts` decides, ``str()`` says it in words."""

    def accepts(self, value: Any) -> bool:
        """Whether `value` is allowed."""
        raise NotImplementedError

    def mistake(self, value: Any) -> str | None:
        """What is wrong within a value that is refused though it is of the right kind."""
        return None


@dataclass(frozen=True)
class Real(Parameter):
    """A finite real number above (or at) `low` and below (or at) `high`."""

    low: float = -math.inf
    high: float = math.inf
    low_open: bool = True
    high_open: bool = True

    def accepts(self, value: Any) -> bool:
        """Whether `value` is a number within the bounds."""
        if isinstance(value, bool) or not isinstance(value, numbers.Real):
            return False
        try:
            number = float(value)
        except OverflowError:
            return False
        above = number > self.low if self.low_open else number >= self.low
        below = number < self.high if self.high_open else number <= self.high
        return math.isfinite(number) and above and below

    def __str__(self) -> str:
        bounds = []
        if self.low > -math.inf:
            bounds.append(f"{'>' if self.low_open else '>='} {self.low:g}")
        if self.high < math.inf:
            bounds.append(f"{'<' if self.high_open else '<='} {self.high:g}")
        return " ".join(["a finite number", " and ".join(bounds)]).strip()


@dataclass(frozen=True)
class Integer(Parameter):
    """An integer from `low` to `high`, or to `most` where no `high` is said.

    `most` is what a machine can count to; only the message about a larger number names it.
    """

    low: int
    high: float = math.inf
    most: float = math.inf

    def accepts(self, value: Any) -> bool:
        """Whether `value` is an integer within the bounds."""
        if isinstance(value, bool) or not isinstance(value, numbers.Integral):
            return False
        return self.low <= int(value) <= min(self.high, self.most)

    def mistake(self, value: Any) -> str | None:
        """The largest number, if `value` is an integer beyond it and no `high` is said."""
        if not isinstance(value, numbers.Integral) or int(value) <= self.most:
            return None
        return f"is too large: at most {self.most:,}"

    def __str__(self) -> str:
        upper = f" and <= {self.high:g}" if self.high < math.inf else ""
        return f"an integer >= {self.low}{upper}"


@dataclass(frozen=True)
class Choice(Parameter):
    """One of a few values."""

    values: tuple[Any, ...]

    def accepts(self, value: Any) -> bool:
        """Whether `value` is one of the choices; True is not 1, and 1 is not 1.0."""
        return any(
            isinstance(value, type(choice))
            and isinstance(value, bool) == isinstance(choice, bool)
            and value == choice
            for choice in self.values
        )

    def __str__(self) -> str:
        return "one of " + ", ".join(repr(value) for value in self.values)


@dataclass(frozen=True)
class ChoiceOrFunction(Choice):
    """One of a few values, or a function of the caller's."""

    def accepts(self, value: Any) -> bool:
        """Whether `value` is one of the choices or can be called."""
        return callable(value) or super().accepts(value)

    def __str__(self) -> str:
        return f"{super().__str__()}, or a function"


@dataclass(frozen=True)
class Optional(Parameter):
    """None, or what another parameter may be."""

    inner: Parameter

    def accepts(self, value: Any) -> bool:
        """Whether `value` is None or allowed by the inner parameter."""
        return value is None or self.inner.accepts(value)

    def mistake(self, value: Any) -> str | None:
        """What the inner parameter finds wrong."""
        return None if value is None else self.inner.mistake(value)

    def __str__(self) -> str:
        return f"None or {self.inner}"


class OpenParameters(Parameter):
    """None, or a mapping of parameters that a library names; a subclass knows which there are.

    A single one is set, and searched, as ``params__max_delta_step`` if the mapping is ``params``.
    """

    def accepts(self, value: Any) -> bool:
        """Whether `value` is a mapping in which nothing is wrong."""
        return value is None or (self._is_mapping(value) and self.mistake(value) is None)

    def mistake(self, value: Any) -> str | None:
        """Which of the parameters are unknown, cannot be set here, or have wrong values."""
        return self.find_mistake(value) if self._is_mapping(value) else None

    def find_mistake(self, given: Mapping[str, Any]) -> str | None:
        """What is wrong with these parameters."""
        raise NotImplementedError

    def _is_mapping(self, value: Any) -> bool:
        return isinstance(value, Mapping) and all(isinstance(name, str) for name in value)


Positive: TypeAlias = Annotated[float, Real(0)]
_MOST_COUNTED = 2**31 - 1  # iterations, trees and the like: libraries keep them in 32 bits
Count: TypeAlias = Annotated[int, Integer(1, most=_MOST_COUNTED)]
Threads: TypeAlias = Annotated[int | None, Optional(Integer(1, most=_MOST_COUNTED))]


@dataclass_transform(kw_only_default=True, eq_default=False, field_specifiers=(field,))
class Declared(BaseEstimator):  # type: ignore[misc]
    """A class whose parameters are lines of its body, as scikit-learn's estimators have them.

    From these lines, and those of its bases, come ``__init__``, which takes them by keyword, and
    `parameters`; a class that has either in its body is left as it is.

    Attributes
    ----------
    parameters : mapping of str to Parameter
        What each parameter may be.
    """

    parameters: ClassVar[Mapping[str, Parameter]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        declared = collect_parameters(cls)
        if not declared or vars(cls).keys() & {"__init__", "parameters"}:
            return
        dataclass(kw_only=True, repr=False, eq=False)(cls)
        cls.parameters = {**cls.parameters, **declared}
        assert is_dataclass(cls)
        unknown = {one.name for one in fields(cls)} - set(cls.parameters)
        if unknown:
            raise TypeError(
                f"{cls.__name__} does not say what {', '.join(sorted(unknown))} may be: annotate "
                "with Annotated[type, Parameter], see rankplug.parameters"
            )

    def set_params(self, **params: Any) -> Self:
        """Set parameters, and by ``NAME__INNER`` those of a parameter that has some.

        Raises
        ------
        ParameterError
            If there is no such parameter.
        """
        for key in params:
            head, nested, _ = key.partition("__")
            owner = params.get(head, getattr(self, head, self))
            if nested and not hasattr(owner, "set_params"):
                raise ParameterError(f"no parameter {key!r}: {head}={owner!r} has none")
        try:
            return super().set_params(**params)  # type: ignore[no-any-return]
        except ValueError as error:
            raise ParameterError(str(error)) from None

    def check_values(self) -> None:
        """Raise `ParameterError` that lists every parameter with a value it cannot have."""
        check_parameters(type(self).__name__, self.parameters, self.get_params(deep=False))


def collect_parameters(cls: type) -> dict[str, Parameter]:
    """What each parameter annotated in the body of `cls` may be; those of its bases do not count.

    ======================================  =====================================
    Annotation                              Allowed
    ======================================  =====================================
    ``Annotated[float, Real(0)]``           what the `Parameter` in it says
    ``Literal["a", "b"]``                   ``Choice(("a", "b"))``
    ``bool``                                ``Choice((True, False))``
    any of these, ``| None``                ``Optional(...)``
    ======================================  =====================================

    Others, as ``float`` alone or a ``ClassVar``, declare nothing. `Positive` and `Count` are
    short for a positive number and an integer from 1 on, `Threads` for one of these or None.
    """
    scope = vars(sys.modules[cls.__module__]) if cls.__module__ in sys.modules else {}
    found = {}
    for name, annotation in inspect.get_annotations(cls).items():
        parameter = _read_parameter(_evaluate(annotation, scope))
        if parameter is not None:
            found[name] = parameter
    return found


def _evaluate(annotation: Any, scope: dict[str, Any]) -> Any:
    """What an annotation stands for; itself if it names what is imported for type checkers only."""
    if not isinstance(annotation, str):
        return annotation
    try:
        return eval(annotation, scope)
    except (NameError, AttributeError, TypeError, SyntaxError):
        return annotation


def _read_parameter(hint: Any) -> Parameter | None:
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return next((one for one in hint.__metadata__ if isinstance(one, Parameter)), None)
    if origin is Literal:
        return Choice(inner)
    if hint is bool:
        return Choice((True, False))
    if origin in (Union, UnionType) and NoneType in inner and len(inner) == 2:
        known = _read_parameter(next(one for one in inner if one is not NoneType))
        return None if known is None else Optional(known)
    return None


def require_names(owner: str, known: Collection[str], given: Iterable[str]) -> None:
    """Raise `ParameterError` that names all that are no parameters, or none's (``NAME__INNER``)."""
    own = [name for name in known if "__" not in name]
    unknown = [f"{key!r}{nearest(key, own)}" for key in given if key.partition("__")[0] not in own]
    if unknown:
        raise ParameterError(f"{owner} has no parameter {'; no parameter '.join(unknown)}")


def check_parameters(
    owner: str, allowed: Mapping[str, Parameter], values: Mapping[str, Any]
) -> None:
    """Raise `ParameterError` that lists every value that is not allowed."""
    wrong = [
        f"{name}={_shown(values[name])} "
        f"({parameter.mistake(values[name]) or f'must be {parameter}'})"
        for name, parameter in allowed.items()
        if not parameter.accepts(values[name])
    ]
    if wrong:
        raise ParameterError(f"{owner}: " + "; ".join(wrong))


def _shown(value: Any) -> str:
    """The value in a message; Python writes no integer of thousands of digits."""
    try:
        return repr(value)
    except ValueError:
        return "a number of thousands of digits"
