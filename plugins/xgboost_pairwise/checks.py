"""What XGBoost refuses, said before it does, or in words that help."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from rankplug.data import LabelRankingData, RankingData
from rankplug.exceptions import DataError

__all__ = ["check_relevance", "defined", "translated"]


def check_relevance(
    data: RankingData | LabelRankingData, purpose: str, cause: str, instead: str
) -> None:
    """Raise `DataError` where XGBoost would refuse the relevance."""
    binary = purpose in ("rank:map", "map")
    if not binary and purpose not in ("rank:ndcg", "ndcg", "ndcg@10"):
        return
    values = _compared(data)
    high = 1 if binary else 31
    wrong = np.unique(values[(values < 0) | (values > high) | (values != np.floor(values))])
    if len(wrong):
        shown = ", ".join(f"{value:g}" for value in wrong[:3])
        needed = "relevance 0 or 1" if binary else "integer relevance from 0 to 31"
        raise DataError(
            f"{cause} takes {needed} only, but there are {len(wrong)} other values "
            f"({shown}{', ...' if len(wrong) > 3 else ''}): map them into that range or use "
            f"{instead!r}, which takes any relevance"
        )


def _compared(data: RankingData | LabelRankingData) -> NDArray[np.float64]:
    if isinstance(data, RankingData):
        return data.relevance
    return data.relevance[~np.isnan(data.relevance)]


@contextmanager
def translated(native_error: type[Exception]) -> Iterator[None]:
    """XGBoost's errors as `DataError`, without its stack traces."""
    try:
        yield
    except native_error as error:
        message = str(error).split("\nStack trace")[0]
        reason = message.split("Check failed: ")[-1].strip()
        remedy = ""
        if "too large" in reason:
            remedy = "; features must be below 3.4e38, the limit of float32: rescale them"
        raise DataError(f"XGBoost refuses the data: {reason}{remedy}") from None


def defined(value: float, metric: str) -> float:
    """The value of a metric; raise `DataError` if it is NaN, which never stops early."""
    if np.isnan(value):
        raise DataError(
            f"eval_metric={metric!r} is undefined on the validation data (XGBoost leaves out "
            "queries of one or two rows): use 'ndcg@10' or larger queries"
        )
    return float(value)
