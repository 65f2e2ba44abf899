"""One way to the collector: a connection that is kept, a body streamed from files, an answer read with bounds.

Not here: what is sent when, and what an answer means for a file (`spool_sender`).
"""

import json
import os
import socket
from contextlib import closing
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any, BinaryIO, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple
from urllib.parse import urlsplit

import fairlead
from fairlead.core.batches.spool import read_spool_clock_ns
from fairlead.see.agent.settings import Settings

CONNECT_S = 10.0
SILENCE_S = 20.0
"""How long one send or receive may take."""
ANSWER_BYTES = 64 << 10
"""An answer longer than this is not one."""
_CHUNK = 64 << 10
_MAX_TOKEN = 4096
FORMAT = "application/x-fairlead-batches"


class SendError(Exception):
    """Nothing came of an attempt: no connection, no answer, no token. Says why."""


class Answer(NamedTuple):
    """What the collector said."""

    status: int
    body: Dict[str, Any]
    retry_after_s: Optional[float] = None
    offset_ns: Optional[int] = None
    """Its clock minus ours, at the middle between our last byte and its first."""

    def number(self, name: str) -> Optional[int]:
        """A number of the body; None when it is not one."""
        value = self.body.get(name)
        return value if type(value) is int and 0 <= value < 1 << 62 else None

    @property
    def said(self) -> str:
        """Its own words, for a person."""
        text = self.body.get("error")
        return text[:160] if isinstance(text, str) else ""


class Token:
    """The token in a file, read again when the file changed."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._seen: Optional[Tuple[int, int, int]] = None
        self._text = ""

    def read_text(self) -> str:
        """Raises SendError when there is none."""
        try:
            with open(self.path, "rb") as stream:
                about = os.fstat(stream.fileno())
                seen = (about.st_mtime_ns, about.st_size, about.st_ino)
                if seen != self._seen:
                    self._text = stream.read(_MAX_TOKEN + 1).decode("ascii", "replace").strip()
                    self._seen = seen
        except OSError as fault:
            raise SendError("the token cannot be read: {}".format(fault)) from None
        if not self._text or len(self._text) > _MAX_TOKEN or not all("!" <= one <= "~" for one in self._text):
            raise SendError("{} contains no token".format(self.path))
        return self._text


class Line:
    """See the module. Used by one thread; `cut` by any."""

    def __init__(
        self,
        server: str,
        token: Token,
        version: str,
        *,
        ca: str = "",
        wall: Callable[[], int],
        connect_s: float = CONNECT_S,
        silence_s: float = SILENCE_S,
    ) -> None:
        parts = urlsplit(server)
        self.server = server
        self._secure = parts.scheme == "https"
        self._host = parts.hostname or ""
        self._port = parts.port or (443 if self._secure else 80)
        self._prefix = parts.path.rstrip("/")
        self._token = token
        self._version = version
        self._ca = ca
        self._wall = wall
        self._connect_s, self._silence_s = connect_s, silence_s
        self._context: Any = None
        self._session: Any = None
        self._connection: Optional[HTTPConnection] = None

    # -- connection -----------------------------------------------------------------------------------------------

    def _connected(self) -> HTTPConnection:
        if self._connection is None:
            made = self._tls() if self._secure else HTTPConnection(self._host, self._port, timeout=self._connect_s)
            made.connect()
            made.sock.settimeout(self._silence_s)
            made.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._connection = made
        return self._connection

    def _tls(self) -> HTTPConnection:
        import ssl

        if self._context is None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # checks the certificate and the name in it
            if hasattr(context, "minimum_version"):
                context.minimum_version = ssl.TLSVersion.TLSv1_2
            else:  # Python 3.6
                context.options |= ssl.OP_NO_SSLv2 | ssl.OP_NO_SSLv3 | ssl.OP_NO_TLSv1 | ssl.OP_NO_TLSv1_1
            if self._ca:
                try:
                    context.load_verify_locations(self._ca)
                except OSError as fault:
                    raise OSError("the CA certificate {} cannot be used: {}".format(self._ca, fault)) from None
            else:
                context.load_default_certs()
            self._context = context
        context, session = self._context, self._session

        class Resuming(HTTPSConnection):
            """TLS with the session of the connection before: a tenth of the work for the server."""

            def connect(self) -> None:
                HTTPConnection.connect(self)
                self.sock = context.wrap_socket(self.sock, server_hostname=self.host, session=session)

        return Resuming(self._host, self._port, timeout=self._connect_s, context=context)

    def close(self) -> None:
        """Ends the connection; the next attempt makes another."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def cut(self) -> None:
        """Ends what is under way, whoever waits for it. By any thread."""
        connection = self._connection
        sock = None if connection is None else connection.sock
        if sock is not None:
            try:
                socket.socket.shutdown(sock, socket.SHUT_RDWR)
            except OSError:
                return

    # -- requests -------------------------------------------------------------------------------------------------

    def post(self, files: Sequence[BinaryIO], size: int) -> Answer:
        """The content of files, `size` bytes in all, as one body. Raises SendError."""
        headers = [
            ("Authorization", "Bearer " + self._token.read_text()),
            ("Content-Type", FORMAT),
            ("Content-Length", str(size)),
        ]
        return self._ask("POST", "/v1/batches", headers, files)

    def get(self, path: str) -> Answer:
        """Raises SendError."""
        return self._ask("GET", path, [], ())

    def _ask(self, method: str, path: str, headers: List[Tuple[str, str]], files: Sequence[BinaryIO]) -> Answer:
        kept = self._connection is not None
        try:
            try:
                return self._once(method, path, headers, files)
            except (ConnectionError, HTTPException):
                # A connection that was kept may have been closed by the other side long ago: once more on a new one.
                self.close()
                if not kept:
                    raise
                for file in files:
                    file.seek(0)
                return self._once(method, path, headers, files)
        except (OSError, HTTPException, ValueError) as fault:
            self.close()
            text = str(fault) or type(fault).__name__
            raise SendError("{}: {}".format(self.server, text[:200])) from None

    def _once(self, method: str, path: str, headers: List[Tuple[str, str]], files: Sequence[BinaryIO]) -> Answer:
        connection = self._connected()
        connection.putrequest(method, self._prefix + path, skip_accept_encoding=True)
        for name, value in [*headers, ("Fairlead-Agent", self._version)]:
            connection.putheader(name, value)
        connection.endheaders()
        refused = None
        try:
            for chunk in _chunks(files):
                connection.send(chunk)
        except ConnectionError as fault:
            refused = fault  # it may have said why before it closed
        sent_ns = self._wall()
        response = connection.getresponse()
        came_ns = self._wall()
        with closing(response):
            answer = self._read(response, (sent_ns + came_ns) // 2)
        if response.will_close or refused is not None:
            self.close()
        elif self._secure:
            self._session = getattr(connection.sock, "session", None)
        return answer

    def _read(self, response: HTTPResponse, middle_ns: int) -> Answer:
        data = response.read(ANSWER_BYTES + 1)
        if len(data) > ANSWER_BYTES:
            raise OSError("a response of more than {} bytes".format(ANSWER_BYTES))
        if response.length:
            raise OSError("the response ends early")
        try:
            body = json.loads(data.decode("utf-8")) if data else {}
        except (ValueError, RecursionError):
            body = {}
        if not isinstance(body, dict):
            body = {}
        answer = Answer(response.status, body, _retry_after(response.getheader("Retry-After")))
        now = answer.number("now_ns")
        return answer if now is None else answer._replace(offset_ns=now - middle_ns)


def _chunks(files: Sequence[BinaryIO]) -> Iterator[bytes]:
    """Small files together, large ones in parts."""
    held = bytearray()
    for file in files:
        while True:
            part = file.read(_CHUNK)
            if not part:
                break
            held += part
            if len(held) >= _CHUNK:
                yield bytes(held)
                held.clear()
    if held:
        yield bytes(held)


def _retry_after(text: Optional[str]) -> Optional[float]:
    """Seconds; a date is taken as not said (clocks differ)."""
    try:
        seconds = float(text or "")
    except ValueError:
        return None
    return seconds if 0 <= seconds < 1e9 else None


def build_agent_connection(settings: Settings) -> Line:
    """The connection to the server of the settings."""
    return Line(settings.server, Token(settings.token), fairlead.__version__, ca=settings.ca, wall=read_spool_clock_ns)
