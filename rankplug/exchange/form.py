"""`Form`: the one form of a model that all writers write, a sum of simple parts of the features.

    score(x) = constant + terms + ramps + trees + expansions

Everything is float64. A feature that is missing (NaN) adds what its part says. What a model itself
rounds or compares otherwise, such as trees that compare in single precision, has been brought into
this form exactly before (`rankplug.exchange.describing`), so that writers need not know of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_P = TypeVar("_P", "Terms", "Ramps", "Trees")


class Terms(NamedTuple):
    """Linear terms ``weight * (x[feature] - shift)``, or `missing` where the feature is."""

    feature: Ints
    weight: Floats
    shift: Floats
    missing: Floats


class Ramps(NamedTuple):
    """``weight * clip((x[feature] - low) / (high - low), 0, 1)``, or `missing`."""

    feature: Ints
    low: Floats
    high: Floats
    weight: Floats
    missing: Floats


class Trees(NamedTuple):
    """Nodes of trees, one tree behind the other, each with its root first.

    Attributes
    ----------
    sizes : int64 ndarray of shape (n_trees,)
    left, right : int64 ndarray of shape (n_nodes,)
        Children, counted from the tree's root; -1 for both at a leaf.
    feature : int64 ndarray of shape (n_nodes,)
    threshold : float64 ndarray of shape (n_nodes,)
        Rows whose feature is at most that go left; infinite where all or none do.
    missing_left : bool ndarray of shape (n_nodes,)
        Whether rows whose feature is missing go left.
    special : float64 ndarray of shape (n_nodes,)
        A value that counts as missing, such as 0; NaN if there is none.
    value : float64 ndarray of shape (n_nodes,)
        What a leaf adds to the score.
    """

    sizes: Ints
    left: Ints
    right: Ints
    feature: Ints
    threshold: Floats
    missing_left: NDArray[np.bool_]
    special: Floats
    value: Floats

    @property
    def is_leaf(self) -> NDArray[np.bool_]:
        """Which nodes are leaves."""
        leaf: NDArray[np.bool_] = self.left < 0
        return leaf

    @property
    def is_odd(self) -> NDArray[np.bool_]:
        """Which inner nodes send their special value elsewhere than the comparison does."""
        with np.errstate(invalid="ignore"):
            goes_left = self.special <= self.threshold
        odd: NDArray[np.bool_] = goes_left != self.missing_left
        return odd & ~self.is_leaf & ~np.isnan(self.special)

    def each(self) -> Iterator[Trees]:
        """The trees one by one."""
        ends = np.cumsum(self.sizes)
        for end, size in zip(ends.tolist(), self.sizes.tolist(), strict=True):
            nodes: Any = (column[end - size : end] for column in self[1:])
            yield Trees(np.array([size]), *nodes)


class Columns(NamedTuple):
    """Columns ``(x[feature] - shift) * factor``, of a missing feature as if it were `fill`."""

    feature: Ints
    shift: Floats
    factor: Floats
    fill: Floats


class Expansion(NamedTuple):
    """A sum over `rows` of a function of the columns z, times `coef`.

    ``exp(-gamma |z - row|^2)`` (rbf), ``(gamma z.row + offset)^degree`` (poly), or
    ``cos(z.row + offset)`` (cos).
    """

    function: str
    rows: Floats
    coef: Floats
    offset: Floats
    gamma: float
    degree: int
    columns: Columns


def empty(kind: type[_P]) -> _P:
    """No terms, ramps or trees."""
    kinds: dict[str, Any] = dict.fromkeys(("feature", "sizes", "left", "right"), np.int64)
    kinds["missing_left"] = np.bool_
    columns: Any = (np.empty(0, dtype=kinds.get(name, np.float64)) for name in kind._fields)
    return kind(*columns)


def joined(parts: Sequence[_P]) -> _P:
    """Terms, ramps or trees one behind the other."""
    columns: Any = (np.concatenate(column) for column in zip(*parts, strict=True))
    return type(parts[0])(*columns)


@dataclass(frozen=True, eq=False)
class Form:
    """A model as a sum of parts.

    Attributes
    ----------
    names : tuple of str
        Of the features; x0, x1, ... if the model does not know them.
    constant : float
        Which changes no order within a query.
    takes_missing : bool
        Whether features may be missing; where they may not, the parts say nothing about it.
    notes : tuple of str
        What who uses the file should know.
    """

    names: tuple[str, ...]
    constant: float = 0.0
    terms: Terms = field(default_factory=lambda: empty(Terms))
    ramps: Ramps = field(default_factory=lambda: empty(Ramps))
    trees: Trees = field(default_factory=lambda: empty(Trees))
    expansions: tuple[Expansion, ...] = ()
    takes_missing: bool = False
    notes: tuple[str, ...] = ()

    @property
    def n_features(self) -> int:
        """Number of features of a row."""
        return len(self.names)

    @property
    def parts(self) -> set[str]:
        """Which of "linear terms", "ramps", "trees" and "kernels" there are."""
        there = {
            "linear terms": len(self.terms.feature),
            "ramps": len(self.ramps.feature),
            "trees": len(self.trees.sizes),
            "kernels": len(self.expansions),
        }
        return {name for name, count in there.items() if count}

    @property
    def required(self) -> list[int]:
        """The features that must not be missing."""
        if not self.takes_missing:
            return list(range(self.n_features))
        parts = ((one.feature, one.missing) for one in (self.terms, self.ramps))
        return sorted({j for place, value in parts for j in place[np.isnan(value)].tolist()})

    def plus(self, other: Form) -> Self:
        """The sum of both."""
        return replace(
            self,
            constant=self.constant + other.constant,
            terms=joined([self.terms, other.terms]),
            ramps=joined([self.ramps, other.ramps]),
            trees=joined([self.trees, other.trees]),
            expansions=self.expansions + other.expansions,
            notes=tuple(dict.fromkeys(self.notes + other.notes)),
        )

    def folded_terms(self) -> tuple[Floats, float, Floats]:
        """The linear terms as one weight for each feature.

        Returns
        -------
        weights : float64 ndarray of shape (n_features,)
        constant : float
            With what the shifts add.
        missing : float64 ndarray of shape (n_features,)
            What the terms of a feature add, beside `constant`, if it is missing.
        """
        terms = self.terms
        weights, missing = np.zeros(self.n_features), np.zeros(self.n_features)
        shifted = terms.weight * terms.shift
        np.add.at(weights, terms.feature, terms.weight)
        np.add.at(missing, terms.feature, terms.missing + shifted)
        return weights, self.constant - float(shifted.sum()), missing
