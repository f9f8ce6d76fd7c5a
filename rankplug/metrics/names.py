"""Metric names as people write them: ``ndcg@10``, ``ndcg@10[gain=linear,empty=0]``."""

from __future__ import annotations

import re
from typing import Any

from rankplug.exceptions import ParameterError, UnknownNameError
from rankplug.metrics.base import Metric
from rankplug.metrics.binary import Auc, AveragePrecision, PosAtTop, Precision
from rankplug.metrics.cascade import ExpectedReciprocalRank, ReciprocalRank
from rankplug.metrics.gain import MeanNdcg, Ndcg
from rankplug.metrics.pairs import KendallTau, PairwiseAccuracy, TopOneError
from rankplug.parameters import Optional

METRICS: dict[str, type[Metric]] = {
    metric.name: metric
    for metric in (
        Ndcg,
        MeanNdcg,
        AveragePrecision,
        ReciprocalRank,
        Precision,
        ExpectedReciprocalRank,
        Auc,
        PosAtTop,
        PairwiseAccuracy,
        KendallTau,
        TopOneError,
    )
}
"""All metrics by name."""

_SYNTAX = re.compile(r"(?P<head>[^\[\]]+)(\[(?P<options>[^\[\]]*)\])?")


def parse_metric(metric: str | Metric) -> Metric:
    """The metric of that name: ``name``, ``name@k``, with ``[option=value,...]`` if need be.

    A metric object is returned as it is.

    Raises
    ------
    UnknownNameError
        If there is no metric, or no option, of that name; the nearest is suggested.
    ParameterError
        If the text cannot be read, a cutoff is missing or not wanted, or a value not allowed.

    Examples
    --------
    >>> parse_metric("ndcg@10[gain=linear]")
    Ndcg(empty='skip', gain='linear', discount='log2', ties='expected', k=10)
    >>> str(parse_metric("ndcg@10[gain=linear,empty=0]"))
    'ndcg@10[empty=0,gain=linear]'
    >>> parse_metric("ndcg@10").log_name
    'ndcg_at_10'
    >>> parse_metric("top1_error").greater_is_better
    False
    """
    if isinstance(metric, Metric):
        return metric
    syntax = _SYNTAX.fullmatch(metric.strip()) if isinstance(metric, str) else None
    if syntax is None:
        raise ParameterError(
            f"metric {metric!r} cannot be read: write it like 'ndcg@10' or "
            "'ndcg@10[gain=linear,empty=0]'"
        )
    name, cutoff = _split_cutoff(syntax["head"].strip())
    if name not in METRICS:
        raise UnknownNameError("metric", name, METRICS)
    options = _read_options(name, syntax["options"] or "")
    return METRICS[name](**_read_cutoff(name, cutoff), **options)


def _split_cutoff(head: str) -> tuple[str, str | None]:
    """``ndcg@10`` into ``ndcg`` and ``10``; an ``@`` may also be part of the name."""
    name, at, cutoff = head.rpartition("@")
    return (head, None) if head in METRICS or not at else (name, cutoff)


def _read_cutoff(name: str, cutoff: str | None) -> dict[str, Any]:
    allowed = METRICS[name].parameters.get("k")
    if allowed is None:
        if cutoff is not None:
            raise ParameterError(f"metric {name} takes no cutoff: write {name!r}, not '@{cutoff}'")
        return {}
    if cutoff is None and not isinstance(allowed, Optional):
        raise ParameterError(f"metric {name} needs a cutoff, as in '{name}@10'")
    return {} if cutoff is None else {"k": _value(cutoff)}


def _read_options(name: str, text: str) -> dict[str, Any]:
    known = [option for option in METRICS[name].parameters if option != "k"]
    options: dict[str, Any] = {}
    for item in filter(None, map(str.strip, text.split(","))):
        option, equals, value = (part.strip() for part in item.partition("="))
        if not equals:
            raise ParameterError(f"metric {name}: option {item!r} cannot be read: give it a value")
        if option not in known:
            raise UnknownNameError(f"option of metric {name}", option, known)
        if option in options:
            raise ParameterError(f"metric {name}: option {option} is given twice")
        options[option] = _value(value)
    return options


def _value(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
