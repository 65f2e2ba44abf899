"""The forwarding plane: mounts, forwarders and storage targets, recorded at every layer."""
