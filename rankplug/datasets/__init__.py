"""Data sets by name: real ones from scikit-learn, and synthetic ones of any size.

`load` gives training, validation and test part; nothing is downloaded.
"""

from __future__ import annotations

from rankplug.datasets.catalogue import (
    DatasetInfo,
    DatasetParts,
    list_datasets,
    load,
    names,
    parameters,
)
from rankplug.datasets.embedded import breast_cancer, diabetes, digits, digits_retrieval, wine
from rankplug.datasets.synthetic import text_scores, web_search

__all__ = [
    "DatasetInfo",
    "DatasetParts",
    "breast_cancer",
    "diabetes",
    "digits",
    "digits_retrieval",
    "list_datasets",
    "load",
    "names",
    "parameters",
    "text_scores",
    "web_search",
    "wine",
]
