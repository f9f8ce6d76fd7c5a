"""Trained models: they predict, save and load, and know nothing of how they were trained."""

from rankplug.models.adjusted import AdjustedModel, Turn, fingerprint, read_adjustment
from rankplug.models.base import Model, saved_size
from rankplug.models.contributions import SHAPES, TREES, Contributions, find_contributions
from rankplug.models.header import SCHEMA_VERSION
from rankplug.models.kernel import KernelModel
from rankplug.models.linear import (
    LabelLinearModel,
    LinearModel,
    check_labels,
    linear_model,
    linear_weights,
)
from rankplug.models.loading import load_model, model_class
from rankplug.models.tree_ensemble import TreeArrays, TreeEnsemble
from rankplug.models.trees import TreeModel
from rankplug.models.wrapped import (
    ScaledModel,
    ScaledParts,
    WrappedModel,
    predict_data,
    scale_parts,
    scaled_model,
    scaling_for,
)

__all__ = [
    "SCHEMA_VERSION",
    "SHAPES",
    "TREES",
    "AdjustedModel",
    "Contributions",
    "KernelModel",
    "LabelLinearModel",
    "LinearModel",
    "Model",
    "ScaledModel",
    "ScaledParts",
    "TreeArrays",
    "TreeEnsemble",
    "TreeModel",
    "Turn",
    "WrappedModel",
    "check_labels",
    "find_contributions",
    "fingerprint",
    "linear_model",
    "linear_weights",
    "load_model",
    "model_class",
    "predict_data",
    "read_adjustment",
    "saved_size",
    "scale_parts",
    "scaled_model",
    "scaling_for",
]
