"""A mount whose requests are executed in its own process."""
