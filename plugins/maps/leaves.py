"""The leaves of trees as 0/1 columns: each row is in one leaf of each tree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from rankplug.data import Block, LabelRankingData, Matrix, OneHotMatrix, PreferenceData, RankingData
from rankplug.exceptions import DataError, ModelFormatError, ParameterError
from rankplug.maps import FeatureMap, FittedMap, Fitting, pack, unpack
from rankplug.models import Contributions, TreeModel, model_class
from rankplug.parameters import Count, Optional, Parameter
from rankplug.solver import Solver, make_solver
from rankplug_plugins.maps.growing import REGRESSORS, grow_trees

_DEFAULT = {
    "grades": "xgboost-pairwise",
    # The other samples pairs, too few of an only query.
    "one query, or numbers": "xgboost-all-pairs",
    "labels": "random-forest",
}
_FILE = "trees"


class _Trees(Parameter):
    """Where trees come from."""

    def accepts(self, value: Any) -> bool:
        return isinstance(value, str | Solver | TreeModel) or _library_of(value) is not None

    def __str__(self) -> str:
        return (
            "the name of a solver of boosted trees, such as 'xgboost-pairwise', one of "
            f"{', '.join(map(repr, REGRESSORS))}, a Solver, a model of trees, or a booster of "
            "XGBoost or LightGBM"
        )


def _library_of(booster: Any) -> str | None:
    """Which library's trained booster, or estimator with one, it is; found without importing."""
    library = type(booster).__module__.split(".")[0]
    has_trees = any(hasattr(booster, name) for name in ("get_booster", "booster_", "save_model"))
    return library if library in ("xgboost", "lightgbm") and has_trees else None


def _read_trees(trees: Any) -> Any:
    """A trained booster as a model of trees; everything else as it is."""
    library = _library_of(trees)
    if library == "xgboost":
        booster = trees.get_booster() if hasattr(trees, "get_booster") else trees
        return model_class(library, Path())(booster.copy(), "value")  # type: ignore[call-arg]
    if library == "lightgbm":
        booster = getattr(trees, "booster_", trees)
        return model_class(library, Path())(booster.model_to_string())  # type: ignore[call-arg]
    return trees


class FittedLeaves(FittedMap):
    """One column for each leaf: 1 for the rows that fall into it.

    Parameters
    ----------
    trees : TreeModel
    """

    kind = "leaves"

    def __init__(self, trees: TreeModel) -> None:
        self.trees = trees
        self.requires = trees.requires
        self.starts = np.concatenate(([0], np.cumsum(trees.leaf_counts)))

    @property
    def n_features(self) -> int:
        """Number of features of a row."""
        return self.trees.n_features

    @property
    def n_columns(self) -> int:
        """Number of leaves of all trees."""
        return int(self.starts[-1])

    @property
    def takes_missing_values(self) -> bool:
        """If the trees do."""
        return self.trees.takes_missing_values

    def _transform(self, X: Matrix) -> Block:
        return OneHotMatrix(self.trees.find_leaves(X), self.starts)

    def column_names(self, names: Sequence[str]) -> list[str]:
        """Such as ``tree3.leaf7``, counted from 0."""
        counts = np.diff(self.starts)
        return [f"tree{t}.leaf{k}" for t, n in enumerate(counts) for k in range(n)]

    def contributions(self, X: Matrix, weights: NDArray[np.float64]) -> Contributions | None:
        """Those of the trees with the weights as the values of their leaves."""
        trees, rest = self.trees.with_weights(weights)
        found = trees._contributions(X)
        return None if found is None else replace(found, constant=found.constant + rest)

    def _write(self, folder: Path) -> dict[str, Any]:
        return {"kind": self.trees.kind, "trees": pack(self.trees, folder, _FILE)}

    @classmethod
    def _read(cls, folder: Path, header: Mapping[str, Any]) -> FittedLeaves:
        kind, content = header.get("kind"), header.get("trees")
        if not isinstance(kind, str) or not isinstance(content, dict):
            raise ModelFormatError(f"{folder}: the header does not describe the trees")
        found = model_class(kind, folder)
        if not issubclass(found, TreeModel):
            raise ModelFormatError(f"{folder}: a model of kind {kind!r} has no leaves")
        trees = unpack(found, folder, _FILE, content)
        if trees.n_labels is not None:
            raise ModelFormatError(f"{folder}: the trees are those of labels")
        return cls(trees)


class LeavesMap(FeatureMap):
    """The leaves of trees that are grown for the ranking, as 0/1 columns.

    A linear ranker on these columns finds the values of all leaves at once, where boosting finds
    those of each tree by what the trees before have left.

    Parameters
    ----------
    trees : str, Solver or TreeModel, optional
        A solver of boosted trees, or its name; "random-forest", "extra-trees" or
        "xgboost-regression", which regress the relevance; or trees that are trained: a model of
        rankplug, or a booster or estimator of XGBoost or LightGBM, to which zeros are values. By
        default "xgboost-pairwise", "xgboost-all-pairs" for an only query (whose pairs the other
        samples) or a relevance that is no grade, and "random-forest" for label ranking.
    n_estimators : int, default=200
        Number of trees, of solvers that are named and of regressors.
    min_samples_leaf : int, default=5
        Rows in a leaf, at least, of regressors.

    Notes
    -----
    For label ranking the trees regress the vector of relevances and serve all labels; labels
    without a relevance count as the mean of the instance's others.

    Where rows have weights (``document_weight``), forests and the solvers of all pairs take them;
    others grow their trees without, which are but features.

    References
    ----------
    .. [1] He et al., Practical lessons from predicting clicks on ads at Facebook, ADKDD 2014.
    .. [2] Friedman and Popescu, Predictive learning via rule ensembles, Annals of Applied
       Statistics 2 (2008).
    """

    name = "leaves"
    fitted = FittedLeaves
    summary = "the leaves of boosted trees or forests, as 0/1 columns"

    trees: Annotated[Any, Optional(_Trees())] = None
    n_estimators: Count = 200
    min_samples_leaf: Count = 5

    def takes_missing_values(self) -> bool:
        """If the trees do; forests do."""
        source = self._source(None)
        if isinstance(source, TreeModel):
            return source.takes_missing_values
        return source.takes_missing_values() if isinstance(source, Solver) else True

    def check(self, data: PreferenceData) -> None:
        """Raise what `fit` would raise about the parameters and the kind of data."""
        super().check(data)
        source = self._source(data)
        if isinstance(data, LabelRankingData):
            if not isinstance(source, str):
                raise DataError(
                    f"the leaves of {self.trees!r} are those of one score, but labels have one "
                    f"each: take one of {', '.join(map(repr, REGRESSORS))}, which serve all labels"
                )
        elif isinstance(source, Solver):
            source.check(_data_for(source, data))
        elif isinstance(source, TreeModel):
            if source.n_labels is not None:
                raise DataError("the trees given rank labels, the data are documents")
            if source.n_features != data.n_features:
                raise DataError(
                    f"the trees given take {source.n_features} features, the data have "
                    f"{data.n_features}"
                )

    def tuning_space(self, data: PreferenceData | None = None) -> dict[str, Any]:
        """The number of trees, unless it is said with them."""
        from optuna.distributions import IntDistribution

        if self.trees is None or isinstance(self.trees, str):
            return {"n_estimators": IntDistribution(50, 400, log=True)}
        return {}

    def _source(self, data: PreferenceData | None) -> TreeModel | Solver | str:
        """Trees that are there, a solver that grows some, or the name of a forest."""
        trees = _read_trees(self.trees)
        if isinstance(trees, TreeModel | Solver):
            return trees
        name = _DEFAULT[_kind_of(data)] if trees is None else trees
        if name in REGRESSORS:
            return str(name)
        solver = make_solver(name)
        if "n_estimators" not in solver.get_params(deep=False):
            raise ParameterError(
                f"trees={name!r} is no solver of boosted trees; take xgboost-pairwise, "
                f"lightgbm-lambdarank or another, or one of {', '.join(map(repr, REGRESSORS))}"
            )
        return solver.set_params(n_estimators=self.n_estimators)

    def _fit(self, fitting: Fitting) -> FittedLeaves:
        source: Any = self._source(fitting.data)
        if isinstance(source, TreeModel):
            return FittedLeaves(source)
        if isinstance(source, str):
            grown = grow_trees(source, fitting, self.n_estimators, self.min_samples_leaf)
            return FittedLeaves(grown)
        stops_early = getattr(source, "early_stopping_rounds", None) is not None
        found = source.solve(
            _data_for(source, fitting.data),
            valid=fitting.valid if stops_early else None,
            random_state=fitting.rng,
            time_limit=fitting.time_limit,
        )
        if not isinstance(found.model, TreeModel):
            kind = found.model.kind
            raise ParameterError(
                f"{source.name} gives a model of kind {kind!r}, which has no leaves"
            )
        return FittedLeaves(found.model)


def _data_for(source: Solver, data: Any) -> Any:
    """The data, without weights of rows if the solver that grows trees takes none.

    Trees are but features: the solver that is given them uses the weights.
    """
    if data.weighs_documents and not source.takes_document_weights():
        return data.with_facts(document_weight=None)
    return data


def _kind_of(data: PreferenceData | None) -> str:
    if isinstance(data, LabelRankingData):
        return "labels"
    graded = isinstance(data, RankingData) and data.is_graded and data.n_queries > 1
    return "grades" if data is None or graded else "one query, or numbers"
