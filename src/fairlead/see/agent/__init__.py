"""The node agent: probes, deltas, a spool, a way to the collector. Python 3.6 or newer, standard library only.

It travels as one file (`make agent`).
"""
