"""Models in the formats of other systems, both ways: search engines, ONNX, libraries and code."""

from rankplug.exchange.registry import FormatInfo, export, import_model, list_formats

__all__ = ["FormatInfo", "export", "import_model", "list_formats"]
