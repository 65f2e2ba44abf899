"""What travels between a mount and a forwarder: addresses, handshake, tokens, frames, shared memory."""
