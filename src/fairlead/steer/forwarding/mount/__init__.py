"""The mount: a folder whose requests are carried out by a forwarder, or in this process on a directory.

    process/    start and end: options, the mount process, its control socket, the background, unmounting, remap
    relay/      requests to a forwarder: the loop, what is answered here, what replies change, leases, passthrough
    local/      requests executed on a directory: threads, lock requests that wait
    recovery/   the forwarder is lost, silent or replaced: find one, restore state, send requests again

Not here: the kernel's protocol (`steer.fs.fuse`), the connection (`steer.fs.client`), records (`steer.fs.trace`).
"""
