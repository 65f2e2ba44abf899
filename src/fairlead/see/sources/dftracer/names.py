"""File, host and string hashes of a trace → what they stand for, as its metadata events tell them.

Early versions hash to 16 bits, so that two paths of one trace may share a hash: an event then means the path that
was told last before it, and the hash counts as ambiguous.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fairlead.core.model.identity import compute_file_identity
from fairlead.core.model.tables import FILES, build_table_batch
from fairlead.see.sources.dftracer import layout as c
from fairlead.see.sources.dftracer.processes import Ranks
from fairlead.see.sources.dftracer.tokens import Tokens, encode_dftracer_token

_NO_HASHES = (b"", b"0")
_JOB_ID_NAMES = {
    "job_id",
    "jobid",
    "slurm_job_id",
    "slurm_jobid",
    "pbs_jobid",
    "lsb_jobid",
    "flux_job_id",
    "cobalt_jobid",
}


def grow_name_table(table: NDArray[np.int64], length: int, fill: int = -1) -> NDArray[np.int64]:
    """`table` with room for `length` entries, new ones holding `fill`."""
    if length <= len(table):
        return table
    bigger = np.full(max(length, 2 * len(table)), fill, np.int64)
    bigger[: len(table)] = table
    return bigger


class Names:
    """Tables from token code to token code (hash → path, hash → host, hash → string), -1 where unknown."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens
        self._paths = np.full(256, -1, np.int64)
        self._hosts = np.full(256, -1, np.int64)
        self._strings = np.full(256, -1, np.int64)
        self._ids = np.zeros(256, np.int64)
        self._known = np.zeros(256, np.int64)
        self._ambiguous = np.zeros(256, np.int64)
        self._defined: tuple[c.IntArray, c.IntArray, c.IntArray] = (np.empty(0, np.int64),) * 3
        self._before = self._paths
        self.unnamed: set[int] = set()
        self.ranks: Ranks = {}
        self.job_id: str | None = None
        self.host_tokens: set[int] = set()

    @property
    def ambiguous_hashes(self) -> int:
        """Hashes that stand for more than one path."""
        return int(self._ambiguous.sum())

    def _room(self) -> None:
        size = len(self._tokens)
        self._paths, self._hosts = grow_name_table(self._paths, size), grow_name_table(self._hosts, size)
        self._strings = grow_name_table(self._strings, size)
        self._ids, self._known = grow_name_table(self._ids, size, 0), grow_name_table(self._known, size, 0)
        self._ambiguous = grow_name_table(self._ambiguous, size, 0)

    def learn(self, rows: c.IntArray) -> None:
        """Take in the metadata events among `rows`, which `paths` is asked about next."""
        self._room()
        at = np.flatnonzero(rows[c.PH] == c.METADATA)
        kind, name, value = rows[c.NAME][at], rows[c.META_NAME][at], rows[c.META_VALUE][at]
        files = kind == self._tokens.find(b"FH")
        self._learn_files(name[files], value[files], at[files])
        self._learn_others(kind[~files], name[~files], value[~files], rows[:, at[~files]])

    def _learn_files(self, name: c.IntArray, value: c.IntArray, at: c.IntArray) -> None:
        self._before = self._paths.copy() if len(at) else self._paths
        order = np.lexsort((at, value))
        self._defined = (value[order], at[order], name[order])
        fresh = (self._paths[value] != name) & (self._paths[value] >= 0)
        self._ambiguous[value[fresh]] = 1
        self._paths[value] = name
        self._ambiguous[value[self._paths[value] != name]] = 1

    def _learn_others(self, kind: c.IntArray, name: c.IntArray, value: c.IntArray, rows: c.IntArray) -> None:
        """Hosts, strings, ranks and job ids: few per process."""
        host, text = self._tokens.find(b"HH"), self._tokens.find(b"SH")
        hosts, strings = kind == host, kind == text
        self._hosts[value[hosts]] = name[hosts]
        self._strings[value[strings]] = name[strings]
        self.host_tokens.update(np.unique(name[hosts]).tolist())
        rest = ~(hosts | strings)
        if not rest.any():
            return
        said = np.unique(np.stack([name[rest], value[rest], rows[c.PID][rest], rows[c.HHASH][rest]]), axis=1)
        for name_code, value_code, pid, hash_code in said.T.tolist():
            word, said_value = self._tokens.decode_text(name_code).lower(), self._tokens.decode_text(value_code)
            if word == "rank" and said_value.isdecimal() and int(said_value) < 1 << 31:
                self.ranks.setdefault(pid, {})[hash_code] = int(said_value)
            elif word in _JOB_ID_NAMES and said_value.strip():
                self.job_id = said_value.strip()

    def foresee(self, rows: c.IntArray) -> None:
        """Learn from the block after the one being converted: what has no meaning yet, and ranks."""
        self._room()
        at = np.flatnonzero(rows[c.PH] == c.METADATA)
        kind, name, value = rows[c.NAME][at], rows[c.META_NAME][at], rows[c.META_VALUE][at]
        for table, word in ((self._paths, b"FH"), (self._hosts, b"HH")):
            new = (kind == self._tokens.find(word)) & (table[value] < 0)
            table[value[new]] = name[new]
        ranks = kind == self._tokens.find(b"PR")
        self._learn_others(kind[ranks], name[ranks], value[ranks], rows[:, at[ranks]])

    def find_paths(self, hashes: c.IntArray, names: c.IntArray, at: c.IntArray) -> c.IntArray:
        """Path tokens of events at rows `at` of the block last learnt, from their hash or name, or ABSENT."""
        self._room()
        found = np.full(len(at), c.ABSENT, np.int64)
        hashed = np.flatnonzero(hashes != c.ABSENT)
        codes = hashes[hashed]
        path = self._paths[codes]
        doubtful = np.flatnonzero(self._ambiguous[codes])
        if len(doubtful):
            path[doubtful] = self._last_told(codes[doubtful], at[hashed[doubtful]])
        for code in np.unique(codes[path < 0]).tolist():
            text = self._tokens.texts[code]
            if text in _NO_HASHES:
                path[codes == code] = c.ABSENT
            else:
                self.unnamed.add(code)
                path[codes == code] = self._tokens.code(b"(unnamed file %s)" % text)
        found[hashed] = path
        return np.where(names != c.ABSENT, names, found)

    def _last_told(self, codes: c.IntArray, at: c.IntArray) -> c.IntArray:
        told, told_at, told_name = self._defined
        span = 1 << 32
        place = np.searchsorted(told * span + told_at, codes * span + at) - 1
        inside = (place >= 0) & (told[np.maximum(place, 0)] == codes) if len(told) else np.zeros(len(codes), bool)
        earlier = self._before[codes]
        earlier = np.where(earlier < 0, self._paths[codes], earlier)
        return np.where(inside, told_name[place] if len(told) else earlier, earlier)

    def find_hosts(self, hashes: c.IntArray, names: c.IntArray) -> c.IntArray:
        """Host tokens from hash or name; the trace's only host where an event says nothing; -1 where unknown."""
        default = next(iter(self.host_tokens)) if len(self.host_tokens) == 1 else -1
        table = self._hosts
        found = np.where(hashes != c.ABSENT, table[np.maximum(hashes, 0)], default)
        return np.where(names != c.ABSENT, names, found)

    def find_string(self, code: int) -> str | None:
        """What a string hash stands for."""
        if code < 0 or code >= len(self._strings) or self._strings[code] < 0:
            return None
        return self._tokens.decode_text(int(self._strings[code]))

    def build_file_ids(self, paths: c.IntArray, start_ns: c.IntArray) -> tuple[c.IntArray, pa.RecordBatch | None]:
        """File ids (n,) of path tokens (ABSENT → 0), and a batch of `files` for those never seen before."""
        self._room()
        named = np.flatnonzero(paths != c.ABSENT)
        codes = paths[named]
        fresh = self._known[codes] == 0
        ids = np.zeros(len(paths), np.int64)
        batch = None
        if fresh.any():
            batch = self._new_files(codes[fresh], start_ns[named[fresh]])
        ids[named] = self._ids[codes]
        return ids, batch

    def _new_files(self, codes: c.IntArray, start_ns: c.IntArray) -> pa.RecordBatch:
        tokens, first = np.unique(codes, return_index=True)
        texts = [self._tokens.decode_text(code) for code in tokens.tolist()]
        self._ids[tokens] = [compute_file_identity("", text) for text in texts]
        self._known[tokens] = 1
        shown = [encode_dftracer_token(text).decode("utf-8", "backslashreplace") for text in texts]
        fs = [""] * len(shown)
        columns = {"file_id": self._ids[tokens], "fs": fs, "path": shown, "first_seen_ns": start_ns[first]}
        return build_table_batch(FILES, columns)
