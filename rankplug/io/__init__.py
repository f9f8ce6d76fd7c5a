"""Reading and writing data: LETOR/svmlight text, CSV, Parquet and Arrow files; prepared folders."""

from __future__ import annotations

from rankplug.io.columns import read_table
from rankplug.io.files import FORMATS
from rankplug.io.prepared import PreparedFolder, open_prepared, prepare, verify_prepared
from rankplug.io.reading import read_data, read_label_data
from rankplug.io.writing import write_data

__all__ = [
    "FORMATS",
    "PreparedFolder",
    "open_prepared",
    "prepare",
    "read_data",
    "read_label_data",
    "read_table",
    "verify_prepared",
    "write_data",
]
