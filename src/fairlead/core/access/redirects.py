"""Asking with a token goes nowhere else: a redirect would carry the token to whoever it names."""

from __future__ import annotations

import urllib.request


class NoRedirect(urllib.request.HTTPRedirectHandler):
    """For `urllib.request.build_opener`: a redirect is an answer like any other."""

    def redirect_request(self, *_: object, **__: object) -> None:
        """Follows none."""
