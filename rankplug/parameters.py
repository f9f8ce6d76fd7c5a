"""Checks of solver parameters: every wrong one is reported, with what it may be."""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rankplug.exceptions import ParameterError

__all__ = [
    "Choice",
    "ChoiceOrFunction",
    "Integer",
    "Optional",
    "Parameter",
    "Real",
    "check_parameters",
]


class Parameter:
    """What a parameter may be: `accepts` decides, ``str()`` says it in words."""

    def accepts(self, value: Any) -> bool:
        """Whether `value` is allowed."""
        raise NotImplementedError


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
    """An integer from `low` to `high`."""

    low: int
    high: float = math.inf

    def accepts(self, value: Any) -> bool:
        """Whether `value` is an integer within the bounds."""
        if isinstance(value, bool) or not isinstance(value, numbers.Integral):
            return False
        return self.low <= int(value) <= self.high

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

    def __str__(self) -> str:
        return f"None or {self.inner}"


def check_parameters(
    owner: str, allowed: Mapping[str, Parameter], values: Mapping[str, Any]
) -> None:
    """Raise `ParameterError` that lists every value that is not allowed."""
    wrong = [
        f"{name}={values[name]!r} (must be {parameter})"
        for name, parameter in allowed.items()
        if not parameter.accepts(values[name])
    ]
    if wrong:
        raise ParameterError(f"{owner}: " + "; ".join(wrong))
