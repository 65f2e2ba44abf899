"""A message as JSON by POST, signed where a secret is shared. Not here: the document
(`messages.Message.build_document`).

Headers: `X-Fairlead-Delivery` (the same for every try), `X-Fairlead-Time` (seconds since the epoch) and
`X-Fairlead-Signature: sha256=HEX`, the HMAC-SHA256 of time, a full stop and the body.
"""

from __future__ import annotations

import hmac

import msgspec

from fairlead.show.alerts.alert_messages import Message
from fairlead.show.alerts.alert_settings import Alerts, Webhook, read_alert_secret
from fairlead.show.alerts.delivery.courier import Post


class ToWebhook:
    """A `Courier`. Raises ConfigError for a secret that cannot be read."""

    def __init__(self, route: Webhook, alerts: Alerts) -> None:
        self._alerts = alerts
        self._secret = read_alert_secret(route.hmac_file).encode()
        self._post = Post(route.url, route.ca, read_alert_secret(route.token_file), route.timeout_s)

    def deliver(self, message: Message, recipient: str, now_ns: int) -> None:  # noqa: ARG002
        """As `Courier` has it; there are no other recipients."""
        body = msgspec.json.encode(message.build_document(self._alerts))
        time = str(now_ns // 10**9)
        headers = {"X-Fairlead-Delivery": message.id, "X-Fairlead-Time": time}
        if self._secret:
            headers["X-Fairlead-Signature"] = "sha256=" + sign_webhook_body(self._secret, time, body)
        self._post.post(body, headers)


def sign_webhook_body(key: bytes, time: str, body: bytes) -> str:
    """What a receiver has to compute and compare, in hexadecimal."""
    return hmac.digest(key, time.encode() + b"." + body, "sha256").hex()
