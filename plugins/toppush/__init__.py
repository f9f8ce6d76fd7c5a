"""TopPush: positives above the highest negatives."""

from rankplug_plugins.toppush.solver import TopPush

__all__ = ["TopPush"]
