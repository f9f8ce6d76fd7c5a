"""`ClickLog`: which documents were shown at which positions, and which of them were clicked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankplug.clicks.columns import Candidates, Impressions, read_candidates, read_impressions
from rankplug.data import RankingData, concatenate_ranges, take_rows
from rankplug.exceptions import DataError
from rankplug.models import Model


class Cells(NamedTuple):
    """How often each document was shown and clicked at each of its positions.

    Attributes
    ----------
    row, position : int64 ndarray of shape (n_cells,)
        Row of the document in `ClickLog.documents`; position, from 1.
    shown, clicked : float64 ndarray of shape (n_cells,)
    """

    row: NDArray[np.int64]
    position: NDArray[np.int64]
    shown: NDArray[np.float64]
    clicked: NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class ClickLog:
    """A log of clicks: documents of queries, and each time that one was shown.

    Made by `from_table` or `simulate_clicks`; the constructor itself checks nothing.

    Attributes
    ----------
    documents : RankingData
        The candidates of each query; relevance is 0, because nobody has judged them.
    document_ids : ndarray of shape (n_documents,)
        The caller's ids, in the order of the rows of `documents`.
    row : int64 ndarray of shape (n_impressions,)
        Of the document that was shown.
    position : int64 ndarray of shape (n_impressions,)
        Where it was shown, from 1.
    click : bool ndarray of shape (n_impressions,)
    session : int64 ndarray of shape (n_impressions,) or None
        Number of the list that it was shown in; None if the log does not say.
    randomised : bool ndarray of shape (n_impressions,) or None
        Whether the list was in random order; None if the log does not say.
    """

    documents: RankingData
    document_ids: NDArray[Any]
    row: NDArray[np.int64]
    position: NDArray[np.int64]
    click: NDArray[np.bool_]
    session: NDArray[np.int64] | None = None
    randomised: NDArray[np.bool_] | None = None

    @classmethod
    def from_table(
        cls,
        log: Any,
        documents: Any = None,
        *,
        query: str = "qid",
        document: str = "document",
        position: str = "position",
        click: str = "click",
        session: str | None = None,
        randomised: str | None = None,
        features: Sequence[str] | None = None,
        like: RankingData | Model | None = None,
    ) -> ClickLog:
        """Check a table with a row for each time that a document was shown.

        Parameters
        ----------
        log : table of pandas, polars or Arrow; or path, or several
            CSV, Parquet or Arrow files.
        documents : as `log`, optional
            A row for each document of a query, with its features. Documents that were never shown
            are candidates, too. If omitted, the log itself has the features.
        query, document, position, click : str
            Columns of the query and of the document, integers or strings; of the position where it
            was shown, from 1; and of whether it was clicked, 0 or 1.
        session : str, optional
            Column of the id of the session. A session may have several queries; a query of a
            session is one list. Without it a row stands for itself.
        randomised : str, optional
            Column of whether the list was shown in random order, 0 or 1.
        features : sequence of str, optional
            Those of `like`, or all columns that hold nothing else, if omitted.
        like : RankingData or Model, optional
            Documents of a log read before, or a model: the same features and categories.

        Raises
        ------
        DataError
            If columns are missing, positions are no whole numbers from 1, clicks are neither 0
            nor 1, a list has two rows at a position, or a document is shown that has no
            features, or several.

        Examples
        --------
        >>> import pandas as pd
        >>> shown = {"qid": [7, 7], "document": ["a", "b"], "position": [1, 2], "click": [0, 1]}
        >>> table = pd.DataFrame({**shown, "bm25": [3.0, 2.0]})
        >>> ClickLog.from_table(table)
        <ClickLog: 1 query, 2 documents, 2 impressions, 1 click>
        """
        shown = read_impressions(
            log, query=query, document=document, position=position, click=click, session=session,
            randomised=randomised,
        )  # fmt: skip
        if features is None and like is not None:
            features = like.feature_names
        known = None if like is None else like.categories
        candidates = read_candidates(documents, shown, query, document, features, known)
        return cls._joined(shown, candidates)

    @classmethod
    def _joined(cls, shown: Impressions, candidates: Candidates) -> ClickLog:
        return cls(
            candidates.data,
            candidates.ids,
            candidates.row_of(shown),
            shown.position,
            shown.click,
            shown.session,
            shown.randomised,
        )

    def __repr__(self) -> str:
        counts = (
            (self.documents.n_queries, "query", "queries"),
            (self.documents.n_samples, "document", "documents"),
            (self.n_impressions, "impression", "impressions"),
            (int(self.click.sum()), "click", "clicks"),
        )
        told = (f"{count:,} {one if count == 1 else many}" for count, one, many in counts)
        return f"<ClickLog: {', '.join(told)}>"

    @property
    def n_impressions(self) -> int:
        """How often any document was shown."""
        return len(self.row)

    @property
    def n_positions(self) -> int:
        """The last position at which a document was shown."""
        return int(self.position.max())

    @cached_property
    def cells(self) -> Cells:
        """Impressions and clicks of each document at each position."""
        n = self.n_positions + 1
        codes, inverse = np.unique(self.row * n + self.position, return_inverse=True)
        shown = np.bincount(inverse).astype(np.float64)
        clicked = np.bincount(inverse, self.click).astype(np.float64)
        return Cells(codes // n, codes % n, shown, clicked)

    @cached_property
    def n_sessions(self) -> NDArray[np.int64]:
        """How many lists of each query were shown, of shape (n_queries,).

        Where sessions have no ids: how often any document was shown at the position of the query
        where that happened most often.
        """
        query = self.documents.row_query[self.row]
        n_queries = self.documents.n_queries
        if self.session is not None:
            _, first = np.unique(self.session, return_index=True)
            return np.bincount(query[first], minlength=n_queries)
        n = self.n_positions + 1
        codes, counts = np.unique(query * n + self.position, return_counts=True)
        most = np.zeros(n_queries, dtype=np.int64)
        np.maximum.at(most, codes // n, counts)
        return most

    @property
    def unit(self) -> str:
        """What `take` takes."""
        return self.documents.unit

    @property
    def n_examples(self) -> int:
        """Number of queries."""
        return self.documents.n_queries

    def take(self, queries: ArrayLike) -> ClickLog:
        """The log of some queries, in the given order; errors are those of `RankingData.take`."""
        documents = self.documents.take(queries)
        chosen = np.asarray(queries, dtype=np.int64)
        starts = self.documents.query_ptr[chosen]
        old = concatenate_ranges(starts, self.documents.sizes[chosen])
        new = np.full(self.documents.n_samples, -1)
        new[old] = np.arange(len(old))
        part = self._part(new[self.row] >= 0, "for these queries")
        return replace(
            part, documents=documents, document_ids=self.document_ids[old], row=new[part.row]
        )

    def up_to(self, position: int) -> ClickLog:
        """The log without what was shown below a position; raises `DataError` if nothing is left.

        Clicks below it are lost, so that documents that stand no higher are as if not clicked.
        """
        return self._part(self.position <= position, f"at positions up to {position}")

    def randomised_part(self) -> ClickLog:
        """The lists in random order; raises `DataError` if there are none."""
        if self.randomised is None:
            raise DataError(
                "the log does not say which lists were in random order: name the column, "
                "randomised='...'"
            )
        return self._part(self.randomised, "in random order")

    def to_sessions(self) -> RankingData:
        """Each list as a query of its own: rows as they were shown, relevance 1 where clicked.

        It is what XGBoost's ``lambdarank_unbiased`` and LightGBM's positions take. It has a row
        for each impression.

        Raises
        ------
        DataError
            If the log has no ids of sessions.
        """
        if self.session is None:
            raise DataError("lists need ids of sessions: name their column, session='...'")
        order = np.lexsort((self.position, self.session))
        session = self.session[order]
        starts = np.flatnonzero(np.concatenate(([True], session[1:] != session[:-1])))
        return replace(
            self.documents,
            X=take_rows(self.documents.X, self.row[order]),
            relevance=self.click[order].astype(np.float64),
            query_ptr=np.append(starts, len(order)),
            query_ids=session[starts],
            query_weight=None,
            order=None,
        )

    def _part(self, chosen: NDArray[np.bool_], which: str) -> ClickLog:
        if not chosen.any():
            raise DataError(f"no document was shown {which}")

        def of(values: NDArray[Any] | None) -> Any:
            return None if values is None else values[chosen]

        return replace(
            self, row=of(self.row), position=of(self.position), click=of(self.click),
            session=of(self.session), randomised=of(self.randomised),
        )  # fmt: skip
