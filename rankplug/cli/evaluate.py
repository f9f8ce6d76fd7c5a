"""``rankplug evaluate``: how good a saved or registered model is on a file of data."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankplug.cli.models import add_model_arguments, open_model
from rankplug.cli.parsers import command_parser

if TYPE_CHECKING:
    from rankplug.metrics import Summary, SummarySettings
    from rankplug.models import Model

__all__ = ["add"]

_HELP = """\
examples:
  rankplug evaluate models:/search@champion test.txt --metric ndcg@10 --metric map
  rankplug evaluate out/model test.parquet --label relevance --qid query --json

The intervals are bootstrap confidence intervals over the queries. Under 'mlflow run', metrics,
the table of all queries and the curve of ndcg@k are logged to the run.
"""


def add(commands: Any, common: argparse.ArgumentParser) -> None:
    """Add the command's parser."""
    text = "measure a model on a file, with confidence intervals"
    parser = command_parser(commands, common, "evaluate", text, _HELP)
    add_model_arguments(parser)
    parser.add_argument(
        "data",
        metavar="DATA",
        help="svmlight text, CSV, Parquet or Arrow, text may be compressed; or a prepared folder",
    )
    parser.add_argument(
        "--metric",
        action="append",
        default=[],
        metavar="M",
        help="such as ndcg@10; may be repeated, or several in one with commas between "
        "(default: ndcg@10, mrr and pairwise_accuracy; label ranking: kendall_tau, top1_error)",
    )
    parser.add_argument(
        "--label",
        action="append",
        metavar="COLUMN",
        help="column of the relevance (default: label), or of the class; for label ranking may be "
        "repeated, once for each label",
    )
    parser.add_argument(
        "--qid", metavar="COLUMN", help="column of the query ids (default: qid, if there is one)"
    )
    parser.add_argument(
        "--level", type=float, default=0.95, help="confidence level (default: 0.95)"
    )
    parser.add_argument("--json", action="store_true", help="as JSON")
    parser.set_defaults(command=_evaluate)


def _evaluate(args: argparse.Namespace) -> int:
    model = open_model(args)
    summary = _of_ranking(model, args) if model.n_labels is None else _of_label_ranking(model, args)
    if run_id := os.environ.get("MLFLOW_RUN_ID"):
        from mlflow import MlflowClient

        from rankplug.mlflow.evaluator import log_summary

        log_summary(summary, MlflowClient(), run_id)
    print(json.dumps(summary.intervals, indent=2) if args.json else _table(summary))
    return 0


def _of_ranking(model: Model, args: argparse.Namespace) -> Summary:
    from rankplug.exceptions import ParameterError
    from rankplug.io import read_data
    from rankplug.io.files import InputFile
    from rankplug.metrics import DEFAULT_METRICS, RankedRows, summarize_ranking
    from rankplug.models import predict_data

    if len(args.label or ()) > 1:
        raise ParameterError("--label: the model ranks rows, which have one column of relevance")
    settings = _settings(args, DEFAULT_METRICS)
    label = args.label[0] if args.label else None
    if Path(args.data).is_dir():
        data = read_data(args.data, label=label, qid=args.qid)
    elif InputFile(args.data).find_format() == "svmlight":
        data = read_data(args.data, n_features=model.n_features, label=label, qid=args.qid)
    else:
        data = read_data(args.data, features=model.feature_names, label=label, qid=args.qid)
    rows = RankedRows(data.relevance, predict_data(model, data), data.qid)
    return summarize_ranking(rows, settings)


def _of_label_ranking(model: Model, args: argparse.Namespace) -> Summary:
    import numpy as np
    from scipy import sparse

    from rankplug.data import LabelRankingData
    from rankplug.io import read_label_data
    from rankplug.metrics import DEFAULT_LABEL_METRICS, summarize_label_ranking

    settings = _settings(args, DEFAULT_LABEL_METRICS)
    n_labels = model.n_labels or 0
    labels = getattr(model, "labels", None)
    known = LabelRankingData(
        sparse.csr_array((0, model.n_features)),
        np.empty((0, n_labels)),
        np.arange(n_labels) if labels is None else np.asarray(labels),
        model.feature_names,
    )
    columns = args.label[0] if args.label and len(args.label) == 1 else args.label
    data = read_label_data(args.data, labels=columns, like=known)
    return summarize_label_ranking(data.relevance, model.predict(data.X), settings)


def _settings(args: argparse.Namespace, default: tuple[str, ...]) -> SummarySettings:
    from rankplug.metrics import SummarySettings

    return SummarySettings.of({"metrics": _names(args.metric) or default, "level": args.level})


def _names(texts: list[str]) -> list[str]:
    """The names between the commas; those within brackets belong to a name's options."""
    import re

    return [
        name.strip() for text in texts for name in re.split(r",(?![^\[]*\])", text) if name.strip()
    ]


def _table(summary: Summary) -> str:
    from rankplug.report import text_table

    level = f"{100 * summary.settings.level:g} %"
    rows = [
        [name, *(_number(one[key]) for key in ("value", "low", "high")), str(one["n_queries"])]
        for name, one in summary.intervals.items()
    ]
    counted = "queries" if "qid" in summary.per_query else "rows"
    return text_table(["metric", "mean", f"{level} from", "to", counted], rows, "<>>>>")


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"
