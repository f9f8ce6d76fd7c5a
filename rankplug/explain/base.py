"""`Explanation`: a table that shows itself as text and in notebooks; and names of features."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

from rankplug.display import html_table, text_table
from rankplug.models import Model

if TYPE_CHECKING:
    import pandas as pd

MOST_ROWS = 10
"""Of a printed table: its first."""


class Explanation(ABC):
    """What explanations have in common: a table of the strongest first, and what it shows."""

    _shown: ClassVar[int] = 10  # features of a printed table

    @property
    @abstractmethod
    def summary(self) -> str:
        """What the table shows, in a line."""

    @abstractmethod
    def table(self, top: int | None = None) -> pd.DataFrame:
        """The table, of the `top` strongest features; of all if omitted."""

    def to_text(self, top: int | None = None) -> str:
        """The first rows of the table and the summary, for a terminal."""
        header, rows = self._cells(top)
        return f"{text_table(header, rows, _align(header))}\n{self.summary}"

    def __str__(self) -> str:
        return self.to_text()

    def _repr_html_(self) -> str:
        header, rows = self._cells(None)
        return html_table(header, rows, title=self.summary, align=_align(header))

    def _cells(self, top: int | None) -> tuple[list[str], list[list[str]]]:
        table = self.table(top or self._shown).head(max(top or 0, MOST_ROWS) + 1)
        rows = table.to_numpy(object).tolist()
        return list(map(str, table)), [[_format(value) for value in row] for row in rows]


def feature_names_of(model: Model) -> tuple[str, ...]:
    """The names of the features, f0, f1, ... if the model knows none."""
    return tuple(model.feature_names or [f"f{j}" for j in range(model.n_features)])


def _align(header: list[str]) -> str:
    return "<" + ">" * (len(header) - 1)


def _format(value: Any) -> str:
    if value is None or value != value:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)
