"""How a message travels: by mail, to a webhook, to an Alertmanager. One `Courier` a route."""

from __future__ import annotations

from fairlead.show.alerts.alert_settings import Alerts, Mail, Webhook
from fairlead.show.alerts.delivery.alertmanager import ByAlertApi
from fairlead.show.alerts.delivery.courier import Courier
from fairlead.show.alerts.delivery.mail import ByMail
from fairlead.show.alerts.delivery.webhook import ToWebhook

__all__ = ["Courier", "build_delivery_courier"]


def build_delivery_courier(name: str, alerts: Alerts) -> Courier:
    """What delivers for a route. Raises ConfigError when a file it needs cannot be used, KeyError for no route."""
    route = alerts.routes[name]
    if isinstance(route, Mail):
        return ByMail(route)
    if isinstance(route, Webhook):
        return ToWebhook(route, alerts)
    return ByAlertApi(route, alerts)
