"""Trained models: they predict, save and load, and know nothing of how they were trained."""

from rankplug.models.base import SCHEMA_VERSION, Model
from rankplug.models.kernel import KernelModel
from rankplug.models.linear import (
    LabelLinearModel,
    LinearModel,
    check_labels,
    linear_model,
    linear_weights,
)
from rankplug.models.loading import load_model, model_class
from rankplug.models.wrapped import ScaledModel, WrappedModel, predict_data, scaling_for

__all__ = [
    "SCHEMA_VERSION",
    "KernelModel",
    "LabelLinearModel",
    "LinearModel",
    "Model",
    "ScaledModel",
    "WrappedModel",
    "check_labels",
    "linear_model",
    "linear_weights",
    "load_model",
    "model_class",
    "predict_data",
    "scaling_for",
]
