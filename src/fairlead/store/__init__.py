"""The record store: Delta tables fed through a write-ahead log, queried with DuckDB. Knows no source and no analysis.

`fairlead.store.lake.Lake` is the door. Neither `deltalake` nor `duckdb` is imported before it is needed.
"""
