"""The published two-stage clustering, the one-stage it was held against, and DBSCAN with weights."""

from __future__ import annotations
