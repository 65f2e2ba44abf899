"""A message by SMTP, encrypted unless the route says otherwise. No text can become a header or another command.

Not here: the text (`messages`).
"""

from __future__ import annotations

import smtplib
import ssl
from datetime import UTC, datetime
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime

from fairlead.core.errors import ConfigError, DeliveryError, UndeliveredError
from fairlead.core.safe_text import escape_text
from fairlead.show.alerts.alert_messages import Message
from fairlead.show.alerts.alert_settings import ADDRESS, Mail, read_alert_secret
from fairlead.show.alerts.delivery.courier import build_courier_tls

_PORTS = {"starttls": 25, "none": 25, "tls": 465}


class ByMail:
    """A `Courier`. Raises ConfigError for a password or certificates that cannot be read."""

    def __init__(self, route: Mail) -> None:
        self._route = route
        self._password = read_alert_secret(route.password_file)
        self._context = None if route.security == "none" else build_courier_tls(route.ca)

    def deliver(self, message: Message, recipient: str, now_ns: int) -> None:
        """As `Courier` has it. One transaction for all recipients: those the server refuses while it takes others are
        not tried again."""
        to = [recipient] if recipient else self._route.to
        if not to:
            raise DeliveryError("the route has no recipients", where=self._where, remedy="set `to` of the route")
        letter = build_mail(message, self._route.sender, to, now_ns)
        try:
            with self._connected() as server:
                server.send_message(letter, self._route.sender, to)
        except smtplib.SMTPAuthenticationError as fault:
            raise UndeliveredError(
                f"the login was refused ({fault.smtp_code})", where=self._where, remedy="check user and password_file"
            ) from fault
        except smtplib.SMTPRecipientsRefused as fault:
            codes = [code for code, _ in fault.recipients.values()]
            kind = UndeliveredError if any(code < 500 for code in codes) else DeliveryError
            raise kind(f"recipients were refused ({codes})", where=self._where, remedy="check `to`") from fault
        except smtplib.SMTPResponseException as fault:
            kind = DeliveryError if fault.smtp_code >= 500 else UndeliveredError
            said = (
                fault.smtp_error.decode("utf-8", "replace") if isinstance(fault.smtp_error, bytes) else fault.smtp_error
            )
            raise kind(f"status {fault.smtp_code}: {said[:200]}", where=self._where, remedy="see its log") from fault
        except smtplib.SMTPNotSupportedError as fault:
            raise DeliveryError(
                f"not supported: {fault}", where=self._where, remedy="set `security` to what the server supports"
            ) from fault
        except (OSError, smtplib.SMTPException, ssl.SSLError) as fault:
            raise UndeliveredError(
                f"not delivered: {fault}", where=self._where, remedy="check that it is running"
            ) from fault

    @property
    def _where(self) -> str:
        return f"{self._route.host}:{self._port}"

    @property
    def _port(self) -> int:
        return self._route.port or _PORTS[self._route.security]

    def _connected(self) -> smtplib.SMTP:
        route = self._route
        if route.security == "tls":
            server: smtplib.SMTP = smtplib.SMTP_SSL(
                route.host, self._port, timeout=route.timeout_s, context=self._context
            )
        else:
            server = smtplib.SMTP(route.host, self._port, timeout=route.timeout_s)
        try:
            if route.security == "starttls":
                server.starttls(context=self._context)  # raises where it is not offered: never in the clear
            if route.user:
                server.login(route.user, self._password)
        except BaseException:
            server.close()
            raise
        return server


def build_mail(message: Message, sender: str, to: list[str], now_ns: int) -> EmailMessage:
    """The letter. Raises ConfigError for an address that is none."""
    letter = EmailMessage(policy=SMTP)
    letter["From"] = _address(sender)
    letter["To"] = [_address(one) for one in to]
    letter["Subject"] = escape_text(message.subject)
    letter["Date"] = format_datetime(datetime.fromtimestamp(now_ns // 10**9, UTC))
    letter["Message-ID"] = f"<{message.id}@{sender.partition('@')[2]}>"
    letter["Auto-Submitted"] = "auto-generated"
    # Line by line: the breaks between lines are ours, whatever else a name holds is escaped.
    letter.set_content("\n".join(map(escape_text, message.text.split("\n"))), cte="base64")
    return letter


def _address(text: str) -> Address:
    if not ADDRESS.fullmatch(text):
        raise ConfigError("not a mail address", where=escape_text(text), remedy="write name@host")
    return Address(addr_spec=text)
