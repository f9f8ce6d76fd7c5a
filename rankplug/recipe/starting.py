"""A first recipe for a file of data: its text, with a comment on each column."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

from rankplug.data import LARGEST_GRADE
from rankplug.exceptions import DataError, RankplugError
from rankplug.io import open_prepared, read_table
from rankplug.io.files import InputFile, Notation, has_data_suffix
from rankplug.io.prepared.manifest import MANIFEST
from rankplug.recipe.columns import Choice, choose_columns, has_decimal_commas
from rankplug.recipe.strict_yaml import scalar
from rankplug.recipe.values import is_line
from rankplug.solver import solver_class

_MOST_NAMES = 12  # of features in a line
_ROUNDS = """\
    params: {n_estimators: 300, early_stopping_rounds: 20}"""


class Start(NamedTuple):
    """A first recipe: its text, and lines for the user on what was chosen."""

    text: str
    lines: tuple[str, ...]


def first_recipe(
    data: str | os.PathLike[str],
    recipe: str | os.PathLike[str],
    *,
    table: Any = None,
    label: str | None = None,
    qid: str | None = None,
    weight: str | None = None,
    document_weight: str | None = None,
    drop: Sequence[str] = (),
    notation: Notation | None = None,
) -> Start:
    """A recipe that trains the usual solvers on one file, which is split by query.

    Parameters
    ----------
    data : path
        A table, whose columns are chosen as by `choose_columns`; svmlight text; or a folder that
        `rankplug.prepare` has made.
    recipe : path
        Where the recipe is going to stand: the path of `data` in it is relative to its folder.
    table : pyarrow.Table, optional
        What stands in the file, or is going to: it is not read again.
    label, qid, weight, document_weight : str, optional
        Columns of a table.
    drop : sequence of str
        Columns that are no features.
    notation : Notation, optional
        How values are written in text; decimal commas are found out.

    Raises
    ------
    DataError
        If the file cannot be read, or as `choose_columns`.
    """
    path = Path(data)
    notation = notation or Notation()
    if path.is_dir():
        open_prepared(path)
    format_ = None
    if table is not None:
        format_ = "parquet"
    elif not path.is_dir():
        format_ = InputFile(path, notation).find_format()
        notation.refuse_unfit(format_)
    weights = {"weight": weight, "document_weight": document_weight}
    given = {"--label": label, "--qid": qid}
    given |= {f"--{role.replace('_', '-')}": column for role, column in weights.items()}
    if format_ in (None, "svmlight"):
        named = [option for option, column in given.items() if column is not None]
        if named:
            raise DataError(f"{path}: {', '.join(named)}: the data have no columns, leave it out")
        return Start("\n".join(_text(path, Path(recipe), None, {}, notation)), ())
    roles: dict[str, Any] = {"label": label, "qid": qid, **weights, "drop": drop}
    if table is None:
        choice, notation = choose_in_file(path, str(format_), notation, **roles)
    else:
        choice = choose_columns(table, **roles)
    text = "\n".join(_text(path, Path(recipe), choice, weights, notation))
    return Start(text, choice_in_words(path, choice))


def choose_in_file(
    path: Path, format_: str, notation: Notation, **roles: Any
) -> tuple[Choice, Notation]:
    """As `choose_columns`, of a table in a file; also the notation with CSV's decimal mark.

    Raises
    ------
    DataError
        As `rankplug.io.read_table` and `choose_columns`.
    """
    with naming(path):
        table, notation = _read_with_decimals(path, format_, notation)
        return choose_columns(table, **roles), notation


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Errors of data in the block begin with the path."""
    try:
        yield
    except DataError as error:
        where = "" if str(error).startswith(str(path)) else f"{path}: "
        raise DataError(f"{where}{error}") from None


def _read_with_decimals(path: Path, format_: str, notation: Notation) -> tuple[Any, Notation]:
    marks: dict[str, Any] = {"separator": notation.separator, "decimal": notation.decimal}
    table = read_table(path, format_, **marks)
    if format_ != "csv" or notation.decimal is not None or not has_decimal_commas(table):
        return table, notation
    return read_table(path, format_, **{**marks, "decimal": ","}), replace(notation, decimal=",")


def choice_in_words(path: Path, choice: Choice) -> tuple[str, ...]:
    """A line for the user on all that was chosen of a table's columns."""
    by_name = {column.name: column for column in choice.columns}
    queries, label = by_name[choice.qid], by_name[choice.label]
    features = choice.features
    if len(features) > _MOST_NAMES:
        features = (*features[: _MOST_NAMES - 1], f"... ({len(features):,} in all)")
    lines = [
        f"data:     {path.name}, {label.n_rows:,} rows, {queries.n_distinct:,} queries "
        f"({choice.qid}), relevance {choice.label}: {label}",
        f"features: {', '.join(features)}",
    ]
    holes = [by_name[name] for name in choice.features if by_name[name].n_missing]
    lines += [f"holes:    {column.name} ({column.share_missing})" for column in holes]
    for name, reason in choice.left_out.items():
        beside = ", which stand beside predictions" if name in choice.ids else ""
        shown = name if is_line(name) else repr(name)
        lines.append(f"left out: {shown} ({reason}{beside})")
    return tuple(lines)


def is_data(source: str | os.PathLike[str]) -> bool:
    """Whether a path is a file of data or a prepared folder, and no recipe."""
    path = Path(source)
    if path.is_dir():
        return (path / MANIFEST).is_file()
    if not path.is_file() or path.suffix.lower() in (".yaml", ".yml"):
        return False
    with suppress(RankplugError):
        return has_data_suffix(path) or InputFile(path).find_format() in ("parquet", "arrow")
    return False


def _text(
    path: Path,
    recipe: Path,
    choice: Choice | None,
    weights: Mapping[str, str | None],
    notation: Notation,
) -> Iterator[str]:
    command = shlex.quote(str(recipe))
    yield f"# Rank the rows of each query in {path.name!r}."
    yield "#"
    yield f"#   rankplug run {command}      # trains these solvers and compares them"
    yield f"#   rankplug tune {command}     # finds better parameters for each"
    yield f"#   rankplug compare {command}  # tells whether differences are chance, in 5 folds"
    yield "#"
    yield "# The keys are described by: python -m pydoc rankplug.recipe"
    yield ""
    yield "data:"
    yield f"  file: {scalar(os.path.relpath(path, recipe.parent))}"
    for key, value in asdict(notation).items():
        if value:
            yield f"  {key}: {'true' if value is True else scalar(value)}"
    if choice is not None:
        yield from _columns(choice, weights)
    yield "  # Shares of the queries; the rest is for training. Or name three files instead of one:"
    yield "  # train, valid and test."
    yield "  split: {valid: 0.2, test: 0.2}"
    if choice is not None:
        yield ""
        yield "# Each feature gets mean 0 and standard deviation 1, which linear solvers need. That"
        yield "# is done within the models: they take features as they are in the file."
        yield "scale: standard"
    yield ""
    yield "# The others are compared with it."
    yield "baseline: xgboost-pairwise"
    yield ""
    yield "# `rankplug solvers` lists all. A constant and the best single feature take part, too."
    yield "solvers:"
    yield from _solvers(choice)


def _columns(choice: Choice, weights: Mapping[str, str | None]) -> Iterator[str]:
    by_name = {column.name: column for column in choice.columns}
    roles = {"label": choice.label, "qid": choice.qid}
    roles |= {role: name for role, name in weights.items() if name is not None}
    rows = [(f"  {role}: {scalar(name)}", str(by_name[name])) for role, name in roles.items()]
    queries = by_name[choice.qid]
    rows[1] = rows[1][0], f"{queries.n_distinct:,} queries in {queries.n_rows:,} rows"
    yield from _commented(rows)
    if choice.ids:
        yield "  # Models remember these, and `rankplug predict` writes them beside the scores."
        yield "  id:"
        yield from _commented((f"    - {scalar(name)}", str(by_name[name])) for name in choice.ids)
    yield "  # `auto` in place of the list: all columns that can be features."
    yield "  features:"
    features = [(f"    - {scalar(name)}", str(by_name[name])) for name in choice.features]
    others = [
        (f"    # - {scalar(name)}", reason if reason != by_name[name].kind else str(by_name[name]))
        for name, reason in choice.left_out.items()
        if name not in choice.ids
    ]
    yield from _commented([*features, *others])


def _commented(rows: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Lines with comments below each other."""
    rows = list(rows)
    width = min(max(len(line) for line, _ in rows), 40)
    return (f"{line:{width}}  # {comment}" for line, comment in rows)


def _solvers(choice: Choice | None) -> Iterator[str]:
    yield "  - solver: tree-tron"
    yield "    params: {C: 1, reduction: mean}   # a larger C fits the training data more closely"
    yield "  - solver: mapped   # the same on the leaves of trees, with C chosen on validation data"
    yield "  - solver: xgboost-pairwise"
    yield _ROUNDS
    label = None if choice is None else {one.name: one for one in choice.columns}[choice.label]
    graded = label is not None and (
        label.kind == "booleans" or (label.whole and label.low >= 0 and label.high <= LARGEST_GRADE)
    )
    if graded and _is_available("lightgbm-lambdarank"):
        yield "  - solver: lightgbm-lambdarank"
        yield _ROUNDS
    yield ""


def _is_available(solver: str) -> bool:
    try:
        solver_class(solver)
    except RankplugError:
        return False
    return True
