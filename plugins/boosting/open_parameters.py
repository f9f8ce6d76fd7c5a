"""Parameters of the tree libraries that no solver names, under the libraries' own names.

A library is asked which parameters it has, so that those of later versions pass too. XGBoost only
warns of names that it does not know, and LightGBM not always; here they are errors, and so are
parameters that a solver sets itself or that would make its model something else than a ranker.
"""

from __future__ import annotations

import difflib
import functools
import inspect
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from rankplug.exceptions import ParameterError, nearest
from rankplug.parameters import OpenParameters
from rankplug_plugins.boosting.constraints import CONSTRAINTS

# By names of the library: the parameter of rankplug's solvers that says the same.
_XGBOOST_OWN = {
    **dict.fromkeys(("learning_rate", "eta"), "learning_rate"),
    **dict.fromkeys(("gamma", "min_split_loss"), "gamma"),
    **dict.fromkeys(("reg_lambda", "lambda"), "reg_lambda"),
    **dict.fromkeys(("reg_alpha", "alpha"), "reg_alpha"),
    **dict.fromkeys(("nthread", "n_jobs"), "n_threads"),
    **dict.fromkeys(("n_estimators", "num_boost_round"), "n_estimators"),
    "max_depth": "max_depth",
    "min_child_weight": "min_child_weight",
    "subsample": "subsample",
    "colsample_bytree": "colsample_bytree",
    "max_bin": "max_bin",
    "early_stopping_rounds": "early_stopping_rounds",
    "eval_metric": "eval_metric",
    "missing": "zeros",
    "lambdarank_pair_method": "pair_method",
    "lambdarank_num_pair_per_sample": "num_pair_per_sample",
}
_LIGHTGBM_OWN = {
    "learning_rate": "learning_rate",
    "num_leaves": "num_leaves",
    "min_data_in_leaf": "min_child_samples",
    "min_sum_hessian_in_leaf": "min_child_weight",
    "bagging_fraction": "subsample",
    "feature_fraction": "colsample_bytree",
    "lambda_l2": "reg_lambda",
    "lambda_l1": "reg_alpha",
    "max_bin": "max_bin",
    "num_iterations": "n_estimators",
    "early_stopping_round": "early_stopping_rounds",
    "metric": "eval_metric",
    "num_threads": "n_threads",
    "lambdarank_truncation_level": "truncation_level",
}

_ANOTHER_LOSS = "a solver is its loss: choose it by the solver, and by 'objective' where it has one"
_ONE_SCORE = "a ranker has one score for each row"
_SEED = "set random_state of solve or fit"
_OTHER_MODEL = "rankplug saves plain boosted trees only"
_COMMAND = "it is for the library's own command and files"
_OTHER_OBJECTIVE = "it is for other objectives and would do nothing"

_XGBOOST_REFUSED = {
    **dict.fromkeys(("objective", "disable_default_eval_metric"), _ANOTHER_LOSS),
    **dict.fromkeys(("num_class", "num_target", "num_feature", "multi_strategy"), _ONE_SCORE),
    **dict.fromkeys(("base_score", "boost_from_average"), "a constant in all scores ranks nothing"),
    **dict.fromkeys(("seed", "random_state"), _SEED),
    **dict.fromkeys(("booster", "process_type", "updater", "updater_seq"), _OTHER_MODEL),
    **dict.fromkeys(("num_trees", "refresh_leaf"), _OTHER_MODEL),
    "validate_parameters": "names are always checked",
}
_LIGHTGBM_REFUSED = {
    "objective": _ANOTHER_LOSS,
    "num_class": _ONE_SCORE,
    "seed": _SEED,
    "linear_tree": _OTHER_MODEL,
    "categorical_feature": "say it by the type of the table's columns",
    **dict.fromkeys(
        ("alpha", "auc_mu_weights", "fair_c", "is_unbalance", "multi_error_top_k", "reg_sqrt"),
        _OTHER_OBJECTIVE,
    ),
    **dict.fromkeys(
        ("eval_at", "poisson_max_delta_step", "scale_pos_weight", "tweedie_variance_power"),
        _OTHER_OBJECTIVE,
    ),
    **dict.fromkeys(("config", "task", "data", "valid", "input_model", "output_model"), _COMMAND),
    **dict.fromkeys(("snapshot_freq", "output_result", "save_binary", "header"), _COMMAND),
    **dict.fromkeys(("label_column", "weight_column", "group_column", "ignore_column"), _COMMAND),
    **dict.fromkeys(("convert_model", "convert_model_language", "two_round"), _COMMAND),
    **dict.fromkeys(("parser_config_file", "precise_float_parser", "pre_partition"), _COMMAND),
    **dict.fromkeys(("machines", "machine_list_filename", "num_machines"), _COMMAND),
    **dict.fromkeys(("local_listen_port", "time_out", "is_provide_training_metric"), _COMMAND),
    **dict.fromkeys(("metric_freq", "first_metric_only", "early_stopping_min_delta"), _COMMAND),
}  # fmt: skip

_CATBOOST_SYNONYMS = {
    "eta": "learning_rate", "objective": "loss_function", "n_estimators": "iterations",
    "num_boost_round": "iterations", "num_trees": "iterations", "reg_lambda": "l2_leaf_reg",
    "max_depth": "depth", "colsample_bylevel": "rsm", "random_state": "random_seed",
    "max_bin": "border_count", "min_child_samples": "min_data_in_leaf", "num_leaves": "max_leaves",
    "early_stopping_rounds": "od_wait",
}  # fmt: skip
_CATBOOST_OWN = {
    "learning_rate": "learning_rate", "loss_function": "loss", "iterations": "n_estimators",
    "l2_leaf_reg": "reg_lambda", "depth": "depth", "rsm": "colsample_bytree",
    "border_count": "max_bin", "subsample": "subsample", "thread_count": "n_threads",
    "eval_metric": "eval_metric", "od_wait": "early_stopping_rounds",
}  # fmt: skip
_CATBOOST_REFUSED = {
    "random_seed": _SEED,
    **dict.fromkeys(("od_type", "od_pval", "use_best_model", "best_model_min_trees",
                     "custom_metric", "metric_period", "eval_fraction"),
                    "early stopping is rankplug's, by eval_metric"),
    **dict.fromkeys(("allow_writing_files", "save_snapshot", "snapshot_file", "snapshot_interval",
                     "train_dir", "name", "input_borders", "output_borders"),
                    "training writes no files"),
    **dict.fromkeys(("cat_features", "text_features", "embedding_features", "tokenizers",
                     "dictionaries", "feature_calcers", "text_processing"),
                    "features are numbers here"),
    **dict.fromkeys(("allow_const_label", "verbose", "silent", "logging_level"),
                    "the solver sets it"),
    **dict.fromkeys(("class_weights", "auto_class_weights", "scale_pos_weight", "classes_count",
                     "class_names", "target_border"), _OTHER_OBJECTIVE),
}  # fmt: skip

# Of LightGBM's own ranking objectives only.
_OF_LAMBDARANK = {
    "label_gain", "lambdarank_norm", "lambdarank_position_bias_regularization",
    "lambdarank_truncation_level", "objective_seed", "sigmoid",
}  # fmt: skip


class LibraryParameters(OpenParameters):
    """What both libraries have in common.

    Parameters
    ----------
    ranks : bool
        Whether the objective is one of the library's own for ranking.
    """

    library: str
    own: Mapping[str, str]
    refused: Mapping[str, str]

    def __init__(self, ranks: bool) -> None:
        self.ranks = ranks

    def __str__(self) -> str:
        return f"None or a mapping of parameters of {self.library} by its names"

    def find_mistake(self, given: Mapping[str, Any]) -> str | None:
        """Names that are unknown, refused or given twice, else what the library says of values."""
        try:
            primary, known = self.names()
        except ImportError:
            return None  # that it is missing is said where it is to train
        wrong = [reason for name in given if (reason := self._refusal(name, primary, known))]
        return "; ".join([*wrong, *self._repeated(given, primary)]) or self.try_values(given)

    def _refusal(self, name: str, primary: Mapping[str, str], known: set[str]) -> str | None:
        meant = primary.get(name, name)
        if meant in self.own:
            return f"{name} is the solver's parameter {self.own[meant]}: set it there"
        if meant in self.refused:
            return f"{name} cannot be set: {self.refused[meant]}"
        if meant in known:
            return None
        settable = known - self.own.keys() - self.refused.keys()
        close = difflib.get_close_matches(name, {*known, *primary}, n=1)
        if close and primary.get(close[0], close[0]) in self.own:
            there = self.own[primary.get(close[0], close[0])]
            return (
                f"{self.library} has no parameter {name!r}; did you mean {close[0]!r}, the "
                f"solver's parameter {there}?"
            )
        return f"{self.library} has no parameter {name!r} here{nearest(name, settable)}"

    def _repeated(self, given: Mapping[str, Any], primary: Mapping[str, str]) -> Iterator[str]:
        seen: dict[str, str] = {}
        for name in given:
            first = seen.setdefault(primary.get(name, name), name)
            if first != name:
                yield f"{first} and {name} are one parameter"

    def resolve(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The parameters by the names that the solver uses too."""
        primary, _ = self.names()
        return {primary.get(name, name): value for name, value in given.items()}

    def names(self) -> tuple[Mapping[str, str], set[str]]:
        """What other names stand for, and all that the library knows."""
        raise NotImplementedError

    def try_values(self, given: Mapping[str, Any]) -> str | None:
        """What the library says of the values, without the data to come."""
        values = {
            name: value for name, value in self.resolve(given).items() if name not in CONSTRAINTS
        }
        try:
            return self._try(values)
        except Exception as error:
            if type(error).__module__.lstrip("_").startswith(self.library.lower()):
                return f"{self.library} refuses it: {first_sentence(error)}"
            if isinstance(error, TypeError | ValueError | AttributeError):
                return f"{self.library} cannot read it: {error}"
            raise

    def _try(self, given: Mapping[str, Any]) -> str | None:
        """Have the library read the values; what rankplug itself says of them."""
        raise NotImplementedError


class XGBoostParameters(LibraryParameters):
    """Parameters of `xgboost.train`."""

    library = "XGBoost"
    own = _XGBOOST_OWN
    refused = _XGBOOST_REFUSED

    def names(self) -> tuple[Mapping[str, str], set[str]]:
        """No other names are left; all are in a booster's configuration."""
        return {}, _xgboost_names(self.ranks) | {*self.own, *self.refused, "verbosity"}

    def _try(self, given: Mapping[str, Any]) -> None:
        _configured_booster({**given, **_xgboost_objective(self.ranks)}, update=False)


class LightGBMParameters(LibraryParameters):
    """Parameters of `lightgbm.train`."""

    library = "LightGBM"
    own = _LIGHTGBM_OWN
    refused = _LIGHTGBM_REFUSED

    def names(self) -> tuple[Mapping[str, str], set[str]]:
        """LightGBM tells all its names, and those that stand for them."""
        primary, known = _lightgbm_names()
        return primary, known if self.ranks else known - _OF_LAMBDARANK

    def _refusal(self, name: str, primary: Mapping[str, str], known: set[str]) -> str | None:
        meant = primary.get(name, name)
        if not self.ranks and meant in _OF_LAMBDARANK:
            return f"{name} is for lambdarank, the solver's loss knows nothing of it"
        if meant.startswith(("predict_", "pred_")) or meant.endswith("_predict"):
            return f"{name} cannot be set: rankplug predicts raw scores of all trees"
        return super()._refusal(name, primary, known)

    def _try(self, given: Mapping[str, Any]) -> str | None:
        import lightgbm

        if given.get("boosting") in ("rf", "random_forest"):
            return f"boosting={given['boosting']!r} cannot be set: {_OTHER_MODEL}"
        params = {"verbosity": -1, **given, "num_threads": 1, "min_data_in_leaf": 0}
        lengths = {"feature_contri", "max_bin_by_feature", "cegb_penalty_feature_lazy",
                   "cegb_penalty_feature_coupled", "label_gain"}  # fmt: skip
        params = {name: value for name, value in params.items() if name not in lengths}
        rows = lightgbm.Dataset(np.eye(2), label=[0, 1], group=[2], params=params)
        lightgbm.Booster({**params, "objective": "lambdarank"}, rows)
        return None


class CatBoostParameters(LibraryParameters):
    """Parameters of `catboost.CatBoost`."""

    library = "CatBoost"
    own = _CATBOOST_OWN
    refused = _CATBOOST_REFUSED

    def names(self) -> tuple[Mapping[str, str], set[str]]:
        """The arguments of CatBoost's ranker; the first of those that are one."""
        import catboost

        arguments = inspect.signature(catboost.CatBoostRanker.__init__).parameters
        return _CATBOOST_SYNONYMS, {*arguments} - {"self"} - _CATBOOST_SYNONYMS.keys()

    def _try(self, given: Mapping[str, Any]) -> None:
        import catboost

        quiet = {"verbose": False, "allow_writing_files": False, "allow_const_label": True}
        task = {"loss_function": "YetiRank", "iterations": 1, "thread_count": 1}
        rows = catboost.Pool(np.eye(4), [0, 1, 0, 1], group_id=[0, 0, 1, 1])
        catboost.CatBoost({**given, **quiet, **task}).fit(rows)


def first_sentence(error: Exception) -> str:
    """What a library's error says, without places in its sources."""
    message = str(error).split("\nStack trace")[0].split("Check failed: ")[-1]
    # XGBoost writes the time and a place in its sources before, CatBoost the place, LightGBM
    # the place behind.
    message = re.sub(r"^\[[\d:]+\] |\S+/\S+:\d+: | at /.*", "", message)
    return message.strip().splitlines()[0].rstrip(" .:") or "a value is wrong"


@functools.cache
def _lightgbm_names() -> tuple[Mapping[str, str], set[str]]:
    from lightgbm.basic import _ConfigAliases

    aliases: Mapping[str, list[str]] = _ConfigAliases._get_all_param_aliases()
    primary = {other: name for name, others in aliases.items() for other in others}
    return primary, set(aliases)


@functools.cache
def _xgboost_names(ranks: bool) -> set[str]:
    booster = _configured_booster({"tree_method": "hist", **_xgboost_objective(ranks)}, update=True)
    learner = json.loads(booster.save_config())["learner"]
    if not ranks:
        del learner["objective"]
    return set(_leaves(learner)) - {"name", "specified_updater"}


def _xgboost_objective(ranks: bool) -> dict[str, Any]:
    return {"objective": "rank:ndcg" if ranks else "reg:squarederror"}


def _configured_booster(params: Mapping[str, Any], *, update: bool) -> Any:
    import xgboost

    rows = xgboost.DMatrix(np.eye(2), label=[0, 1], group=[2], nthread=1)
    booster = xgboost.Booster({**params, "nthread": 1, "verbosity": 0}, cache=[rows])
    if update:
        booster.update(rows, 0)
    else:
        booster.predict(rows)
    return booster


def _leaves(config: Any) -> Iterator[str]:
    """The keys of a configuration under which there is a value."""
    for key, value in config.items() if isinstance(config, dict) else ():
        if isinstance(value, dict):
            yield from _leaves(value)
        elif isinstance(value, list):
            for one in value:
                yield from _leaves(one)
        else:
            yield key


@contextmanager
def saving(given: Mapping[str, Any]) -> Iterator[None]:
    """Around a check of trees as a file: what could not be read again is refused here."""
    try:
        yield
    except ValueError as error:
        raise ParameterError(
            f"params={dict(given)!r} makes trees that rankplug does not save: {error}"
        ) from None
