"""The content of a page: sampled queries, their documents, and what moves these, as plain values.

Scores and contributions of a query are whole numbers of units, so that they take little room; the
rest of a difference of scores, which no feature that is kept explains, is what the others add.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankplug.data import are_grades, rank_in_queries
from rankplug.metrics import parse_metric
from rankplug.report.look.curves import Curves
from rankplug.report.look.entrants import Documents, Entrant, Explained, can_explain, explain
from rankplug.report.look.sampling import sample_documents, sample_queries
from rankplug.report.look.values import short, short_text

_SCORE_DIGITS = 4  # of scores, relative to their range in the query, at least
_BLOCK_ELEMENTS = 1 << 21  # of contributions at once: 16 MB of float64


@dataclass(frozen=True)
class Limits:
    """How much of the data a page holds.

    Attributes
    ----------
    queries, documents : int
        Queries, and documents of each.
    features : int
        Features of a query whose contributions are told one by one: those that move it most.
    fewest : int
        Of these, where there is little room.
    digits : int
        Of contributions, relative to the largest of the query.
    """

    queries: int = 200
    documents: int = 20
    features: int = 16
    fewest: int = 2
    digits: int = 3


def gather(
    documents: Documents,
    entrants: list[Entrant],
    metric: str | None,
    limits: Limits,
    *,
    turnable: Mapping[str, dict[str, str]] | None = None,
) -> dict[str, Any]:
    """What a page shows.

    Parameters
    ----------
    documents : Documents
    entrants : list of Entrant
        The first is the one with which the others are compared.
    metric : str or None
        Of the entrants' `values`; None if they have none.
    limits : Limits
    turnable : mapping of str to dict, optional
        By the names of entrants that can be turned on the page, if their models are linear or
        additive, what an adjustment says of the model. All features are kept then.
    """
    return _Gathering(documents, entrants, metric, limits, turnable or {}).tell()


def keep_features(content: dict[str, Any], most: int) -> dict[str, Any]:
    """The content with fewer features of each query, the strongest of it."""
    queries = []
    for query in content["queries"]:
        entrants = [
            {**one, "parts": one["parts"][:most]} if "parts" in one else one
            for one in query["entrants"]
        ]
        shorter = {key: query[key][:most] for key in ("features", "cells")}
        queries.append({**query, **shorter, "entrants": entrants})
    return {**content, "queries": queries}


class _Query(NamedTuple):
    """A query: its position, the number of its rows, and those that are shown."""

    position: int
    size: int
    rows: NDArray[np.int64]
    ranks: list[NDArray[np.int64]]
    """Of the rows that are shown, of each entrant."""


class _Gathering:
    """The content while it is gathered: a batch of queries after the other is explained."""

    def __init__(
        self,
        documents: Documents,
        entrants: list[Entrant],
        metric: str | None,
        limits: Limits,
        turnable: Mapping[str, dict[str, str]],
    ) -> None:
        self.documents, self.entrants, self.metric = documents, entrants, metric
        self.limits, self.turnable = limits, turnable
        self.features: dict[str, int] = {}
        self.curves = [Curves() for _ in entrants]
        self.methods: list[str | None] = [None] * len(entrants)

    def tell(self) -> dict[str, Any]:
        """All of it."""
        documents, limits = self.documents, self.limits
        sample = sample_queries(documents, self.entrants, limits.queries)
        queries = [self._query(int(position)) for position in sample.queries]
        is_cut = any(len(query.rows) < query.size for query in queries)
        told = [one for batch in self._batches(queries) for one in self._tell_batch(batch)]
        return {
            "about": sample.about + f", up to {limits.documents} documents of each" * is_cut,
            "metric": self.metric,
            "higher": self.metric is None or parse_metric(self.metric).greater_is_better,
            "columns": [] if documents.shown is None else documents.shown.column_names,
            "grades": _grades(documents),
            "entrants": [self._tell_entrant(k) for k in range(len(self.entrants))],
            "wins": _wins(self.entrants),
            "features": [*self.features],
            "queries": told,
        }

    def _query(self, position: int) -> _Query:
        begin, end = (int(row) for row in self.documents.query_ptr[position : position + 2])
        ranks = [rank_in_queries(one.scores[begin:end], None)[0] for one in self.entrants]
        rows = sample_documents(self.documents, ranks, position, self.limits.documents)
        return _Query(position, end - begin, rows, [one[rows - begin] for one in ranks])

    def _batches(self, queries: list[_Query]) -> Iterator[list[_Query]]:
        """Whole queries, so many that the contributions of their rows fit into memory."""
        widest = max((one.model.n_features for one in self.entrants if one.model), default=1)
        most = _BLOCK_ELEMENTS // widest
        rows = np.concatenate([query.rows for query in queries])
        self.explained = [can_explain(one, rows) for one in self.entrants]
        batch: list[_Query] = []
        n_rows = 0
        for query in queries:
            if batch and n_rows + len(query.rows) > most:
                yield batch
                batch, n_rows = [], 0
            batch.append(query)
            n_rows += len(query.rows)
        yield batch

    def _tell_batch(self, queries: list[_Query]) -> Iterator[dict[str, Any]]:
        rows = np.concatenate([query.rows for query in queries])
        found = [
            explain(one, rows) if known else None
            for one, known in zip(self.entrants, self.explained, strict=True)
        ]
        for k, one in enumerate(found):
            if one is not None:
                self.methods[k] = one.parts.method
                if one.parts.is_additive and self.entrants[k].name in self.turnable:
                    self.curves[k].add(one)
        begin = 0
        for query in queries:
            part = slice(begin, begin + len(query.rows))
            begin = part.stop
            yield {**self._tell_documents(query), **self._tell_features(query, found, part)}

    def _tell_documents(self, query: _Query) -> dict[str, Any]:
        """What is known of the query without its features; rows as steps from one to the next."""
        documents, rows = self.documents, query.rows
        told: dict[str, Any] = {
            "id": str(documents.query_ids[query.position]),
            "size": query.size,
            "rows": np.diff(documents.rows[rows], prepend=0).tolist(),
            "ranks": [one.tolist() for one in query.ranks],
            "values": [
                None if one.values is None else short(one.values[query.position])
                for one in self.entrants
            ],
        }
        if documents.relevance is not None:
            told["labels"] = [short(value) for value in documents.relevance[rows]]
        if documents.shown is not None:
            columns = documents.shown.take(rows).to_pydict().values()
            told["texts"] = [[short_text(value) for value in column] for column in columns]
        return told

    def _tell_features(
        self, query: _Query, found: list[Explained | None], part: slice
    ) -> dict[str, Any]:
        """The features that are kept, their values, and the scores with what they add to them."""
        usable = [None if one is None or not one.fits[part].all() else one for one in found]
        parts = [None if one is None else _Parts.of(one, part) for one in usable]
        known = [one for one in parts if one is not None]
        kept = _strongest(known, self.limits.features, every=bool(self.turnable))
        return {
            "features": [self.features.setdefault(name, len(self.features)) for name in kept],
            "cells": [_values_of(name, usable, part) for name in kept],
            "entrants": [
                _in_units(
                    one.scores[query.rows],
                    None if of_one is None else of_one.matrix(kept),
                    self.limits.digits,
                )
                for one, of_one in zip(self.entrants, parts, strict=True)
            ],
        }

    def _tell_entrant(self, k: int) -> dict[str, Any]:
        entrant = self.entrants[k]
        return {
            "name": entrant.name,
            "method": self.methods[k],
            "mean": None if entrant.mean is None else short(entrant.mean),
            "curves": self.curves[k].tell(),
            "saved": self.turnable.get(entrant.name),
        }


@dataclass(frozen=True, eq=False)
class _Parts:
    """Contributions to the scores of a query's rows, less their means, by the features' names."""

    column: Mapping[str, int]
    values: NDArray[np.float64]

    @classmethod
    def of(cls, found: Explained, part: slice) -> _Parts:
        values = found.parts.values[part]
        return cls({name: j for j, name in enumerate(found.names)}, values - values.mean(axis=0))

    def matrix(self, names: list[str]) -> NDArray[np.float64]:
        """The columns of these features, zeros where the model knows none of that name."""
        chosen = np.zeros((len(self.values), len(names)))
        for k, name in enumerate(names):
            if name in self.column:
                chosen[:, k] = self.values[:, self.column[name]]
        return chosen


def _strongest(parts: list[_Parts], most: int, *, every: bool) -> list[str]:
    """The features that move the query's rows most, by their shares in all models."""
    shares: dict[str, float] = {}
    for one in parts:
        movement = np.abs(one.values).sum(axis=0)
        movement /= movement.sum() or 1.0
        for name, j in one.column.items():
            shares[name] = shares.get(name, 0.0) + float(movement[j])
    found = sorted(shares, key=lambda name: -shares[name])
    return found if every else [name for name in found[:most] if shares[name] > 0]


def _values_of(name: str, found: list[Explained | None], part: slice) -> list[Any]:
    """The feature's values of a query's rows, from a model that knows it."""
    known = next(one for one in found if one is not None and name in one.names)
    return [short(value) for value in known.values[known.names.index(name)][part]]


def _in_units(
    scores: NDArray[np.float64], parts: NDArray[np.float64] | None, digits: int
) -> dict[str, Any]:
    """Scores from a base, and contributions, as whole numbers of units of their own."""
    base = float(scores.mean())
    told: dict[str, Any] = {"base": float(f"{base:.8g}")}
    told["unit"], told["scores"] = _counted(scores - base, max(digits, _SCORE_DIGITS))
    if parts is not None:
        told["step"], told["parts"] = _counted(parts.T, digits)
    return told


def _counted(numbers: NDArray[np.float64], digits: int) -> tuple[float, Any]:
    """A unit, and how often each number holds it."""
    largest = np.abs(numbers).max(initial=0.0) or 1.0
    unit = float(f"{largest / 10**digits:.3g}")
    return unit, np.rint(numbers / unit).astype(np.int64).tolist()


def _wins(entrants: list[Entrant]) -> list[list[int]]:
    """For each two entrants, on how many of all queries the first has the higher value."""
    values = [one.values for one in entrants if one.values is not None]
    if len(values) < len(entrants):
        return []
    with np.errstate(invalid="ignore"):
        return [[int(np.sum(first > second)) for second in values] for first in values]


def _grades(documents: Documents) -> dict[str, Any] | None:
    """The range of the labels, and how gain is made of them; None where there are none."""
    y = documents.relevance
    if y is None:
        return None
    return {"low": short(y.min()), "high": short(y.max()), "exp2": are_grades(y)}
