"""The part of a page in which rankings are looked at: its content, its script and its style."""
