"""Pure analysis: tables in, findings and profiles out. Never reads a file, a clock or the lake."""

ANALYSIS_VERSION = "1"
"""Raised whenever the same records would give other findings."""
