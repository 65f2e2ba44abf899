"""How a message travels: by mail, to a webhook, to an Alertmanager. One `Courier` a route."""

from __future__ import annotations

from fairlead.alerts.delivery.alertmanager import ByAlertApi
from fairlead.alerts.delivery.courier import Courier
from fairlead.alerts.delivery.mail import ByMail
from fairlead.alerts.delivery.webhook import ToWebhook
from fairlead.alerts.settings import Alerts, Mail, Webhook

__all__ = ["Courier", "courier"]


def courier(name: str, alerts: Alerts) -> Courier:
    """What delivers for a route. Raises ConfigError when a file it needs cannot be used, KeyError for no route."""
    route = alerts.routes[name]
    if isinstance(route, Mail):
        return ByMail(route)
    if isinstance(route, Webhook):
        return ToWebhook(route, alerts)
    return ByAlertApi(route, alerts)
