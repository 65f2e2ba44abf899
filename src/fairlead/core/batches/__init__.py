"""Batches of records as bytes: a JSON header and columns of little-endian arrays, compressed.

`encoding` writes them (standard library only, Python 3.6 or newer: it travels with the agent), `decoding` reads them
back, `rows` makes Arrow tables of them. The format is described in docs/reference/batches.md.
"""
