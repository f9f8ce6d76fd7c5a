"""Exit statuses of the commands."""

__all__ = ["FAILED", "INTERRUPTED", "MISTAKE", "TERMINATED"]

FAILED, MISTAKE, INTERRUPTED, TERMINATED = 1, 2, 130, 143
