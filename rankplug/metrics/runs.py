"""Evaluation of runs against relevance judgements (qrels), as trec_eval does it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rankplug.data import id_texts, tables
from rankplug.exceptions import DataError, ParameterError
from rankplug.metrics.base import Metric
from rankplug.metrics.blocks import Ragged
from rankplug.metrics.evaluation import Measured, measure_blocks
from rankplug.metrics.names import METRICS, Metrics, parse_metrics
from rankplug.parameters import Choice, check_parameters

if TYPE_CHECKING:
    import pandas as pd

Ties: TypeAlias = Literal["trec", "expected"]

Table: TypeAlias = Any
"""A table of pandas, polars or Arrow with ``query_id``, ``doc_id`` and a value; or nested dicts of
values by query and document."""

_ARGUMENTS = {"complete": Choice((True, False)), "ties": Choice(("trec", "expected"))}


@dataclass(frozen=True)
class MeasuredRun:
    """What `measure_run` found.

    Attributes
    ----------
    queries : ndarray of str
        The queries that count, in the order of the qrels.
    measured : dict of Measured
        By the names of the metrics; values in the order of `queries`.
    n_unanswered : int
        Queries of the qrels that the run does not have.
    n_unjudged_queries : int
        Queries of the run that the qrels do not have, which count nowhere.
    n_unjudged : int
        Documents of the queries that count for which there is no judgement.
    n_without_relevant : int
        Queries that count and have no relevant document.
    """

    queries: NDArray[Any]
    measured: dict[str, Measured]
    n_unanswered: int
    n_unjudged_queries: int
    n_unjudged: int
    n_without_relevant: int


def evaluate_run(
    qrels: Table, run: Table, metrics: Metrics, *, complete: bool = True, ties: Ties = "trec"
) -> dict[str, float]:
    """The mean of each metric over the queries of the qrels.

    Parameters
    ----------
    qrels, run : pandas, polars or Arrow table, or dict of dict
        Columns ``query_id``, ``doc_id`` and ``relevance`` or ``score``, as
        `rankplug.io.read_qrels` and `rankplug.io.read_run` return; or nested dicts, as pytrec_eval
        and ranx take.
    metrics : str, Metric or iterable of them
        Those that have a meaning for documents that were not ranked: ndcg, map, mrr, precision,
        recall, hit, err.
    complete : bool
        Whether a query of the qrels that the run does not have counts as 0, as with
        ``trec_eval -c`` and in ir_measures; otherwise it is left out, as trec_eval does without.
    ties : "trec" or "expected"
        Documents of equal score: by falling id, scores rounded to single precision, as trec_eval
        orders them; or the expected value over their random orders, as elsewhere in
        `rankplug.metrics`.

    Returns
    -------
    dict of float
        By the names given.

    Raises
    ------
    DataError
        If a column or an id is missing, a document stands twice in a query, a score is no finite
        number, or no query is left.
    ParameterError, UnknownNameError
        If a metric's name or option is wrong, or it has no meaning for runs.

    Notes
    -----
    As in trec_eval, documents without a judgement are not relevant, relevant documents that the
    run does not have count as never found, queries that the qrels do not have are left out, and a
    query without a relevant document counts 0 (elsewhere it is undefined, and left out).

    Examples
    --------
    >>> qrels = {"q1": {"a": 1, "b": 0, "c": 2}, "q2": {"a": 1}}
    >>> run = {"q1": {"b": 3.0, "a": 2.0, "unjudged": 1.0}}
    >>> evaluate_run(qrels, run, ["RR", "R@2"])
    {'RR': 0.25, 'R@2': 0.25}
    >>> evaluate_run(qrels, run, "RR", complete=False)
    {'RR': 0.5}
    """
    found = measure_run(qrels, run, metrics, complete=complete, ties=ties)
    return {name: one.mean() for name, one in found.measured.items()}


def measure_run(
    qrels: Table, run: Table, metrics: Metrics, *, complete: bool = True, ties: Ties = "trec"
) -> MeasuredRun:
    """Values by query; parameters and errors are those of `evaluate_run`."""
    check_parameters("evaluation of a run", _ARGUMENTS, {"complete": complete, "ties": ties})
    by_name = {name: _of_runs(metric) for name, metric in parse_metrics(metrics).items()}
    judged = _frame(qrels, "relevance", "qrels")
    scored = _frame(run, "score", "run")
    queries = judged["query_id"].unique()
    if not complete:
        queries = queries[np.isin(queries, scored["query_id"].unique())]
    if not len(queries):
        raise DataError("no query of the qrels is in the run: are these files of one task?")
    answered = scored[scored["query_id"].isin(queries)]
    joined = answered.merge(judged, on=["query_id", "doc_id"], how="left")
    known = judged[judged["query_id"].isin(queries)]
    ranked = _sorted(joined, queries, ties)
    relevance = np.maximum(np.nan_to_num(ranked["relevance"].to_numpy(np.float64)), 0.0)
    scores = ranked["score"].to_numpy(np.float64)
    if ties == "trec":
        scores = -np.arange(len(ranked), dtype=np.float64)  # their order is all that counts
    measured = measure_blocks(
        relevance,
        scores,
        _starts(ranked["query_id"], queries),
        by_name,
        _unranked(known, answered, queries),
    )
    has_relevant = known.loc[known["relevance"] > 0, "query_id"].nunique()
    return MeasuredRun(
        queries=queries.astype(str),
        measured=measured,
        n_unanswered=int(judged["query_id"].nunique() - answered["query_id"].nunique()),
        n_unjudged_queries=int(scored["query_id"].nunique() - answered["query_id"].nunique()),
        n_unjudged=int(joined["relevance"].isna().sum()),
        n_without_relevant=len(queries) - int(has_relevant),
    )


def _of_runs(metric: Metric) -> Metric:
    """The metric as trec_eval has it: queries without a relevant document count 0."""
    if not metric.takes_unranked:
        known = ", ".join(name for name, one in METRICS.items() if one.takes_unranked)
        raise ParameterError(
            f"{metric} has no meaning for runs, which do not hold all documents: take one of "
            f"{known}"
        )
    return replace(metric, empty=0) if metric.empty == "skip" else metric


def _frame(given: Any, value: str, what: str) -> pd.DataFrame:
    """The three columns, ids as texts, values checked."""
    import pandas as pd

    if isinstance(given, Mapping):
        rows = [(query, doc, one) for query, docs in given.items() for doc, one in docs.items()]
        given = pd.DataFrame(rows, columns=["query_id", "doc_id", value])
    columns = ["query_id", "doc_id", value]
    given = tables.collected(given)
    there = tables.column_names(given) if tables.is_table(given) else []
    missing = [name for name in columns if name not in there]
    if missing:
        raise DataError(f"{what}: no column {', '.join(missing)}; it needs {', '.join(columns)}")
    frame = tables.frame_of(given, columns)
    texts = {name: id_texts(frame[name].tolist(), f"{what}: {name}") for name in columns[:2]}
    frame = frame.assign(**texts)
    numbers = pd.to_numeric(frame[value], errors="coerce").to_numpy(np.float64)
    if not np.isfinite(numbers).all():
        row = int(np.flatnonzero(~np.isfinite(numbers))[0])
        raise DataError(
            f"{what}: {value} {frame[value].iloc[row]!r} (row {row}) is no finite number"
        )
    twice = np.flatnonzero(frame.duplicated(["query_id", "doc_id"]))
    if len(twice):
        row = frame.iloc[twice[0]]
        raise DataError(
            f"{what}: document {row['doc_id']!r} stands twice in query {row['query_id']!r}"
        )
    frame[value] = numbers
    return frame


def _sorted(joined: pd.DataFrame, queries: NDArray[Any], ties: Ties) -> pd.DataFrame:
    """Documents query by query; with trec_eval's ties also by score, then by falling id."""
    import pandas as pd

    query = pd.Index(queries).get_indexer(joined["query_id"])
    if ties == "expected":
        return joined.iloc[np.argsort(query, kind="stable")]
    document = pd.factorize(joined["doc_id"], sort=True)[0]
    with np.errstate(over="ignore"):
        single = joined["score"].to_numpy(np.float64).astype(np.float32)
    return joined.iloc[np.lexsort((-document, -single, query))]


def _starts(query_id: Any, queries: NDArray[Any]) -> NDArray[np.int64]:
    """Where each query begins among rows that are sorted by query."""
    counts = query_id.value_counts().reindex(queries, fill_value=0).to_numpy()
    return np.concatenate(([0], np.cumsum(counts))).astype(np.int64)


def _unranked(known: pd.DataFrame, answered: pd.DataFrame, queries: NDArray[Any]) -> Ragged:
    """The relevant documents that the run does not have."""
    import pandas as pd

    relevant = known[known["relevance"] > 0]
    key = ["query_id", "doc_id"]
    found = pd.MultiIndex.from_frame(relevant[key]).isin(pd.MultiIndex.from_frame(answered[key]))
    missed = relevant[~found]
    order = np.argsort(pd.Index(queries).get_indexer(missed["query_id"]), kind="stable")
    values = missed["relevance"].to_numpy(np.float64)[order]
    return Ragged(values, _starts(missed["query_id"], queries))
