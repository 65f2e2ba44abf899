"""The live loop: one process tree from one TOML file; what is started, watched, restarted, stopped.

Not here: what is done with records (`collector`, `lake`, `analysis`).
"""
