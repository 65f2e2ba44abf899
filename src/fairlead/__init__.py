"""fairlead sees, explains, decides and steers I/O on HPC storage.

Importing the package is cheap: rooms are imported by whoever needs them.
"""

__version__ = "0.1.0"
