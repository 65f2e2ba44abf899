"""`tally_writer.py FILE TALLY MIB PAUSE_S`: writes MiB after MiB, keeps count of those whose write returned in a file
that is whole whenever the process is killed, and then waits to be killed."""

import mmap
import os
import signal
import struct
import sys
import time


def main() -> None:
    """Writes until killed."""
    name, said, most, pause_s = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
    tally = os.open(said, os.O_RDWR | os.O_CREAT, 0o644)
    os.ftruncate(tally, 8)
    count = mmap.mmap(tally, 8)
    file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    block = b"x" * (1 << 20)
    for number in range(most):
        assert os.write(file, block) == len(block)
        count[:] = struct.pack("<Q", number + 1)
        time.sleep(pause_s)
    signal.pause()


main()
