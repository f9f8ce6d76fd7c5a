"""Compiled loops shared by the solvers."""
