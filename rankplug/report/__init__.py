"""What a run found: outcomes of solvers, their comparison, and the report as files."""

from rankplug.report.csv_tables import to_csv, to_per_query_csv
from rankplug.report.files import REPORT_FILES, write_report
from rankplug.report.html import to_html
from rankplug.report.markdown import to_markdown
from rankplug.report.outcome import (
    SANITY_SOLVERS,
    LearningPoint,
    Outcome,
    ParetoTrials,
    Trial,
    TuningSummary,
)
from rankplug.report.report import Report, text_table
from rankplug.report.statistics import Comparison, compare
from rankplug.report.tables import Cell, Table

__all__ = [
    "REPORT_FILES",
    "SANITY_SOLVERS",
    "Cell",
    "Comparison",
    "LearningPoint",
    "Outcome",
    "ParetoTrials",
    "Report",
    "Table",
    "Trial",
    "TuningSummary",
    "compare",
    "text_table",
    "to_csv",
    "to_html",
    "to_markdown",
    "to_per_query_csv",
    "write_report",
]
