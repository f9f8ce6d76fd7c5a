"""The base class of metrics: a name, options, and a value for each query of a block."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from rankplug.exceptions import DataError
from rankplug.metrics.blocks import Block
from rankplug.parameters import Choice, Parameter, check_parameters

TIES = Choice(("expected", "order"))
"""What a metric may do with documents of equal score."""

_LOG_NAME = str.maketrans({"@": "_at_", "[": "-", ",": "-", "=": "_", "]": "", "+": ""})


@dataclass(frozen=True)
class Metric(ABC):
    """A quality of the ranking of a query, defined on blocks of queries.

    A subclass is a frozen dataclass whose fields are the options; it names itself, says in
    `parameters` what its options may be, and computes `_values`.

    Parameters
    ----------
    empty : {"skip", 0, 1}
        What a query counts for which the metric is undefined; "skip" makes it NaN and leaves
        it out of the mean.

    Raises
    ------
    ParameterError
        If an option has a value it cannot have.
    """

    name: ClassVar[str]
    greater_is_better: ClassVar[bool] = True
    takes_unranked: ClassVar[bool] = False
    """Whether it has a meaning for queries with judged documents that were not ranked."""
    parameters: ClassVar[Mapping[str, Parameter]] = {"empty": Choice(("skip", 0, 1))}

    empty: Literal["skip", 0, 1] = field(default="skip", kw_only=True)

    def __post_init__(self) -> None:
        check_parameters(f"metric {self.name}", self.parameters, vars(self))

    def __str__(self) -> str:
        """The name that `parse_metric` reads: ``ndcg@10[gain=linear]``."""
        cutoff = getattr(self, "k", None)
        options = ",".join(
            f"{option.name}={getattr(self, option.name)}"
            for option in dataclasses.fields(self)
            if option.name != "k" and getattr(self, option.name) != option.default
        )
        at = "" if cutoff is None else f"@{cutoff}"
        return f"{self.name}{at}" + (f"[{options}]" if options else "")

    @property
    def log_name(self) -> str:
        """The name without characters that MLflow refuses: ``ndcg_at_10``."""
        return str(self).translate(_LOG_NAME)

    @property
    def about(self) -> str:
        """What to say beside the number where one name has several meanings; else nothing."""
        return ""

    @property
    def title(self) -> str:
        """The name for headings, with what is to be said about it: ``ndcg@10 (gain 2^y-1)``."""
        return f"{self} ({self.about})" if self.about else str(self)

    def per_query(self, block: Block) -> NDArray[np.float64]:
        """The value of each query of a block, NaN where it is undefined and to be skipped."""
        values = self._values(block)
        if self.empty != "skip":
            values[np.isnan(values)] = self.empty
        return values

    def weight(self, block: Block) -> NDArray[np.float64]:
        """How much each query of a block counts in the mean."""
        return np.ones(len(block.queries))

    def check(self, relevance: NDArray[np.float64]) -> None:  # noqa: B027
        """Raise `DataError` if the metric has no meaning for such labels."""

    def suits(self, relevance: NDArray[np.float64]) -> bool:
        """Whether the metric has a meaning for such labels."""
        try:
            self.check(relevance)
        except DataError:
            return False
        return True

    @abstractmethod
    def _values(self, block: Block) -> NDArray[np.float64]:
        """The value of each query of a block, NaN where it is undefined."""


def divide(numerator: NDArray[np.float64], denominator: NDArray[np.float64]) -> NDArray[np.float64]:
    """The ratio, NaN where the denominator is zero."""
    ratio = np.full(numerator.shape, np.nan)
    np.divide(numerator, denominator, out=ratio, where=denominator != 0)
    return ratio
