"""Compressed RAM disks, which the probe `disks` leaves out: /sys/block/zram*/stat. Runs on Python 3.6."""

import glob
import os

from fairlead.see.probes.base import AbsentError, Probe, ProbeResult, Reading


class ZramProbe(Probe):
    name = "zram"
    period_s = 10.0

    def read(self, now_ns):
        rows, unknown = {}, 0
        for path in sorted(glob.glob(os.path.join(self.root, "sys/block/zram*/stat"))):
            with open(path) as file:
                words = file.read().split()
            try:
                values = [int(words[0]), int(words[2]) * 512, int(words[4]), int(words[6]) * 512]
            except (IndexError, ValueError):
                unknown += 1
            else:
                rows[(self.node, os.path.basename(os.path.dirname(path)), "zram")] = values
        if not rows and not unknown:
            raise AbsentError("no /sys/block/zram*: modprobe zram makes one")
        counters = ("read_ops", "read_bytes", "write_ops", "write_bytes")
        return ProbeResult([Reading("device", ("node", "device", "kind"), counters, (), rows, unknown=unknown)])
