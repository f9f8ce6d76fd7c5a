"""Metric names as people write them: ``ndcg@10[gain=linear]``, and as other tools spell them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

from rankplug.exceptions import ParameterError, UnknownNameError
from rankplug.metrics.base import Metric
from rankplug.metrics.binary import Auc, AveragePrecision, PosAtTop, Precision, Recall
from rankplug.metrics.cascade import ExpectedReciprocalRank, Hit, ReciprocalRank
from rankplug.metrics.counterfactual import AverageRank, IpsDcg, SnipsDcg
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
        Recall,
        Hit,
        ExpectedReciprocalRank,
        Auc,
        PosAtTop,
        PairwiseAccuracy,
        KendallTau,
        TopOneError,
        IpsDcg,
        SnipsDcg,
        AverageRank,
    )
}
"""All metrics by name."""

_LINEAR = {"gain": "linear"}

_SPELLINGS: dict[str, tuple[str, dict[str, Any]]] = {
    **{name: (name, {}) for name in METRICS},
    # A name that is one tool's only means what it means there; see docs/evaluation.md.
    "ndcg_cut": ("ndcg", _LINEAR),
    "ndcg_score": ("ndcg", _LINEAR),
    "ndcg_linear": ("ndcg", _LINEAR),
    **dict.fromkeys(("ndcg_burges", "ndcg_exp2"), ("ndcg", {})),
    "meanndcg": ("mean_ndcg", {}),
    **dict.fromkeys(("ap", "average_precision", "average_precision_score"), ("map", {})),
    **dict.fromkeys(("mean_average_precision", "map_cut"), ("map", {})),
    **dict.fromkeys(("rr", "recip_rank", "reciprocal_rank"), ("mrr", {})),
    "mean_reciprocal_rank": ("mrr", {}),
    **dict.fromkeys(("p", "prec"), ("precision", {})),
    "r": ("recall", {}),
    **dict.fromkeys(("hr", "hit_rate", "hitrate", "hit_ratio", "success"), ("hit", {})),
    **dict.fromkeys(("roc_auc", "roc_auc_score", "auroc"), ("auc", {})),
    **dict.fromkeys(("kendall", "kendalltau", "tau"), ("kendall_tau", {})),
    "pos_at_top": ("pos@top", {}),
}
"""Names in small letters: ours, and the options that make it what is meant."""

Metrics: TypeAlias = str | Metric | Iterable[str | Metric]

_SYNTAX = re.compile(r"(?P<head>[^\[\]]+)(\[(?P<options>[^\[\]]*)\])?")

# As in NDCG@10, ndcg_at_10, ndcg_cut_10, P.5, AP(rel=2)@10 and map@10-l2.
_FOREIGN = re.compile(
    r"(?P<name>[a-z_]+?)(\((?P<arguments>[^()]*)\))?"
    r"((@|_at_|_|\.)(?P<k>\d+))?(-l(?P<level>\d+))?",
    re.IGNORECASE | re.ASCII,
)

# Arguments of ir_measures: what they are here, by value.
_DCG = {"log2": "linear", "exp-log2": "exp2"}


def parse_metric(metric: str | Metric) -> Metric:
    """The metric of that name: ``name``, ``name@k``, with ``[option=value,...]`` if need be.

    Names are also understood as trec_eval, ir_measures, ranx and scikit-learn spell them:
    ``P_5``, ``recip_rank``, ``AP(rel=2)@100``, ``hit_rate@10``. Capitals do not matter. Those of
    one tool only mean what they mean there: ``ndcg_cut_10`` is ``ndcg@10[gain=linear]``. A metric
    object is returned as it is.

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
    >>> str(parse_metric("ndcg_cut_10")), str(parse_metric("AP(rel=2)@100"))
    ('ndcg@10[gain=linear]', 'map@100[threshold=1]')
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
    implied: dict[str, Any] = {}
    if name not in METRICS or "-l" in (cutoff or ""):  # ranx's level of relevance
        name, cutoff, implied = _read_foreign(syntax["head"].strip(), name)
    options = implied | _read_options(name, syntax["options"] or "")
    return METRICS[name](**_read_cutoff(name, cutoff), **options)


def parse_metrics(metrics: Metrics) -> dict[str, Metric]:
    """Metrics by the names that they are given; a text is one. Raises as `parse_metric`."""
    several = [metrics] if isinstance(metrics, str | Metric) else metrics
    return {str(metric): parse_metric(metric) for metric in several}


def _read_foreign(head: str, unknown: str) -> tuple[str, str | None, dict[str, Any]]:
    """Our name, the cutoff and the options of a metric as another tool spells it."""
    if head.lower() in METRICS:
        return head.lower(), None, {}
    found = _FOREIGN.fullmatch(head)
    spelled = found["name"].lower().strip("_") if found else ""
    if found is None or spelled not in _SPELLINGS:
        raise UnknownNameError("metric", unknown, METRICS)
    name, options = _SPELLINGS[spelled]
    arguments: dict[str, Any] = dict(_read_arguments(head, name, found["arguments"] or ""))
    cutoffs = {found["k"], arguments.pop("k", None)} - {None}
    if len(cutoffs) > 1:
        raise ParameterError(f"metric {head!r} has two cutoffs")
    levels = {found["level"], arguments.pop("level", None)} - {None}
    if levels and "threshold" not in METRICS[name].parameters:
        raise ParameterError(f"metric {head!r}: {name} has no level of relevance")
    # Grades are whole numbers: from 2 on is above 1.
    for level in levels - {"1"}:
        arguments["threshold"] = int(level) - 1
    return name, next(iter(cutoffs), None), {**options, **arguments}


def _read_arguments(head: str, name: str, text: str) -> Iterator[tuple[str, str]]:
    """Arguments of ir_measures, under our names."""
    for item in filter(None, map(str.strip, text.split(","))):
        key, _, value = (part.strip(" '\"") for part in item.partition("="))
        if key == "cutoff" and value.isdecimal():
            yield "k", value
        elif key == "rel" and value.isdecimal():
            yield "level", value
        elif key == "dcg" and value in _DCG and name == "ndcg":
            yield "gain", _DCG[value]
        else:
            raise ParameterError(
                f"metric {head!r}: {item} is not understood: write options as "
                f"'{name}[...]', with {', '.join(sorted(METRICS[name].parameters))}"
            )


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
