"""The simulator: a fluid engine over a described platform. The one contention model of the house.

Knows no policy by name.
"""
