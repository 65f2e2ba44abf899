"""One tree of errors. Each says what was wrong, where, and what to do next.

A user never sees a traceback for bad input; a broken invariant is never caught here and stays a traceback.
Exit codes are part of the command line's contract (`docs/reference/exit-codes.md`).
"""

from __future__ import annotations

from typing import ClassVar

from fairlead.core.safe_text import escape_text


class FairleadError(Exception):
    """Base of every error a user may meet.

    `what` is the fault in one clause, `where` the file, table or setting it lies in, `remedy` the next step.
    """

    exit_code: ClassVar[int] = 1
    retryable: ClassVar[bool] = False

    def __init__(self, what: str, *, where: str | None = None, remedy: str | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.remedy = remedy

    def __str__(self) -> str:
        place = f"{escape_text(self.where)}: " if self.where else ""
        step = f"\n  → {self.remedy}" if self.remedy else ""
        return f"{place}{escape_text(self.what)}{step}"


class UsageError(FairleadError):
    """The call itself is wrong: an unknown option value, nothing to read."""

    exit_code = 2


class InputError(FairleadError):
    """An input could not be used at all."""

    exit_code = 3


class UnknownFormatError(InputError):
    """The content is of no format fairlead reads."""


class CorruptInputError(InputError):
    """The format is known, the content is broken or truncated beyond use."""


class UnfitError(CorruptInputError):
    """Whole and readable, but its rows do not fit the table they are of."""


class OversizeError(CorruptInputError):
    """It holds, or announces, more than is taken at once."""


class SourceDefectError(InputError):
    """A source failed on a file: its own defect, not the file's. The file is left out."""


class UnsupportedVersionError(InputError):
    """The format is known, its version is newer than this fairlead."""


class PartialInputError(FairleadError):
    """Some inputs were reported, others could not be (raised last, after the reports)."""

    exit_code = 4


class ConfigError(FairleadError):
    """A setting, a rule or a site file is wrong."""

    exit_code = 5


class MissingDependencyError(FairleadError):
    """An optional dependency is needed for what was asked."""

    exit_code = 6


class LakeError(FairleadError):
    """The lake could not be opened, read or written."""

    exit_code = 7


class LakeBusyError(LakeError):
    """Another writer holds this shard of the lake."""

    retryable = True


class DamagedLakeError(LakeError):
    """A file of the lake is not what was written: its checksum is wrong, or it is gone."""


class TooOldError(LakeError):
    """Older than the lake remembers what it took in: whether it has it cannot be told any more."""


class ForwardingError(FairleadError):
    """Something of the forwarding plane does not work."""

    exit_code = 8


class MountError(ForwardingError):
    """A mount could not be made, moved or ended."""


class UnreachableError(ForwardingError):
    """No forwarder or metadata service answers."""

    retryable = True


class RefusedError(ForwardingError):
    """The other side answers and says no: token, version, export."""


class ServerError(FairleadError):
    """The server (`fairlead up`) cannot start, or does not work."""

    exit_code = 9


class NoAnswerError(ServerError):
    """No server answers where one was asked for."""

    retryable = True


class DeliveryError(FairleadError):
    """An alert could not be delivered, and trying again will not help."""

    exit_code = 10


class UndeliveredError(DeliveryError):
    """The receiver of an alert cannot be reached, or cannot take it now."""

    retryable = True


class PlanError(FairleadError):
    """A plan cannot be made or carried out."""

    exit_code = 11


class UnsoundPlanError(PlanError):
    """A plan grants what does not exist, is sick, kept for others or barred, or is beyond a limit."""


class PluginError(FairleadError):
    """A plug-in of this site has a defect; its package is named."""

    exit_code = 12
