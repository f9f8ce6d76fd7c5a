"""Reports of runs: outcomes of solvers, their comparison, and its forms as files."""

from rankplug.display import text_table
from rankplug.report.figures import (
    plot_convergence,
    plot_differences,
    plot_ndcg,
    plot_shapes,
    plot_tradeoffs,
    plot_tuning,
    plot_weights,
)
from rankplug.report.formats import (
    REPORT_FILES,
    to_csv,
    to_markdown,
    to_per_query_csv,
    to_text,
    write_report,
)
from rankplug.report.html import to_html
from rankplug.report.look.entrants import Documents, Entrant, features_of
from rankplug.report.look.showing import show_rankings
from rankplug.report.pictures import draw_pictures
from rankplug.report.report import (
    SANITY_SOLVERS,
    LearningPoint,
    Outcome,
    ParetoTrials,
    Report,
    Trial,
    TuningSummary,
)
from rankplug.report.statistics import Comparison, compare
from rankplug.report.tables import Cell, Table, comparison_table

__all__ = [
    "REPORT_FILES",
    "SANITY_SOLVERS",
    "Cell",
    "Comparison",
    "Documents",
    "Entrant",
    "LearningPoint",
    "Outcome",
    "ParetoTrials",
    "Report",
    "Table",
    "Trial",
    "TuningSummary",
    "compare",
    "comparison_table",
    "draw_pictures",
    "features_of",
    "plot_convergence",
    "plot_differences",
    "plot_ndcg",
    "plot_shapes",
    "plot_tradeoffs",
    "plot_tuning",
    "plot_weights",
    "show_rankings",
    "text_table",
    "to_csv",
    "to_html",
    "to_markdown",
    "to_per_query_csv",
    "to_text",
    "write_report",
]
