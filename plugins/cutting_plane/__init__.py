"""Cutting plane: linear rankSVM with hinge loss over all preference pairs."""

from rankplug_plugins.cutting_plane.solver import CuttingPlane

__all__ = ["CuttingPlane"]
