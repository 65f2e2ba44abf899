"""What a forwarder exports: trees of files, on a directory or striped over storage targets."""
