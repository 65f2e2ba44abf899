"""Telling people: which findings become alerts, when, to whom, through what."""
