"""TLS for `tls:` addresses: what a forwarder shows and what a mount trusts. Version 1.3 only.

Who the client is, is said by its token (`tokens`), not by a certificate.
"""

from __future__ import annotations

import ssl
from pathlib import Path

from fairlead.core.errors import RefusedError


def build_tls_server_context(certificate: Path, key: Path) -> ssl.SSLContext:
    """What a forwarder shows: its certificate chain and key (PEM files)."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    try:
        context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        raise RefusedError(
            f"certificate and key cannot be used: {error}",
            where=str(certificate),
            remedy="give PEM files of a certificate and its unencrypted key",
        ) from error
    return context


def build_tls_client_context(authority: Path | None = None) -> ssl.SSLContext:
    """What a mount trusts: the certificates in `authority` (a PEM file), or the system's."""
    try:
        context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH, cafile=authority)
    except (OSError, ssl.SSLError) as error:
        raise RefusedError(
            f"the CA certificate cannot be used: {error}", where=str(authority), remedy="give a PEM file"
        ) from error
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    return context
