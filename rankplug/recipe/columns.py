"""Columns of a table: what each holds, and which of them can be features."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from rankplug.data import tables
from rankplug.exceptions import DataError
from rankplug.io.columns import DEFAULT_LABEL, DEFAULT_QID
from rankplug.recipe.values import is_line

Kind: TypeAlias = Literal["numbers", "booleans", "text", "times", "lists", "other", "nothing"]

_ID = re.compile(
    r"(?i:(.*[_\W])?(ids?|uuid|guid|key|pk|sku|asin|ean|isbn|url|uri))|.*[a-z](Id|ID|Url|URL|Key)"
)
_NO_ID = re.compile(r"\s|^\d{1,4}[-/.]\d\d?[-/.]\d{1,4}|^[-+]?\d*[.,]\d+$")
"""Texts that are words, dates or decimals, though all differ."""
_NUMBER = r"^\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*$"
_COMMA = r"^\s*[-+]?\d*(,\d+)?\s*$"
_NO_THOUSANDS = r",(\d{1,2}|\d{4,})\s*$"
_LABEL = re.compile(
    r"(.*[_\W])?(label|relevance|rel|grades?|target|gain|judge?ment|rating|score|y|clicks?|"
    r"clicked|bool)",
    re.IGNORECASE,
)
_QUERY = re.compile(
    r"(.*[_\W])?(q|query|queries|search|srch|session|impression|request|topic|group|user|list)"
    r"([_\W]?(ids?|key|text|string))?",
    re.IGNORECASE,
)
_MOST_GRADES = 32  # of whole labels that are likely: gains of 2^31 are the largest
_SHOWN = 3  # columns that are proposed for a role


@dataclass(frozen=True)
class Column:
    """A column of a table, and what it holds.

    Attributes
    ----------
    name : str
    kind : Kind
        "nothing" if all values are missing.
    n_rows, n_missing, n_distinct : int
        `n_distinct` counts values that are not missing; 0 if they are lists or the like.
    low, high : any
        The least and the greatest of numbers and times; None of others.
    whole : bool
        Whether it holds whole numbers.
    together : bool
        Whether the rows of a value stand together.
    example : str
        The first value of a text.
    odd : str
        The first value that is no number of a text where most are; "" if there is none.
    infinite : bool
        Whether it holds infinite numbers.
    """

    name: str
    kind: Kind
    n_rows: int
    n_missing: int = 0
    n_distinct: int = 0
    low: Any = None
    high: Any = None
    whole: bool = False
    together: bool = False
    example: str = ""
    odd: str = ""
    infinite: bool = False

    @classmethod
    def of(cls, name: str, values: Any) -> Column:
        """Describe an Arrow column."""
        import pyarrow as pa
        from pyarrow import compute

        values = values.combine_chunks()
        if pa.types.is_dictionary(values.type):
            values = values.cast(values.type.value_type)
        if str(values.type) == "string_view":  # a type of newer versions of Arrow
            values = values.cast(pa.string())
        kind, n_rows = _kind(values.type), len(values)
        if kind == "numbers":
            numbers = values.cast(pa.float64(), safe=False)
            values = compute.if_else(compute.is_nan(numbers), None, numbers)
        there = values.drop_null()
        n_missing = n_rows - len(there)
        if not len(there):
            return cls(name, "nothing", n_rows, n_missing)
        if kind in ("lists", "other"):
            return cls(name, kind, n_rows, n_missing)
        if kind == "text":
            return cls._of_texts(name, n_rows, there)
        n_distinct = compute.count_distinct(there).as_py()
        n_changes = compute.sum(compute.not_equal(there[1:], there[:-1])).as_py() or 0
        low = high = None
        if kind in ("numbers", "times"):
            low, high = compute.min_max(there).as_py().values()
        return cls(
            name,
            kind,
            n_rows,
            n_missing,
            n_distinct,
            low,
            high,
            whole=kind == "numbers"
            and compute.all(compute.equal(there, compute.floor(there))).as_py(),
            together=n_changes + 1 == n_distinct,
            infinite=math.isinf(low or 0) or math.isinf(high or 0) if kind == "numbers" else False,
        )

    @classmethod
    def _of_texts(cls, name: str, n_rows: int, texts: Any) -> Column:
        from pyarrow import compute

        n_distinct = compute.count_distinct(texts).as_py()
        n_changes = compute.sum(compute.not_equal(texts[1:], texts[:-1])).as_py() or 0
        numbers = compute.match_substring_regex(texts, _NUMBER)
        others = texts.filter(compute.invert(numbers))
        mostly = 0 < len(others) <= len(texts) / 2
        return cls(
            name,
            "text",
            n_rows,
            n_rows - len(texts),
            n_distinct,
            together=n_changes + 1 == n_distinct,
            example=texts[0].as_py(),
            odd=others[0].as_py() if mostly else "",
        )

    @property
    def is_id(self) -> bool:
        """Whether it looks like ids, by its name or as texts without blanks that all differ."""
        if not (self.whole or self.kind == "text"):
            return False
        unique = self.n_distinct == self.n_rows > 1 and self.kind == "text"
        return bool(_ID.fullmatch(self.name)) or (unique and not _NO_ID.search(self.example))

    @property
    def share_missing(self) -> str:
        """How many values are missing, in words."""
        return f"{100 * self.n_missing / self.n_rows:.2g} % missing"

    def __str__(self) -> str:
        """What it holds, in a few words."""
        if self.kind == "numbers":
            what = "whole numbers" if self.whole else "numbers"
            said = f"{what} from {_short(self.low)} to {_short(self.high)}"
        elif self.kind == "times":
            said = f"times from {self.low!s:.10} to {self.high!s:.10}"
        elif self.kind == "booleans":
            said = "true or false, as 1 and 0"
        elif self.kind == "text":
            example = self.example if len(self.example) <= 30 else self.example[:27] + "..."
            said = f"text such as {example!r}, {self.n_distinct:,} different"
        else:
            said = {"nothing": "no values", "other": "neither numbers nor text"}.get(
                self.kind, self.kind
            )
        shown = self.n_missing and self.kind != "nothing"
        return f"{said}, {self.share_missing}" if shown else said

    def why_no_feature(self) -> str | None:
        """Why it cannot be a feature, in a few words; None if it can."""
        if tables.is_unnamed(self.name):
            return "the index of the rows"
        if not is_line(self.name):
            return "its name is no line of text"
        if self.odd:
            return f"text, as {self.odd!r} is no number"
        if self.infinite:
            return "infinite values: clip them, or leave them empty"
        if self.kind in ("text", "times", "lists", "other", "nothing"):
            return {"nothing": "no values", "other": "neither numbers nor text"}.get(
                self.kind, "ids" if self.is_id else self.kind
            )
        if self.n_distinct == 1 and not self.n_missing:
            return f"always {_short(self.low)}" if self.kind == "numbers" else "always the same"
        if self.is_id:
            return "ids"
        counts = self.n_distinct == self.n_rows > 2 and self.high - self.low == self.n_rows - 1
        return "the numbers of the rows" if self.whole and counts and self.low in (0, 1) else None


@dataclass(frozen=True)
class Choice:
    """The roles of a table's columns.

    Attributes
    ----------
    columns : tuple of Column
        All of them.
    label, qid : str
    features, ids : tuple of str
    left_out : dict of str
        Why columns without a role are no features.
    """

    columns: tuple[Column, ...]
    label: str
    qid: str
    features: tuple[str, ...]
    ids: tuple[str, ...]
    left_out: dict[str, str]


def choose_columns(
    table: Any,
    *,
    label: str | None = None,
    qid: str | None = None,
    weight: str | None = None,
    document_weight: str | None = None,
    drop: Iterable[str] = (),
    ids: Iterable[str] = (),
) -> Choice:
    """Which columns are features, and why others are not.

    Features are numbers and truth values, also with holes. Left out are text, times, lists,
    columns without values or with one value only, ids (by their name, as ``doc_id``, or texts
    without blanks that all differ), numbers of the rows or of the queries, and copies of the label.

    Parameters
    ----------
    table : pyarrow.Table
    label, qid : str, optional
        The columns "label" and "qid" if omitted.
    weight : str, optional
        Column of the query weight.
    document_weight : str, optional
        Column of a weight for each row.
    drop : iterable of str
        No features.
    ids : iterable of str
        Columns that name the rows; those that look like ids if there is none.

    Raises
    ------
    DataError
        If there is no such column, or more than one with a role, none is left for the features, or
        label or query are not named: then it says which columns they may be.
    """
    columns = tuple(map(Column.of, table.column_names, table.columns))
    names = table.column_names
    label = DEFAULT_LABEL if label is None and DEFAULT_LABEL in names else label
    qid = DEFAULT_QID if qid is None and DEFAULT_QID in names else qid
    if label is None or qid is None:
        raise DataError(_propose(columns, label, qid))
    drop, ids = tables.listed(drop), tables.listed(ids)
    weights = [name for name in (weight, document_weight) if name is not None]
    single = [label, qid, *weights, *ids]
    roles = [*single, *drop]
    tables.require_present(roles, names)
    tables.require_single(single, names)
    counts, by_name = Counter(names), {column.name: column for column in columns}
    reasons: dict[str, str | None] = {}
    for column in columns:
        if column.name not in roles:
            twice = counts[column.name] > 1
            reasons[column.name] = (
                "there is more than one"
                if twice
                else column.why_no_feature() or _copied(table, column, by_name[label], by_name[qid])
            )
    features = tuple(name for name, reason in reasons.items() if reason is None)
    left_out = {name: reason for name, reason in reasons.items() if reason is not None}
    _require_grades(by_name[label])
    if not features:
        why = "".join(f"\n  {name}: {reason}" for name, reason in left_out.items())
        raise DataError(f"no column can be a feature; name the features if they can{why}")
    found = tuple(name for name, reason in left_out.items() if reason == "ids")
    return Choice(columns, label, qid, features, ids or found, left_out)


def _require_grades(label: Column) -> None:
    """Raise `DataError` if there is nothing to learn from a label."""
    if label.kind not in ("numbers", "booleans"):
        raise DataError(
            f"the label {label.name!r} must be numbers, the higher the better, but it is {label}"
        )
    if label.n_distinct == 1:
        raise DataError(
            f"the label {label.name!r} is the same in all rows, so there is nothing to learn"
        )


def has_decimal_commas(table: Any) -> bool:
    """Whether a column of texts holds numbers with decimal commas, that separate no thousands."""
    import pyarrow as pa
    from pyarrow import compute

    for column in table.columns:
        if not pa.types.is_string(column.type):
            continue
        texts = column.drop_null()
        if not compute.all(compute.match_substring_regex(texts, _COMMA)).as_py():
            continue
        if compute.any(compute.match_substring_regex(texts, _NO_THOUSANDS)).as_py():
            return True
    return False


def _kind(kind: Any) -> Kind:
    from pyarrow import types

    if types.is_boolean(kind):
        return "booleans"
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return "numbers"
    if types.is_string(kind) or types.is_large_string(kind):
        return "text"
    if types.is_temporal(kind) and not types.is_duration(kind):
        return "times"
    if types.is_null(kind):
        return "nothing"
    return "lists" if types.is_nested(kind) else "other"


def _short(number: float) -> str:
    return f"{number:.12g}" if number.is_integer() else f"{number:.4g}"


def _copied(table: Any, column: Column, label: Column, qid: Column) -> str | None:
    """What the column says again: the label, or the query."""
    if (column.low, column.high, column.n_distinct) == (label.low, label.high, label.n_distinct):
        values = (table.column(one.name).to_numpy() for one in (column, label))
        if column.kind == label.kind and bool((next(values) == next(values)).all()):
            return f"a copy of {label.name}"
    if column.whole and column.n_distinct == qid.n_distinct > 1:
        pairs = table.select([column.name, qid.name]).group_by([column.name, qid.name])
        if pairs.aggregate([]).num_rows == qid.n_distinct:
            return "the numbers of the queries"
    return None


def _propose(columns: Sequence[Column], label: str | None, qid: str | None) -> str:
    """The question which columns hold label and queries, with those that are likely."""
    asked: dict[str, list[Column]] = {}
    if label is None:
        asked["--label"] = _likely_labels(columns, qid)
    if qid is None:
        asked["--qid"] = _likely_queries(columns, label)
    what = {"--label": "the relevance of each row", "--qid": "its query"}
    question = f"which column holds {' and '.join(what[option] for option in asked)}?"
    best = [f"{option} {found[0].name}" for option, found in asked.items() if found]
    if not best:
        names = ", ".join(column.name for column in columns)
        return f"{question} Name it with {' and '.join(asked)}; columns: {names}"
    keys = ", ".join(option.removeprefix("--") for option in asked)
    lines = [
        (f"{option} {one.name}", _as_queries(one) if option == "--qid" else str(one))
        for option, found in asked.items()
        for one in found[:_SHOWN]
    ]
    width = max(len(named) for named, _ in lines)
    listed = "".join(f"\n  {named:{width}}  {said}" for named, said in lines)
    return f"{question} Likely {' '.join(best)} (in recipes and in Python: {keys}):{listed}"


def _as_queries(column: Column) -> str:
    rows = f"{column.n_rows / column.n_distinct:.3g} rows each"
    together = ", which stand together" if column.together else ""
    return f"{column.n_distinct:,} queries of {rows}{together}"


def _likely_labels(columns: Sequence[Column], qid: str | None) -> list[Column]:
    def unlikely(column: Column) -> tuple[bool, bool]:
        few = column.whole and column.low >= 0 and column.n_distinct <= _MOST_GRADES
        only = re.search("click|rating|score|bool", column.name, re.IGNORECASE) is None
        return not only, not (few or column.kind == "booleans")

    possible = [
        column
        for column in columns
        if column.kind in ("numbers", "booleans") and column.n_distinct > 1
        if not column.n_missing and not column.is_id and column.name != qid
    ]
    return sorted(_fitting(possible, _LABEL), key=unlikely)


def _likely_queries(columns: Sequence[Column], label: str | None) -> list[Column]:
    possible = [
        column
        for column in columns
        if (column.whole or column.kind == "text") and not column.n_missing
        if 1 < column.n_distinct <= column.n_rows / 2 and column.name != label
    ]
    return sorted(_fitting(possible, _QUERY), key=lambda one: (not one.together, -one.n_distinct))


def _fitting(columns: list[Column], name: re.Pattern[str]) -> list[Column]:
    """The columns with such a name; all if there is none."""
    return [column for column in columns if name.fullmatch(column.name)] or columns
