"""``rankplug evaluate``: measure a model on a file, or runs against relevance judgements."""

from __future__ import annotations

import argparse
import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankplug.cli.clicks import CLICK_OPTIONS, add_click_arguments, weigh_log
from rankplug.cli.models import add_model_arguments, open_model
from rankplug.cli.shared import (
    add_data_argument,
    add_notation_arguments,
    add_qid_argument,
    command_parser,
    notation,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rankplug.io.files import InputFile
    from rankplug.metrics import MeasuredRun, RankedRows, Summary, SummarySettings
    from rankplug.models import Model

_EVALUATE_HELP = """\
examples:
  rankplug evaluate models:/search@champion test.txt --metric ndcg@10 --metric map
  rankplug evaluate out/model test.parquet --label relevance --qid query --json
  rankplug evaluate out/model clicks.parquet --propensities interventions --clip 0.02
  rankplug evaluate --qrels qrels.txt --run bm25.run --run mine.run --metric nDCG@10,AP,R@100

Runs are measured as trec_eval does: documents of equal score by falling id (--ties expected: the
expected value over their orders, as for models), unjudged documents as not relevant, queries
without a relevant document as 0, and with -c: queries that a run lacks as 0 (unless
--skip-missing). The first run, or --baseline, is what the others are compared with.

With --propensities, DATA is a log of clicks: a row for each time that a document was shown, with
its position and whether it was clicked. Counterfactual metrics say what the model's ranking would
have got; propensities are estimated from this log, or numbers by position, such as 1,0.5,0.3.

The intervals are bootstrap confidence intervals over the queries. Under 'mlflow run', metrics,
the table of all queries and the curve of ndcg@k are logged to the run.
"""


_METRICS_OF_RUNS = ("ndcg@10", "map", "mrr")


def add_evaluate(commands: Any, common: argparse.ArgumentParser) -> None:
    """Add the command's parser."""
    text = "measure a model on a file, or runs against qrels, with confidence intervals"
    parser = command_parser(commands, common, "evaluate", text, _EVALUATE_HELP)
    add_model_arguments(parser, optional=True)
    add_data_argument(parser, optional=True)
    parser.add_argument("--qrels", metavar="FILE", help="relevance judgements in TREC's format")
    parser.add_argument(
        "--run",
        action="append",
        default=[],
        metavar="FILE",
        help="a run in TREC's format, instead of MODEL and DATA; may be repeated",
    )
    parser.add_argument("--baseline", metavar="NAME", help="run to compare the others with")
    parser.add_argument(
        "--ties",
        choices=["trec", "expected"],
        help="documents of a run of equal score (default: trec)",
    )
    parser.add_argument(
        "--skip-missing",
        action="store_true",
        default=None,
        help="leave out queries that a run lacks, as trec_eval does without -c",
    )
    parser.add_argument(
        "--metric",
        action="append",
        default=[],
        metavar="M",
        help="such as ndcg@10; may be repeated, or several in one with commas between "
        "(default: ndcg@10, mrr and pairwise_accuracy; label ranking: kendall_tau, top1_error; "
        "runs: ndcg@10, map and mrr)",
    )
    parser.add_argument(
        "--label",
        action="append",
        metavar="COLUMN",
        help="column of the relevance (default: label), or of the class; for label ranking may be "
        "repeated, once for each label",
    )
    add_qid_argument(parser, "that of the training, or qid")
    add_click_arguments(parser)
    add_notation_arguments(parser, "as in the model's training, else from 1")
    parser.add_argument(
        "--level", type=float, default=0.95, help="confidence level (default: 0.95)"
    )
    parser.add_argument("--json", action="store_true", help="as JSON")
    parser.set_defaults(command=_evaluate)


def _evaluate(args: argparse.Namespace) -> int:
    if args.run or args.qrels:
        return _evaluate_runs(args)
    from rankplug.exceptions import ParameterError

    if args.data is None:
        raise ParameterError("name MODEL and DATA, or --qrels and --run")
    _refuse(args, _FOR_RUNS, "for --run, not for MODEL and DATA")
    model = open_model(args)
    from rankplug.models.answers import label_names

    labels, notes = label_names(model), ""
    if args.propensities is None:
        _refuse(args, CLICK_OPTIONS, "for logs of clicks, which need --propensities")
    elif labels is not None:
        raise ParameterError("--propensities: clicks are on documents, but the model orders labels")
    if args.propensities is not None:
        summary, notes = _evaluate_clicks(model, args)
    elif labels is None:
        summary = _evaluate_ranking(model, args)
    else:
        summary = _evaluate_label_ranking(model, labels, args)
    if run_id := os.environ.get("MLFLOW_RUN_ID"):
        from mlflow import MlflowClient

        from rankplug.mlflow.evaluator import log_summary

        log_summary(summary, MlflowClient(), run_id)
    print(_as_json(summary.intervals) if args.json else _table(summary) + notes)
    return 0


_FOR_RUNS = ("baseline", "ties", "skip_missing")
_FOR_DATA = (
    "propensities",
    *CLICK_OPTIONS,
    "tracking_uri",
    "label",
    "qid",
    "zero_based",
    "separator",
    "decimal",
)


def _refuse(args: argparse.Namespace, names: Iterable[str], why: str) -> None:
    """Raise `ParameterError` if options are given that would be ignored."""
    from rankplug.exceptions import ParameterError

    given = [f"--{one.replace('_', '-')}" for one in names if getattr(args, one) is not None]
    if given:
        raise ParameterError(f"{', '.join(given)}: {why}")


def _evaluate_ranking(model: Model, args: argparse.Namespace) -> Summary:
    from rankplug.exceptions import ParameterError
    from rankplug.io import read_data
    from rankplug.io.columns import find_query_column, open_table
    from rankplug.io.files import InputFile, Notation
    from rankplug.metrics import DEFAULT_METRICS, RankedRows, summarize_ranking
    from rankplug.models import predict_data

    if len(args.label or ()) > 1:
        raise ParameterError("--label: the model ranks rows, which have one column of relevance")
    settings = _settings(args, DEFAULT_METRICS)
    label = args.label[0] if args.label else None
    options: dict[str, Any] = {"label": label, "qid": args.qid, **notation(args)}
    is_folder = Path(args.data).is_dir()
    if not is_folder:
        file = InputFile(args.data, Notation(**notation(args)).check())
        format_ = file.find_format()
        if format_ == "svmlight":
            options["n_features"] = model.n_features
            if args.zero_based is None:
                options["zero_based"] = model.zero_based
        else:
            options["features"] = model.feature_names
            with open_table(file, format_) as table:
                there = table.column_names()
            options["qid"] = find_query_column(
                there, args.qid, model.feature_names, model.query_column
            )
            if model.feature_names is not None and _reads_tables(model, there):
                column, rows = _score_table(model, file, format_, label, options["qid"])
                _require_queries(args.data, model, column)
                return summarize_ranking(rows, settings)
    data = read_data(args.data, **options)
    if not is_folder:
        _require_queries(args.data, model, data.query_column)
    rows = RankedRows(data.relevance, predict_data(model, data), data.qid)
    return summarize_ranking(rows, settings)


def _evaluate_clicks(model: Model, args: argparse.Namespace) -> tuple[Summary, str]:
    """What the model's ranking would have got from the users of a log, and lines on its clicks."""
    from rankplug.clicks import COUNTERFACTUAL_METRICS
    from rankplug.metrics import RankedRows, summarize_ranking
    from rankplug.models import predict_data

    _refuse(args, ("label", "zero_based"), "not for logs of clicks")
    settings = _settings(args, COUNTERFACTUAL_METRICS)
    clicks = weigh_log(model, args)
    data = clicks.to_evaluation()
    rows = RankedRows(data.relevance, predict_data(model, data), data.qid)
    return summarize_ranking(rows, settings), f"\n\n{clicks.propensities!r}\n{clicks!r}"


def _reads_tables(model: Model, there: list[str]) -> bool:
    """Whether some features are text or stand in lists, which the model itself reads."""
    from rankplug.data import columns_of_features

    names = model.feature_names or ()
    return bool(model.free_features()) or columns_of_features(names, there) != tuple(names)


def _score_table(
    model: Model, file: InputFile, format_: str, label: str | None, qid: str | None
) -> tuple[str | None, RankedRows]:
    """The query column and the scored rows of a table with text, which the model reads itself."""
    from dataclasses import replace

    from rankplug.data import columns_of_features, tables
    from rankplug.io.columns import open_table, query_roles
    from rankplug.metrics import RankedRows

    assert model.feature_names is not None
    free = tuple(model.feature_names[j] for j in sorted(model.free_features()))
    with open_table(file, format_) as table:
        there = table.column_names()
        features = columns_of_features(model.feature_names, there)
        roles = query_roles(there, label=label, qid=qid, weight=None, features=features, like=None)
        rows, ids = table.read(replace(roles, free=free))
    relevance = tables.to_matrix(rows, roles.relevance)[:, 0]
    return roles.ids, RankedRows(relevance, model.predict(rows), ids)


def _require_queries(data: str, model: Model, column: str | None) -> None:
    from rankplug.exceptions import DataError

    if column is None and model.query_column is not None:
        raise DataError(
            f"{data}: no query ids, but the model was trained on several queries: name their "
            "column with --qid"
        )


def _evaluate_label_ranking(
    model: Model, labels: NDArray[Any], args: argparse.Namespace
) -> Summary:
    import numpy as np
    from scipy import sparse

    from rankplug.data import LabelRankingData
    from rankplug.io import read_label_data
    from rankplug.metrics import DEFAULT_LABEL_METRICS, summarize_label_ranking

    _refuse(args, ["qid"], "the model orders labels, and its data have no queries")
    settings = _settings(args, DEFAULT_LABEL_METRICS)
    known = LabelRankingData(
        sparse.csr_array((0, model.n_features)),
        np.empty((0, len(labels))),
        labels,
        model.feature_names,
        zero_based=model.zero_based,
        categories=model.categories,
    )
    columns = args.label[0] if args.label and len(args.label) == 1 else args.label
    data = read_label_data(args.data, labels=columns, like=known, **notation(args))
    return summarize_label_ranking(data.relevance, model.predict(data.X), settings)


def _settings(args: argparse.Namespace, default: tuple[str, ...]) -> SummarySettings:
    from rankplug.metrics import SummarySettings

    metrics = _split_names(args.metric) or default
    return SummarySettings.of({"metrics": metrics, "level": args.level})


def _split_names(texts: Iterable[str]) -> list[str]:
    """Metrics of ``--metric``; the commas within brackets belong to a name's options."""
    parts = (part for text in texts for part in re.split(r",(?![^\[(]*[\])])", text))
    return [name.strip() for name in parts if name.strip()]


def _as_json(intervals: Mapping[str, Mapping[str, Any]]) -> str:
    return json.dumps(_described(intervals), indent=2)


def _described(intervals: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """The intervals, with what is to be said about a metric, such as its gain."""
    from rankplug.metrics import parse_metric

    about = {name: parse_metric(name).about for name in intervals}
    return {
        name: {**one, "about": about[name]} if about[name] else dict(one)
        for name, one in intervals.items()
    }


def _table(summary: Summary) -> str:
    counted = "queries" if "qid" in summary.per_query else "rows"
    return _interval_table(summary.intervals, summary.settings, counted)


def _interval_table(
    intervals: Mapping[str, Any], settings: SummarySettings, counted: str = "queries"
) -> str:
    from rankplug.metrics import parse_metric
    from rankplug.report import text_table

    level = f"{100 * settings.level:g} %"
    rows = [
        [
            name,
            *(_format(one[key]) for key in ("value", "low", "high")),
            str(one["n_queries"]),
            parse_metric(name).about,
        ]
        for name, one in intervals.items()
    ]
    return text_table(["metric", "mean", f"{level} from", "to", counted, ""], rows, "<>>>><")


def _evaluate_runs(args: argparse.Namespace) -> int:
    from rankplug.exceptions import ParameterError
    from rankplug.io import read_qrels, read_run
    from rankplug.metrics import measure_run, summarize_measured

    if args.model is not None or not (args.run and args.qrels):
        raise ParameterError("--qrels and --run go together, without MODEL and DATA")
    _refuse(args, _FOR_DATA, "for MODEL and DATA, not for --run")
    settings = _settings(args, _METRICS_OF_RUNS)
    qrels = read_qrels(args.qrels)
    options: Any = {"complete": not args.skip_missing, "ties": args.ties or "trec"}
    found = {
        name: measure_run(qrels, read_run(path), settings.metrics, **options)
        for name, path in _names_of(args.run).items()
    }
    baseline = args.baseline or next(iter(found))
    if len(found) == 1:
        if args.baseline is not None:
            raise ParameterError("--baseline: there is one run only")
        (one,) = found.values()
        intervals = summarize_measured(one.measured, settings)
        print(_as_json(intervals) if args.json else _interval_table(intervals, settings))
    elif args.json:
        print(json.dumps(_compare_as_json(found, baseline, settings), indent=2))
    else:
        print(_comparison(found, baseline, settings))
    if not args.json:
        notes = dict.fromkeys(note for one in found.items() for note in _notes(*one, args))
        print("", *notes, sep="\n")
    return 0


def _names_of(paths: Iterable[str]) -> dict[str, str]:
    """The path of each run by its name: the file's, without its end, or else the whole path."""
    from rankplug.exceptions import ParameterError

    several = list(paths)
    short = [Path(path).name.removesuffix(".gz").rpartition(".")[0] for path in several]
    names = [one or Path(path).name for one, path in zip(short, several, strict=True)]
    if len(set(names)) < len(names):
        names = several
    if len(set(names)) < len(names):
        raise ParameterError("--run: a file is named twice")
    return dict(zip(names, several, strict=True))


def _per_query(found: Mapping[str, MeasuredRun], metric: str) -> dict[str, NDArray[Any]]:
    """The values of a metric by run, for the queries that any run has; NaN where one lacks it."""
    import pandas as pd

    columns = {
        name: pd.Series(one.measured[metric].values, index=one.queries)
        for name, one in found.items()
    }
    aligned = pd.DataFrame(columns)
    return {name: aligned[name].to_numpy() for name in found}


def _compare_runs(
    found: Mapping[str, MeasuredRun], baseline: str, settings: SummarySettings
) -> Any:
    from rankplug.metrics import parse_metric
    from rankplug.report import compare

    primary = settings.metrics[0]
    better = parse_metric(primary).greater_is_better
    return compare(_per_query(found, primary), baseline, primary, greater_is_better=better)


def _compare_as_json(
    found: Mapping[str, MeasuredRun], baseline: str, settings: SummarySettings
) -> dict[str, Any]:
    from rankplug.metrics import summarize_measured

    compared = [
        {key: None if value != value else value for key, value in asdict(one).items()}
        | {"verdict": one.verdict}
        for one in _compare_runs(found, baseline, settings)
    ]
    runs = {
        name: _described(summarize_measured(one.measured, settings)) for name, one in found.items()
    }
    return {"runs": runs, "baseline": baseline, "comparisons": compared}


def _comparison(found: Mapping[str, MeasuredRun], baseline: str, settings: SummarySettings) -> str:
    """A table of means with intervals, and one of the differences in the first metric."""
    from rankplug.metrics import parse_metric, summarize_measured
    from rankplug.report import comparison_table, text_table

    level = f"{100 * settings.level:g} %"
    rows = []
    for name, one in found.items():
        intervals = summarize_measured(one.measured, settings).values()
        cells = [
            f"{_format(each['value'])} ({_format(each['low'])} to {_format(each['high'])})"
            for each in intervals
        ]
        rows.append([name, *cells])
    header = ["run", *(parse_metric(name).title for name in settings.metrics)]
    means = text_table(header, rows, "<" + ">" * len(settings.metrics))
    scores = {name: one.measured[settings.metrics[0]].mean() for name, one in found.items()}
    table = comparison_table(_compare_runs(found, baseline, settings), scores, what="run")
    texts = [[cell.text for cell in row] for row in table.rows]
    compared = text_table(table.header, texts, table.align)
    about = f"mean (with its {level} interval) over the queries"
    return "\n".join([means, about, "", table.title, "", compared, *table.notes])


def _notes(name: str, one: MeasuredRun, args: argparse.Namespace) -> Iterable[str]:
    """What was done about ties, and about what is missing on either side."""
    if args.ties != "expected":
        yield "documents of equal score: by falling id, as in trec_eval (or --ties expected)"
    else:
        yield "documents of equal score: the expected value over their orders (or --ties trec)"
    if one.n_without_relevant:
        yield f"{one.n_without_relevant:,} queries have no relevant document and count 0"
    if one.n_unanswered:
        how = "are left out" if args.skip_missing else "count 0, as with trec_eval -c"
        yield f"{name}: {one.n_unanswered:,} queries of the qrels are not in it and {how}"
    if one.n_unjudged_queries:
        yield f"{name}: {one.n_unjudged_queries:,} queries are not in the qrels and are left out"
    if one.n_unjudged:
        yield f"{name}: {one.n_unjudged:,} documents are not judged and count as not relevant"


def _format(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"
