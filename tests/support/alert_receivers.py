"""Receivers of alerts for tests: a mail server and an HTTP server in threads, with TLS and faults on demand."""

from __future__ import annotations

import base64
import email
import email.policy
import socket
import ssl
import threading
from collections.abc import Callable
from email.message import EmailMessage
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec

from waiting import PATIENCE_S


class Letter(msgspec.Struct):
    """What one transaction brought: envelope, raw text, and whether it came encrypted and logged in."""

    sender: str
    to: list[str]
    raw: bytes
    encrypted: bool
    user: str

    @property
    def parsed(self) -> EmailMessage:
        return email.message_from_bytes(self.raw, policy=email.policy.default)  # type: ignore[return-value]

    @property
    def text(self) -> str:
        return str(self.parsed.get_content()).replace("\r\n", "\n")


class MailSink:
    """A mail server. `answer(n)` gives the answer to the n-th letter (from 0): 250, or a fault; None cuts the line."""

    def __init__(
        self,
        *,
        certificate: tuple[Path, Path] | None = None,
        tls: bool = False,
        starttls: bool = True,
        answer: Callable[[int], str | None] = lambda n: "250 taken",  # noqa: ARG005
        refuse: frozenset[str] = frozenset(),
        password: str = "secret",  # noqa: S107
    ) -> None:
        self.letters: list[Letter] = []
        self._arrived = threading.Condition()
        self._answer, self._refuse, self._password = answer, refuse, password
        self._tls, self._starttls = tls, starttls and certificate is not None
        self._context: ssl.SSLContext | None = None
        if certificate is not None:
            self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._context.load_cert_chain(*certificate)
        self._count = 0
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def __enter__(self) -> MailSink:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self._thread.join(PATIENCE_S)

    def wait_for(self, good: Callable[[list[Letter]], bool], patience_s: float = PATIENCE_S) -> bool:
        """Whether `good` comes true of the letters in time."""
        with self._arrived:
            return self._arrived.wait_for(lambda: good(self.letters), patience_s)

    def _serve(self) -> None:
        while True:
            try:
                line, _ = self._server.accept()
            except OSError:
                return
            threading.Thread(target=self._guarded, args=(line,), daemon=True).start()

    def _guarded(self, line: socket.socket) -> None:
        try:
            with line:
                if self._tls:
                    assert self._context is not None
                    with self._context.wrap_socket(line, server_side=True) as inner:
                        self._talk(inner, encrypted=True)
                else:
                    self._talk(line, encrypted=False)
        except (OSError, ssl.SSLError):
            return

    def _talk(self, line: socket.socket, *, encrypted: bool, greeted: bool = False) -> None:
        reader = line.makefile("rb")

        def say(text: str) -> None:
            line.sendall(text.encode() + b"\r\n")

        if not greeted:
            say("220 sink")
        user, sender, to = "", "", list[str]()
        with reader:
            while text := reader.readline():
                word = text.strip().decode("latin-1")
                verb = word.upper()
                if verb.startswith(("EHLO", "HELO")):
                    offers = ["sink", "AUTH PLAIN"]
                    if self._starttls and not encrypted:
                        offers.append("STARTTLS")
                    for n, offer in enumerate(offers):
                        say(f"250{'-' if n + 1 < len(offers) else ' '}{offer}")
                elif verb == "STARTTLS" and self._starttls:
                    assert self._context is not None
                    say("220 go")
                    with self._context.wrap_socket(line, server_side=True) as inner:
                        self._talk(inner, encrypted=True, greeted=True)
                    return
                elif verb.startswith("AUTH PLAIN "):
                    _, name, password = base64.b64decode(word.split()[2]).decode().split("\0")
                    good = password == self._password
                    user = name if good else ""
                    say("235 in" if good else "535 no")
                elif verb.startswith("MAIL FROM:"):
                    sender, to = word.partition("<")[2].partition(">")[0], []
                    say("250 ok")
                elif verb.startswith("RCPT TO:"):
                    name = word.partition("<")[2].partition(">")[0]
                    if name in self._refuse:
                        say("550 unknown here")
                    else:
                        to.append(name)
                        say("250 ok")
                elif verb == "DATA":
                    say("354 on")
                    lines = []
                    while (part := reader.readline()) not in (b".\r\n", b""):
                        lines.append(part.removeprefix(b".") if part.startswith(b"..") else part)
                    number, self._count = self._count, self._count + 1
                    said = self._answer(number)
                    if said is None:
                        line.shutdown(socket.SHUT_RDWR)
                        return
                    if said.startswith("2"):
                        with self._arrived:
                            self.letters.append(Letter(sender, to, b"".join(lines), encrypted, user))
                            self._arrived.notify_all()
                    say(said)
                elif verb == "QUIT":
                    say("221 bye")
                    return
                else:
                    say("250 ok")


class Request(msgspec.Struct):
    """One request a sink had."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)


class WebSink:
    """An HTTP server. `answer(n)` gives status and headers for the n-th request (from 0)."""

    def __init__(
        self,
        *,
        certificate: tuple[Path, Path] | None = None,
        answer: Callable[[int], tuple[int, dict[str, str]]] = lambda n: (200, {}),  # noqa: ARG005
    ) -> None:
        self.requests: list[Request] = []
        sink = self

        class Answering(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                sink.requests.append(Request(self.path, {k.lower(): v for k, v in self.headers.items()}, body))
                status, headers = answer(len(sink.requests) - 1)
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Answering)
        self._server.handle_error = lambda *_: None  # type: ignore[method-assign]
        self._scheme = "http"
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*certificate)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
            self._scheme = "https"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"{self._scheme}://localhost:{self._server.server_address[1]}"

    def __enter__(self) -> WebSink:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(PATIENCE_S)
