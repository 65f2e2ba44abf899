"""How long jobs waited, by partition: `GET /api/v1/site/queue`, `fairlead ask queue last=7d`."""

from fairlead.plugins import Answer, Question, TimeParameters


class Wait(Answer):
    partition: str | None
    jobs: int
    longest_s: float | None


class Queue(Answer):
    from_ns: int
    to_ns: int
    waits: list[Wait]


def answer(asking, name, asked, sight, now_ns):
    span = asked.span(now_ns, "1d", asking.longest_ns)
    rows = asking.lake.query(
        "SELECT partition, count(*)::BIGINT AS jobs, max(start_ns - submit_ns) / 1e9 AS longest_s FROM jobs"
        " WHERE start_ns BETWEEN $from_ns AND $to_ns GROUP BY partition ORDER BY partition",
        {"from_ns": span.from_ns, "to_ns": span.to_ns},
    )
    return Queue(from_ns=span.from_ns, to_ns=span.to_ns, waits=[Wait(**row) for row in rows.to_pylist()])


QUEUE = Question("site/queue", TimeParameters, Queue, "How long jobs waited, by partition.", answer)
