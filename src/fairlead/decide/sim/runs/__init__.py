"""Experiments on this machine or a cluster: processes, what is kept in a lake, going on where a run was killed.

Not here: what is simulated (`fairlead.decide.sim.experiments`).
"""
