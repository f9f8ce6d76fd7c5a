"""What is looked at: the entrants of a report, or models without a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rankplug.data import RankingData, are_grades
from rankplug.metrics import measure_queries, parse_metric
from rankplug.models import fingerprint
from rankplug.report.look.content import Limits, gather
from rankplug.report.look.entrants import Documents, Entrant, features_of
from rankplug.report.look.page import Look, pack_within, to_page
from rankplug.report.report import Outcome, Report

_MOST_FEATURES = 300  # of models that can be turned: all are kept, for all documents
_MOST_BYTES = 5_000_000
_LIMITS = Limits(documents=200, digits=5)


def look_at(report: Report) -> Look | None:
    """The rankings of a report's test set; None if it has none, or labels were ranked."""
    data, metric = report.test, report.metrics[0]
    ranked = [one for one in report.competitors if one.scores is not None]
    if not (isinstance(data, RankingData) and ranked):
        return None
    known = metric if parse_metric(metric).suits(data.relevance) else None
    documents = Documents.of(data)
    # That with which the others are compared is the first.
    ranked.sort(key=lambda one: one.name != report.baseline)
    entrants = [_entrant(one, data, documents, known) for one in ranked]
    return pack_within(lambda limits: gather(documents, entrants, known, limits))


def _entrant(
    outcome: Outcome, data: RankingData, documents: Documents, metric: str | None
) -> Entrant:
    assert outcome.scores is not None
    assert outcome.result is not None
    model = outcome.result.model
    entrant = Entrant(outcome.name, outcome.scores, model=model, features=features_of(data, model))
    # Those of these scores: a report has the mean over several seeds.
    return entrant if metric is None else _measured(entrant, documents, metric)


def show_rankings(
    title: str,
    documents: Documents,
    entrants: list[Entrant],
    saved: Mapping[str, str] | None = None,
) -> str:
    """A page that shows rankings, and on which linear and additive models can be turned.

    Parameters
    ----------
    title : str
    documents : Documents
    entrants : list of Entrant
        Their values of NDCG@10 are found here, if there are labels that have a gain.
    saved : mapping of str to str, optional
        By the names of entrants whose models may be turned, where these are saved.

    Returns
    -------
    str
        HTML.
    """
    metric = _metric_of(documents)
    if metric is not None:
        entrants = [_measured(one, documents, metric) for one in entrants]
    turnable = {
        one.name: {"model": (saved or {})[one.name], "sha256": fingerprint(one.model)}
        for one in entrants
        if one.model is not None
        and one.name in (saved or {})
        and one.model.n_features <= _MOST_FEATURES
    }
    most = max((one.model.n_features for one in entrants if one.model is not None), default=1)
    limits = replace(_LIMITS, features=2 * most, fewest=2 * most) if turnable else _LIMITS

    def make(limits: Limits) -> dict[str, Any]:
        return gather(documents, entrants, metric, limits, turnable=turnable)

    return to_page(title, pack_within(make, limits, _MOST_BYTES))


def _metric_of(documents: Documents) -> str | None:
    """NDCG@10 with the gain that the labels have; None without labels, or if some are negative."""
    y = documents.relevance
    if y is None or y.min() < 0:
        return None
    return "ndcg@10" if are_grades(y) else "ndcg@10[gain=linear]"


def _measured(entrant: Entrant, documents: Documents, metric: str) -> Entrant:
    assert documents.relevance is not None
    measured = measure_queries(documents.relevance, entrant.scores, documents.row_query, metric)
    (found,) = measured.values()
    return replace(entrant, values=found.values, mean=found.mean())
