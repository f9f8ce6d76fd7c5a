"""A report as files in a folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from rankplug.io.files import replacing
from rankplug.report.csv_tables import to_csv, to_per_query_csv
from rankplug.report.html import to_html
from rankplug.report.markdown import to_markdown
from rankplug.report.report import Report

__all__ = ["REPORT_FILES", "write_report"]

REPORT_FILES: dict[str, Callable[[Report], str]] = {
    "results.csv": to_csv,
    "per_query.csv": to_per_query_csv,
    "report.md": to_markdown,
    "recipe.yaml": lambda report: report.recipe,
    "report.html": to_html,
}


def write_report(report: Report, folder: Path) -> None:
    """Write `REPORT_FILES` into a folder, each complete or not at all."""
    for name, render in REPORT_FILES.items():
        with replacing(folder / name) as stream:
            stream.write(render(report).encode())
