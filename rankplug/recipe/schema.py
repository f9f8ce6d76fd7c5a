"""Schema of recipes: each key with its type, choices, default and description.

The sections of a recipe are frozen dataclasses; the string below a field describes its key. What
pydantic reads in the annotations holds for recipes that come from a file, by `RECIPE`: a recipe
made in Python is taken as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BeforeValidator, Discriminator, Field, Tag, TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from rankplug.data import QueryWeight, ScaleName
from rankplug.io import FORMATS
from rankplug.recipe.clicks import Clicks, LearnFrom
from rankplug.recipe.sections import DESCRIPTIONS, Nothing, Section
from rankplug.recipe.strict_yaml import dump
from rankplug.recipe.values import (
    CHOSEN,
    LISTED,
    DatasetName,
    DatasetParams,
    File,
    Folds,
    KeyPath,
    Line,
    Metric,
    Name,
    SearchSpace,
    Seconds,
    Seed,
    Separator,
    Share,
    SolverName,
    SolverParams,
    Trials,
    Truth,
    is_searched,
    list_of,
)
from rankplug.tuning import Cost, Sampler
from rankplug.tuning import Pruner as StudyPruner

Pruner: TypeAlias = Literal[StudyPruner, "none"]
Format: TypeAlias = Literal[FORMATS]  # type: ignore[valid-type]
_MOST_COLUMNS = 10**6  # the length of the file is the limit


@dataclass(frozen=True)
class Dataset(Section):
    """``data``: an embedded data set."""

    dataset: DatasetName
    """A name of `rankplug.datasets`."""
    params: DatasetParams = field(default_factory=dict)
    """Its parameters, such as sizes."""


Features: TypeAlias = Annotated[
    Annotated[Literal["auto"], Tag(CHOSEN)]
    | Annotated[tuple[Line, ...], list_of("column names", _MOST_COLUMNS), Tag(LISTED)],
    Discriminator(lambda given: CHOSEN if given == "auto" else LISTED),
]
Names: TypeAlias = Annotated[tuple[Line, ...], list_of("column names", _MOST_COLUMNS)]


@dataclass(frozen=True)
class _Columns(Section):
    """What columns of tables hold, and other properties of files."""

    format: Format | None = None
    """Of the files; found out from each if left out."""
    label: Line | None = None
    """Column of a table that holds the relevance; "label" if left out."""
    qid: Line | None = None
    """Column of a table that holds the query; "qid" if left out."""
    weight: Line | None = None
    """Column of a table that holds the query weight."""
    document_weight: Line | None = None
    """Column of a table that holds a weight for each row, for solvers that take such."""
    query_weight: QueryWeight | None = None
    """Weights of the training queries that are made of their relevance: ``inverse-idcg`` is one
    over the DCG of their best order."""
    features: Features | None = None
    """Columns of a table that hold features, or ``auto``: those that can be features, see
    `rankplug.recipe.choose_columns`, and a line is printed for each of the others. If left out:
    ``auto`` for one file, all other columns for ``train`` and ``test``."""
    drop: Names = ()
    """Columns of a table that are no features, beside those that ``auto`` leaves out."""
    id: Names = ()
    """Columns of a table that name its rows, such as a document's id: no features; models
    remember them, and ``rankplug predict`` writes them beside the scores."""
    display: Names = ()
    """Columns of a table that describe its rows to people, such as a title and a price: reports
    show them beside the rankings; the first names the row. Those of `id` if left out."""
    zero_based: bool = False
    """Whether the indices of svmlight text begin at 0."""
    separator: Separator | None = None
    """Character between the cells of CSV; found in the header if left out."""
    decimal: Literal[".", ","] | None = None
    """Decimal mark of CSV; a point if left out."""


@dataclass(frozen=True)
class _Parts(Section):
    """Files that are training, validation and test set."""

    train: File
    """For training."""
    test: File
    """For the comparison."""
    valid: File | None = None
    """For solvers that stop early."""


@dataclass(frozen=True)
class Files(_Columns, _Parts):
    """``data``: files that `rankplug.read_data` reads, or folders that it opens.

    A folder that `rankplug.prepare` has made knows its columns: what is said about them here is
    for files.
    """


@dataclass(frozen=True)
class Split(Section):
    """``split``: how much of one file is for what; queries are drawn at random, none is divided.

    What is left is for training.
    """

    valid: Share = 0.2
    """Share of the queries for solvers that stop early and for tuning; 0: none."""
    test: Share = 0.2
    """Share of the queries for the comparison."""
    seed: Seed | None = None
    """Of the drawing; the recipe's if left out."""


@dataclass(frozen=True)
class _Whole(Section):
    """A file that is still to be split."""

    file: File
    """The file, or a folder that `rankplug.prepare` has made."""
    split: Split = field(default_factory=Split)
    """How it is split by query: 20 % of the queries for validation, 20 % for the test if left
    out."""


@dataclass(frozen=True)
class OneFile(_Columns, _Whole):
    """``data``: one file, which is split by query; ``data: FILE`` is short for it."""


@dataclass(frozen=True)
class Entry(Section):
    """An item of ``solvers``: one competitor; a solver's name alone is short for it."""

    solver: SolverName
    """Registered name (``rankplug solvers`` lists them)."""
    name: Line = ""
    """What tables call it, unique in the recipe; the solver's name if left out."""
    params: SolverParams = field(default_factory=dict)
    """The solver's parameters; those left out keep their defaults. Tuning replaces those that it
    searches."""
    space: SearchSpace = field(default_factory=dict)
    """Changes of the solver's own search space, by parameter: a range ``{low, high}``, with
    ``log: true`` or a ``step``; a list of choices; or a value, which is held."""
    learn_from: LearnFrom | None = None
    """Where the recipe has `clicks`: what it is trained on; weighted clicks if left out."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", self.name or self.solver)

    @property
    def held(self) -> dict[str, Any]:
        """Those parameters of the space that are not searched."""
        return {key: value for key, value in self.space.items() if not is_searched(value)}


@dataclass(frozen=True)
class Tune(Section):
    """``tune``: how every solver is tuned, all within the same budget.

    The budget is `n_trials`, `timeout`, or whichever of both ends first.
    """

    n_trials: Trials | None = None
    """Trials of each solver."""
    timeout: Seconds | None = None
    """Seconds for each solver."""
    metric: Metric | None = None
    """What is tuned for; the primary metric if left out."""
    folds: Folds | None = None
    """Tune by cross-validation on the training set, divided by query. If left out: by the
    validation set, or in 5 folds where the data have none."""
    sampler: Sampler = "tpe"
    """How the next trial is chosen."""
    pruner: Pruner = "wilcoxon"
    """Which trials are given up early."""
    seed: Seed | None = None
    """The recipe's if left out."""
    path: Truth = False
    """Try all values of C in one trial where the solver can start from the last solution; false
    by default, because then a trial of one solver is more than that of another."""
    costs: Annotated[tuple[Cost, ...], list_of("objectives")] = ()
    """Objectives beside the metric: training seconds, bytes of the saved model. Parameters are
    chosen by the metric; the report shows which trials nothing beats in all of them."""
    storage: Line | None = None
    """URL of a database for the studies; a journal file in the output folder if left out."""


@dataclass(frozen=True)
class Compare(Section):
    """``compare``: what is repeated; one of the two."""

    folds: Folds | None = None
    """Cross-validation over all of the data, divided by query: every query is tested once. Where
    the data have a validation set, the fold after the tested one takes its part."""
    seeds: Annotated[tuple[Seed, ...], list_of("two or more seeds")] = ()
    """Train and test as without it, once with each of these seeds."""


def kind_of_data(given: Any) -> str:
    """Which section plain values of ``data`` are meant for."""
    known = set(given) if isinstance(given, dict) else set()
    if known & {"dataset", "params"}:
        return "embedded"
    return "file" if "file" in known or ("split" in known and "train" not in known) else "files"


def _long_data(given: Any) -> Any:
    if isinstance(given, Nothing):
        return {}
    return {SHORT["data"]: given} if isinstance(given, str) else given


def _long_entry(given: Any) -> Any:
    return {SHORT["solvers"]: given} if isinstance(given, str) else given


SHORT = {"data": "file", "solvers": "solver"}
"""Of a text that stands for a section, the key that it is the value of."""
Data: TypeAlias = Annotated[
    Annotated[Dataset, Tag("embedded")]
    | Annotated[Files, Tag("files")]
    | Annotated[OneFile, Tag("file")],
    Discriminator(kind_of_data),
    BeforeValidator(_long_data, json_schema_input_type=str | Dataset | Files | OneFile),
]
Competitor: TypeAlias = Annotated[
    Entry, BeforeValidator(_long_entry, json_schema_input_type=str | Entry)
]


ImputeChoice: TypeAlias = Literal["auto", "none", "mean", "median"]


@dataclass(frozen=True)
class Recipe(Section):
    """A whole recipe; `rankplug.recipe.load_recipe` reads and checks one."""

    name: Annotated[Name, Field(default="recipe")]
    """Letters, digits, ``_``, ``-``, ``.`` and blanks; the file's name if left out."""
    data: Data
    """What to train and to test on."""
    metrics: Annotated[tuple[Metric, ...], list_of("metric names"), Field(default=())]
    """Names of `rankplug.metrics`, the primary one first; if left out, ndcg@10, mrr and
    pairwise_accuracy, and for label ranking kendall_tau and top1_error."""
    solvers: Annotated[tuple[Competitor, ...], list_of("solvers")]
    """The competitors."""
    scale: ScaleName = "none"
    """Scaling of each feature, fitted on the training set; sparse features: "maxabs" only."""
    impute: ImputeChoice = "auto"
    """What stands for missing values before features are scaled, "mean" or "median" of the training
    set: a part of the model. "auto": the median, and nothing for solvers that take missing values;
    "none": nothing."""
    seed: Seed = 0
    """Seed of every solver."""
    baseline: Line | None = None
    """Name of the entry with which tables compare the others."""
    sanity: Truth = True
    """Compare also with a constant and with the best single feature."""
    learning_curve: Truth = False
    """Measure also the quality after 1, 2, 4, ... iterations; this takes about as long as two
    more trainings."""
    clicks: Clicks | None = None
    """Learn from clicks, of logs or of simulated users; from relevance if left out."""
    tune: Tune | None = None
    """How every solver is tuned before it is compared; not at all if left out."""
    compare: Compare | None = None
    """What is repeated, for a comparison with intervals; nothing if left out."""

    @property
    def primary_metric(self) -> str:
        """The metric by which tables rank: the first."""
        return self.metrics[0]

    def learned_by(self, entry: Entry) -> LearnFrom:
        """What an entry is trained on; sanity rankers on relevance."""
        if self.clicks is None or entry not in self.solvers:
            return "relevance"
        return entry.learn_from or "weighted-clicks"

    @property
    def reads_logs(self) -> bool:
        """Whether its data are logs of clicks, not graded documents."""
        graded = isinstance(self.data, Dataset)
        return self.clicks is not None and self.clicks.simulate is None and not graded

    @property
    def folded(self) -> bool:
        """Whether it compares in folds, each of which tests other queries."""
        return self.compare is not None and self.compare.folds is not None

    def to_yaml(self) -> str:
        """The text of a recipe file that says the same from any folder: paths are absolute."""
        return dump(_plain(self))


def _plain(value: Any) -> Any:
    """Dataclasses, tuples and paths as what YAML has; fields without a value left out."""
    if is_dataclass(value):
        items = {item.name: getattr(value, item.name) for item in fields(value)}
        return {
            key: _plain(part) for key, part in items.items() if part not in (None, {}, (), Split())
        }
    if isinstance(value, Mapping):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(part) for part in value]
    return str(value) if isinstance(value, Path) else value


# The whole recipe

RECIPE = TypeAdapter(Recipe)
"""The check of plain values, whose context is the folder that the path of each key is relative to.

Its errors of the types "wrong" and "not" have messages for people; that of the latter goes on with
what the value is."""
_SECTIONS: dict[KeyPath, tuple[type[Any], ...]] = {
    (): (Recipe,),
    ("data",): (Dataset, OneFile, Files),
    ("data", "split"): (Split,),
    ("solvers",): (Entry,),
    ("clicks",): (Clicks,),
    ("tune",): (Tune,),
    ("compare",): (Compare,),
}


def keys(section: KeyPath) -> tuple[str, ...]:
    """The keys of the section of that key path; those of ``data`` are of all kinds."""
    names = tuple(part for part in section if isinstance(part, str))
    found = (item.name for cls in _SECTIONS[names] for item in fields(cls))
    return tuple(dict.fromkeys(found))


class _JsonSchema(GenerateJsonSchema):
    """With descriptions; a key that may be left out has no default of null, a mistake in a file."""

    def dataclass_schema(self, schema: core_schema.DataclassSchema) -> JsonSchemaValue:
        made = super().dataclass_schema(schema)
        texts = DESCRIPTIONS[schema["cls"]]
        made["description"] = texts[""]
        for key in texts.keys() & made["properties"].keys():
            made["properties"][key]["description"] = texts[key]
        return made

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        if schema.get("default") in (None, "", ()):
            return self.generate_inner(schema["schema"])
        return super().default_schema(schema)


def json_schema() -> dict[str, Any]:
    """The JSON schema of recipes: keys, types, choices, defaults and descriptions."""
    return RECIPE.json_schema(schema_generator=_JsonSchema)
