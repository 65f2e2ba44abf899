"""What storage teams ask of a lake, as functions: a lake in, tables out. Shared by the command line and the HTTP API.

Nothing here prints, draws or listens.
"""
