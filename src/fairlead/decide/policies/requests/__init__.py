"""Which request a forwarder executes next: `build_discipline("job-fair", workers=16, seed=1)`, and its contract.

Pure: no clock, no lock, no thread. The forwarder passes the time in and calls it under a lock of its own.
"""

from fairlead.decide.policies.requests.contract import METADATA, READ, WRITE, Discipline, Running, Waiting
from fairlead.decide.policies.requests.discipline_spec import build_discipline, parse_discipline_rate
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
    "build_discipline",
    "parse_discipline_rate",
]
