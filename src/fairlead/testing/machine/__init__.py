"""A made machine: what N nodes of a described site would emit, from a seed, through the simulator.

Everything it makes says that it is simulated.
"""
