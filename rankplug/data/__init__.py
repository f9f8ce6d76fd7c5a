"""Ranking data: features, relevance and queries, checked once; arrays, tables and scaling."""

from rankplug.data.arrays import (
    Matrix,
    as_matrix,
    even_spans,
    expand_group,
    far_origin,
    group_queries,
    n_stored,
    rank_in_queries,
    row_blocks,
    row_slice,
)
from rankplug.data.ranking import (
    LARGEST_GRADE,
    LabelRankingData,
    RankingData,
    no_pairs,
    no_pairs_count,
)
from rankplug.data.scaling import ScaleName, Scaling, fit_scaling, fit_scaling_to_blocks

__all__ = [
    "LARGEST_GRADE",
    "LabelRankingData",
    "Matrix",
    "RankingData",
    "ScaleName",
    "Scaling",
    "as_matrix",
    "even_spans",
    "expand_group",
    "far_origin",
    "fit_scaling",
    "fit_scaling_to_blocks",
    "group_queries",
    "n_stored",
    "no_pairs",
    "no_pairs_count",
    "rank_in_queries",
    "row_blocks",
    "row_slice",
]
