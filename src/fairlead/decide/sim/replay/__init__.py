"""Jobs that come and go on a machine with layers, each given its path when it arrives: months of a site.

`jobs` says what goes in and out, `replay` runs them, `site` is what policies see, `measures` what comes of it,
`noise` what others take. The contention is `sim.engine`'s: progressive filling across layers.
"""
