"""Tables for notebooks and terminals: rows as HTML or aligned text, and lists that show so."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any, TypeVar

__all__ = ["Listing", "html_facts", "html_table", "text_table"]

_T = TypeVar("_T")


def html_table(
    header: Sequence[Any], rows: Iterable[Sequence[Any]], *, title: str = "", align: str = ""
) -> str:
    """A table of HTML, everything in it escaped.

    Parameters
    ----------
    header : sequence
        Titles of the columns; none: a table without a head.
    rows : iterable of sequences
        Their first cells are the rows' names.
    title : str
        Caption above the table.
    align : str
        ``<`` (left) or ``>`` (right) for each column; by default all are at the left.

    Examples
    --------
    >>> "<caption>a &amp; b</caption>" in html_table((), [("p", "<1")], title="a & b")
    True
    """

    def cells(tag: str, texts: Iterable[Any], first: int) -> str:
        return "".join(
            f'<{tag} style="text-align: {"right" if align[i : i + 1] == ">" else "left"}">'
            f"{escape(str(text))}</{tag}>"
            for i, text in enumerate(texts, first)
        )

    caption = f"<caption>{escape(title)}</caption>" if title else ""
    head = f"<thead><tr>{cells('th', header, 0)}</tr></thead>" if header else ""
    body = "".join(
        f"<tr>{cells('th', row[:1], 0)}{cells('td', row[1:], 1)}</tr>" for row in map(tuple, rows)
    )
    return f"<table>{caption}{head}<tbody>{body}</tbody></table>"


def html_facts(title: str, facts: Mapping[str, Any]) -> str:
    """A table of HTML with a row for each fact that is known: its name, and what it is."""
    return html_table((), [pair for pair in facts.items() if pair[1] is not None], title=title)


def text_table(header: Sequence[str], rows: Sequence[Sequence[str]], align: str) -> str:
    """Aligned columns for a terminal; `align` has ``<`` or ``>`` for each."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    lines = [header, ["-" * width for width in widths], *rows]
    return "\n".join(
        "  ".join(
            f"{cell:{side}{width}}" for cell, side, width in zip(line, align, widths, strict=True)
        ).rstrip()
        for line in lines
    )


class Listing(list[_T]):
    """A list that shows as a table: equal to a list, and taken as one everywhere.

    Parameters
    ----------
    items : iterable
    columns : sequence of str
        The attributes of an item that the table has.
    """

    def __init__(self, items: Iterable[_T] = (), columns: Sequence[str] = ()) -> None:
        super().__init__(items)
        self._columns = tuple(columns)

    def _rows(self) -> list[list[str]]:
        return [[_words(getattr(item, name)) for name in self._columns] for item in self]

    def __repr__(self) -> str:
        if not self or not self._columns:
            return super().__repr__()
        return text_table(self._columns, self._rows(), "<" * len(self._columns))

    def _repr_html_(self) -> str:
        return html_table(self._columns, self._rows())


def _words(value: Any) -> str:
    """The value of an attribute in the words of a table."""
    if value is None or isinstance(value, bool):
        return "yes" if value else "" if value is None else "no"
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)
