"""Whether a job a client announces is its own: who says so, and whether that can be believed.

    said by                                               for shares    in records
    the token of the session, or a prolog's signature     the job       the job
    the cgroup, seen by a mount for any user              the job       the job
    anything, from this machine, to who may be anybody    the job       the job
    anything else                                         its user      the job, with --allow job-environment; else none

So an id that is made up takes nobody's share but its user's, and stands in no record of somebody else's job.
"""

from __future__ import annotations

from collections.abc import Collection

from fairlead.core.access import tokens
from fairlead.core.clock import now_ns
from fairlead.steer.forwarding.forwarder.client_sessions import Authority
from fairlead.steer.fs.wire.handshake import Identity, JobSource

Share = tuple[str | int, str | int]
"""The job whose share a request takes, and the job it is recorded under; a number stands for clients without one."""


class JobProofs:
    """The rules of one forwarder. `key` checks prologs' signatures (None: there are none)."""

    def __init__(self, key: bytes | None, allow: Collection[str]) -> None:
        self._key = key
        self._named = "job-environment" in allow

    def decide_share(self, authority: Authority, identity: Identity, number: int) -> Share:
        """The share of an announced job; `number` stands for the client where nothing is known of its job."""
        job = identity.job_id
        if not job:
            return number, number
        if authority.job == job or self._is_signed(authority, identity):
            return job, job
        if authority.uid < 0 and (authority.claims is None or identity.source == JobSource.CGROUP):
            return job, job
        user = authority.uid if authority.uid >= 0 else identity.uid
        pool = -2 - user
        return pool, job if self._named else pool

    def _is_signed(self, authority: Authority, identity: Identity) -> bool:
        if self._key is None or not identity.proof:
            return False
        try:
            claims = tokens.check_token(self._key, identity.proof, now_ns(), (tokens.JOB,))
        except ValueError:
            return False
        return claims.job == identity.job_id and claims.uid == (authority.uid if authority.uid >= 0 else identity.uid)
