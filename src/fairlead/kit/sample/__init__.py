"""The sample site: a month of a made machine, drawn from a seed, with a story in it that a newcomer is to find.

Everything in it is simulated. Not here: how it gets into a lake (`sample.fill`).
"""
