"""A mount whose requests go to a forwarder."""
