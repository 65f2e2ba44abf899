"""Jobs that come and go on a machine with layers, each given its path when it arrives: months of a site.

`jobs` says what goes in and out. The contention is `sim.engine`'s: progressive filling across layers.
"""
