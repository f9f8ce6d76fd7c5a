"""Clicks of a run: logs, simulated users, and what each entry learns from."""

from __future__ import annotations

from pathlib import Path

from rankplug.clicks import ClickLog, WeightedClicks, simulate_clicks, weigh_clicks
from rankplug.data import RankingData, tables
from rankplug.exceptions import DataError
from rankplug.io import read_data, read_table
from rankplug.io.columns import DEFAULT_LABEL, DEFAULT_QID
from rankplug.recipe import Files, LearnFrom, OneFile, Recipe
from rankplug.solver import Data


def read_logs(recipe: Recipe) -> dict[str, ClickLog | RankingData]:
    """The logs of a recipe, by split; "train" alone of one file.

    Validation and test set without the column of the position have relevance.

    Raises
    ------
    DataError
        If a file cannot be read or is no such log.
    """
    source, clicks = recipe.data, recipe.clicks
    assert isinstance(source, Files | OneFile)
    assert clicks is not None
    query, label = source.qid or DEFAULT_QID, source.label or DEFAULT_LABEL
    others = {query, label, source.weight, clicks.document, clicks.position, clicks.click}
    others |= {clicks.session, clicks.randomised, *source.drop, *source.id}

    def read(path: Path, like: RankingData | None = None) -> ClickLog | RankingData:
        if path.is_dir():
            raise DataError(f"{path}: logs of clicks are files, not prepared folders")
        notation = {"separator": source.separator, "decimal": source.decimal}
        table = read_table(path, source.format, **notation)  # type: ignore[arg-type]
        there = tables.column_names(table)
        features = source.features
        if like is not None:
            features = like.feature_names
        elif features is None or features == "auto":
            features = tables.named_beside(others, there, path)
        if like is not None and clicks.position not in there:
            return read_data(
                path, format=source.format, label=source.label, qid=source.qid,
                features=features, like=like, **notation,  # type: ignore[arg-type]
            )  # fmt: skip
        try:
            return ClickLog.from_table(
                table, query=query, document=clicks.document, position=clicks.position,
                click=clicks.click, session=clicks.session, randomised=clicks.randomised,
                features=features, like=like,
            )  # fmt: skip
        except DataError as error:
            raise DataError(f"{path}: {error}") from None

    if isinstance(source, OneFile):
        return {"train": read(source.file)}
    train = read(source.train)
    assert isinstance(train, ClickLog)
    logs = {"train": train}
    paths = {"valid": source.valid, "test": source.test}
    return logs | {
        split: read(path, train.documents) for split, path in paths.items() if path is not None
    }


def weigh_logs(
    recipe: Recipe, logs: dict[str, ClickLog | RankingData]
) -> tuple[dict[str, Data], WeightedClicks]:
    """The splits of logs, whose relevance is their weighted clicks, and those of the training set.

    Propensities are those of the training set.
    """
    assert recipe.clicks is not None
    train = logs["train"]
    assert isinstance(train, ClickLog)
    weighed = recipe.clicks.weigh(train)
    splits: dict[str, Data] = {}
    for split, log in logs.items():
        if isinstance(log, RankingData):
            splits[split] = log
            continue
        of_split = weighed
        if split != "train":
            try:
                of_split = recipe.clicks.weigh(log, weighed.propensities)
            except DataError as error:
                raise DataError(f"{split} set: {error}") from None
        splits[split] = of_split.to_evaluation()
    return splits, weighed


def simulate(recipe: Recipe, train: Data) -> WeightedClicks:
    """The clicks of simulated users on the training set, weighed as the recipe says."""
    assert recipe.clicks is not None
    if not isinstance(train, RankingData):
        raise DataError("clicks are on documents of queries, not on labels")
    given = {"seed": recipe.seed, **(recipe.clicks.simulate or {})}
    return recipe.clicks.weigh(simulate_clicks(train, **given))


def learned(clicks: WeightedClicks, learn_from: LearnFrom) -> RankingData:
    """The data of one kind of learning from clicks."""
    if learn_from == "lists":
        return clicks.log.to_sessions()
    if learn_from == "clicks":
        return weigh_clicks(clicks.log, "none").to_training()
    return clicks.to_training()


def describe_clicks(clicks: WeightedClicks) -> tuple[str, ...]:
    """Lines on the clicks of a run, their propensities, and what they tell."""
    n_lists = int(clicks.log.n_sessions.sum())
    clipped = f", {clicks.n_clipped:,} clipped" if clicks.clip else ""
    return (
        f"clicks:   {clicks.n_clicks:,} in {n_lists:,} lists of the training set",
        f"weights:  {clicks.propensities!r}",
        f"          as much as {clicks.effective_sample_size:,.0f} clicks of equal weight{clipped}",
    )
