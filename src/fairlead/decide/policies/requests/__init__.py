"""Which request a forwarder executes next: `discipline("job-fair", workers=16, seed=1)`, and the contract it keeps.

Pure: no clock, no lock, no thread. The forwarder passes the time in and calls it under a lock of its own.
"""

from fairlead.decide.policies.requests.contract import METADATA, READ, WRITE, Discipline, Running, Waiting
from fairlead.decide.policies.requests.discipline_spec import discipline, parse_rate
from fairlead.decide.policies.requests.limits import Limits, Rate

__all__ = [
    "METADATA",
    "READ",
    "WRITE",
    "Discipline",
    "Limits",
    "Rate",
    "Running",
    "Waiting",
    "discipline",
    "parse_rate",
]
