"""A collector for tests of the agent: takes batches by the contract, remembers them, misbehaves when told to."""

from __future__ import annotations

import datetime
import io
import ipaddress
import json
import ssl
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from fairlead.core.batches.decoding import Batch, decode_stream_batches

TOKEN = "secret"  # noqa: S105
Identity = tuple[str, str, str, int]
Misbehaviour = Callable[[BaseHTTPRequestHandler, bytes], bool]


def identity(batch: Batch) -> Identity:
    """What names a batch for ever."""
    header = batch.header
    return (header.node, header.boot_id, header.table, header.seq)


class Collector:
    """Listens on a free port of this machine until closed. `misbehave(request, body)` may answer instead."""

    def __init__(self, *, token: str = TOKEN, tls: tuple[Path, Path] | None = None, keep: bool = True) -> None:
        self.token = token
        self.keep = keep
        self.taken: dict[Identity, Batch] = {}
        self.posts = 0
        self.batches = 0
        self.bytes = 0
        self.agents: set[str] = set()
        self.misbehave: Misbehaviour | None = None
        self.lock = threading.Lock()
        outer = self

        class Request(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            timeout = 60

            def log_message(self, *_: object) -> None:
                """Silent."""

            def do_GET(self) -> None:
                outer.answer(self, 200, {"version": "0.1.0", "formats": [1]})

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if outer.misbehave is None or not outer.misbehave(self, body):
                    outer.take(self, body)

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Request)
        self.server.daemon_threads = True
        self.server.block_on_close = False
        self.server.handle_error = lambda *_: None  # type: ignore[method-assign, assignment]
        scheme = "http"
        if tls is not None:
            scheme = "https"
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*tls)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.url = f"{scheme}://localhost:{self.server.server_address[1]}"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True)
        self.thread.start()

    def answer(self, request: BaseHTTPRequestHandler, status: int, body: object, **headers: str) -> None:
        """An answer as the collector gives it."""
        data = json.dumps(body).encode()
        request.send_response(status)
        for name, value in {"Content-Length": str(len(data)), "Content-Type": "application/json", **headers}.items():
            request.send_header(name.replace("_", "-"), value)
        request.end_headers()
        request.wfile.write(data)

    def take(self, request: BaseHTTPRequestHandler, body: bytes) -> None:
        """All of a body, or none of it."""
        if request.headers["Authorization"] != f"Bearer {self.token}":
            self.answer(request, 401, {"error": "no or bad token", "where": "", "remedy": ""})
            return
        try:
            found = list(decode_stream_batches(io.BytesIO(body), "body"))
        except Exception as fault:  # noqa: BLE001
            self.answer(request, 400, {"error": str(fault), "where": "body", "remedy": ""})
            return
        with self.lock:
            known = sum(identity(one) in self.taken for one in found)
            if self.keep:
                self.taken.update((identity(one), one) for one in found)
            self.posts += 1
            self.batches += len(found)
            self.bytes += len(body)
            self.agents.add(request.headers["Fairlead-Agent"])
        self.answer(request, 200, {"taken": len(found) - known, "known": known, "now_ns": time.time_ns()})

    def rows(self, table: str) -> list[dict[str, object]]:
        """Rows taken of a table, by column."""
        found: list[dict[str, object]] = []
        with self.lock:
            kept = [one for one in self.taken.values() if one.header.table == table]
        for one in kept:
            found += rows_of(one)
        return found

    def close(self) -> None:
        """No more."""
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


def rows_of(batch: Batch) -> list[dict[str, object]]:
    """Rows of a batch, by column, without Arrow."""
    columns: dict[str, list[object]] = {}
    for name, column in batch.columns.items():
        if hasattr(column, "codes"):
            columns[name] = [column.words[code] if code >= 0 else None for code in column.codes]
        elif hasattr(column, "lengths"):
            values, cells, at = list(column.values), [], 0
            for length in column.lengths:
                cells.append(values[at : at + length] if length >= 0 else None)
                at += max(length, 0)
            columns[name] = list(cells)
        else:
            valid = column.valid or b"\1" * len(column.values)
            columns[name] = [value if ok else None for value, ok in zip(column.values, valid, strict=True)]
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def certificate(folder: Path, name: str = "localhost") -> tuple[Path, Path]:
    """A certificate for `name` that signs itself, and its key, as PEM files."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    names: list[x509.GeneralName] = [x509.DNSName(name), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=2))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    chain, private = folder / "cert.pem", folder / "key.pem"
    chain.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    private.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    private.chmod(0o600)
    return chain, private
