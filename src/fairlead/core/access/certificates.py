"""A site's own authority and the certificates of its services, made by `openssl`: what `tls:` addresses show and trust.

Not here: how a connection uses them (`tls`).
"""

from __future__ import annotations

import ipaddress
import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from fairlead.core.errors import InputError, RefusedError, UsageError

CA_DAYS, DAYS = 3650, 397
"""How long an authority and a certificate are valid."""
_EC = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.:-]{0,252})")


def make_certificates(folder: Path, hosts: Sequence[str]) -> list[Path]:
    """Makes `ca.pem` and `ca.key` in `folder` unless they are there, and of each host `NAME.pem` and `NAME.key` in
    place of older ones. A host is `NAME[,NAME...]`, names and addresses of one machine. Returns the certificates.

    UsageError for a name that is none, RefusedError when openssl cannot make one, InputError for the folder.
    """
    named = [host.split(",") for host in hosts]
    for name in (name for names in named for name in names):
        if _NAME.fullmatch(name) is None or name == "ca":
            raise UsageError("not the name of a host", where=f"--host {name}", remedy="write fwd1 or fwd1,10.0.0.7")
    try:
        folder.mkdir(mode=0o755, parents=True, exist_ok=True)
        authority = folder / "ca.pem", folder / "ca.key"
        if not authority[0].exists():
            subject = ("-subj", "/CN=fairlead certificate authority")
            extensions = ("basicConstraints=critical,CA:TRUE", "keyUsage=critical,keyCertSign,cRLSign")
            wanted = [word for extension in extensions for word in ("-addext", extension)]
            with TemporaryDirectory(dir=folder) as place:
                made = Path(place, "ca.pem"), Path(place, "ca.key")
                _run("req", "-x509", *_EC, "-days", CA_DAYS, *subject, *wanted, "-keyout", made[1], "-out", made[0])
                _keep(made, authority)
        return [_make_certificate(folder, authority, names) for names in named]
    except OSError as error:
        raise InputError(
            f"cannot be written: {error.strerror}", where=str(folder), remedy="choose a directory you may write to"
        ) from error


def _make_certificate(folder: Path, authority: tuple[Path, Path], names: Sequence[str]) -> Path:
    certificate = folder / f"{names[0]}.pem"
    with TemporaryDirectory(dir=folder) as place:
        made, request, extensions = (Path(place, "new.pem"), Path(place, "new.key")), Path(place, "r"), Path(place, "e")
        extensions.write_text(
            f"subjectAltName={','.join(map(_alternative_name, names))}\nbasicConstraints=critical,CA:FALSE\n"
            "keyUsage=critical,digitalSignature\nextendedKeyUsage=serverAuth\n"
            "subjectKeyIdentifier=hash\nauthorityKeyIdentifier=keyid\n",
            encoding="ascii",
        )
        _run("req", "-new", *_EC, "-subj", f"/CN={names[0][:64]}", "-keyout", made[1], "-out", request)
        signed = ("-CA", authority[0], "-CAkey", authority[1], "-set_serial", f"0x{os.urandom(16).hex()}")
        _run("x509", "-req", "-in", request, *signed, "-days", DAYS, "-extfile", extensions, "-out", made[0])
        _keep(made, (certificate, certificate.with_name(f"{names[0]}.key")))
    return certificate


def _keep(made: tuple[Path, Path], kept: tuple[Path, Path]) -> None:
    """Puts certificate and key in their places, the key readable by its owner only."""
    made[0].chmod(0o644)
    made[1].chmod(0o600)
    made[1].replace(kept[1])
    made[0].replace(kept[0])


def _alternative_name(name: str) -> str:
    try:
        return f"IP:{ipaddress.ip_address(name)}"
    except ValueError:
        return f"DNS:{name}"


def _run(*words: object) -> None:
    before = os.umask(0o077)
    try:
        done = subprocess.run(
            ["openssl", *map(str, words)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
    except FileNotFoundError as error:
        raise RefusedError(
            "openssl is not installed", remedy="install it, or make the certificates with your own authority"
        ) from error
    finally:
        os.umask(before)
    if done.returncode:
        raise RefusedError(
            f"openssl {words[0]} failed: {done.stderr.strip()[-300:]}",
            remedy="check `openssl version` (1.1.1 or newer)",
        )
