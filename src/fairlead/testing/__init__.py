"""The shipped test kit: what a plug-in of a site is tested with."""
