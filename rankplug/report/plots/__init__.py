"""Figures of the report, each an SVG picture to be placed inline in a page."""
