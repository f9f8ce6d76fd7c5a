"""Ranking data: features, relevance and queries, checked once; arrays, tables and scaling."""

from rankplug.data.arrays import (
    Matrix,
    as_matrix,
    check_features,
    concatenate_ranges,
    even_spans,
    far_origin,
    holds_nan,
    largest_stored,
    n_stored,
    real_array,
    real_vector,
    refuse_missing,
    row_blocks,
    row_slice,
    stack_rows,
    stored_values,
    take_rows,
    to_dense,
    with_short_indices,
)
from rankplug.data.base import PreferenceData, Task
from rankplug.data.blocks import Block, JoinedMatrix, OneHotMatrix
from rankplug.data.categories import (
    Categories,
    check_categories,
    columns_of_features,
    describe_categories,
    encode_categories,
    find_category,
    list_columns,
    read_features,
    recode,
)
from rankplug.data.imputing import ImputeName, fill_missing, fit_imputing
from rankplug.data.labels import LabelRankingData
from rankplug.data.missing import count_missing, describe_missing
from rankplug.data.normalising import NormName, normalise_queries
from rankplug.data.pair_counts import level_runs, no_pairs, no_pairs_count
from rankplug.data.preferences import Preferences, read_preferences, relevance_of_ranks
from rankplug.data.queries import expand_group, group_queries, id_texts, rank_in_queries
from rankplug.data.ranking import LARGEST_GRADE, RankingData, are_grades
from rankplug.data.row_weights import QueryWeight
from rankplug.data.scaling import ScaleName, Scaling, fit_scaling, fit_scaling_to_blocks

__all__ = [
    "LARGEST_GRADE",
    "Block",
    "Categories",
    "ImputeName",
    "JoinedMatrix",
    "LabelRankingData",
    "Matrix",
    "NormName",
    "OneHotMatrix",
    "PreferenceData",
    "Preferences",
    "QueryWeight",
    "RankingData",
    "ScaleName",
    "Scaling",
    "Task",
    "are_grades",
    "as_matrix",
    "check_categories",
    "check_features",
    "columns_of_features",
    "concatenate_ranges",
    "count_missing",
    "describe_categories",
    "describe_missing",
    "encode_categories",
    "even_spans",
    "expand_group",
    "far_origin",
    "fill_missing",
    "find_category",
    "fit_imputing",
    "fit_scaling",
    "fit_scaling_to_blocks",
    "group_queries",
    "holds_nan",
    "id_texts",
    "largest_stored",
    "level_runs",
    "list_columns",
    "n_stored",
    "no_pairs",
    "no_pairs_count",
    "normalise_queries",
    "rank_in_queries",
    "read_features",
    "read_preferences",
    "real_array",
    "real_vector",
    "recode",
    "refuse_missing",
    "relevance_of_ranks",
    "row_blocks",
    "row_slice",
    "stack_rows",
    "stored_values",
    "take_rows",
    "to_dense",
    "with_short_indices",
]
