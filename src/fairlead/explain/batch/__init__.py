"""Heavy work on a lake, cut into pieces of time and spread over processes or machines with Dask.

`workers` are who does it, `population` and `reanalysis` are what is done. Not here: questions of a page (`questions`).
"""
