"""Files of spools go to the collector, oldest first, and are removed when it has them. A thread of its own.

Nothing is removed on any answer but a sound 200. Not here: the connection (`connection`), who writes the files.
"""

import os
from contextlib import ExitStack, suppress
from heapq import nsmallest
from typing import BinaryIO, Callable, Iterator, List, NamedTuple, Optional, Sequence, Set, Tuple

from fairlead.core.batches.spool import ENDING, count_spool_batches
from fairlead.see.agent.connection import Answer, Line, SendError
from fairlead.see.agent.health import SenderHealth

BODY_BYTES = 8 << 20
BODY_FILES = 128
"""Of one request, at most; a larger file goes alone."""
REFUSED_BYTES = 16 << 20
"""Room for what the collector will never take."""
NEVER = (400, 410, 413, 422)
"""Answers that another attempt will not change."""
SECOND_NS = 10**9
_FIRST_S, _LONGEST_S, _PATIENCE_S = 0.5, 60.0, 3600.0
_CANDIDATES = 512
_MOST_KEPT = 10000
_ATTEMPT_NS = 60 * SECOND_NS
_KEPT_NS = 5 * SECOND_NS
"""A connection is kept when the next attempt is this near: a server has fewer connections than a machine has nodes."""
_FOLLOW_NS, _FOLLOW_POLL_NS = 8 * SECOND_NS, SECOND_NS
"""After a job's end spools of mounts are looked at so often, so long: what a mount has of it is in its file by then."""
_PAUSE_NS = SECOND_NS
"""Between two bodies of what has piled up, at most: after an outage every node has as much."""
_SLOWEST_BYTES_PER_S = 64 << 10
"""A request may take a minute, and the time its bytes take at this rate."""
_MEANINGS = {
    401: "the token is not accepted",
    403: "the token is for another node or role",
    404: "no collector responds there",
    426: "the collector is older than this agent",
    429: "the collector is overloaded",
    503: "the collector is stopping",
    507: "the collector's disk is full",
}


class Backoff:
    """Waits that double from 0.5 s to 60 s, each drawn evenly from zero to that, so that nodes do not come together.

    `draw` gives numbers in [0, 1).
    """

    def __init__(self, draw: Callable[[], float]) -> None:
        self.failures = 0
        self._draw = draw

    def record_failure(self, retry_after_s: Optional[float] = None) -> float:
        """Seconds until the next attempt; what the other side asked for comes on top."""
        longest = min(_FIRST_S * 2.0 ** min(self.failures, 30), _LONGEST_S)
        self.failures += 1
        return self._draw() * longest + min(retry_after_s or 0.0, _PATIENCE_S)

    def record_success(self) -> None:
        """The next failure is a first one."""
        self.failures = 0


class _Waiting(NamedTuple):
    """A file that waits. Sorts by the time in its name."""

    name: str
    folder: str

    @property
    def path(self) -> str:
        return os.path.join(self.folder, self.name)


class Shipper:
    """See the module. `step` by one thread; `get_health`, `cut_overdue`, `follow` and `hurry` by any."""

    def __init__(
        self,
        own: str,
        foreign: Sequence[str],
        line: Line,
        *,
        draw: Callable[[], float],
        poll_s: float = 10.0,
    ) -> None:
        self._folders = [own, *foreign]
        self._own = own
        self._line = line
        self._backoff = Backoff(draw)
        self._draw = draw
        self._poll_ns = int(poll_s * 1e9)
        self._candidates: List[_Waiting] = []
        self._alone = 0
        """So many of the oldest files go one by one: a body of several was refused, and one of them is why."""
        self._kept: Set[str] = set()
        """Not to be sent again, and yet not to be removed: taken, or of a node our token is not for."""
        self._left = ""
        """Which file of a mount was left, and why."""
        self._not_before_ns = 0
        self._follow_until_ns = 0
        self._hurried = False
        self._attempt: Optional[Tuple[int, int]] = None
        self._told = SenderHealth(spools=bool(foreign))

    def get_health(self) -> SenderHealth:
        """How it goes."""
        return self._told

    def hurry(self) -> None:
        """No more waiting: the settings or the token changed, or the end is near."""
        self._not_before_ns = 0
        self._hurried = True
        self._kept.clear()  # another token may be for them; what was taken is known
        self._left = ""

    def follow(self, mono_ns: int) -> None:
        """A job has ended: what mounts write of it is sent as soon as it is there."""
        if len(self._folders) > 1:
            self._follow_until_ns = mono_ns + _FOLLOW_NS

    def cut_overdue(self, mono_ns: int) -> None:
        """Cuts an attempt that takes far too long, however busily the other side pretends."""
        attempt = self._attempt
        if attempt is not None and mono_ns > attempt[0] + _ATTEMPT_NS + attempt[1] * SECOND_NS // _SLOWEST_BYTES_PER_S:
            self._line.cut()

    def close(self) -> None:
        """Ends the connection. By the thread that steps."""
        self._line.close()

    def step(self, mono_ns: int) -> int:
        """Sends at most one body; returns the monotonic time of the next step."""
        if mono_ns < self._not_before_ns:
            return self._not_before_ns
        with ExitStack() as opened:
            batch = self._pick(opened)
            if not batch:
                poll_ns = _FOLLOW_POLL_NS if mono_ns < self._follow_until_ns else self._poll_ns
                return self._rest(mono_ns, mono_ns + min(poll_ns, self._poll_ns))
            waiting, files, size = zip(*batch)
            more = len(self._candidates) > len(batch) and not self._alone
            self._attempt = (mono_ns, sum(size))
            try:
                answer = self._line.post(files, sum(size))
            except SendError as fault:
                return self._failed(mono_ns, str(fault), None)
            finally:
                self._attempt = None
        again = self._answered(mono_ns, list(waiting), answer)
        if more and not self._hurried and again <= mono_ns:
            self._not_before_ns = mono_ns + int(self._draw() * _PAUSE_NS)
            return self._not_before_ns
        return again

    def _rest(self, mono_ns: int, again_ns: int) -> int:
        if again_ns - mono_ns > _KEPT_NS:
            self._line.close()
        return again_ns

    # -- picking --------------------------------------------------------------------------------------------------

    def _pick(self, opened: ExitStack) -> List[Tuple[_Waiting, BinaryIO, int]]:
        """The oldest files, as many as go together, open."""
        found: List[Tuple[_Waiting, BinaryIO, int]] = []
        total = 0
        if not self._candidates:
            self._candidates = nsmallest(_CANDIDATES, self._all())
        for waiting in list(self._candidates):
            try:
                file = opened.enter_context(_open(waiting.path))
                size = os.fstat(file.fileno()).st_size
            except OSError:
                self._candidates.remove(waiting)
                if os.path.lexists(waiting.path):  # else it was removed to make room
                    self._keep(waiting.path)
                    self._told = self._told._replace(text="{} cannot be read".format(waiting.path))
                continue
            if found and (total + size > BODY_BYTES or len(found) >= BODY_FILES or self._alone):
                break
            found.append((waiting, file, size))
            total += size
        return found

    def _all(self) -> Iterator[_Waiting]:
        missing = False
        for folder in self._folders:
            try:
                with os.scandir(folder) as entries:
                    for entry in entries:
                        name = entry.name
                        if name.endswith(ENDING) and name[0] != "." and os.path.join(folder, name) not in self._kept:
                            yield _Waiting(name, folder)
            except OSError:
                missing = missing or folder != self._own
        self._told = self._told._replace(spools_found=not missing)

    def _keep(self, path: str) -> None:
        if len(self._kept) >= _MOST_KEPT:
            self._kept.clear()  # they are sent again, and known
        self._kept.add(path)

    # -- answers --------------------------------------------------------------------------------------------------

    def _answered(self, mono_ns: int, sent: List[_Waiting], answer: Answer) -> int:
        if answer.offset_ns is not None:
            self._told = self._told._replace(offset_ns=answer.offset_ns)
        taken, known = answer.number("taken"), answer.number("known")
        if answer.status == 200 and taken is not None and known is not None:
            for waiting in sent:
                self._remove(waiting)
            foreign = sum(waiting.folder != self._own for waiting in sent)
            self._told = self._told._replace(
                sent_files=self._told.sent_files + len(sent),
                sent_batches=self._told.sent_batches + taken + known,
                foreign_files=self._told.foreign_files + foreign,
                failing=False,
                text=self._left,
            )
            self._settled(len(sent))
            return mono_ns
        # A proxy on the way may say 400 of a request it did not understand: only the collector's own word counts.
        if answer.status in NEVER and (answer.said or answer.status == 413):
            self._refused(sent, answer)
            return mono_ns
        if answer.status == 403 and self._left_out(sent, answer):
            return mono_ns
        meaning = _MEANINGS.get(answer.status)
        if answer.status == 200:
            meaning = "the response is not from a collector"
        elif 300 <= answer.status < 400:
            meaning = "it redirects, which is not followed"
        text = "{}: {} {}".format(self._line.server, answer.status, meaning or answer.said).strip()
        return self._failed(mono_ns, text, answer.retry_after_s)

    def _settled(self, count: int) -> None:
        self._alone = max(self._alone - count, 0)
        self._backoff.record_success()

    def _left_out(self, sent: List[_Waiting], answer: Answer) -> bool:
        """Whether a mount's file our token is not for stays where it is, so that it holds up no other."""
        if all(waiting.folder == self._own for waiting in sent):
            return False
        if len(sent) > 1:
            self._alone = len(sent)
            return True
        self._left = "{} is not sent: 403 {}".format(sent[0].path, answer.said)
        self._told = self._told._replace(failures=self._told.failures + 1, text=self._left)
        self._candidates.remove(sent[0])
        self._keep(sent[0].path)
        self._settled(1)
        return True

    def _refused(self, sent: List[_Waiting], answer: Answer) -> None:
        if len(sent) > 1:  # none of it was taken, and one of them is why
            self._alone = len(sent)
            return
        text = "{} refused a file: {} {}".format(self._line.server, answer.status, answer.said)
        waiting = sent[0]
        with suppress(OSError):
            count = max(count_spool_batches(waiting.path)[0], 1)
            self._told = self._told._replace(refused=self._told.refused + count, text=text)
        self._put_aside(waiting)
        self._settled(1)

    def _remove(self, waiting: _Waiting) -> None:
        self._candidates = [one for one in self._candidates if one != waiting]
        try:
            os.unlink(waiting.path)
        except FileNotFoundError:
            return
        except OSError:
            self._keep(waiting.path)

    def _put_aside(self, waiting: _Waiting) -> None:
        """Into `refused/` of the own spool, where the oldest go when it is full."""
        folder = os.path.join(self._own, "refused")
        try:
            os.makedirs(folder, 0o750, exist_ok=True)
            with _open(waiting.path) as source:
                if os.fstat(source.fileno()).st_size <= REFUSED_BYTES:
                    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
                    with os.fdopen(os.open(os.path.join(folder, waiting.name), flags, 0o640), "wb") as copy:
                        for part in iter(lambda: source.read(1 << 16), b""):
                            copy.write(part)
            held = sorted((one, os.stat(os.path.join(folder, one)).st_size) for one in os.listdir(folder))
            total = sum(size for _, size in held)
            for name, size in held:
                if total <= REFUSED_BYTES:
                    break
                os.unlink(os.path.join(folder, name))
                total -= size
        except OSError:
            pass  # a full disk: it is told in health, and gone
        self._remove(waiting)

    def record_defect(self, mono_ns: int, defect: Exception) -> int:
        """A defect of the agent itself: told, and the rest is tried again later."""
        return self._failed(mono_ns, "defect: {}: {}".format(type(defect).__name__, defect)[:200], None)

    def _failed(self, mono_ns: int, text: str, retry_after_s: Optional[float]) -> int:
        self._told = self._told._replace(failing=True, failures=self._told.failures + 1, text=text)
        self._not_before_ns = mono_ns + int(self._backoff.record_failure(retry_after_s) * 1e9)
        return self._rest(mono_ns, self._not_before_ns)


def _open(path: str) -> BinaryIO:
    """A plain file for reading: what another user put into a spool may be a link or a pipe."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    file = os.fdopen(descriptor, "rb", 0)
    if os.fstat(descriptor).st_mode & 0o170000 != 0o100000:
        file.close()
        raise OSError("not a regular file")
    return file
