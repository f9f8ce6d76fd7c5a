"""Reading and writing data: svmlight text, tables, prepared folders, and TREC runs and qrels."""

from __future__ import annotations

from rankplug.io.columns import read_table
from rankplug.io.files import FORMATS, replacing
from rankplug.io.prepared import PreparedFolder, open_prepared, prepare, verify_prepared
from rankplug.io.reading import read_data, read_label_data
from rankplug.io.trec import read_qrels, read_run, write_qrels, write_run
from rankplug.io.writing import write_data

__all__ = [
    "FORMATS",
    "PreparedFolder",
    "open_prepared",
    "prepare",
    "read_data",
    "read_label_data",
    "read_qrels",
    "read_run",
    "read_table",
    "replacing",
    "verify_prepared",
    "write_data",
    "write_qrels",
    "write_run",
]
