"""Prometheus: what it sends (`remote_write`) and pages it would read (`scrape`), as records by a table of metrics."""
