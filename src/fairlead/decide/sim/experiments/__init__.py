"""Experiments: what is simulated (`spec`), set by set (`cases`), what comes of it (`summary`, `conclusions`).

Pure: specs and seeds in, rows out. Not here: processes, progress and the lake (`fairlead.decide.sim.runs`).
"""
