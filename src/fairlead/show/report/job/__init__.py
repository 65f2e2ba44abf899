"""The single-file HTML report of one job or of two jobs side by side."""
