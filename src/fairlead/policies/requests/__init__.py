"""Which request a forwarder executes next."""
