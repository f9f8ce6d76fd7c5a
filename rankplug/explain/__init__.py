"""Explanations: why a document stands above another, and what moves documents in a model."""

from rankplug.explain.base import Explanation
from rankplug.explain.features import ModelExplanation, explain_model
from rankplug.explain.orders import PairExplanation, QueryExplanation, explain_query

__all__ = [
    "Explanation",
    "ModelExplanation",
    "PairExplanation",
    "QueryExplanation",
    "explain_model",
    "explain_query",
]
