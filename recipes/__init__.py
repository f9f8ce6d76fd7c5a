"""Recipes that come with rankplug: ``rankplug run NAME`` finds them here."""
