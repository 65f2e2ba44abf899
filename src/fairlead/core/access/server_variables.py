"""Environment variables that name a server, its token and its certificates: one definition for every command.

An option overrides its variable. Not here: the request (`server_client`), settings of a server (`run.config`).
"""

from __future__ import annotations

ADDRESS_VARIABLES = ("FAIRLEAD_SERVER", "FAIRLEAD_API", "FAIRLEAD_URL")
"""Address of the API, in this order; the last two are names of earlier versions."""
TOKEN_VARIABLES = ("FAIRLEAD_TOKEN_FILE",)
AUTHORITY_VARIABLES = ("FAIRLEAD_CA",)
