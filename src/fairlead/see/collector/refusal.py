"""What a client is told when its request is not taken: a status, what was wrong, where, what to do. Nothing else.

Not here: when (`admission`, `batch_checks`, `app`).
"""

from __future__ import annotations

import errno

import msgspec

from fairlead.core.errors import FairleadError, OversizeError, TooOldError, UnfitError, UnsupportedVersionError

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class ErrorBody(msgspec.Struct, frozen=True, kw_only=True):
    """The body of every answer that is no success."""

    error: str
    where: str = ""
    remedy: str = ""


class Refusal(Exception):  # noqa: N818  (an answer, not a fault of ours)
    """Ends a request with `status`. `retry_s`: when trying again makes sense; None: never as it is."""

    def __init__(
        self, status: int, error: str, *, where: str = "", remedy: str = "", retry_s: float | None = None
    ) -> None:
        super().__init__(error)
        self.status = status
        self.told = ErrorBody(error=error, where=where, remedy=remedy)
        self.retry_s = retry_s

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        """Headers of the answer besides those of any JSON."""
        found = [] if self.retry_s is None else [(b"retry-after", str(max(1, round(self.retry_s))).encode())]
        return [*found, (b"www-authenticate", b"Bearer")] if self.status == 401 else found


def build_refusal(error: FairleadError, status: int) -> Refusal:
    """`error` as the answer `status`."""
    return Refusal(status, error.what, where=error.where or "", remedy=error.remedy or "")


def build_lake_refusal(error: FairleadError) -> Refusal:
    """What a lake that cannot be written means to a client: no room (507), or not now (503). It keeps its batches."""
    cause = error.__cause__
    if isinstance(cause, OSError) and cause.errno in NO_ROOM:
        return build_full_disk_refusal()
    return Refusal(503, "the lake cannot be written", remedy="keep the batches and try again later", retry_s=30)


def build_full_disk_refusal() -> Refusal:
    """The disk is full."""
    return Refusal(507, "the server's disk is full", remedy="keep the batches and try again later", retry_s=60)


def find_refusal_status(error: FairleadError) -> int:
    """The status that says why batches can never be taken."""
    if isinstance(error, UnsupportedVersionError):
        return 426
    if isinstance(error, OversizeError):
        return 413
    if isinstance(error, TooOldError):
        return 410
    return 422 if isinstance(error, UnfitError) else 400
