"""Tree-TRON: linear rankSVM with squared hinge loss over all preference pairs."""

from rankplug_plugins.tree_tron.solver import TreeTron

__all__ = ["TreeTron"]
