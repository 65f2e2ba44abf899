"""The nightly list of scratch space: a line `# scratch 1`, then `SECONDS TARGET CAPACITY_BYTES USED_BYTES` each."""

from fairlead.plugins import TABLES, CorruptInputError, Missing, build_batch, list_end_gaps, read_line_blocks


class ScratchSource:
    name = "scratch"

    def accepts(self, head, path):
        return head.startswith(b"# scratch 1\n")

    def read(self, path):
        for block in read_line_blocks(path):
            rows, unread = [], 0
            for line in block.data.decode("utf-8", "replace").splitlines():
                try:
                    seconds, target, capacity, used = line.split()
                    rows.append((int(seconds) * 10**9, target, int(capacity), int(used)))
                except ValueError:
                    unread += not line.startswith("#")
            if rows:
                columns = zip(("ts_ns", "target", "capacity_bytes", "used_bytes"), zip(*rows, strict=True), strict=True)
                yield build_batch(TABLES["target"], {name: list(values) for name, values in columns})
            elif block.last and block.first_line == 1:
                raise CorruptInputError("it lists no target", where=str(path), remedy="wait for the next list")
            if unread:
                yield Missing(kind="unreadable_lines", what=f"{unread} lines", why="not four words", where=str(path))
            yield from list_end_gaps(block, kept=False)
