"""The job a jobid string names, by the rule Lustre made it with (`jobid_var`, `jobid_name`). Not here: job_stats.

The rule: where `jobid_name` has `%j` among other parts (`%j:%u:%H`), the job is what stands at `%j`; in all other cases
it is the string as it is, which with `jobid_var=SLURM_JOB_ID` is Slurm's job number.
"""

import re
from typing import Optional, Pattern

_PART = re.compile(r"%([a-zA-Z%])")
_ESCAPE = re.compile(rb"\\(?:x([0-9a-fA-F]{2})|([0-7]{3})|(.))", re.S)
_SHORT = {b"n": b"\n", b"t": b"\t", b"r": b"\r"}


class JobIds:
    """Turns jobid strings into job ids. `name` is a `jobid_name`; `parted` when several strings may be of one job."""

    def __init__(self, name: str = "") -> None:
        self._whole: "Optional[Pattern[str]]" = None
        if "%j" in name and name != "%j":
            self._whole = _template(name)
        self.parted = self._whole is not None

    def find_job(self, text: bytes) -> Optional[str]:
        """The job of a string as job_stats writes it; None when it is empty (no job)."""
        raw = unquote_job_id(text)
        if self._whole is not None:
            match = self._whole.match(raw)
            if match is not None and match.group("job"):
                return match.group("job")
        return raw or None


def unquote_job_id(text: bytes) -> str:
    """A string of job_stats without its quotes and escapes (`"a\\x20b"`)."""
    if b'"' not in text[:1] and b"\\" not in text:
        return text.decode("utf-8", "replace")
    if len(text) >= 2 and text[:1] == text[-1:] == b'"':
        text = _ESCAPE.sub(_plain, text[1:-1])
    return text.decode("utf-8", "replace")


def _plain(match: "re.Match[bytes]") -> bytes:
    hexadecimal, octal, single = match.groups()
    if hexadecimal is not None:
        return bytes((int(hexadecimal, 16),))
    if octal is not None:
        return bytes((int(octal, 8) & 255,))
    return _SHORT.get(single, single)


def _template(name: str) -> "Pattern[str]":
    text, at = "", 0
    seen = False
    for match in _PART.finditer(name):
        text += re.escape(name[at : match.start()])
        letter = match.group(1)
        if letter == "%":
            text += "%"
        elif letter == "j" and not seen:
            seen = True
            text += "(?P<job>[^\\s]*?)" if match.start() else "(?P<job>[^\\s:.,;@]*)"
        else:
            text += ".*?"
        at = match.end()
    return re.compile(text + re.escape(name[at:]) + r"\Z", re.S)
