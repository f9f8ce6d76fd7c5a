"""Reading and writing data: LETOR/svmlight text, CSV, Parquet and Arrow files."""

from __future__ import annotations

from rankplug.io.files import FORMATS
from rankplug.io.reading import read_data, read_label_data
from rankplug.io.writing import write_data

__all__ = ["FORMATS", "read_data", "read_label_data", "write_data"]
