"""Counter texts of a node's kernel, storage and network become plain tuples. Python 3.6 or newer, nothing else.

Shared by the agent, which travels to every node, and by `fairlead.see.sources.counters`, which reads such texts from
files.
"""
