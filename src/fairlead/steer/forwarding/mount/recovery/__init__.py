"""What a mount does when its forwarder is lost, silent, replaced, or refuses a request it cannot carry out yet."""
