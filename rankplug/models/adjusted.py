"""`AdjustedModel`: a linear or additive model whose weights or curves were turned by hand.

An adjustment is a JSON file that names the model and, for each feature that was turned, a `factor`
of all that it adds, and points ``[value, height]`` of a curve that is `added` to it.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from rankplug.data import Matrix
from rankplug.exceptions import DataError, ModelFormatError, ParameterError, nearest
from rankplug.models.base import Model
from rankplug.models.contributions import Contributions, find_contributions
from rankplug.models.header import HEADER, read_header
from rankplug.models.loading import load_model
from rankplug.models.wrapped import WrappedModel
from rankplug.system.files import parse_json

FORMAT = "rankplug-adjustment"
SCHEMA_VERSION = 1
_MOST_PAIRS = 10_000  # points of a curve, or features: more than anybody turns
_MOST_BYTES = 10_000_000  # of a file


@dataclass(frozen=True)
class Turn:
    """What becomes of a feature's contributions: ``factor`` times them, and a curve added.

    Attributes
    ----------
    factor : float
    added : tuple of (float, float)
        Points of a piecewise linear function of the feature, by ascending values; it is constant
        beyond them, and adds nothing where the feature is missing.
    """

    factor: float = 1.0
    added: tuple[tuple[float, float], ...] = ()

    def heights(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """What the curve adds at these values."""
        if not self.added:
            return np.zeros(len(values))
        places, heights = zip(*self.added, strict=True)
        found = np.interp(values, places, heights)
        return np.asarray(np.where(np.isnan(values), 0.0, found))


class AdjustedModel(WrappedModel):
    """The scores of a linear or additive model, with some of its contributions turned.

    Parameters
    ----------
    model : Model
        One whose contributions are functions of one feature each.
    turns : mapping of int to Turn
        By the number of a feature.

    Raises
    ------
    ParameterError
        If there is no such feature, or the model is neither linear nor additive.
    """

    kind = "adjusted"

    def __init__(self, model: Model, turns: Mapping[int, Turn]) -> None:
        super().__init__(model)
        self.feature_names = model.feature_names
        self.turns = dict(turns)
        wrong = [j for j in self.turns if not 0 <= j < model.n_features]
        if wrong:
            raise ParameterError(f"no feature {wrong[0]}: the model has {model.n_features}")
        one = np.zeros((1, model.n_features))
        with suppress(
            DataError
        ):  # of a pipeline whose encoders know no zeros, which `_find` checks
            _require_additive(find_contributions(model, one, n_permutations=2))

    def free_features(self) -> set[int]:
        """Those of the model."""
        return self._told().free_features()

    def check_rows(self, X: Any) -> Any:
        """The features as the model takes them."""
        return self._told().check_rows(X)

    def _told(self) -> Model:
        """The model within, which does not know names and categories where it was read."""
        self.model.feature_names, self.model.categories = self.feature_names, self.categories
        return self.model

    def _predict(self, X: Matrix) -> NDArray[np.float64]:
        found, changes = self._find(X)
        return np.asarray(self.model._predict(X) + (changes - found.values).sum(axis=1))

    def _contributions(self, X: Matrix) -> Contributions:
        found, changes = self._find(X)
        return Contributions(changes, found.constant, found.method)

    def _find(self, X: Matrix) -> tuple[Contributions, NDArray[np.float64]]:
        """The contributions of the model, and those that they are turned into."""
        found = find_contributions(self.model, X)
        _require_additive(found)
        changed = found.values.copy()
        for j, turn in self.turns.items():
            changed[:, j] = turn.factor * found.values[:, j]
            if turn.added:
                changed[:, j] += turn.heights(self._numbers(X, j))
        return found, changed

    def _numbers(self, X: Any, feature: int) -> NDArray[np.float64]:
        column = X[:, [feature]]
        dense = column.toarray() if hasattr(column, "toarray") else np.asarray(column)
        try:
            return dense[:, 0].astype(np.float64)
        except ValueError:
            name = self.feature_names[feature] if self.feature_names else feature
            raise ParameterError(
                f"a curve was added to the feature {name}, whose values are no numbers"
            ) from None

    def _write(self, folder: Path) -> dict[str, Any]:
        turns = [
            [j, {"factor": turn.factor, "added": [list(point) for point in turn.added]}]
            for j, turn in sorted(self.turns.items())
        ]
        return {"kind": self.model.kind, "model": self.model._write(folder), "turns": turns}

    @classmethod
    def _read(cls, folder: Path, header: Mapping[str, Any]) -> AdjustedModel:
        model, given = cls._read_wrapped(folder, header), header.get("turns")
        if not _are_pairs(given):
            raise ModelFormatError(f"{folder}: the header does not say what was turned")
        turns = {}
        for j, turn in given:
            if type(j) is not int or not 0 <= j < model.n_features or j in turns:
                raise ModelFormatError(f"{folder}: {j!r} is no feature that can be turned")
            turns[j] = _read_turn(turn, f"{folder}: feature {j}")
        try:
            return cls(model, turns)
        except ParameterError as error:
            raise ModelFormatError(f"{folder}: {error}") from None


def _require_additive(found: Contributions) -> None:
    if not found.is_additive:
        raise ParameterError(
            "only linear and additive models can be turned by hand, not one that is explained by "
            f"{found.method}"
        )


def fingerprint(model: Model) -> str:
    """What tells a model from others: the SHA-256 that its header has when it is saved."""
    with tempfile.TemporaryDirectory() as parent:
        folder = Path(parent, "model")
        model.save(folder)
        return str(read_header(folder)["sha256"])


def read_adjustment(
    path: str | Path, open_model: Callable[[str], Model] | None = None
) -> AdjustedModel:
    """The model that an adjustment, as ``rankplug show`` writes it, makes of the one it names.

    Parameters
    ----------
    path : path
        JSON: ``format``, ``schema_version``, ``model`` (a folder, relative to that of the file),
        its ``sha256``, and ``features``, from names to ``factor`` and ``added``.
    open_model : callable, optional
        From what is no folder, such as a URI of MLflow, to the model.

    Raises
    ------
    ModelFormatError
        If the file is none, holds what it must not, the model cannot be read or is another one
        than that which was turned, or has no such feature.
    """
    file = Path(path)
    content = _read_json(file)
    base, given = content.get("model"), content.get("features")
    if not isinstance(base, str) or not isinstance(given, dict):
        raise ModelFormatError(f"{file}: model must be a text and features a mapping")
    folder = file.parent / base
    if open_model is None or (folder / HEADER).is_file():
        model = load_model(folder)
    else:
        model = open_model(str(folder) if folder.exists() else base)
    if content.get("sha256") != fingerprint(model):
        raise ModelFormatError(
            f"{file}: {base} is not the model that was turned, but another one or the same trained "
            "anew: turn it again with 'rankplug show'"
        )
    names = [*(model.feature_names or (f"f{j}" for j in range(model.n_features)))]
    turns = {}
    for name, turn in given.items():
        if name not in names:
            raise ModelFormatError(f"{file}: no feature {name!r}{nearest(name, names)}")
        turns[names.index(name)] = _read_turn(turn, f"{file}: feature {name}")
    try:
        return AdjustedModel(model, turns)
    except ParameterError as error:
        raise ModelFormatError(f"{file}: {error}") from None


def _read_json(file: Path) -> dict[str, Any]:
    try:
        if file.stat().st_size > _MOST_BYTES:
            raise ModelFormatError(f"{file}: too large for an adjustment")
        content = parse_json(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelFormatError(
            f"{file} holds no rankplug model, nor what is turned of one: {error}"
        ) from None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ModelFormatError(f"{file} is no adjustment of a model: its format is not {FORMAT!r}")
    version = content.get("schema_version")
    if version != SCHEMA_VERSION:
        raise ModelFormatError(
            f"{file}: schema version {version!r}, but this rankplug reads {SCHEMA_VERSION}"
        )
    return content


def _read_turn(given: Any, where: str) -> Turn:
    if not isinstance(given, dict) or given.keys() - {"factor", "added"}:
        raise ModelFormatError(f"{where}: a mapping of factor and added is expected")
    factor, added = given.get("factor", 1.0), given.get("added", [])
    if not _is_number(factor):
        raise ModelFormatError(f"{where}: factor must be a finite number, not {json.dumps(factor)}")
    if not _are_pairs(added) or not all(_is_number(value) for point in added for value in point):
        raise ModelFormatError(
            f"{where}: added must be at most {_MOST_PAIRS:,} pairs of finite numbers"
        )
    places = [place for place, _ in added]
    if any(second <= first for first, second in pairwise(places)):
        raise ModelFormatError(f"{where}: the values of added must ascend")
    return Turn(float(factor), tuple((float(x), float(y)) for x, y in added))


def _are_pairs(given: Any) -> TypeGuard[list[list[Any]]]:
    """Whether it is a list, not too long, of lists of two."""
    return (
        isinstance(given, list)
        and len(given) <= _MOST_PAIRS
        and all(isinstance(one, list) and len(one) == 2 for one in given)
    )


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) <= sys.float_info.max
