"""The mount: the kernel's requests on one side, a forwarder or a directory on the other."""
