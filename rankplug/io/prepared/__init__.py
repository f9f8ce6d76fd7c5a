"""Data prepared once in a folder of mapped arrays: larger than memory, opened in milliseconds."""

from __future__ import annotations

from rankplug.io.prepared.folder import PreparedFolder, is_folder, open_prepared, verify_prepared
from rankplug.io.prepared.preparing import prepare

__all__ = ["PreparedFolder", "is_folder", "open_prepared", "prepare", "verify_prepared"]
