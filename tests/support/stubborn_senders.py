"""Senders of batches that never give up, and the proof that each acknowledged batch is there exactly once."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Sequence
from http.client import HTTPException

from serving import Up, ops_batch


class Sender(threading.Thread):
    """Sends batches until told to end, each until it is acknowledged; some twice, some late, several in a body."""

    def __init__(self, server: Up, number: int, *, meets: frozenset[int] = frozenset({429, 503})) -> None:
        """`meets`: answers after which it tries again."""
        super().__init__(daemon=True)
        self.node = f"s{number}"
        self.acknowledged: set[int] = set()
        self.done = threading.Event()
        self.faults: list[str] = []
        self._server = server
        self._meets = meets
        self._random = random.Random(number)
        self._token = server.token("agent", node=self.node)

    def run(self) -> None:
        seq = 0
        late: list[int] = []
        while not self.done.is_set():
            fresh = list(range(seq + 1, seq + 1 + self._random.randint(1, 4)))
            seq = fresh[-1]
            if self._random.random() < 0.3:
                late.append(fresh.pop())
            if late and self._random.random() < 0.3:
                fresh.append(late.pop(0))
            if self.acknowledged and self._random.random() < 0.3:
                fresh.append(self._random.choice(sorted(self.acknowledged)))
            self._random.shuffle(fresh)
            self._until_taken(fresh)
        self._until_taken(late)

    def _until_taken(self, numbers: list[int]) -> None:
        if not numbers:
            return
        body = b"".join(ops_batch(seq, node=self.node, rows=3) for seq in numbers)
        end = time.monotonic() + 900
        while time.monotonic() < end:
            try:
                answer = self._server.post(body, token=self._token)
            except (OSError, HTTPException):  # it was killed before, or inside, its answer
                time.sleep(0.01)
                continue
            if answer.status == 200:
                assert answer.json["taken"] + answer.json["known"] == len(numbers)
                self.acknowledged.update(numbers)
                return
            if answer.status not in self._meets:
                self.faults.append(f"{answer.status} {answer.body!r}")
                return
            time.sleep(0.01)
        self.faults.append("never taken")


def check_exactly_once(server: Up, senders: Sequence[Sender]) -> int:
    """Every acknowledged batch is there once, whole, and no other is there in part; the number of rows."""
    rows = 0
    for sender in senders:
        assert sender.faults == []
        found = server.query(f"SELECT file_id, handle FROM ops WHERE node = '{sender.node}'")  # noqa: S608
        seen = Counter((row["file_id"], row["handle"]) for row in found)
        assert [key for key, times in seen.items() if times > 1] == []
        missing = sender.acknowledged - {seq for seq, _ in seen}
        assert not missing, f"{sender.node} lost {sorted(missing)[:5]}"
        assert len(seen) == 3 * len({seq for seq, _ in seen})
        rows += len(seen)
    return rows
