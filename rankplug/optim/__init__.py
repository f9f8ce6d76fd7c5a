"""Optimisers that know nothing of ranking."""
