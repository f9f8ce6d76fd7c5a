"""Maps side by side, such as ``leaves + identity``, in the proportions of their weights."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rankplug.data import Block, JoinedMatrix, Matrix, OneHotMatrix, PreferenceData
from rankplug.exceptions import ModelFormatError, RankplugError
from rankplug.maps.base import FeatureMap, FittedMap, Fitting
from rankplug.parameters import Parameter

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution


class _Maps(Parameter):
    """Some maps."""

    def accepts(self, value: Any) -> bool:
        given = isinstance(value, list | tuple) and len(value) > 0
        return given and all(
            isinstance(one, FeatureMap) and not isinstance(one, JoinedMap) for one in value
        )

    def __str__(self) -> str:
        return "a list of FeatureMap, none of them joined, see rankplug.make_map"


class FittedJoin(FittedMap):
    """The columns of several fitted maps, each times a factor.

    Parameters
    ----------
    parts : sequence of FittedMap
    factors : sequence of float
    """

    kind = "joined"

    def __init__(self, parts: Sequence[FittedMap], factors: Sequence[float]) -> None:
        self.parts = tuple(parts)
        self.factors = tuple(map(float, factors))
        self.requires = tuple(dict.fromkeys(name for part in parts for name in part.requires))

    @property
    def n_features(self) -> int:
        """Number of features of a row."""
        return self.parts[0].n_features

    @property
    def n_columns(self) -> int:
        """Number of columns of a mapped row."""
        return sum(part.n_columns for part in self.parts)

    @property
    def takes_missing_values(self) -> bool:
        """If all parts do."""
        return all(part.takes_missing_values for part in self.parts)

    def transform(self, X: Any) -> JoinedMatrix:
        """The mapped rows of `X`, as blocks; see `FittedMap.transform`."""
        joined = super().transform(X)
        assert isinstance(joined, JoinedMatrix)
        return joined

    def _transform(self, X: Matrix) -> JoinedMatrix:
        return JoinedMatrix([part._transform(X) for part in self.parts], self.factors)

    def split_weights(
        self, weights: NDArray[np.float64]
    ) -> Iterator[tuple[FittedMap, NDArray[np.float64]]]:
        """Each part with the weights of its own columns, in which its factor is contained.

        Parameters
        ----------
        weights : float64 ndarray of shape (n_columns,)
            Of the columns that `transform` makes.
        """
        ends = np.cumsum([part.n_columns for part in self.parts])
        for part, factor, own in zip(
            self.parts, self.factors, np.split(weights, ends[:-1]), strict=True
        ):
            yield part, factor * own

    def column_names(self, names: Sequence[str]) -> list[str]:
        """Those of the parts, one after the other."""
        return [name for part in self.parts for name in part.column_names(names)]

    def column_features(self) -> NDArray[np.int64] | None:
        """Those of the parts, if all of them tell."""
        found = [part.column_features() for part in self.parts]
        known = [one for one in found if one is not None]
        return np.concatenate(known) if len(known) == len(found) else None

    def _write(self, folder: Path) -> dict[str, Any]:
        parts = [
            {"map": part.kind, "factor": factor, "content": pack(part, folder, f"map{k}")}
            for k, (part, factor) in enumerate(zip(self.parts, self.factors, strict=True))
        ]
        return {"parts": parts}

    @classmethod
    def _read(cls, folder: Path, header: Mapping[str, Any]) -> FittedJoin:
        from rankplug.maps.registry import map_class

        given = header.get("parts")
        if not isinstance(given, list) or not given:
            raise ModelFormatError(f"{folder}: the header names no maps")
        parts, factors = [], []
        for k, one in enumerate(given):
            fits = isinstance(one, dict) and isinstance(one.get("content"), dict)
            factor = one.get("factor") if fits else None
            if not isinstance(factor, float) or not 0.0 < factor < np.inf:
                raise ModelFormatError(f"{folder}: map {k} is not described in the header")
            try:
                fitted = map_class(str(one.get("map"))).fitted
            except RankplugError as error:
                raise ModelFormatError(f"{folder}: {error}") from None
            parts.append(unpack(fitted, folder, f"map{k}", one["content"]))
            factors.append(factor)
        if len({part.n_features for part in parts}) > 1:
            raise ModelFormatError(f"{folder}: the maps take different numbers of features")
        return cls(parts, factors)


class JoinedMap(FeatureMap):
    """Several maps side by side.

    Each block of columns is scaled so that its training rows have the length that is the `weight`
    of its map (the root mean square of their norms): the regulariser sees the blocks in these
    proportions, whatever their numbers of columns. An only map has rows of length 1.

    Parameters
    ----------
    maps : list of FeatureMap
        Their parameters are nested under their names, as in ``leaves__n_estimators``.
    """

    name = "joined"
    fitted = FittedJoin
    summary = "the columns of several maps"

    def __init__(self, maps: Sequence[FeatureMap]) -> None:
        self.maps = maps

    parameters = {"maps": _Maps()}

    def takes_missing_values(self) -> bool:
        """If all maps do."""
        return all(one.takes_missing_values() for one in self.maps)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The maps and, with `deep`, each by its name, and its parameters."""
        found: dict[str, Any] = {"maps": self.maps}
        for one in self.maps if deep else ():
            found[one.name] = one
            found |= {f"{one.name}__{key}": value for key, value in one.get_params().items()}
        return found

    def check(self, data: PreferenceData) -> None:
        """Raise what `fit` would raise about the parameters and the kind of data."""
        super().check(data)
        for one in self.maps:
            one.check(data)

    def tuning_space(self, data: PreferenceData | None = None) -> dict[str, BaseDistribution]:
        """Those of the maps, under their names if there are several."""
        if len(self.maps) == 1:
            return self.maps[0].tuning_space(data)
        return {
            f"{one.name}__{key}": value
            for one in self.maps
            for key, value in one.tuning_space(data).items()
        }

    def set_params(self, **params: Any) -> JoinedMap:
        """Parameters of one map need no name before them; a map is set by its name."""
        self.maps = [params.pop(one.name, one) for one in self.maps]
        if len(self.maps) == 1:
            own = {key: value for key, value in params.items() if key in self.maps[0].get_params()}
            self.maps[0].set_params(**own)
            params = {key: value for key, value in params.items() if key not in own}
        super().set_params(**params)
        return self

    def fit_transform(
        self,
        data: PreferenceData,
        *,
        valid: PreferenceData | None = None,
        random_state: int | np.random.Generator | None = None,
        time_limit: float | None = None,
    ) -> tuple[FittedJoin, JoinedMatrix]:
        """`fit`, and the mapped rows of the training data, which are mapped once for both.

        Returns
        -------
        fitted : FittedJoin
        columns : JoinedMatrix of shape (n_samples, fitted.n_columns)

        Raises
        ------
        ParameterError, DataError
            As `fit`.
        """
        self.check(data)
        rng = np.random.default_rng(random_state)
        return self._fit_transform(Fitting(data, valid, rng, time_limit))

    def _fit(self, fitting: Fitting) -> FittedJoin:
        return self._fit_transform(fitting)[0]

    def _fit_transform(self, fitting: Fitting) -> tuple[FittedJoin, JoinedMatrix]:
        fitted = [one._fit(fitting) for one in self.maps]
        blocks = [one._transform(fitting.data.X) for one in fitted]
        weights = [one.weight for one in self.maps] if len(self.maps) > 1 else [1.0]
        factors = [w / _row_length(block) for w, block in zip(weights, blocks, strict=True)]
        return FittedJoin(fitted, factors), JoinedMatrix(blocks, factors)


def _row_length(block: Block) -> float:
    """The root mean square of the norms of the rows; 1 if all are 0."""
    if isinstance(block, OneHotMatrix):
        square = float(block.codes.shape[1])
    else:
        values = block.data if sparse.issparse(block) else block
        square = float(np.square(values, dtype=np.float64).sum() / block.shape[0])
    return float(np.sqrt(square)) or 1.0


def pack(part: Any, folder: Path, prefix: str) -> dict[str, Any]:
    """Write a part of a model into the model's folder, its files under names of its own."""
    with tempfile.TemporaryDirectory() as own:
        content: dict[str, Any] = part._write(Path(own))
        files = sorted(file.name for file in Path(own).iterdir())
        for name in files:
            shutil.copyfile(Path(own, name), folder / f"{prefix}-{name}")
    return {"files": files, "header": content}


def unpack(cls: type[Any], folder: Path, prefix: str, content: Mapping[str, Any]) -> Any:
    """Read a part that `pack` wrote."""
    files, header = content.get("files"), content.get("header")
    named = isinstance(files, list) and all(isinstance(name, str) for name in files)
    if not named or not isinstance(header, dict):
        raise ModelFormatError(f"{folder}: {prefix} is not described in the header")
    # Only what lies in the folder: a name may be a path that leads out of it, or no name at all.
    there = {file.name for file in folder.iterdir() if file.is_file() and not file.is_symlink()}
    with tempfile.TemporaryDirectory() as own:
        for name in files or ():
            if f"{prefix}-{name}" not in there:
                missing = f"{prefix}-{name}"[:80]
                raise ModelFormatError(f"{folder}: the model's file {missing} is missing")
            shutil.copyfile(folder / f"{prefix}-{name}", Path(own, name))
        return cls._read(Path(own), header)
