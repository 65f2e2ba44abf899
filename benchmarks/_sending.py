"""Posts rows of operations to a collector at a pace until it is ended: `python _sending.py PORT TOKEN_FILE ROWS_PER_S`.

What arrives while pages are asked for. Not here: how fast a collector can take rows (`monitoring`).
"""

from __future__ import annotations

import http.client
import sys
import time
from array import array
from pathlib import Path

from fairlead.core.batches.encoding import Header, Numbers, encode_batch, encode_numbers, encode_same_word

A_SECOND = 10


def main() -> None:
    """Sends until it is ended; prints `ready` after the first batch."""
    port, token, rate = int(sys.argv[1]), Path(sys.argv[2]).read_text().strip(), int(sys.argv[3])
    line = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    rows = max(1, rate // A_SECOND)
    steps = array("q", range(rows))
    due = time.monotonic()
    for seq in range(1 << 40):
        now = time.time_ns() - 10**9
        starts = array("q", [now + k * 1000 for k in steps])
        columns: dict[str, object] = {
            "start_ns": starts,
            "end_ns": array("q", [one + 900 for one in starts]),
            "busy_ns": encode_numbers([900] * rows),
            "node": encode_same_word("n00001", rows),
            "job_id": encode_same_word("900000", rows),
            "interface": encode_same_word("posix", rows),
            "op": encode_same_word("write", rows),
            "file_id": encode_numbers([seq] * rows),
            "handle": steps,
            "size": encode_numbers([4096] * rows),
            "count": encode_numbers([1] * rows),
        }
        columns = {name: Numbers(one) if isinstance(one, array) else one for name, one in columns.items()}
        header = Header(
            table="ops",
            version=1,
            node="n00001",
            boot_id="cd" * 16,
            seq=seq,
            rows=rows,
            layer="agent",
            writer="benchmark",
            first_ns=starts[0],
            last_ns=starts[-1],
        )
        line.request("POST", "/v1/batches", encode_batch(header, columns), {"Authorization": f"Bearer {token}"})
        answer = line.getresponse()
        answer.read()
        if seq == 0:
            print("ready" if answer.status == 200 else f"refused {answer.status}", flush=True)
        due += 1 / A_SECOND
        time.sleep(max(0.0, due - time.monotonic()))


if __name__ == "__main__":
    main()
