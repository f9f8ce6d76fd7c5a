"""The errors of XGBoost and LightGBM in words that help."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rankplug.exceptions import DataError

__all__ = ["translated"]


@contextmanager
def translated(library: str, native_error: type[Exception]) -> Iterator[None]:
    """A library's errors as `DataError`, without its stack traces."""
    try:
        yield
    except native_error as error:
        message = str(error).split("\nStack trace")[0]
        reason = message.split("Check failed: ")[-1].strip()
        remedy = ""
        if "too large" in reason:
            remedy = "; features must be below 3.4e38, the limit of float32: rescale them"
        raise DataError(f"{library} refuses the data: {reason}{remedy}") from None
