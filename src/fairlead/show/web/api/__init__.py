"""The questions over HTTP: `GET /api/v1/...`, JSON out, for readers with a token. Not here: answers (`questions`)."""
