"""A real directory (slapd) as a process of the test's own: people, groups, TLS."""

from __future__ import annotations

import datetime
import ipaddress
import os
import shutil
import socket
import subprocess
from pathlib import Path

from waiting import PATIENCE_S, wait_until

BASE = "dc=example,dc=org"
PASSWORD = "four words are enough"  # noqa: S105
SEARCHER = f"cn=searcher,{BASE}"


def missing() -> str:
    """Why there can be none; empty when there can."""
    if program() is None:
        return "needs slapd (apt-get install slapd)"
    return "" if Path("/etc/ldap/schema/nis.schema").exists() else "needs the schemas of slapd"


def program() -> str | None:
    return shutil.which("slapd") or shutil.which("slapd", path="/usr/sbin:/usr/local/sbin")


def certificate(folder: Path, name: str) -> tuple[Path, Path]:
    """A certificate of `localhost` that vouches for itself, and its key."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    called = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(called)
        .issuer_name(called)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=2))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(
            x509.SubjectAlternativeName(
                [
                    x509.DNSName(name),
                    *([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))] if name == "localhost" else []),
                ]
            ),
            critical=False,
        )
        .sign(key, hashes.SHA256())
    )
    certificate_file, key_file = folder / f"{name}.pem", folder / f"{name}.key"
    certificate_file.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    key_file.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    key_file.chmod(0o600)
    return certificate_file, key_file


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


class Directory:
    """slapd in a folder, with alice (staff, p-climate), bob, a person with a hostile name, and one who searches."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.certificate, key = certificate(folder, "localhost")
        self.plain, self.encrypted = free_port(), free_port()
        (folder / "data").mkdir()
        schemas = "\n".join(
            f"include /etc/ldap/schema/{name}.schema" for name in ("core", "cosine", "nis", "inetorgperson")
        )
        (folder / "slapd.conf").write_text(
            f"{schemas}\npidfile {folder}/pid\nargsfile {folder}/args\nmodulepath /usr/lib/ldap\nmoduleload back_mdb\n"
            f"TLSCertificateFile {self.certificate}\nTLSCertificateKeyFile {key}\n"
            f'database mdb\nmaxsize 10485760\nsuffix "{BASE}"\nrootdn "{SEARCHER}"\n'
            f"rootpw {PASSWORD.replace(' ', '-')}\n"
            f"directory {folder}/data\naccess to attrs=userPassword by anonymous auth by * none\n"
            "access to * by users read by * none\n"
        )
        (folder / "people.ldif").write_text(_people())
        slapadd = shutil.which("slapadd", path="/usr/sbin:/usr/local/sbin:" + os.environ.get("PATH", ""))
        assert slapadd is not None
        subprocess.run(
            [slapadd, "-f", str(folder / "slapd.conf"), "-l", str(folder / "people.ldif")],
            check=True,
            capture_output=True,
        )
        slapd = program()
        assert slapd is not None
        with (folder / "log").open("wb") as log:
            self.process = subprocess.Popen(
                [
                    slapd,
                    "-d",
                    "0",
                    "-f",
                    str(folder / "slapd.conf"),
                    "-h",
                    f"ldap://127.0.0.1:{self.plain} ldaps://127.0.0.1:{self.encrypted}",
                ],
                stdout=log,
                stderr=log,
            )
        self.searcher = folder / "searcher"
        self.searcher.write_text(PASSWORD.replace(" ", "-"))
        self.searcher.chmod(0o600)
        self._wait()

    def _wait(self) -> None:
        def listens() -> bool:
            try:
                socket.create_connection(("127.0.0.1", self.encrypted), timeout=PATIENCE_S).close()
            except OSError:
                return False
            return True

        wait_until(listens, lambda: (self.folder / "log").read_text(), process=self.process)

    def close(self) -> None:
        self.process.terminate()
        self.process.wait(PATIENCE_S)


def _people() -> str:
    lines = [
        f"dn: {BASE}\nobjectClass: domain\ndc: example",
        f"dn: ou=people,{BASE}\nobjectClass: organizationalUnit\nou: people",
        f"dn: ou=groups,{BASE}\nobjectClass: organizationalUnit\nou: groups",
    ]
    for name, dn in (("alice", "alice"), ("bob", "bob"), ("a*(b)\\c", "a*(b)\\\\c")):
        lines.append(
            f"dn: uid={dn},ou=people,{BASE}\nobjectClass: inetOrgPerson\nuid: {name}\ncn: {name}\nsn: {name}\n"
            f"userPassword: {PASSWORD}"
        )
    lines.append(
        f"dn: cn=staff,ou=groups,{BASE}\nobjectClass: groupOfNames\ncn: staff\nmember: uid=alice,ou=people,{BASE}"
    )
    lines.append(
        f"dn: cn=p-climate,ou=groups,{BASE}\nobjectClass: posixGroup\ncn: p-climate\ngidNumber: 7\nmemberUid: alice"
    )
    return "\n\n".join(lines) + "\n"
