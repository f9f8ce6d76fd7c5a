"""Exit statuses of the commands."""

__all__ = ["FAILED", "INTERRUPTED", "MISTAKE"]

FAILED, MISTAKE, INTERRUPTED = 1, 2, 130
